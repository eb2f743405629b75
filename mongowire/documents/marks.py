"""A document read from a file, with the place of each of its values."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file; lines and columns count from 1, 0 is unknown."""

    path: Path
    line: int = 0
    column: int = 0
    field: str = ""

    def __str__(self) -> str:
        position = f":{self.line}" + (f":{self.column}" if self.column else "") if self.line else ""
        return f"{self.path}{position}" + (f": {self.field}" if self.field else "")


_NO_KEYS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({})


class Mark(NamedTuple):
    """The place of a value (lines and columns from 1, 0 is unknown) and of the values inside it.

    `size` counts the values inside, each alias as often as it is used. `keys` has line and column of a
    mapping's keys, where the reader was asked for them.
    """

    line: int = 0
    column: int = 0
    inside: Mapping[str | int, Mark] | Sequence[Mark] = ()
    size: int = 1
    keys: Mapping[str, tuple[int, int]] = _NO_KEYS

    def child(self, step: str | int) -> Mark | None:
        """Return the mark of a member, or None when there is no such member."""
        try:
            return self.inside[step]  # type: ignore[index]  # a mapping takes names, a sequence indexes
        except (LookupError, TypeError):
            return None


@dataclass(frozen=True, slots=True)
class Marked:
    """A value, where it stands in its file, and the path that leads to it from the root."""

    value: Any
    mark: Mark
    path: Path
    field: str = ""

    @property
    def location(self) -> Location:
        """Return the place of the value."""
        return Location(self.path, self.mark.line, self.mark.column, self.field)

    def __getitem__(self, step: str | int) -> Marked:
        """Return a member. Raises `KeyError` or `IndexError`."""
        return Marked(self.value[step], self.mark.child(step) or self.mark, self.path, join(self.field, step))

    def get(self, step: str) -> Marked | None:
        """Return a member of a mapping, or None."""
        return self[step] if step in self.value else None

    def items(self) -> Sequence[Marked]:
        """Return the elements of a sequence."""
        return [self[index] for index in range(len(self.value))]

    def locate(self, steps: Sequence[str | int]) -> Location:
        """Return the place of the value at the end of a path, or of the last on the way that has one."""
        mark, name = self.mark, self.field
        for step in steps:
            name = join(name, step)
            mark = mark.child(step) or mark
        return Location(self.path, mark.line, mark.column, name)

    def locate_key(self, steps: Sequence[str | int]) -> Location:
        """Return the place of the key at the end of a path; of its value where nobody kept the key's."""
        value, mark = self.locate(steps), self.mark
        for step in steps[:-1]:
            mark = mark.child(step) or mark
        line, column = mark.keys.get(str(steps[-1]), (value.line, value.column))
        return Location(self.path, line, column, value.field)


def join(field: str, step: str | int) -> str:
    """Return the field path of a member: `tests[0].operations`."""
    if isinstance(step, int):
        return f"{field}[{step}]"
    return f"{field}.{step}" if field else step
