"""Events that a client collects under a name of the scenario's, for whoever reads the entities at the end.

Unified Test Format: storeEventsAsEntity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.unified.entities import BSON_PACKAGES, BSON_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.adapters.base import Event
    from mongowire.ports import Clock

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
