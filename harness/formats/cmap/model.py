"""A case of the format, and what it expects of events and errors.

A file is one case: options of a pool, operations in named threads, and the events that must come in this
order, apart from the kinds under `ignore`. Expected values may be 42 or "42", which stands for anything that
is there. Events may follow the last expected one. Ours is the key `pushbackd` of an event, with bounds for
its duration.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, Any, Final

from harness.formats.case import DRIVER, failure
from harness.unified.build import requirement
from harness.unified.errors import ScenarioError, SeveralMistakesError
from harness.unified.matching.comparison import Comparison, align
from harness.unified.matching.matcher import Mismatch
from harness.unified.model import ExpectedEvent, ExpectedLog, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.adapters.base import ErrorReport, Event
    from harness.formats.case import Notes
    from harness.unified.model import Requirement
    from harness.unified.outcome import CaseFailedError
    from mongowire.documents.marks import Marked

ANYTHING: Final = (42, "42")
"""What stands for any value that is present."""

OURS: Final = "pushbackd"
"""The key of what the public format does not have."""

EXACT_MS: Final = 1e-3
ROUNDING_MS: Final = 2.0
"""By how much a duration may be too short in virtual and in real time: drivers count whole milliseconds."""

# An option of the test, not of a pool: it cannot stand in a URI.
_INTERVAL: Final = "backgroundThreadIntervalMS"

_FIELDS: Final[Mapping[str, str]] = {"duration": "durationMS"}
"""What a field of an event is called elsewhere."""

_KEYS: Final[Mapping[str, str]] = {name: key for key, name in _FIELDS.items()}


@dataclass(frozen=True, slots=True)
class CmapCase:
    """One file, which is valid: a file is a case."""

    document: Marked

    @classmethod
    def of(cls, document: Marked) -> CmapCase:
        """Return the case. Raises ScenarioError for what it names but never makes, and for what cannot be."""
        found = [
            # What a schema cannot say. All of it is told at once.
            *_mistaken_sizes(document),
            *_mistaken_names(document["operations"].items()),
            *_mistaken_ranges(document["events"].items()),
        ]
        if found:
            raise SeveralMistakesError.of(found)
        case = cls(document)
        if not (case.is_unit or case.in_background):
            interval = document["poolOptions"]["backgroundThreadIntervalMS"]
            why = "the background runs of a pool with a server cannot be switched off"
            raise ScenarioError(why, location=interval.location, fix="say style: unit")
        return case

    @property
    def is_unit(self) -> bool:
        """Whether the case needs no server."""
        return bool(self.document.value["style"] == "unit")

    @property
    def operations(self) -> Sequence[Marked]:
        """What is done, in order."""
        return self.document["operations"].items()

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """Where the case applies (`runOn`)."""
        run_on = self.document.get("runOn")
        return tuple(map(requirement, run_on.items())) if run_on else ()

    @property
    def fail_point(self) -> Mapping[str, Any] | None:
        """What the server is to do, as a command."""
        command: Mapping[str, Any] | None = self.document.value.get("failPoint")
        return command

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the pool under their URI names, without those of the test itself."""
        return {name: value for name, value in self._raw_options.items() if name != _INTERVAL}

    @property
    def background_seconds(self) -> float | None:
        """The time between two background runs: negative for none, and None where the case does not say."""
        interval = self._raw_options.get(_INTERVAL)
        return None if interval is None else interval / 1000

    @property
    def in_background(self) -> bool:
        """Whether background runs happen; a positive interval is only the longest that one may take."""
        return self.background_seconds is None or self.background_seconds > 0

    @property
    def seconds(self) -> float:
        """How long the case waits by its own account."""
        waits = sum(operation.value.get("ms", 0) for operation in self.operations)
        blocks = (self.fail_point or {}).get("data", {}).get("blockTimeMS", 0)
        return float(waits + blocks) / 1000

    @property
    def _raw_options(self) -> Mapping[str, Any]:
        options: Mapping[str, Any] = self.document.value.get("poolOptions", {})
        return options

    def judge(self, notes: Notes, error: ErrorReport | None, *, exactly: bool = True) -> None:
        """Compare what happened with what is expected. Raises CaseFailedError.

        Events that come after the last one expected do not count. Where time is not `exactly` what the pool
        is told, durations have no upper bound.
        """
        expected = tuple(map(_expected, self.document["events"].items()))
        ignored = self.document.value.get("ignore", ())
        seen = [event for event in notes.account.heard()[DRIVER] if name_of(event) not in ignored]
        differ = partial(_differ, exactly=exactly)
        # Aligned for whoever reads the timeline; judged by the first pair that is not the same.
        pairs = align(expected, seen, differ, ignore_extra=False)
        same = takewhile(lambda pair: pair.verdict == "same", pairs)
        index = min(sum(1 for _ in same), len(expected))
        diverges = index < len(expected)
        if diverges or notes.account.compares:
            notes.comparisons.append(Comparison(DRIVER, "cmap", pairs if diverges else pairs[:index]))
        self._judge_error(error)
        if diverges:
            raise _divergence(self.document["events"][index], index, seen, differ)

    def _judge_error(self, error: ErrorReport | None) -> None:
        expected = self.document.get("error")
        told = None if error is None else f"{error.type or 'an error'}: {error.message}"
        if expected is None:
            if error is not None:
                why = f"expected no error, got {told}"
                raise failure(self.document["operations"], why, actual=told)
            return
        if error is None or error.type != expected.value["type"]:
            why = f"expected {expected.value['type']}, got {told}"
            raise failure(expected, why, wanted=expected.value, actual=told)
        # The specification's text and its tests differ in the case of one letter of these messages, and a
        # driver may add what its pool is set to.
        message = expected.value.get("message", error.message)
        if message.lower() not in error.message.lower():
            why = f"expected the message {message!r}, got {error.message!r}"
            raise failure(expected["message"], why, wanted=message, actual=error.message)


def _mistaken_sizes(document: Marked) -> Iterator[ScenarioError]:
    options = document.value.get("poolOptions", {})
    least, most = options.get("minPoolSize", 0), options.get("maxPoolSize", 0)
    if most and least > most:
        why = f"minPoolSize {least} is above maxPoolSize {most}"
        place = document["poolOptions"]["minPoolSize"].location
        yield ScenarioError(why, location=place, fix="no pool can have both")


def _mistaken_names(operations: Sequence[Marked]) -> Iterator[ScenarioError]:
    threads: set[str] = set()
    labels: set[str] = set()
    for operation in operations:
        value = operation.value
        if value["name"] == "start":
            threads.add(value["target"])
        user = "target" if value["name"] == "waitForThread" else "thread"
        if user in value and value[user] not in threads:
            yield _unknown(operation[user], "thread", "start it before")
        # Names are known from where they are given on: a thread must be started, and a connection checked
        # out, before.
        labels.update(filter(None, (value.get("label"),)))
        if "connection" in value and value["connection"] not in labels:
            yield _unknown(operation["connection"], "connection", "give it as the label of a checkOut before")


def _mistaken_ranges(events: Sequence[Marked]) -> Iterator[ScenarioError]:
    for event in events:
        bounds = event.value.get(OURS, {}).get("durationMS", {})
        if bounds.get("min", 0) > bounds.get("max", inf):
            why = f"min {bounds['min']} is above max {bounds['max']}"
            yield ScenarioError(why, location=event[OURS]["durationMS"].location, fix="exchange the two")


def _unknown(name: Marked, what: str, fix: str) -> ScenarioError:
    return ScenarioError(f"there is no {what} {name.value!r}", location=name.location, fix=fix)


def operation_of(item: Marked) -> Operation:
    """Return what is done, as a timeline tells it."""
    about = ("name", "thread")
    arguments = {name: value for name, value in item.value.items() if name not in about}
    return Operation(item.value["name"], item.value.get("thread", "main"), arguments, item.location)


def name_of(event: Event) -> str:
    """Return the name of an event in the format.

    The format writes `ConnectionCheckedOut` and `ConnectionPoolReady` for what adapters call
    `connectionCheckedOutEvent` and `poolReadyEvent`.
    """
    name = event.kind.removesuffix("Event")
    return f"Connection{name[0].upper()}{name[1:]}" if name.startswith("pool") else name[0].upper() + name[1:]


def _expected(event: Marked) -> ExpectedEvent:
    """Return an expected event under the names of the unified test format."""
    name = event.value["type"]
    short = name.removeprefix("Connection") if name.startswith("ConnectionPool") else name
    body = {_FIELDS.get(key, key): value for key, value in event.value.items() if key not in ("type", OURS)}
    body.update(event.value.get(OURS, {}))
    return ExpectedEvent(f"{short[0].lower()}{short[1:]}Event", body, event.location)


def _differ(expected: ExpectedEvent | ExpectedLog, event: Event, *, exactly: bool) -> Mismatch | None:
    """Return how an event differs; of one of another kind nothing else is compared."""
    assert isinstance(expected, ExpectedEvent)
    if event.kind != expected.kind:
        return Mismatch("", expected.kind, event.kind, f"expected {expected.kind}, got {event.kind}")
    for name, value in expected.body.items():
        actual = event.fields.get(name)
        if name == "durationMS" and isinstance(value, dict):
            if (why := _out_of_bounds(value, actual, exactly=exactly)) is not None:
                return Mismatch(name, value, actual, why)
        elif not matches(value, actual):
            return Mismatch(name, value, actual, f"expected {value!r}, got {actual!r}")
    return None


def _out_of_bounds(bounds: Mapping[str, float], actual: Any, *, exactly: bool) -> str | None:
    """Return how a duration breaks its bounds, in milliseconds, or None.

    Clocks are rounded: in real time a little less than the least is enough, and in virtual time what a sum of
    binary fractions may lose.
    """
    least, most = bounds["min"], bounds.get("max", inf) if exactly else inf
    tolerance = EXACT_MS if exactly else ROUNDING_MS
    if isinstance(actual, (int, float)) and least - tolerance <= actual <= most + tolerance:
        return None
    wanted = f"at least {least:g}" if most == inf else f"{least:g} to {most:g}"
    return f"expected a duration of {wanted} ms, got {actual!r}"


def _divergence(
    expected: Marked,
    index: int,
    seen: Sequence[Event],
    differ: Callable[[ExpectedEvent, Event], Mismatch | None],
) -> CaseFailedError:
    """Return the error for the first event that is not the one expected."""
    name = expected.value["type"]
    if index >= len(seen):
        names = ", ".join(map(name_of, seen)) or "none"
        why = f"expected {name} as event {index}, got only: {names}"
        return failure(expected, why, wanted=expected.value)
    event = seen[index]
    found = differ(_expected(expected), event)
    if found is None or not found.path:
        why = f"expected {name} as event {index}, got {name_of(event)}"
        return failure(expected, why, wanted=expected.value, actual={"type": name_of(event), **event.fields})
    ours = expected.get(OURS)
    bounded = found.path == "durationMS" and ours is not None
    field = ours[found.path] if ours and bounded else expected[_KEYS.get(found.path, found.path)]
    return failure(field, found.why, wanted=found.expected, actual=found.actual)


def matches(expected: Any, actual: Any) -> bool:
    """Return whether a value matches: documents may hold more, lists may be longer than expected."""
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(
            matches(value, actual.get(name)) for name, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(actual, list) and len(actual) >= len(expected) and all(map(matches, expected, actual))
        )
    if expected in ANYTHING and not isinstance(expected, bool):
        return actual is not None
    return bool(expected == actual) and isinstance(expected, bool) == isinstance(actual, bool)
