"""The grammar of triggers: instants, numbers of requests, and conditions on what is measured.

at: 5s                            an instant, from the start of the scenario
after: 100 requests               when so many have been answered since the start
after: 3 insert requests          the same, of one command
when: connections > 50            when a condition becomes true, for the first time
when: requests/s >= 200 and primary == node1
every: 2s | 100 requests          again and again
for: 10s | 50 requests            how long an effect lasts
until: 30s | 500 requests | connections < 10
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.deployment.records.events import CommandFinished, ConnectionAccepted, ConnectionClosed
from mongowire.documents.arguments import duration
from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from fakeserver.deployment.records.journal import Record


# Readings that triggers compare: numbers of requests, rates, connections, the primary.


UNCOUNTED: Final = frozenset(
    {
        *("hello", "isMaster", "ismaster", "saslStart", "saslContinue", "authenticate", "logout", "getnonce"),
        *("endSessions", "pushbackd", "configureFailPoint"),
    }
)
"""Commands that are no requests of an application: handshakes, monitoring, authentication, control.

Their number depends on time and on the driver, so no trigger may depend on it.
"""

_REJECTED: Final = frozenset({462, 433})
_WINDOW: Final = 1.0


@dataclass(slots=True)
class Readings:
    """The quantities of conditions (`triggers.QUANTITIES`).

    The records of the journal tell of requests and connections; the rest is set by who knows.
    """

    requests: int = 0
    errors: int = 0
    rejections: int = 0
    connections: int = 0
    """The connections by the records of the journal, which tell of an end before it is over."""
    held: float = math.inf
    """The connections that the servers hold, those that are about to end among them."""
    queued: int = 0
    primary: str | None = None
    by_command: Counter[str] = field(default_factory=Counter)
    now: float = 0.0
    _recent: dict[str, deque[float]] = field(
        default_factory=lambda: {name: deque() for name in ("requests", "errors", "rejections")}
    )

    def note(self, records: Iterable[Record]) -> None:
        """Take records of the journal into account."""
        for record in records:
            event = record.event
            if isinstance(event, ConnectionAccepted):
                self.connections += 1
            elif isinstance(event, ConnectionClosed):
                self.connections -= 1
            elif isinstance(event, CommandFinished) and event.name not in UNCOUNTED:
                self.by_command[event.name] += 1
                kinds = ["requests"]
                if event.outcome != "ok":
                    kinds.append("errors")
                if event.outcome in _REJECTED:
                    kinds.append("rejections")
                for kind in kinds:
                    setattr(self, kind, getattr(self, kind) + 1)
                    self._recent[kind].append(record.at)
                    self._forget(kind, record.at)

    def answered(self, command: str = "") -> int:
        """Return the number of requests answered, of one command where it is named."""
        return self.by_command[command] if command else self.requests

    def of(self, quantity: str) -> Any:
        """Return a quantity by its name in conditions."""
        name, per, _ = quantity.partition("/")
        if name == "connections":
            return min(self.connections, self.held)
        if not per:
            return getattr(self, name)
        self._forget(name, self.now)
        return len(self._recent[name])

    def _forget(self, kind: str, now: float) -> None:
        recent = self._recent[kind]
        while recent and recent[0] <= now - _WINDOW:
            recent.popleft()


NO_PRIMARY: Final = "none"
"""What `primary` is compared with while there is none."""


@dataclass(frozen=True, slots=True)
class Instant:
    """Seconds: from the start of the scenario, or, of a period, from its beginning."""

    seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:g}s"


@dataclass(frozen=True, slots=True)
class AnsweredRequests:
    """A number of requests that have been answered; of one command, where it is named."""

    count: int
    command: str = ""

    def __str__(self) -> str:
        return f"{self.count} {self.command} requests".replace("  ", " ")


@dataclass(frozen=True, slots=True)
class QuantityComparison:
    """A quantity, an operator and a value."""

    quantity: str
    operator: str
    value: float | str

    def __str__(self) -> str:
        value = self.value if isinstance(self.value, str) else f"{self.value:g}"
        return f"{self.quantity} {self.operator} {value}"


@dataclass(frozen=True, slots=True)
class Condition:
    """Comparisons that must all be true at once."""

    comparisons: tuple[QuantityComparison, ...]

    def __str__(self) -> str:
        return " and ".join(map(str, self.comparisons))

    def holds(self, readings: Readings) -> bool:
        """Return whether it is true of what is measured now."""
        for each in self.comparisons:
            measured: Any = readings.of(each.quantity)
            if each.quantity == "primary":
                measured = measured or NO_PRIMARY
            if not _OPERATORS[each.operator](measured, each.value):
                return False
        return True

    @property
    def quantities(self) -> frozenset[str]:
        """What must be measured for it."""
        return frozenset(each.quantity for each in self.comparisons)


Trigger: TypeAlias = Instant | AnsweredRequests | Condition


def reading_of(trigger: Trigger, readings: Readings, elapsed: float) -> str:
    """Return what is measured of a trigger that is waited for: `37 of 100 insert requests came`."""
    if isinstance(trigger, Instant):
        return f"{elapsed:.3g} s of {trigger.seconds:g} s passed"
    if isinstance(trigger, AnsweredRequests):
        came = readings.answered(trigger.command)
        return f"{came} of {trigger} came"
    measured = {name: readings.of(name) for name in sorted(trigger.quantities)}
    return ", ".join(
        f"{name} is {NO_PRIMARY if value is None else value}" for name, value in measured.items()
    )


QUANTITIES: Final[Mapping[str, str]] = {
    "connections": "connections that are open, of all servers",
    "requests": "requests answered since the start",
    "errors": "of these, those answered with an error, or not at all",
    "rejections": "of these, those that admission control rejected",
    "requests/s": "requests answered in the last second",
    "errors/s": "of these, those answered with an error, or not at all",
    "rejections/s": "of these, those that admission control rejected",
    "queued": "requests that wait in admission control now",
    "primary": "the name of the primary (`node1`), or `none`",
}
"""The quantities of conditions, with a line of help for each."""

POLLED: Final = frozenset(name for name in QUANTITIES if name.endswith("/s") or name == "queued")
"""Quantities that change while nothing is recorded."""

_SYNONYMS: Final = {"open connections": "connections", "requests per second": "requests/s"}
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_COMPARISON: Final = re.compile(r"(?P<quantity>[A-Za-z/ ]+?)\s*(?P<operator>[<>=!]+)\s*(?P<value>\S+)")
_REQUESTS: Final = re.compile(r"(?P<count>\d+)(?:\s+(?P<command>\w+))?\s+requests?")


def instant(value: Any) -> Instant:
    """Return an instant. Raises `ControlError`."""
    return Instant(duration(value))


def requests(value: Any, commands: Collection[str]) -> AnsweredRequests:
    """Return a number of requests, of one of these commands where it names one. Raises `ControlError`."""
    found = _REQUESTS.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ControlError(
            f"{value!r} is no number of requests; write '100 requests', or '3 insert requests'"
        )
    command = found["command"] or ""
    if command and command not in commands:
        raise unknown("command", command, commands)
    if not int(found["count"]):
        raise ControlError("0 requests have been answered before the start; write 'at: 0s'")
    return AnsweredRequests(int(found["count"]), command)


def condition(value: Any, servers: Collection[str]) -> Condition:
    """Return a condition; `servers` are the names that the primary may have. Raises `ControlError`."""
    if not isinstance(value, str) or not value.strip():
        raise ControlError(f"{value!r} is no condition; write one like 'connections > 50'")
    return Condition(tuple(_comparison(part.strip(), servers) for part in re.split(r"\s+and\s+", value)))


def period(value: Any, commands: Collection[str]) -> Instant | AnsweredRequests:
    """Return a duration or a number of requests. Raises `ControlError`."""
    says_requests = isinstance(value, str) and value.strip().split(" ")[-1].startswith("req")
    found = requests(value, commands) if says_requests else instant(value)
    if found == Instant(0):
        raise ControlError("the duration is 0")
    return found


def end(value: Any, commands: Collection[str], servers: Collection[str]) -> Trigger:
    """Return the trigger of `until`, which may be of any kind. Raises `ControlError`."""
    if isinstance(value, str) and re.search("[<>=]", value):
        return condition(value, servers)
    return period(value, commands)


def _comparison(text: str, servers: Collection[str]) -> QuantityComparison:
    found = _COMPARISON.fullmatch(text)
    if found is None:
        raise ControlError(f"{text!r} is no comparison; write one like 'connections > 50'")
    quantity = _SYNONYMS.get(found["quantity"], found["quantity"])
    if quantity not in QUANTITIES:
        raise unknown("quantity", quantity, QUANTITIES)
    sign = found["operator"]
    if sign not in _OPERATORS:
        raise ControlError(f"unknown operator {sign!r}; known are {', '.join(_OPERATORS)}")
    if quantity == "primary":
        value = found["value"]
        if sign not in {"==", "!="}:
            raise ControlError(f"the primary is compared with == or !=, not with {sign}")
        if value != NO_PRIMARY and value not in servers:
            raise unknown("server", value, [*servers, NO_PRIMARY])
        return QuantityComparison("primary", sign, value)
    try:
        return QuantityComparison(quantity, sign, float(found["value"]))
    except ValueError:
        raise ControlError(f"{quantity} is compared with a number, not with {found['value']!r}") from None
