"""YAML text to values with their places. A mapping like `{$oid: …}` is what relaxed Extended JSON means."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bson import json_util
from bson.errors import BSONError

from mongowire.documents import reader
from mongowire.documents.errors import ControlError, DocumentError, dotted, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mongowire.documents.arguments import Argument
    from mongowire.documents.marks import Mark


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


def read(path: Path | str, *, shown: str = "") -> PlacedValue:
    """Read a file, which errors call `shown`, by default its path. Raises `ScenarioFileError`."""
    file = shown or str(path)
    try:
        text = reader.text_of(Path(path))
    except DocumentError as error:
        raise _file_error(error, file) from None
    return read_text(text, file)


def read_text(text: str, file: str) -> PlacedValue:
    """Read the text of a file. Raises `ScenarioFileError`."""
    try:
        document, _ = reader.read_yaml(text, Path(file), keys=True)
    except DocumentError as error:
        raise _file_error(error, file) from None
    if document.value is None:
        start = Place(file, 1, 1)
        raise ScenarioFileError(
            [FileProblem(start, "", 'is empty; a scenario begins with `pushbackd: "1.0"`')]
        )
    return _placed(document.value, document.mark, file, ())


def _file_error(error: DocumentError, file: str) -> ScenarioFileError:
    found = error.location
    place = Place(file, (found and found.line) or 1, (found and found.column) or 1)
    message = f"{error.message}; {error.fix}" if error.fix else error.message
    return ScenarioFileError([FileProblem(place, found.field if found else "", message)])


def _placed(value: Any, mark: Mark, file: str, path: tuple[str | int, ...]) -> PlacedValue:
    place = Place(file, mark.line, mark.column)
    if not isinstance(value, (dict, list)):
        return PlacedValue(value, place, path)
    steps: Mapping[str | int, Any] = value if isinstance(value, dict) else dict(enumerate(value))
    members = {
        step: _placed(inner, mark.child(step) or mark, file, (*path, step)) for step, inner in steps.items()
    }
    if isinstance(value, list):
        return PlacedValue([each.value for each in members.values()], place, path, members)
    plain: Any = {str(name): each.value for name, each in members.items()}
    if any(name.startswith("$") for name in plain):
        try:
            plain = json_util.object_hook(plain, json_util.RELAXED_JSON_OPTIONS)
        except (BSONError, TypeError, ValueError, OverflowError) as error:
            message = f"is no Extended JSON: {error}"
            raise ScenarioFileError([FileProblem(place, dotted(path), message)]) from None
    return PlacedValue(
        plain, place, path, members, {name: Place(file, *position) for name, position in mark.keys.items()}
    )


# Mappings that are checked against a list of arguments: every error at its place, all of them at once.


def mapping(marked: PlacedValue, what: str, report: ProblemReport) -> bool:
    """Return whether a value is a mapping; report it if it is none."""
    if marked.is_mapping:
        return True
    report.add(marked, f"{what} is a mapping of names to values, not {shown(marked.value)}")
    return False


def sequence(marked: PlacedValue, what: str, report: ProblemReport) -> Sequence[PlacedValue]:
    """Return the elements of a sequence; report a value that is none."""
    if isinstance(marked.value, list):
        return list(marked.members.values())
    report.add(marked, f"{what} is a list, with a dash before each, not {shown(marked.value)}")
    return ()


def known_keys(marked: PlacedValue, kind: str, known: Iterable[str], report: ProblemReport) -> None:
    """Report each key that is not known."""
    names = list(known)
    for key, place in marked.keys.items():
        if key not in names:
            report.add(marked, unknown(kind, key, names).message, place=place)


def filled(
    marked: PlacedValue,
    kind: str,
    arguments: Sequence[Argument],
    report: ProblemReport,
    *,
    others: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the values of a form: those that are given and right, and the defaults of the others.

    Names stay as they are in the file. Keys that no argument has, and that are not among the `others`,
    required ones that are missing and values of a wrong kind are reported.
    """
    by_name = {argument.name: argument for argument in arguments}
    if not by_name and marked.keys:
        report.add(marked, f"{kind} takes no argument; write {{}}")
        return {}
    known_keys(marked, f"field of {kind}", [*by_name, *others], report)
    values: dict[str, Any] = {}
    for name, argument in by_name.items():
        given = marked.members.get(name)
        if given is None or given.value is None:
            if argument.is_required:
                report.add(marked, f"{kind} needs {name}: {argument.help}")
            elif argument.default is not None:
                values[name] = argument.parse(argument.default)
            continue
        try:
            values[name] = argument.parse(given.value)
        except ControlError as error:
            report.refused(marked, error)
    return values


def shown(value: Any) -> str:
    """Return a value for a message."""
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else repr(value)
