"""One case of a format without servers, and how it complains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class MismatchError(Exception):
    """A driver knows another thing than a case expects: says what was expected and what was found."""


@dataclass(frozen=True, slots=True)
class FormatCase:
    """A case: its name, which is unique among all files, and what runs it. Raises MismatchError."""

    id: str
    run: Callable[[], None]


def require(what: str, actual: object, expected: object) -> None:
    """Raise MismatchError unless the two are equal."""
    if actual != expected:
        raise MismatchError(f"{what}: expected {expected!r}, got {actual!r}")
