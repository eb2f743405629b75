"""YAML text to values with their places, in the core schema of YAML 1.2.

PyYAML composes the nodes and nothing else: `off` and `1:30` are texts here, as YAML 1.2 has it, and not false
and 90. A mapping like `{$oid: …}` is the value that relaxed Extended JSON means.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from bson import json_util
from bson.errors import BSONError

from fakeserver.control.errors import dotted
from fakeserver.control.scenario.places import FileProblem, Place, PlacedValue, ScenarioFileError

if TYPE_CHECKING:
    from collections.abc import Mapping

BYTES_MAX: Final = 5_000_000
VALUES_MAX: Final = 100_000
"""The values that a file may hold once its aliases are expanded."""
DEPTH_MAX: Final = 100

_LOADER: Final[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_TAG: Final = "tag:yaml.org,2002:"
_TAGS: Final = frozenset(_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq"))
_INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def read(path: Path | str, *, shown: str = "") -> PlacedValue:
    """Read a file, which errors call `shown`, by default its path. Raises `ScenarioFileError`."""
    file = shown or str(path)
    start = Place(file, 1, 1)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ScenarioFileError([FileProblem(start, "", f"cannot be read: {error.strerror}")]) from None
    if len(data) > BYTES_MAX:
        raise ScenarioFileError([FileProblem(start, "", f"is larger than {BYTES_MAX} bytes")])
    try:
        return read_text(data.decode("utf-8-sig"), file)
    except UnicodeDecodeError as error:
        before = data[: error.start]
        place = Place(file, before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        raise ScenarioFileError([FileProblem(place, "", "is not UTF-8; save the file as UTF-8")]) from None


def read_text(text: str, file: str) -> PlacedValue:
    """Read the text of a file. Raises `ScenarioFileError`."""
    try:
        _check_depth(text, file)  # PyYAML goes down by recursion, in C
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, file) from None
    if node is None:
        start = Place(file, 1, 1)
        raise ScenarioFileError(
            [FileProblem(start, "", 'is empty; a scenario begins with `pushbackd: "1.0"`')]
        )
    return _NodeComposer(file).marked(node, ())


def _check_depth(text: str, file: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEPTH_MAX:
                mark: Any = event.start_mark
                raise _too_deep(Place(file, mark.line + 1, mark.column + 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _too_deep(place: Place) -> ScenarioFileError:
    return ScenarioFileError([FileProblem(place, "", f"is nested more than {DEPTH_MAX} levels deep")])


def _syntax_error(error: yaml.YAMLError, text: str, file: str) -> ScenarioFileError:
    mark: Any = getattr(error, "problem_mark", None)
    opened: Any = getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or str(getattr(error, "reason", error))
    if opened and "end of stream" in problem:
        mark = opened  # what is never closed is best seen where it was opened
    place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file, 1, 1)
    if "nesting depth" in problem:
        return _too_deep(place)  # the C library stops far beyond our own limit, and reads ahead
    line = next(iter(text.splitlines()[place.line - 1 :]), "")
    cure = "YAML indents with spaces" if "\t" in line else "check the indentation and the quotes here"
    return ScenarioFileError([FileProblem(place, "", f"is not YAML: {problem}; {cure}")])


class _NodeComposer:
    """Makes values of PyYAML's nodes."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._count = 0
        self._open: set[int] = set()

    def marked(self, node: Any, path: tuple[str | int, ...]) -> PlacedValue:
        """Return a node's value with its place. Raises `ScenarioFileError`."""
        place = Place(self._file, node.start_mark.line + 1, node.start_mark.column + 1)
        self._count += 1
        if self._count > VALUES_MAX:
            raise self._error(
                place, path, f"the file holds more than {VALUES_MAX} values; expand fewer aliases"
            )
        if node.tag not in _TAGS and node.tag != "!":
            raise self._error(place, path, f"tag {node.tag} is not supported; write it as Extended JSON")
        if isinstance(node, yaml.ScalarNode):
            return PlacedValue(self._scalar(node, place, path), place, path)
        if id(node) in self._open:
            raise self._error(place, path, "contains an alias of itself; use an alias of another value")
        if len(path) > DEPTH_MAX:
            raise _too_deep(place)
        self._open.add(id(node))
        make = self._mapping if isinstance(node, yaml.MappingNode) else self._sequence
        marked = make(node, place, path)
        self._open.discard(id(node))
        return marked

    def _scalar(self, node: yaml.ScalarNode, place: Place, path: tuple[str | int, ...]) -> Any:
        if node.tag in {_TAG + "str", "!"} and (node.style or node.tag == "!"):
            return node.value
        text = node.value
        if text in _WORDS:
            return _WORDS[text]
        try:
            if _INTEGER.fullmatch(text):
                return int(text, 0 if text[:2] in {"0o", "0x"} else 10)
            return float(text) if _FLOAT.fullmatch(text) else text
        except ValueError:  # of more digits than Python reads
            raise self._error(place, path, "is a number that is too long; put it in quotes") from None

    def _sequence(self, node: yaml.SequenceNode, place: Place, path: tuple[str | int, ...]) -> PlacedValue:
        members: dict[str | int, PlacedValue] = {
            index: self.marked(each, (*path, index)) for index, each in enumerate(node.value)
        }
        return PlacedValue([each.value for each in members.values()], place, path, members)

    def _mapping(self, node: yaml.MappingNode, place: Place, path: tuple[str | int, ...]) -> PlacedValue:
        members: dict[str | int, PlacedValue] = {}
        keys: dict[str, Place] = {}
        for key, inner in node.value:
            at = Place(self._file, key.start_mark.line + 1, key.start_mark.column + 1)
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(at, path, "a key must be a text")
            if key.value == "<<" and not key.style:
                raise self._error(
                    at, path, "the merge key << is not supported; use an alias for the whole value"
                )
            if key.value in keys:
                raise self._error(at, path, f"key {key.value!r} is repeated; remove one of the two")
            keys[key.value] = at
            members[key.value] = self.marked(inner, (*path, key.value))
        value: Any = {str(name): each.value for name, each in members.items()}
        if any(name.startswith("$") for name in value):
            value = self._extended(value, place, path)
        return PlacedValue(value, place, path, members, keys)

    def _extended(self, value: dict[str, Any], place: Place, path: tuple[str | int, ...]) -> Any:
        try:
            return json_util.object_hook(value, json_util.RELAXED_JSON_OPTIONS)
        except (BSONError, TypeError, ValueError, OverflowError) as error:
            raise self._error(place, path, f"is no Extended JSON: {error}") from None

    def _error(self, place: Place, path: tuple[str | int, ...], message: str) -> ScenarioFileError:
        return ScenarioFileError([FileProblem(place, dotted(path), message)])
