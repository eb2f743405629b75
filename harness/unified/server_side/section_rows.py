"""Rows in which a reader of a failure finds what is expected of servers beside what they saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bson import json_util

from harness.unified.matching.matcher import missing

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class SectionRow:
    """What is expected beside what was seen; None where one of the two is not there."""

    verdict: Literal["same", "differs", "missing", "extra"]
    expected: str | None
    actual: str | None
    line: int = 0
    why: str = ""


class SectionComparison:
    """A section of the key `pushbackd` whose expectation does not hold, as rows for a reader."""

    section: ClassVar[str]
    """The rows are about this: connections or metrics."""
    client: ClassVar[str] = ""
    """No client's events are compared here."""
    diverges: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Whose connections, or which metric."""
        raise NotImplementedError

    def rows(self) -> Iterator[SectionRow]:
        """Yield what is expected, then what was seen."""
        raise NotImplementedError


def as_text(value: Any) -> str:
    """Return a value as one line."""
    if value is missing:
        return "missing"
    return value if isinstance(value, str) else json_util.dumps(value, default=repr)


def in_ms(seconds: float) -> str:
    """Return a duration in milliseconds."""
    return f"{seconds * 1000:.0f} ms"
