"""The lines that runner and adapter exchange: requests out; answers, events and callbacks in.

A line is one JSON document. Its values are in canonical extended JSON on the way out, and in any form of it
on the way in. docs/WRITING-ADAPTERS.md is this protocol for those who implement it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson import json_util

from harness.adapters.base import ErrorReport, Feature, SessionState, TopologyReport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROTOCOL: Final = 1
"""The version of the protocol: another number is another language."""

METHODS: Final = (
    "hello",
    "client",
    "pool",
    "create",
    "call",
    "return",
    "session",
    "advanceClusterTime",
    "topology",
    "retryTokens",
    "closeClient",
    "close",
)

_READ: Final[json_util.JSONOptions] = json_util.JSONOptions(tz_aware=False, tzinfo=None)
_SHOWN: Final = 200
"""How many characters of a line that is no message are shown."""


class AdapterProtocolError(Exception):
    """An adapter said something that the protocol does not have; the text says what."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What an adapter says of itself. `edition` is empty when it names none."""

    name: str
    features: frozenset[Feature]
    edition: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the request `id`: a result, a new entity (known by `id`), or one of two refusals.

    `clock` is what the adapter's clock showed when it answered, in seconds from any origin.
    """

    id: int
    result: Any = None
    entity: bool = False
    error: ErrorReport | None = None
    unsupported: str | None = None
    clock: float | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """A client's event or log message; `at` is when it happened, in seconds of the adapter's clock."""

    client: int
    kind: str
    fields: Mapping[str, Any]
    at: float | None = None


@dataclass(frozen=True, slots=True)
class CallbackDue:
    """The driver runs the callback of the call with this id."""

    call: int


Message: TypeAlias = Answer | Observed | CallbackDue


def request(number: int, method: str, on: int | None, params: Mapping[str, Any] | None) -> bytes:
    """Return a request as a line. `on` is the entity that it is about, by the id of what created it."""
    document: dict[str, Any] = {"id": number, "method": method}
    if on is not None:
        document["on"] = on
    if params:
        document["params"] = json.loads(
            json_util.dumps(params, json_options=json_util.CANONICAL_JSON_OPTIONS)
        )
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def message(line: bytes) -> Message:
    """Return what a line says. Raises `AdapterProtocolError`."""
    document = _parsed(line)
    try:
        if "event" in document:
            event = document["event"]
            at = _seconds(event.get("at"))
            return Observed(_whole(event["client"]), _text(event["kind"]), dict(event["fields"]), at)
        if "callback" in document:
            return CallbackDue(_whole(document["callback"]))
        return _answer(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AdapterProtocolError(
            f"the adapter wrote a message with a wrong part ({error!r}): {shown(line)}"
        ) from None


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        document = json_util.loads(line.decode(), json_options=_READ)
    except Exception as error:
        raise AdapterProtocolError(f"the adapter wrote a line that is no message: {shown(line)}") from error
    if not isinstance(document, dict):
        raise AdapterProtocolError(f"the adapter wrote a line that is no message: {shown(line)}")
    return document


def shown(line: bytes) -> str:
    """Return a line as a reason quotes it."""
    text = line.decode(errors="replace").rstrip("\n")
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return int(value)


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise TypeError(f"{value!r} is not a number of seconds")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _answer(document: Mapping[str, Any]) -> Answer:
    number, clock = _whole(document["id"]), _seconds(document.get("clock"))
    if "error" in document:
        return Answer(number, error=error_report(document["error"]), clock=clock)
    if "unsupported" in document:
        return Answer(number, unsupported=_text(document["unsupported"]), clock=clock)
    if document.get("entity") is True:
        return Answer(number, entity=True, clock=clock)
    return Answer(number, document["result"], clock=clock)


def error_report(error: Mapping[str, Any]) -> ErrorReport:
    """Return a driver's error. Raises `KeyError`, `TypeError` or `ValueError` for a part that is wrong."""
    parts = dict(error)
    fields: dict[str, Any] = {"message": _text(parts.pop("message"))}
    for name, (field, convert) in _ERROR_PARTS.items():
        if parts.get(name) is not None:
            fields[field] = convert(parts[name])
        parts.pop(name, None)
    if parts:
        raise ValueError(f"an error has no {', '.join(parts)}")
    return ErrorReport(**fields)


_ERROR_PARTS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "isClientError": ("is_client_error", _flag),
    "isTimeoutError": ("is_timeout_error", _flag),
    "code": ("code", _whole),
    "codeName": ("code_name", _text),
    "labels": ("labels", lambda labels: frozenset(map(_text, _list(labels)))),
    "response": ("response", dict),
    "result": ("result", lambda value: value),
    "writeErrors": ("write_errors", lambda errors: {int(index): one for index, one in errors.items()}),
    "writeConcernErrors": ("write_concern_errors", _list),
    "type": ("type", _text),
}


def error_document(report: ErrorReport) -> dict[str, Any]:
    """Return a driver's error as `error_report` reads it; what it does not have is left out."""
    document: dict[str, Any] = {"message": report.message}
    for name, (field, _) in _ERROR_PARTS.items():
        value = getattr(report, field)
        if value not in (None, False, frozenset()):
            document[name] = sorted(value) if name == "labels" else value
    if report.write_errors is not None:
        document["writeErrors"] = {str(index): one for index, one in report.write_errors.items()}
    return document


def hello(result: Any) -> Hello:
    """Return an adapter's introduction. Raises `AdapterProtocolError`, also for another version."""
    try:
        if result["protocol"] != PROTOCOL:
            raise AdapterProtocolError(
                f"the adapter speaks protocol {result['protocol']}, this program {PROTOCOL}"
            )
        features = frozenset(_feature(name) for name in result["features"])
        return Hello(_text(result["name"]), features, _text(result.get("edition", "")))
    except (KeyError, TypeError, AttributeError) as error:
        raise AdapterProtocolError(
            f"the adapter's answer to hello lacks a part or has a wrong one: {error!r}"
        ) from None


def _feature(name: str) -> Feature:
    if name not in Feature.__members__ or name == Feature.VIRTUAL_TIME.name:
        known = ", ".join(feature for feature in Feature.__members__ if feature != Feature.VIRTUAL_TIME.name)
        raise AdapterProtocolError(
            f"the adapter declares {name}, which is no feature that it can have: {known}"
        )
    return Feature[name]


def session_state(result: Any) -> SessionState:
    """Return the state of a session. Raises `AdapterProtocolError`."""
    try:
        return SessionState(
            result["lsid"],
            bool(result.get("dirty", False)),
            result.get("pinned"),
            _text(result.get("transaction", "none")),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise AdapterProtocolError(f"the adapter's answer to session is not one: {error!r}") from None


def topology(result: Any) -> TopologyReport:
    """Return what a client knows of its deployment. Raises `AdapterProtocolError`."""
    try:
        return TopologyReport(_text(result["type"]), result.get("primary"))
    except (KeyError, TypeError, AttributeError) as error:
        raise AdapterProtocolError(f"the adapter's answer to topology is not one: {error!r}") from None


def retry_tokens(result: Any) -> float | None:
    """Return a client's retry tokens, None for a client without a bucket. Raises `AdapterProtocolError`."""
    if result is not None and (isinstance(result, bool) or not isinstance(result, (int, float))):
        raise AdapterProtocolError(
            f"the adapter's answer to retryTokens is neither a number nor null: {result!r}"
        )
    return result
