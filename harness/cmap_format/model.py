"""A case of the format, and what it expects of events and errors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from driver.cmap.options import PoolOptions
from harness.formats.case import DRIVER, failure
from harness.unified.build import requirement
from harness.unified.comparison import Comparison, align
from harness.unified.errors import ScenarioError
from harness.unified.model import ExpectedEvent, ExpectedLog, Operation
from harness.unified.outcome import Mismatch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.adapters.base import Event
    from harness.formats.case import Notes
    from harness.unified.marks import Marked
    from harness.unified.model import Requirement
    from harness.unified.outcome import CaseFailedError

ANYTHING: Final = (42, "42")
"""What stands for any value that is present."""

_OPTIONS: Final[Mapping[str, tuple[str, float]]] = {
    "maxPoolSize": ("max_size", 1),
    "minPoolSize": ("min_size", 1),
    "maxConnecting": ("max_connecting", 1),
    "maxIdleTimeMS": ("max_idle", 0.001),
    "waitQueueTimeoutMS": ("wait_queue_timeout", 0.001),
}
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
        _check_names(document["operations"].items())
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
    def options(self) -> PoolOptions:
        """The options of the pool, without those of the test itself."""
        given = {
            _OPTIONS[name][0]: value * _OPTIONS[name][1]
            for name, value in self._raw_options.items()
            if name in _OPTIONS
        }
        return PoolOptions(**given)

    @property
    def app_name(self) -> str | None:
        """The name that the fail point of the case waits for."""
        return self._raw_options.get("appName")

    @property
    def in_background(self) -> bool:
        """Whether background runs happen; a positive interval is only the longest that one may take."""
        return bool(self._raw_options.get("backgroundThreadIntervalMS", 1) > 0)

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

    def judge(self, notes: Notes, error: BaseException | None) -> None:
        """Compare what happened with what is expected. Raises CaseFailedError.

        Events that come after the last one expected do not count.
        """
        expected = tuple(map(_expected, self.document["events"].items()))
        ignored = self.document.value.get("ignore", ())
        seen = [event for event in notes.account.heard()[DRIVER] if name_of(event) not in ignored]
        pairs = align(expected, seen, _differ, ignore_extra=False)
        same = takewhile(lambda pair: pair.verdict == "same", pairs)
        place = min(sum(1 for _ in same), len(expected))
        diverges = place < len(expected)
        if diverges or notes.account.compares:
            notes.comparisons.append(Comparison(DRIVER, "cmap", pairs if diverges else pairs[:place]))
        self._judge_error(error)
        if diverges:
            raise _divergence(self.document["events"][place], place, seen)

    def _judge_error(self, error: BaseException | None) -> None:
        expected = self.document.get("error")
        if expected is None:
            if error is not None:
                why = f"expected no error, got {error!r}"
                raise failure(self.document["operations"], why, actual=repr(error)) from error
            return
        if type(error).__name__ != expected.value["type"]:
            why = f"expected {expected.value['type']}, got {error!r}"
            raise failure(expected, why, wanted=expected.value, actual=repr(error)) from error
        # The specification's text and its tests differ in the case of one letter of these messages.
        message = expected.value.get("message", str(error))
        if str(error).lower() != message.lower():
            why = f"expected the message {message!r}, got {str(error)!r}"
            raise failure(expected["message"], why, wanted=message, actual=str(error))


def _check_names(operations: Sequence[Marked]) -> None:
    threads: set[str] = set()
    labels: set[str] = set()
    for operation in operations:
        value = operation.value
        if value["name"] == "start":
            threads.add(value["target"])
        user = "target" if value["name"] == "waitForThread" else "thread"
        if user in value and value[user] not in threads:
            raise _unknown(operation[user], "thread", "start it before")
        labels.update(filter(None, (value.get("label"),)))
        if "connection" in value and value["connection"] not in labels:
            raise _unknown(operation["connection"], "connection", "give it as the label of a checkOut before")


def _unknown(name: Marked, what: str, fix: str) -> ScenarioError:
    return ScenarioError(f"there is no {what} {name.value!r}", location=name.location, fix=fix)


def operation_of(item: Marked) -> Operation:
    """Return what is done, as a timeline tells it."""
    about = ("name", "thread")
    arguments = {name: value for name, value in item.value.items() if name not in about}
    return Operation(item.value["name"], item.value.get("thread", "main"), arguments, item.location)


def name_of(event: Event) -> str:
    """Return the name of an event in the format."""
    name = event.kind.removesuffix("Event")
    return f"Connection{name[0].upper()}{name[1:]}" if name.startswith("pool") else name[0].upper() + name[1:]


def _expected(event: Marked) -> ExpectedEvent:
    """Return an expected event under the names of the unified test format."""
    name = event.value["type"]
    short = name.removeprefix("Connection") if name.startswith("ConnectionPool") else name
    body = {_FIELDS.get(key, key): value for key, value in event.value.items() if key != "type"}
    return ExpectedEvent(f"{short[0].lower()}{short[1:]}Event", body, event.location)


def _differ(expected: ExpectedEvent | ExpectedLog, event: Event) -> Mismatch | None:
    """Return how an event differs; of one of another kind nothing else is compared."""
    assert isinstance(expected, ExpectedEvent)
    if event.kind != expected.kind:
        return Mismatch("", expected.kind, event.kind, f"expected {expected.kind}, got {event.kind}")
    for name, value in expected.body.items():
        actual = event.fields.get(name)
        if not matches(value, actual):
            return Mismatch(name, value, actual, f"expected {value!r}, got {actual!r}")
    return None


def _divergence(expected: Marked, place: int, seen: Sequence[Event]) -> CaseFailedError:
    """Return the error for the first event that is not the one expected."""
    name = expected.value["type"]
    if place >= len(seen):
        names = ", ".join(map(name_of, seen)) or "none"
        why = f"expected {name} as event {place}, got only: {names}"
        return failure(expected, why, wanted=expected.value)
    event = seen[place]
    found = _differ(_expected(expected), event)
    if found is None or not found.path:
        why = f"expected {name} as event {place}, got {name_of(event)}"
        return failure(expected, why, wanted=expected.value, actual={"type": name_of(event), **event.fields})
    field = expected[_KEYS.get(found.path, found.path)]
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
