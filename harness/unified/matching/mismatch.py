"""A mismatch: the place where an actual value is not the expected one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first place where an actual value is not what was expected.

    `path` is the way to it in the actual value (`updates[0].q`), empty at the root; `why` a sentence.
    """

    path: str
    expected: Any
    actual: Any
    why: str

    def below(self, prefix: str) -> Mismatch:
        """Return the same mismatch, seen from a value that holds this one at `prefix`."""
        glue = "." if self.path and not self.path.startswith("[") else ""
        return Mismatch(f"{prefix}{glue}{self.path}", self.expected, self.actual, self.why)

    def __str__(self) -> str:
        return f"{self.path}: {self.why}" if self.path else self.why
