"""Runs pytest with a mutant in the place of the original: `PATH=CHANGED… -- ARGUMENTS OF PYTEST`."""

from __future__ import annotations

import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Put the mutant in, run pytest, and return its exit code."""
    from harness.authoring.mutants.overlay import import_anew  # noqa: PLC0415 - gone from memory by what it does

    end = arguments.index("--")
    pairs = (argument.split("=", 1) for argument in arguments[:end])
    import_anew({path: Path(changed).read_text(encoding="utf-8") for path, changed in pairs})
    import pytest  # noqa: PLC0415 - its plugins are ours, and have to be the mutant's

    return int(pytest.main(arguments[end + 1 :]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
