"""Runs pytest with a mutant in the place of the original: `PATH=CHANGED… -- ARGUMENTS OF PYTEST`.

The modules of the mutant are imported before pytest is. Of a package that brings a plugin, such as ours, it
rewrites the assertions, and for that reads the files, whoever else would have given it a text.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import harness

ROOT = Path(harness.__file__).resolve().parents[1]
"""Where the packages are that are tested: those that are installed, in the checkout or not."""


def main(arguments: list[str]) -> int:
    """Put the mutant in, run pytest, and return its exit code."""
    from harness.authoring.mutants.overlay import import_anew  # noqa: PLC0415 - gone from memory by what it does

    end = arguments.index("--")
    pairs = [argument.split("=", 1) for argument in arguments[:end]]
    import_anew({path: Path(changed).read_text(encoding="utf-8") for path, changed in pairs})
    for path, _ in pairs:
        import_module(".".join(Path(path).relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    import pytest  # noqa: PLC0415 - its plugins are ours, and have to be the mutant's

    return int(pytest.main(arguments[end + 1 :]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
