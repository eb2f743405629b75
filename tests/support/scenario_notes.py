"""What the bundled scenarios say of themselves: the rules that a case shows, the wrong driver that it fails.

Two comment lines stand under the description of a case; in a file of a pool, which is one case, above it:

    - description: a write is sent again with the number of its first attempt
      # Rules: RW-24, RW-25
      # Wrong driver: takes a new number for every attempt.

A rule is an id of docs/conformance.yml, or a section of another specification: `Transactions: Error Labels`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SCENARIOS: Final = Path(__file__).parents[2] / "spec_tests"

_RULES: Final = re.compile(r"^ *# Rules: (.+)$")
_WRONG: Final = re.compile(r"^ *# Wrong driver: \S")
_CASE: Final = re.compile(r"^  - description: (.+)$")
_POOL_CASE: Final = re.compile(r"^description: (.+)$")
_ID: Final = re.compile(r"\b[A-Z]+-\d+\b")
_SECTION: Final = re.compile(r"[A-Z][^:]+: \S")


@dataclass(frozen=True)
class Note:
    """What is said of one case; `path` is relative to the project's root.

    `rules` are those with a number; `names_section` says whether sections of other specifications are named.
    """

    path: str
    description: str
    rules: tuple[str, ...]
    names_section: bool
    names_wrong_driver: bool

    def link(self) -> str:
        """Return a link to the file, from a page of docs."""
        return f"[{Path(self.path).stem}](../{self.path})"


@cache
def notes() -> tuple[Note, ...]:
    """Read the comments of all cases, by file and in the order of their file."""
    return tuple(note for path in sorted(SCENARIOS.rglob("*.yml")) for note in _of_file(path))


def _of_file(path: Path) -> Iterator[Note]:
    lines = path.read_text("utf-8").splitlines()
    name = path.relative_to(SCENARIOS.parent).as_posix()
    starts = [number for number, line in enumerate(lines) if _CASE.match(line)]
    for start, end in pairwise([*starts, len(lines)]):
        yield _note(name, _CASE, lines[start:end])
    if not starts and any(line.startswith("style:") for line in lines):
        yield _note(name, _POOL_CASE, lines)


def _note(path: str, title: re.Pattern[str], lines: Sequence[str]) -> Note:
    (description,) = (found[1] for line in lines if (found := title.match(line)))
    rules = " ".join(found[1] for line in lines if (found := _RULES.match(line)))
    return Note(
        path,
        description.strip("\"'"),
        tuple(_ID.findall(rules)),
        bool(_SECTION.search(_ID.sub("", rules))),
        any(map(_WRONG.match, lines)),
    )


def shown() -> dict[str, list[Note]]:
    """Return the cases that show each numbered rule."""
    found: dict[str, list[Note]] = {}
    for note in notes():
        for number in note.rules:
            found.setdefault(number, []).append(note)
    return found
