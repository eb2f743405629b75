"""A checker: a rule, and the function that decides about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.sim.swarm.history import RunHistory

Check: TypeAlias = "Callable[[RunHistory], Iterator[Violation]]"


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


@dataclass(frozen=True, slots=True)
class Checker:
    """A rule: its name, its sentence, and the function that decides about it."""

    name: str
    rule: str
    check: Check


def checker(name: str, rule: str) -> Callable[[Check], Checker]:
    """Return the decorator that makes a checker of the function that decides about a rule."""
    return lambda check: Checker(name, rule, check)
