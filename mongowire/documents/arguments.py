"""The arguments of verbs: their kinds, and how each kind is read.

A value comes from Python, YAML, JSON or a command line. So each kind takes the value itself and its text:
a share is 0.02 or "2%", a document a mapping or relaxed Extended JSON.

A time or a rate says its unit: "200ms", "20/s". A bare number is refused, for two readers take it for two
things; 0 needs no unit. Where the name of a field says the unit (`seconds`, `delayMS`), numbers are right.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import bson
from bson import json_util

from mongowire.codes import ErrorCode
from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REQUIRED: Final = object()
"""The default of an argument that must be there."""

_SECONDS_OF: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_BYTES_OF: Final = {"": 1, "B": 1, "kB": 1000, "KB": 1000, "KiB": 1024, "MB": 1_000_000, "MiB": 1 << 20}
_PER: Final = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0}
_PER_LONG: Final = {"h": 3600.0, "hour": 3600.0, "d": 86_400.0, "day": 86_400.0}
MOST_SECONDS: Final = 366 * 86_400.0
"""The longest time that anything is given: a year."""
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d)")
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?) */ *([a-z]+)")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([kKM]?i?B?)(?:/s)?")
_OUTCOMES: Final = ("ok", "error", "disconnect", "silence")
_WORDS_OF_BOOL: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Kind(Enum):
    """The kinds of arguments; the value is what a help text calls one."""

    SERVER = "SERVER"
    """A server: its name or address, or `primary`, `secondary`, `mongos`; see `Cluster.node`."""
    SERVERS = "SERVERS"
    """Several servers: a list of names, or `all`; in a text commas part them."""
    GROUPS = "GROUPS"
    """Groups of servers: a list of lists of names; in a text spaces part the groups, commas their members."""
    DURATION = "DURATION"
    """A time with its unit: `200ms`, `5s`, `1m30s`."""
    SECONDS = "SECONDS"
    """Seconds, in a field that is called so; or a time with its unit."""
    RATE = "RATE"
    """A rate with its unit: `20/s`, `100/min`."""
    COUNT = "N"
    """A whole number, not negative."""
    NUMBER = "NUMBER"
    """A number, not negative."""
    SHARE = "SHARE"
    """A number from 0 to 1, or a percentage: `2%`."""
    SIZE = "SIZE"
    """Bytes, or a text with a unit: `16KB`."""
    FLAG = "FLAG"
    """True or false."""
    TEXT = "TEXT"
    """A text."""
    NAMES = "NAMES"
    """A list of texts; one text is a list of one, and commas part several."""
    CODES = "CODES"
    """Error codes, each a number or a name: a list, or one alone; in a text commas part them."""
    OUTCOME = "OUTCOME"
    """The outcome of a request: `ok`, `error`, `disconnect`, `silence`, or one error code."""
    MODE = "MODE"
    """The mode of a fail point: `alwaysOn`, `off`, a number of times, or a document."""
    DOCUMENT = "DOCUMENT"
    """A document: a mapping, or relaxed Extended JSON."""
    DOCUMENTS = "DOCUMENTS"
    """A list of documents."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a verb. One without a default is required; `known` limits a text to some words.

    A default is written as a caller would write it: `"all"`, `"30s"`.
    """

    name: str
    kind: Kind
    help: str
    default: Any = REQUIRED
    known: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        """Whether a caller must give it."""
        return self.default is REQUIRED

    def parse(self, value: Any) -> Any:
        """Return the value as the verb takes it. Raises `ControlError` that names the argument."""
        try:
            parsed = _PARSERS[self.kind](value)
        except ControlError as error:
            raise error.within(self.name) from None
        if self.known and parsed not in self.known:
            raise unknown("value", parsed, self.known, path=(self.name,))
        return parsed


def duration(value: Any) -> float:
    """Return the seconds of a time that says its unit, or of 0. Raises `ControlError`."""
    bare = _number_of(value)
    if bare is not None:
        if bare == 0:
            return 0.0
        raise ControlError(_which_unit(value, bare, "ms", "s"))
    return _timed(value)


def seconds(value: Any) -> float:
    """Return seconds, of a field whose name says them: a number, or a time with its unit.

    Raises `ControlError`.
    """
    if _number_of(value) is None:
        return duration(value)
    return _bounded(number(value), value)


def _timed(value: Any) -> float:
    stripped = value.strip() if isinstance(value, str) else ""
    negative = stripped.startswith("-")
    pieces = list(_DURATION.finditer(stripped.removeprefix("-")))
    if not pieces or "".join(each[0] for each in pieces) != stripped.removeprefix("-"):
        raise ControlError(f"{value!r} is no duration; write one with its unit, such as '200ms' or '1m30s'")
    total = math.fsum(float(each[1]) * _SECONDS_OF[each[2]] for each in pieces)
    return _bounded(-total if negative else total, value)


def _bounded(found: float, value: Any) -> float:
    if found < 0:
        raise ControlError(f"{str(value)!r} is negative")
    if not found <= MOST_SECONDS:
        raise ControlError(f"{str(value)!r} is more than a year")
    return found


def rate(value: Any) -> float:
    """Return how many a second, of a rate that says its unit, or of 0. Raises `ControlError`."""
    bare = _number_of(value)
    if bare is not None:
        if bare == 0:
            return 0.0
        raise ControlError(_which_unit(value, bare, "/s", "/min"))
    found = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    per = {**_PER, **_PER_LONG}.get(found[2]) if found is not None else None
    if found is None or per is None:
        raise ControlError(f"{value!r} is no rate; write one with its unit, such as '20/s' or '100/min'")
    return float(found[1]) / per


def _which_unit(value: Any, bare: float, *units: str) -> str:
    """Return the question for the unit, with each reading of a number."""
    if not math.isfinite(bare):
        return f"{value!r} is no number"
    if bare < 0:
        return f"{value!r} is negative"
    shown = str(value).strip()
    return f"{shown} what? Write {' or '.join(shown + unit for unit in units)}"


def number(value: Any) -> float:
    """Return a number that is finite and not negative. Raises `ControlError`."""
    read = _number_of(value)
    if read is None or not math.isfinite(read):
        raise ControlError(f"{value!r} is no number")
    if read < 0:
        raise ControlError(f"{value!r} is negative")
    return read


def count(value: Any) -> int:
    """Return a whole number that is not negative. Raises `ControlError`."""
    read = number(value)
    if not read.is_integer():
        raise ControlError(f"{value!r} is no whole number")
    return int(read)


def share(value: Any) -> float:
    """Return a number from 0 to 1. Raises `ControlError`."""
    percent = isinstance(value, str) and value.strip().endswith("%")
    read = number(value.strip()[:-1] if percent else value) / (100 if percent else 1)
    if read > 1:
        raise ControlError(f"{value!r} is more than 1; write a number from 0 to 1, or a percentage like '2%'")
    return read


def size(value: Any) -> int:
    """Return bytes. Raises `ControlError`."""
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None or found[2] not in _BYTES_OF:
            raise ControlError(f"{value!r} is no size; write bytes, or a text like '16KB'")
        return count(float(found[1]) * _BYTES_OF[found[2]])
    return count(value)


def bandwidth(value: Any) -> int:
    """Return bytes a second, of a text that says so: `10KB/s`. Raises `ControlError`."""
    if isinstance(value, str) and value.strip().endswith("/s") and _number_of(value.strip()[:-2]) is None:
        return size(value)
    bare = _number_of(value)
    if bare:
        raise ControlError(_which_unit(value, bare, "KB/s", "B/s"))
    if bare == 0:
        return 0
    raise ControlError(f"{value!r} is no bandwidth; write bytes a second, such as '10KB/s'")


def flag(value: Any) -> bool:
    """Return true or false. Raises `ControlError`."""
    read = _WORDS_OF_BOOL.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(read, bool):
        raise ControlError(f"{value!r} is neither true nor false")
    return read


def text(value: Any) -> str:
    """Return a text that is not empty. Raises `ControlError`."""
    if not isinstance(value, str) or not value:
        raise ControlError(f"{value!r} is no text" if value != "" else "the text is empty")
    return value


def names(value: Any) -> list[str]:
    """Return a list of texts. Raises `ControlError`."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    if not isinstance(value, list | tuple):
        raise ControlError(f"{value!r} is no list of names")
    return [text(each) for each in value]


def mode(value: Any) -> str | int | dict[str, Any]:
    """Return the mode of a fail point: a word, a number of times, or a document. Raises `ControlError`."""
    if value in ("alwaysOn", "off"):
        return str(value)
    if _number_of(value) is not None:
        return count(value)
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        raise unknown("mode", value, ("alwaysOn", "off", "{times: n}", "{skip: n}"))
    return document(value)


def document(value: Any) -> dict[str, Any]:
    """Return a document. Raises `ControlError`."""
    if isinstance(value, str):
        value = from_json(value)
    if not hasattr(value, "keys"):
        raise ControlError(f"{value!r} is no document")
    return dict(value)


def documents(value: Any) -> list[dict[str, Any]]:
    """Return a list of documents; one document is a list of one. Raises `ControlError`."""
    if isinstance(value, str):
        value = from_json(value)
    if hasattr(value, "keys"):
        value = [value]
    if not isinstance(value, list | tuple):
        raise ControlError(f"{value!r} is no list of documents")
    return [document(each) for each in value]


def from_json(value: str) -> Any:
    """Return what relaxed Extended JSON says. Raises `ControlError`."""
    try:
        parsed = json_util.loads(value, json_options=json_util.RELAXED_JSON_OPTIONS)
        bson.encode({"": parsed})  # a number may be too large for BSON
    except Exception as error:  # noqa: BLE001 - Extended JSON can be wrong in many ways
        raise ControlError(f"{value!r} is no JSON: {error}") from None
    return parsed


def groups(value: Any) -> list[list[str]]:
    """Return groups of names; a list of names is one group. Raises `ControlError`."""
    if isinstance(value, str):
        value = from_json(value) if value.lstrip().startswith("[") else _parted(value)
    if not isinstance(value, list | tuple):
        raise ControlError(f"{value!r} is no list of groups; write [[node0], [node1, node2]]")
    if value and all(isinstance(each, str) and "," not in each for each in value):
        value = [value]
    return [names(each) for each in value]


def _parted(text: str) -> list[Any]:
    """Return the groups of a text: `node0,node1 node2` are two, and `node0` is one."""
    return [names(group) for group in text.split()]


def codes(value: Any) -> list[int]:
    """Return error codes. Raises `ControlError`."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    return [_code(each) for each in (value if isinstance(value, list | tuple) else [value])]


def outcome(value: Any) -> str | int:
    """Return the outcome of a request, a word or an error code. Raises `ControlError`."""
    if isinstance(value, str) and value in _OUTCOMES:
        return value
    try:
        return _code(value)
    except ControlError:
        raise unknown("outcome", value, [*_OUTCOMES, *(each.code_name for each in ErrorCode)]) from None


def _code(value: Any) -> int:
    known = {each.code_name: int(each) for each in ErrorCode}
    if isinstance(value, str) and value in known:
        return known[value]
    if _number_of(value) is None:
        raise unknown("error code", value, known)
    return count(value)


def _number_of(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value.strip() if isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError):
        return None


_PARSERS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    Kind.SERVER: text,
    Kind.SERVERS: names,
    Kind.GROUPS: groups,
    Kind.DURATION: duration,
    Kind.SECONDS: seconds,
    Kind.RATE: rate,
    Kind.COUNT: count,
    Kind.NUMBER: number,
    Kind.SHARE: share,
    Kind.SIZE: size,
    Kind.FLAG: flag,
    Kind.TEXT: text,
    Kind.NAMES: names,
    Kind.CODES: codes,
    Kind.OUTCOME: outcome,
    Kind.MODE: mode,
    Kind.DOCUMENT: document,
    Kind.DOCUMENTS: documents,
}
