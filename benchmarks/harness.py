"""What users wait for: five runs of the harness, by the wall clock and by processor time.

`python -m benchmarks.harness` prints a table. Run it on a machine that does nothing else; of `--rounds` the
fastest counts. `--corpus FOLDER` names a checkout of the public specifications, without which the runs that
need one are left out.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import resource
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CONFORM: Final = ("conform",)
_RESULT: Final = re.compile(rb"\b[1-9]\d*/\d+")
"""The first result, as the bar of a run shows it."""


class Measured(NamedTuple):
    """Seconds of one run: of the wall clock, of all its processes, and until the first result was seen."""

    wall: float
    cpu: float
    first: float | None


def runs(corpus: Path | None) -> Mapping[str, Sequence[str]]:
    """Return the arguments of each run by its name."""
    found: dict[str, Sequence[str]] = {
        "bundled scenarios, virtual time": _CONFORM,
        "bundled scenarios, real time": (*_CONFORM, "--time", "real"),
    }
    if corpus is not None:
        found |= {
            "corpus, four deployments": (*_CONFORM, str(corpus), "--topology", "matrix"),
            "lint of the corpus, cold": ("lint", "--no-cache", str(corpus)),
            "lint of the corpus, warm": ("lint", str(corpus)),
        }
    return found


def measure(arguments: Sequence[str], cache: Path) -> Measured:
    """Run the command line on a terminal of its own."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process, terminal = pty.fork()
    if process == 0:
        os.environ["PUSHBACKD_CACHE_DIR"] = str(cache)
        os.execv(sys.executable, (sys.executable, "-m", "harness", *arguments))  # noqa: S606 - no shell
    seen, first = b"", None
    with suppress(OSError):  # the terminal is gone when the process is
        while chunk := os.read(terminal, 65536):
            seen = (seen + chunk)[-65536:]
            if first is None and _RESULT.search(seen):
                first = time.perf_counter() - began
    os.waitpid(process, 0)
    os.close(terminal)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(wall, cpu, first)


def run(corpus: Path | None, *, rounds: int, chosen: str = "") -> dict[str, Measured]:
    """Return the fastest of some rounds of each run whose name holds `chosen`."""
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in runs(corpus).items():
            if chosen not in name:
                continue
            if "warm" in name:
                measure(arguments, Path(folder))
            found[name] = min(measure(arguments, Path(folder)) for _ in range(rounds))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--only", default="", help="part of a run's name")
    options = parser.parse_args()
    print("| run | wall, s | processor, s | first result, s |")
    print("|---|---:|---:|---:|")
    for name, seconds in run(options.corpus, rounds=options.rounds, chosen=options.only).items():
        first = "" if seconds.first is None else f"{seconds.first:.2f}"
        print(f"| {name} | {seconds.wall:.2f} | {seconds.cpu:.2f} | {first} |")


if __name__ == "__main__":
    main()
