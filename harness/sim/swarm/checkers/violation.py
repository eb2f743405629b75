"""A violation, as a checker reports it. A value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One line on what contradicts a rule, and the numbers of the operations that it is about.

    `checker` is the name of the rule; `violations` fills it in.
    """

    text: str
    operations: tuple[int, ...] = ()
    checker: str = ""

    def __str__(self) -> str:
        return f"{self.checker}: {self.text}" if self.checker else self.text
