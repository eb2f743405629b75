"""Values of a file with their places, and the errors that name these."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mongowire.documents.errors import ControlError, dotted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHOWN_MAX: Final = 600
_UNKNOWN: Final = re.compile(r"unknown [\w ]+ '([^']*)'")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    @property
    def of_line(self) -> str:
        """`FILE:LINE`, as the log of a run names a step."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """A value with its place, the path of its field, and the values inside it.

    `value` is the plain value of all of it. `members` holds the values of a mapping by key, or of a sequence
    by index, `keys` the places of a mapping's keys.
    """

    value: Any
    place: Place
    path: tuple[str | int, ...] = ()
    members: Mapping[str | int, PlacedValue] = field(default_factory=dict)
    keys: Mapping[str, Place] = field(default_factory=dict)

    @property
    def is_mapping(self) -> bool:
        """Whether it is a mapping."""
        return isinstance(self.value, dict)

    def at(self, path: Sequence[str | int]) -> PlacedValue:
        """Return the value at the end of a path, or the last one on the way that exists."""
        found = self
        for step in path:
            inner = found.members.get(step)
            if inner is None:
                break
            found = inner
        return found


@dataclass(frozen=True, slots=True)
class FileProblem:
    """An error in a file: its place, the field, what is wrong and how it is cured."""

    place: Place
    field: str
    message: str

    def __str__(self) -> str:
        field_name = f"{self.field}: " if self.field else ""
        return f"{self.place}: {field_name}{self.message}"


class ScenarioFileError(ControlError):
    """A scenario file cannot be used. The text has a line for each of its `problems`."""

    def __init__(self, problems: Sequence[FileProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class ProblemReport:
    """Collects the problems of a file."""

    def __init__(self) -> None:
        self._problems: list[FileProblem] = []

    def add(self, marked: PlacedValue, message: str, *, place: Place | None = None) -> None:
        """Enter a problem of a value; `place` is that of its key, where the key is wrong."""
        shown = message if len(message) <= _SHOWN_MAX else f"{message[:_SHOWN_MAX]}…"
        self._problems.append(FileProblem(place or marked.place, dotted(marked.path), shown))

    def refused(self, marked: PlacedValue, error: ControlError) -> None:
        """Enter an error that names a path inside a value.

        The place is that of a key, where the key is what is wrong.
        """
        found = marked.at(error.path)
        path = (*marked.path, *error.path)
        rest = path[len(found.path) :]
        word = _UNKNOWN.match(error.message)
        if not rest and word is not None and word[1] in found.keys:
            rest = (word[1],)
        key = found.keys.get(str(rest[0])) if len(rest) == 1 else None
        self._problems.append(FileProblem(key or found.place, dotted(path), error.message))

    @property
    def problems(self) -> Sequence[FileProblem]:
        """The problems, in the order of the file."""
        return sorted(self._problems, key=lambda each: (each.place.line, each.place.column))

    def end(self) -> None:
        """Raise `ScenarioFileError` if there is a problem."""
        if self._problems:
            raise ScenarioFileError(self.problems)
