"""Findings of the linter, and the rules that make them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
