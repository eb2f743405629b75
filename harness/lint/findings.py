"""Findings of the linter, and the rules that make them.

`Problem` is what a rule says, `Finding` what is printed, kept in a cache and sent between processes: strings
and numbers alone, ordered by file and place. The format of its line is what editors and other programs read.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from harness.lint.scenario import LintedScenario
    from mongowire.documents.marks import Location


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule found: where, what, and what to do about it."""

    location: Location
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A problem as it is reported; lines and columns count from 1. `refused`: no run can go well."""

    path: str
    line: int
    column: int
    rule: str
    message: str
    hint: str = ""
    refused: bool = False

    @classmethod
    def of(cls, problem: Problem, rule: str, *, refused: bool) -> Finding:
        """Make a finding of a problem; what has no place stands at the beginning of its file."""
        place = problem.location
        return cls(
            path=str(place.path),
            line=place.line or 1,
            column=place.column or 1,
            rule=rule,
            message=f"{place.field}: {problem.message}" if place.field else problem.message,
            hint=problem.hint,
            refused=refused,
        )

    @property
    def level(self) -> str:
        """The word for how bad it is: an error makes the file unusable, a warning does not."""
        return "error" if self.refused else "warning"

    def to_dict(self) -> dict[str, Any]:
        """Return a document of plain values."""
        return asdict(self)

    def __str__(self) -> str:
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.path}:{self.line}:{self.column}: {self.message}{hint} ({self.rule})"


@dataclass(frozen=True, slots=True)
class LintRule:
    """One rule: its id, the sentence that defines it, and the function that looks.

    A rule that `refuses` finds what makes a case unusable: a run of it can only fail, whatever the driver.
    """

    id: str
    sentence: str
    find: Callable[[LintedScenario], Iterable[Problem]]
    refuses: bool = False


# The lines of a file to which findings point, with a caret below the place.


# As much as carets are put under: a word with its quotes, anchor or alias, or else one character.
_WORD: Final = re.compile(r"""["'&*]?[\w$.-]+["']?|.""")
_BEFORE: Final = 24
"""Columns in front of the place that remain of a line that is too wide."""


def excerpt(finding: Finding, lines: Sequence[str], width: int) -> list[str]:
    """Return the line that a finding is about and a line of carets; nothing where there is no such line.

    `lines` is the file's text, `width` the number of columns that a line may take.
    """
    if not 0 < finding.line <= len(lines):
        return []
    # One column for a tab, as the finding's column counts it.
    line = lines[finding.line - 1].expandtabs(1).rstrip()
    start = min(finding.column - 1, len(line))
    if not line:
        return []
    word = _WORD.match(line, start)
    length = len(word[0]) if word else 1
    margin = f"{finding.line:>5} | "
    line, start = _window(line, start, max(width - len(margin), 2 * _BEFORE))
    carets = "^" * max(1, min(length, len(line) - start))
    return [f"{margin}{line}", f"{'':>5} | {'':{start}}{carets}"]


def _window(line: str, start: int, room: int) -> tuple[str, int]:
    """Return the part of a line around a place that fits, and where the place is in it.

    Cuts are shown by an ellipsis, which takes the place of a character, so that columns stay in line.
    """
    if len(line) <= room:
        return line, start
    first = max(0, min(start - _BEFORE, len(line) - room + 1)) if start >= room - _BEFORE else 0
    shown = line[first : first + room]
    if first:
        shown = "…" + shown[1:]
    if first + room < len(line):
        shown = shown[:-1] + "…"
    return shown, start - first
