"""The reader of YAML 1.2 and JSON: text to plain values that know their lines.

YAML is read from the parser's events instead of by PyYAML's composer, for three reasons: every value keeps
its place, an anchor may be defined again (YAML 1.2, which many public files rely on), and aliases that
multiply without end are refused before they are expanded.
"""

from __future__ import annotations

import codecs
import json
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from mongowire.documents.errors import DocumentError
from mongowire.documents.marks import Location, Mark, Marked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

VALUES_MAX: Final = 500_000
"""How many values a file may hold once its aliases are expanded; the largest public one holds a tenth."""

BYTES_MAX: Final = 20_000_000
DEPTH_MAX: Final = 200

_FAST: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PURE: Final[Any] = yaml.SafeLoader

_INTEGER = re.compile(r"[-+]?[0-9]+$|0o[0-7]+$|0x[0-9a-fA-F]+$")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_OF_NUMBERS: Final = frozenset("+-.0123456789")
"""What a number begins with: most texts are none, and need no pattern."""
_NO_WORD: Final = _OF_NUMBERS | {"<"}
"""What a number or a merge key begins with."""

_WORDS: Final[Mapping[str, bool | float | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
)
_COLON_ANCHOR = re.compile(r"(?<=[\s\[{,])[&*][\w.-]+(?::[\w.-]+)+")


@dataclass(slots=True)
class Anchor:
    """An anchor of a YAML file, where it is defined, and whether an alias of it follows."""

    name: str
    location: Location
    used: bool = False


def read(path: Path) -> Marked:
    """Read a YAML or JSON file into plain values with their places. Raises `DocumentError`."""
    return read_with_anchors(path)[0]


def read_with_anchors(path: Path) -> tuple[Marked, Sequence[Anchor]]:
    """Read a file as `read` does; also return its anchors in their order. Raises `DocumentError`.

    Keys have their places as well, for messages about the keys themselves.
    """
    return read_text(text_of(path), path)


def read_text(text: str, path: Path) -> tuple[Marked, Sequence[Anchor]]:
    """Read the text of a file, YAML or JSON by its name, as `read_with_anchors` does."""
    if path.suffix == ".json":
        return _read_json(text, path), ()
    return read_yaml(text, path, keys=True)


def text_of(path: Path) -> str:
    """Return the text of a file, without its byte order mark. Raises `DocumentError`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DocumentError(f"cannot be read: {error.strerror}", location=Location(path)) from error
    if len(data) > BYTES_MAX:
        raise DocumentError(f"is larger than {BYTES_MAX} bytes", location=Location(path, 1, 1))
    if (encoding := encoding_of(data)) is not None:
        raise DocumentError(
            f"is {encoding}, not UTF-8", location=Location(path, 1, 1), fix="save it as UTF-8"
        )
    if b"\0" in data:
        place = _place_of(data, data.index(b"\0"), path)
        raise DocumentError("is binary, not text", location=place, fix="a scenario is YAML or JSON")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = _place_of(data, error.start, path)
        raise DocumentError("is not UTF-8", location=place, fix="save it as UTF-8") from error
    if not text.strip():
        raise DocumentError("is empty", location=Location(path, 1, 1), fix="a scenario has at least one test")
    return text


_OTHER_MARKS: Final = (
    *((codecs.BOM_UTF32_LE, "UTF-32"), (codecs.BOM_UTF32_BE, "UTF-32")),
    *((codecs.BOM_UTF16_LE, "UTF-16"), (codecs.BOM_UTF16_BE, "UTF-16")),
)
"""Byte order marks of other encodings; a mark stands before one that it begins with."""


def encoding_of(data: bytes) -> str | None:
    """Return the encoding of a text that begins with a byte order mark of another one than UTF-8, or None."""
    return next((name for mark, name in _OTHER_MARKS if data.startswith(mark)), None)


def _place_of(data: bytes, offset: int, path: Path) -> Location:
    before = data[:offset]
    return Location(path, before.count(b"\n") + 1, offset - before.rfind(b"\n"))


def _read_json(text: str, path: Path) -> Marked:
    try:
        value = json.loads(text, object_pairs_hook=_unique_pairs)
    except json.JSONDecodeError as error:
        raise DocumentError(error.msg, location=Location(path, error.lineno, error.colno)) from error
    except _DuplicateKeyError as error:
        with suppress(yaml.YAMLError):  # as YAML it is refused for the same reason, with its place
            _compose(text, path, _FAST)
        raise DocumentError(str(error), location=Location(path, 1, 1)) from error
    except ValueError as error:  # an integer of more digits than Python reads
        _compose(text, path, _FAST)  # as YAML it is refused for the same reason, with its place
        raise DocumentError("holds a number that is too long", location=Location(path, 1, 1)) from error
    except RecursionError as error:
        raise DocumentError("is nested too deeply", location=Location(path, 1, 1)) from error
    try:
        marks = _compose(text, path, _FAST, keys=True)[0].mark
    except (yaml.YAMLError, DocumentError):  # JSON that is not YAML: surrogate escapes, tabs
        marks = Mark()
    return Marked(value, marks, path)


class _DuplicateKeyError(ValueError):
    """A JSON object repeats a key."""


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        raise _DuplicateKeyError(f"key {next(name for name in names if names.count(name) > 1)!r} is repeated")
    return document


def read_yaml(text: str, path: Path, *, keys: bool = False) -> tuple[Marked, Sequence[Anchor]]:
    """Read the text of a YAML file as `read_with_anchors` does; `keys` asks for the places of keys too.

    Try the C scanner, then the pure one (it has other bugs), then without colons in names of anchors.
    """
    failure: yaml.YAMLError | None = None
    without_colons = _COLON_ANCHOR.sub(lambda found: found[0].replace(":", "-"), text)
    for attempt, scanner in ((text, _FAST), (text, _PURE), (without_colons, _PURE)):
        try:
            return _compose(attempt, path, scanner, keys=keys)
        except yaml.YAMLError as error:
            failure = failure if attempt is not text else error
    assert failure is not None
    raise _syntax_error(failure, path, text) from failure


def _syntax_error(error: yaml.YAMLError, path: Path, text: str) -> DocumentError:
    mark: Any = getattr(error, "problem_mark", None)
    opened = getattr(error, "context_mark", None)
    if opened and "end of stream" in str(getattr(error, "problem", "")):
        mark = opened  # what is never closed is best seen where it was opened
    location = Location(path, mark.line + 1, mark.column + 1) if mark else Location(path)
    problem = getattr(error, "problem", None) or str(getattr(error, "reason", error))
    if "nesting depth" in problem:  # the C library stops far beyond our own limit, and reads ahead
        return DocumentError(f"is nested more than {DEPTH_MAX} levels deep", location=location)
    line = next(iter(text.splitlines()[mark.line :]), "") if mark else ""
    fix = (
        "YAML indents with spaces" if "\t" in line else "check the indentation and the quotes near this line"
    )
    return DocumentError(f"is not YAML: {problem}", location=location, fix=fix)


def _compose(text: str, path: Path, scanner: Any, *, keys: bool = False) -> tuple[Marked, Sequence[Anchor]]:
    loader = scanner(text)
    composer = _Composer(path, keys)
    try:
        root = composer.document(iter(loader.get_event, None))
    finally:
        loader.dispose()
    return Marked(root.value, root.mark, path), composer.defined


class _Node(NamedTuple):
    value: Any
    mark: Mark
    merge: bool = False


_NOWHERE: Final = Mark()


@dataclass(slots=True)
class _Composer:
    """Builds values from one document's events, which it consumes depth first."""

    path: Path
    with_keys: bool
    anchors: dict[str, _Node | None] = field(default_factory=dict)
    defined: list[Anchor] = field(default_factory=list)
    newest: dict[str, Anchor] = field(default_factory=dict)
    depth: int = 0

    def document(self, events: Iterator[yaml.Event]) -> _Node:
        """Return the only document of a stream."""
        for event in events:
            if isinstance(event, (yaml.StreamStartEvent, yaml.DocumentStartEvent)):
                continue
            if isinstance(event, yaml.StreamEndEvent):  # comments, and nothing else
                return _Node(None, Mark(1, 1))
            root = self._node(event, events)
            break
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                raise self._error(event, "holds a second document", "put each scenario in a file of its own")
        return root

    def _node(self, event: yaml.Event, events: Iterator[yaml.Event]) -> _Node:
        if (word := _word(event)) is not None:
            return _Node(word, Mark(*_position(event)))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        name: str | None = getattr(event, "anchor", None)
        if name is not None:
            self.anchors[name] = None  # until its end: an alias within it would contain itself
            self.newest[name] = Anchor(name, Location(self.path, *_position(event)))
            self.defined.append(self.newest[name])
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!" and tag not in _TAGS:
            raise self._error(event, f"tag {tag} is not supported", "write the value as Extended JSON")
        node = self._anchorable(event, events)
        if node.mark.size > VALUES_MAX:
            expanded = " once aliases are expanded" if any(each.used for each in self.defined) else ""
            raise self._error(event, f"holds more than {VALUES_MAX} values{expanded}", "")
        if name is not None:
            self.anchors[name] = node
        return node

    def _anchorable(self, event: yaml.Event, events: Iterator[yaml.Event]) -> _Node:
        if isinstance(event, yaml.ScalarEvent):
            try:
                return _scalar(event)
            except ValueError:  # of more digits than Python reads
                raise self._error(event, "is a number that is too long", "") from None
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self._error(event, f"is nested more than {DEPTH_MAX} levels deep", "")
        read_members = self._mapping if isinstance(event, yaml.MappingStartEvent) else self._sequence
        node = read_members(event, events)
        self.depth -= 1
        return node

    def _alias(self, event: yaml.AliasEvent) -> _Node:
        if event.anchor not in self.anchors:
            raise self._error(
                event, f"alias *{event.anchor} has no anchor before it", f"define &{event.anchor}"
            )
        target = self.anchors[event.anchor]
        if target is None:
            raise self._error(
                event, f"anchor &{event.anchor} contains itself", "use an alias of another value"
            )
        self.newest[event.anchor].used = True
        line, column = _position(event)
        return _Node(target.value, target.mark._replace(line=line, column=column))

    def _sequence(self, start: yaml.Event, events: Iterator[yaml.Event]) -> _Node:
        nodes: list[_Node] = []
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            try:
                nodes.append(self._node(event, events))
            except DocumentError as error:
                raise _inside(error, f"[{len(nodes)}]") from error.__cause__
        marks = [node.mark for node in nodes]
        return _Node([node.value for node in nodes], _mark(start, marks, marks))

    def _mapping(self, start: yaml.Event, events: Iterator[yaml.Event]) -> _Node:
        value: dict[str, Any] = {}
        marks: dict[str | int, Mark] = {}
        merged: set[str] = set()
        keys: dict[str, tuple[int, int]] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            word = _word(event)
            key = self._node(event, events) if word is None else _Node(word, _NOWHERE)
            try:
                node = self._node(next(events), events)
            except DocumentError as error:
                raise _inside(error, str(key.value)) from error.__cause__
            if key.merge:
                self._merge(event, node, value, marks, merged)
                continue
            name = self._key(event, key)
            if name in value and name not in merged:
                raise self._error(event, f"key {name!r} is repeated", "remove one of the two")
            merged.discard(name)
            if self.with_keys:
                keys[name] = _position(event)
            value[name], marks[name] = node.value, node.mark
        mark = _mark(start, marks, marks.values())
        return _Node(value, mark._replace(keys=keys) if keys else mark)

    def _merge(
        self,
        event: yaml.Event,
        node: _Node,
        value: dict[str, Any],
        marks: dict[str | int, Mark],
        merged: set[str],
    ) -> None:
        """YAML's merge key: what the mapping says itself wins over what is merged into it."""
        several = isinstance(node.value, list)
        sources = node.value if several else [node.value]
        for index, source in enumerate(sources):
            if not isinstance(source, dict):
                raise self._error(event, "only mappings can be merged with <<", "give an alias of a mapping")
            inside = (node.mark.child(index) if several else node.mark) or node.mark
            for name in source:
                if name not in value:
                    value[name], marks[name] = source[name], inside.child(name) or node.mark
                    merged.add(name)

    def _key(self, event: yaml.Event, key: _Node) -> str:
        """Return a mapping's key as JSON would spell it: the format counts results by numbers."""
        if isinstance(key.value, str):
            return key.value
        if isinstance(key.value, int) and not isinstance(key.value, bool):
            return str(key.value)
        raise self._error(event, f"key {key.value!r} is not a string", "put it in quotes")

    def _error(self, event: yaml.Event, message: str, fix: str) -> DocumentError:
        return DocumentError(message, location=Location(self.path, *_position(event)), fix=fix)


def _inside(error: DocumentError, step: str) -> DocumentError:
    """Return an error, whose field is now seen from one level further out."""
    if error.location is not None:
        inner = error.location.field
        dot = "." if inner and not inner.startswith("[") else ""
        error.location = replace(error.location, field=f"{step}{dot}{inner}")
    return error


def _position(event: yaml.Event) -> tuple[int, int]:
    mark: Any = event.start_mark
    return mark.line + 1, mark.column + 1


def _mark(event: yaml.Event, inside: Any, members: Iterable[Mark]) -> Mark:
    return Mark(*_position(event), inside, 1 + sum([mark.size for mark in members]))


def _word(event: yaml.Event) -> str | None:
    """Return the text of most keys and many values: a plain word without anchor or tag; None for all else."""
    if type(event) is not yaml.ScalarEvent or event.anchor is not None or event.tag is not None:
        return None
    text: str = event.value
    return None if text in _WORDS or text[0] in _NO_WORD else text


def _scalar(event: yaml.ScalarEvent) -> _Node:
    value, tag = event.value, event.tag
    plain = event.implicit[0] and tag is None
    tagged = tag is not None and tag.rpartition(":")[2] in ("int", "float", "bool", "null")
    return _Node(
        _resolved(value) if plain or tagged else value, Mark(*_position(event)), plain and value == "<<"
    )


def _resolved(text: str) -> Any:
    """Return the value of a plain scalar in YAML 1.2's core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _OF_NUMBERS:
        return text
    if _INTEGER.match(text):
        return int(text, 0 if text[:2] in ("0o", "0x") else 10)
    if _FLOAT.match(text):
        return float(text)
    return text
