"""The lines that runner and adapter exchange: requests out; answers, events and callbacks in.

A line is one JSON document. Its values are in canonical extended JSON on the way out, and in any form of it
on the way in. docs/WRITING-ADAPTERS.md is this protocol for those who implement it.

Reading is in two steps, because a wrong line has to be explained to whoever writes the adapter: as plain JSON
it is held against `message_schema`, and only then are its extended values read. What comes out is one of the
three `Message` types, or `AdapterProtocolError` with the path of the mistake. `child` writes and reads lines
(and so do the contract checks of `harness.testing`); `command` reads results with the functions that are
named after methods.

The second part of the file keeps the dialogue itself, for `-vv` and `--trace-adapter`.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from bson import json_util

from harness.adapters.base import ErrorReport, Feature, SessionState, TopologyReport
from harness.adapters.message_schema import flaw_of, flaw_of_result, flaw_of_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


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

# Dates without a time zone, as BSON gives them by default: a date with one never equals a date without.
_READ: Final[json_util.JSONOptions] = json_util.JSONOptions(tz_aware=False, tzinfo=None)
_SHOWN: Final = 200
"""How many characters of a line that is no message are shown."""


class AdapterProtocolError(Exception):
    """An adapter said something that the protocol does not have; the text says what.

    `number` is the request that it was to answer, None for what answers none.
    """

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number


@dataclass(frozen=True, slots=True)
class Hello:
    """The introduction of an adapter. `edition` is empty when it names none.

    `driver` is the driver's own name and its version (`nodejs 7.9.0`), empty where the adapter does not tell.
    """

    name: str
    features: frozenset[Feature]
    edition: str = ""
    driver: str = ""


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
    """Return what a line says. Raises `AdapterProtocolError`, with the path of what is wrong."""
    document = _parsed(line)
    if "event" in document:
        event = document["event"]
        at = event.get("at")
        return Observed(event["client"], event["kind"], event["fields"], None if at is None else float(at))
    if "callback" in document:
        return CallbackDue(int(document["callback"]))
    number, clock = int(document["id"]), document.get("clock")
    clock = None if clock is None else float(clock)
    if "error" in document:
        return Answer(number, error=error_report(document["error"]), clock=clock)
    if "unsupported" in document:
        return Answer(number, unsupported=document["unsupported"], clock=clock)
    if "entity" in document:
        return Answer(number, entity=True, clock=clock)
    return Answer(number, document["result"], clock=clock)


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        # Python's reader takes `NaN` and `Infinity` for numbers; readers of other languages do not.
        raw = json.loads(line.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise AdapterProtocolError(
            f"the adapter wrote a line that is no message: {shown(line)} ({error})"
        ) from error
    if not isinstance(raw, dict):
        raise AdapterProtocolError(f"the adapter wrote a line that is no message: {shown(line)}")
    if flaw := flaw_of(raw):
        raise _wrong(flaw, line, raw)
    try:
        document: dict[str, Any] = json_util.loads(line.decode(), json_options=_READ)
    except Exception as error:
        raise _wrong(flaw_of_values(raw) or str(error), line, raw) from error
    return document


def _wrong(flaw: str, line: bytes, raw: Mapping[str, Any]) -> AdapterProtocolError:
    return AdapterProtocolError(f"the adapter wrote a wrong message: {flaw}: {shown(line)}", _id_of(raw))


def _refuse_constant(name: str) -> None:
    raise ValueError(f'{name} is no JSON: a number that is none is {{"$numberDouble": "{name}"}}')


def _id_of(raw: Mapping[str, Any]) -> int | None:
    """Return the request that a wrong message was to answer, if it says so."""
    # Written by a program with a mistake in it: a number may be plain, in extended JSON, or something else.
    number = raw.get("id")
    if isinstance(number, dict):
        number = next(iter(number.values()), None)
    try:
        return int(number)  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError):
        return None


def shown(line: bytes) -> str:
    """Return a line as a reason quotes it."""
    text = line.decode(errors="replace").rstrip("\n")
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def error_report(error: Mapping[str, Any]) -> ErrorReport:
    """Return a driver's error, as the schema of messages has it."""
    fields: dict[str, Any] = {"message": error["message"]}
    for name, (field, convert) in _ERROR_PARTS.items():
        if error.get(name) is not None:
            fields[field] = convert(error[name])
    return ErrorReport(**fields)


# Both directions go by this one table, so that an adapter in Python says what this side reads.
_ERROR_PARTS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "isClientError": ("is_client_error", bool),
    "isTimeoutError": ("is_timeout_error", bool),
    "code": ("code", int),
    "codeName": ("code_name", str),
    "labels": ("labels", frozenset),
    "response": ("response", dict),
    "result": ("result", lambda value: value),
    "writeErrors": ("write_errors", lambda errors: {int(index): one for index, one in errors.items()}),
    "writeConcernErrors": ("write_concern_errors", list),
    "type": ("type", str),
    "address": ("address", str),
}


def error_document(report: ErrorReport) -> dict[str, Any]:
    """Return a driver's error as `error_report` reads it; what it does not have is left out."""
    document: dict[str, Any] = {"message": report.message}
    for name, (field, _) in _ERROR_PARTS.items():
        value = getattr(report, field)
        # `writeErrors` come by index, and extended JSON has texts as keys: they are written below, in place
        # of these.
        if value not in (None, False, frozenset()):
            document[name] = sorted(value) if name == "labels" else value
    if report.write_errors is not None:
        document["writeErrors"] = {str(index): one for index, one in report.write_errors.items()}
    return document


def hello(result: Any) -> Hello:
    """Return an adapter's introduction. Raises `AdapterProtocolError`, also for another version."""
    _check("hello", result)
    if int(result["protocol"]) != PROTOCOL:
        raise AdapterProtocolError(
            f"the adapter speaks protocol {result['protocol']}, this program {PROTOCOL}"
        )
    features = frozenset(Feature[name] for name in result["features"])
    driver = result.get("driver")
    told = f"{driver['name']} {driver['version']}" if driver else ""
    return Hello(result["name"], features, result.get("edition", ""), told)


def session_state(result: Any) -> SessionState:
    """Return the state of a session. Raises `AdapterProtocolError`."""
    _check("session", result)
    return SessionState(
        result["lsid"], result.get("dirty", False), result.get("pinned"), result.get("transaction", "none")
    )


def topology(result: Any) -> TopologyReport:
    """Return what a client knows of its deployment. Raises `AdapterProtocolError`."""
    _check("topology", result)
    return TopologyReport(result["type"], result.get("primary"))


def retry_tokens(result: Any) -> float | None:
    """Return a client's retry tokens, None for a client without a bucket. Raises `AdapterProtocolError`."""
    _check("retryTokens", result)
    tokens: float | None = result
    return tokens


def _check(method: str, result: Any) -> None:
    """Refuse a result that is not what a request returns."""
    if flaw := flaw_of_result(method, result):
        raise AdapterProtocolError(f"the adapter's answer to {method}: result: {flaw}")


# The dialogue of runner and adapter in one case: kept for its timeline, and written to a file at once.


REQUEST: Final = "→"
ANSWER: Final = "←"
"""The arrows of lines to the adapter and from it."""


class DialogueLine(NamedTuple):
    """A line with the instant of the deployment's clock at which it was written or read."""

    at: float
    arrow: str
    text: str


class AdapterDialogue:
    """The dialogue of one case. `trace` is a file that processes of one run share; None for no such file."""

    def __init__(self, about: str, *, keeps: bool = False, trace: Path | None = None) -> None:
        self.lines: list[DialogueLine] = []
        self._keeps = keeps
        self._trace = trace
        self._write(f"{os.getpid()} {about}")

    def hear(self, arrow: str, line: bytes, at: float) -> None:
        """Take a line, as it is on the pipe. A file that cannot be written on ends early."""
        text = line.decode(errors="replace").rstrip("\n")
        if self._keeps:
            self.lines.append(DialogueLine(at, arrow, text))
        self._write(f"{os.getpid()} {at:.6f} {arrow} {text}")

    def _write(self, text: str) -> None:
        """Append a line by itself, so that those of several processes stay whole."""
        if self._trace is not None:
            # Unbuffered and in one write: `O_APPEND` puts it behind the lines of other processes, and the
            # last words before a kill are in the file.
            with suppress(OSError), self._trace.open("ab", buffering=0) as file:
                file.write(f"{text}\n".encode())
