"""The swarm with a wrong driver or server: `python tests/support/planted_swarm.py [NAME [OPTIONS]]`.

The options are those of `pushbackd simulate swarm`. Without a name it prints what there is to plant.
"""

from __future__ import annotations

import sys

import click
from planted import PLANTED

from harness.cli import cli


def main(name: str = "", *options: str) -> int:
    """Run the swarm in this process, where the fault is; return its exit code, 2 for an unknown name."""
    if name not in PLANTED:
        width = max(map(len, PLANTED))
        for each in PLANTED.values():
            click.echo(f"{each.name:{width}}  {each.meaning}")
        return 2 if name else 0
    with PLANTED[name].apply():
        code = cli.main(["simulate", "swarm", *options, "--jobs", "1"], standalone_mode=False)
    return int(code or 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
