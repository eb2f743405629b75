"""The kill matrix: which bundled cases fail with which wrong driver (docs/MUTANTS.md).

`kill_matrix.json` is written by a test tool and read by `harness.report.diagnosis`, which compares the
pattern of a run's failures with it. By the name of each wrong driver it has its `rule`, the sentence `wrong`,
and `fails`: descriptions of cases by their group, which together are the ids in results.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PATH: Final = Path(__file__).with_name("kill_matrix.json")


@dataclass(frozen=True, slots=True)
class WrongDriver:
    """A wrong driver of the catalogue: its name, the rule that it breaks, and the ids of the cases it fails.

    `wrong` is the sentence that says what it does.
    """

    name: str
    rule: str
    wrong: str
    fails: frozenset[str]


@cache
def wrong_drivers() -> tuple[WrongDriver, ...]:
    """Return the wrong drivers that some bundled case fails, by name."""
    return read(PATH)


def read(path: Path) -> tuple[WrongDriver, ...]:
    """Read a matrix. Raises OSError, ValueError for what is no JSON."""
    return tuple(wrong_drivers_of(json.loads(path.read_text(encoding="utf-8"))))


def wrong_drivers_of(document: Mapping[str, Mapping[str, Any]]) -> Iterable[WrongDriver]:
    """Yield the wrong drivers of a matrix as it is written."""
    for name, entry in document.items():
        fails = (f"{group}::{case}" for group, cases in entry["fails"].items() for case in cases)
        yield WrongDriver(name, entry["rule"], entry["wrong"], frozenset(fails))
