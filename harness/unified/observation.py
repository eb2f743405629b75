"""The events of a client that a scenario sees.

Unified Test Format: Executing a Test. Command monitoring: Security (which commands are sensitive).

Adapters deliver one list of events a client, with log messages and spans among them; these functions pick
from it, and none changes it. `observed`, `logged` and `traced` are read twice: while a case runs, by
operations that wait for events or count them, and at its end, when the runner freezes them. `skipped` cuts
off all three alike. `EventList` does not ask for it: what the format stores is everything of the kinds that
were named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import LOG_MESSAGE, SPAN, Feature
from harness.unified.entities import BSON_PACKAGES, BSON_TYPES
from harness.unified.schema.events import COMMAND_EVENTS, LOG_LEVELS, POOL_EVENTS, SDAM_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from harness.adapters.base import Event
    from harness.unified.entities import ClientEntity
    from mongowire.ports import Clock


KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "command": COMMAND_EVENTS,
    "cmap": POOL_EVENTS,
    "sdam": SDAM_EVENTS,
}
"""The events of each monitor (`eventType`)."""

CHECKED_OUT: Final = "connectionCheckedOutEvent"
CHECKED_IN: Final = "connectionCheckedInEvent"
READY: Final = "connectionReadyEvent"
ALWAYS: Final = frozenset({CHECKED_OUT, CHECKED_IN, READY})
"""Events that the runner itself counts, whether or not the scenario observes them."""

_REPORTED: Final = {Feature.COMMAND_EVENTS: COMMAND_EVENTS, Feature.POOL_EVENTS: POOL_EVENTS}

# In lower case, since the name of a command is compared without its case.
SENSITIVE: Final = frozenset(
    {
        "authenticate",
        "saslstart",
        "saslcontinue",
        "getnonce",
        "createuser",
        "updateuser",
        "copydbgetnonce",
        "copydbsaslstart",
        "copydb",
    }
)
_HELLO: Final = frozenset({"hello", "ismaster"})


def reported(features: Container[Feature]) -> frozenset[str]:
    """Return the events that reports show of every client, whether or not the scenario observes them."""
    return frozenset(kind for feature, kinds in _REPORTED.items() if feature in features for kind in kinds)


def observed(client: ClientEntity) -> tuple[Event, ...]:
    """Return the events that the scenario asked for, without those that it or the format ignores."""
    events = client.read()[client.skipped :]
    # A driver empties the command or the reply of a hello that is sensitive.
    secret = frozenset(
        event.fields.get("requestId")
        for event in (() if client.observe_sensitive else events)
        if "requestId" in event.fields
        and event.fields.get("commandName", "").lower() in _HELLO
        and any(name in event.fields and not event.fields[name] for name in ("command", "reply"))
    )
    return tuple(
        event for event in events if event.kind in client.observed and not _hidden(event, client, secret)
    )


def logged(client: ClientEntity) -> tuple[Event, ...]:
    """Return the log messages that the scenario asked for: of its components, as severe as it says or more.

    Unified Test Format: observeLogMessages.
    """
    return tuple(
        event
        for event in client.read()[client.skipped :]
        if event.kind == LOG_MESSAGE
        and (least := client.observed_logs.get(event.fields["component"])) is not None
        and LOG_LEVELS.index(event.fields["level"]) <= LOG_LEVELS.index(least)
    )


def traced(client: ClientEntity) -> tuple[Event, ...]:
    """Return the spans that have ended, in the order in which they began (observeTracingMessages)."""
    spans = [event for event in client.read()[client.skipped :] if event.kind == SPAN]
    return tuple(sorted(spans, key=lambda span: span.fields["order"]))


def _hidden(event: Event, client: ClientEntity, secret: frozenset[object]) -> bool:
    if event.kind not in COMMAND_EVENTS:
        return False
    name = event.fields.get("commandName", "")
    # Before the question of secrets: an ignored command stays ignored with observeSensitiveCommands.
    if name in client.ignored_commands:
        return True
    if client.observe_sensitive:
        return False
    return name.lower() in SENSITIVE or event.fields.get("requestId") in secret


def checked_out(client: ClientEntity) -> int:
    """Return how many connections are checked out of the client's pools now.

    Counted over all events, skipped ones included: a connection that was checked out before is out still.
    """
    kinds = [event.kind for event in client.read()]
    return kinds.count(CHECKED_OUT) - kinds.count(CHECKED_IN)


# Events that a client collects under a name of the scenario's, for whoever reads the entities at the end.
#
# Unified Test Format: storeEventsAsEntity.


_LEFT_OUT: Final = frozenset({"command", "reply"})
"""Documents of any size, which the format lets a runner leave out."""


def kind_of(name: str) -> str:
    """Return an event's kind from its name in its own specification: there it begins with a capital."""
    return name[0].lower() + name[1:]


@dataclass(frozen=True, slots=True)
class EventList:
    """All events of some kinds that a client has published so far, whatever else is ignored of it."""

    kinds: frozenset[str]
    read: Callable[[], Sequence[Event]]
    clock: Clock

    def documents(self) -> list[dict[str, Any]]:
        """Return each event as a document: its fields, its `name`, and when it was observed."""
        # Events have instants of a clock that starts anywhere; the format asks for seconds since the epoch.
        epoch = self.clock.utc() - self.clock.now()
        return [
            {
                **{name: _as_bson(value) for name, value in event.fields.items() if name not in _LEFT_OUT},
                "name": event.kind[0].upper() + event.kind[1:],
                "observedAt": epoch + event.at,
            }
            for event in self.read()
            if event.kind in self.kinds
        ]


def _as_bson(value: Any) -> Any:
    """Return a field's value, or its text where BSON has no such type: an exception, an address."""
    if isinstance(value, dict):
        return {str(name): _as_bson(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_bson(element) for element in value]
    known = isinstance(value, BSON_TYPES) or type(value).__module__.split(".")[0] in BSON_PACKAGES
    return value if known else str(value)
