"""Did a client publish the events that a scenario expects? The first divergence, or None.

Unified Test Format: expectedEvent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import ObjectId

from harness.unified.errors import ScenarioError
from harness.unified.matching.matcher import Mismatch, match, missing
from harness.unified.observation import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.adapters.base import Event
    from harness.unified.matching.matcher import Entities
    from harness.unified.model import ExpectedEvent, ExpectedEvents
    from mongowire.documents.marks import Location


def match_events(
    expected: ExpectedEvents, events: Sequence[Event], *, entities: Entities
) -> tuple[Mismatch, Location] | None:
    """Return the first divergence of a client's events, with the line of the event that was expected."""
    actual = [event for event in events if event.kind in KINDS[expected.event_type]]
    for index, want in enumerate(expected.events):
        if index == len(actual):
            why = f"expected {want.kind}, but only {len(actual)} events were observed"
            return Mismatch(f"events[{index}]", want.body, missing, why), want.location
        found = match_event(want, actual[index], entities=entities)
        if found is not None:
            return found.below(f"events[{index}]"), want.location
    # expectedEventsForClient, ignoreExtraEvents: what comes after the last expected event is ignored. Events
    # between two that are expected never are.
    count = len(expected.events)
    if len(actual) > count and not expected.ignore_extra:
        extra = actual[count]
        why = f"expected {count} events, got {len(actual)}; the first extra one is {describe(extra)}"
        return Mismatch(f"events[{count}]", missing, dict(extra.fields), why), expected.location
    return None


def describe(event: Event) -> str:
    """Return an event's kind, and what tells it from others of its kind."""
    detail = event.fields.get("commandName") or event.fields.get("reason")
    return f"{event.kind} ({detail})" if detail else event.kind


def match_event(expected: ExpectedEvent, actual: Event, *, entities: Entities) -> Mismatch | None:
    """Return where one event differs. Raises `ScenarioError` for an assertion that no event has."""
    for name in expected.body:
        if name not in _ASSERTIONS:
            known = ", ".join(_ASSERTIONS)
            raise ScenarioError(
                f"events have no field {name!r}", location=expected.location, fix=f"one of {known}"
            )
    if expected.kind != actual.kind:
        why = f"expected {expected.kind}, got {describe(actual)}"
        return Mismatch("", dict(expected.body), dict(actual.fields), why)
    for name, value in expected.body.items():
        found = _ASSERTIONS[name](name, value, actual.fields, entities)
        if found is not None:
            return found
    return None


def _field(name: str, value: Any, fields: Mapping[str, Any], entities: Entities) -> Mismatch | None:
    """Compare a field; its documents are root documents."""
    found = match(value, fields.get(name, missing), entities=entities)
    return found and found.below(name)


def _has_service_id(name: str, value: Any, fields: Mapping[str, Any], _entities: Entities) -> Mismatch | None:
    actual = fields.get("serviceId")
    there = isinstance(actual, ObjectId) and any(actual.binary)
    return (
        None
        if there == value
        else Mismatch(name, value, actual, f"expected {value}, serviceId is {actual!r}")
    )


def _has_connection_id(
    name: str, value: Any, fields: Mapping[str, Any], _entities: Entities
) -> Mismatch | None:
    actual = fields.get("serverConnectionId")
    there = isinstance(actual, int) and actual > 0
    why = f"expected {value}, serverConnectionId is {actual!r}"
    return None if there == value else Mismatch(name, value, actual, why)


_ASSERTIONS: Final[Mapping[str, Callable[[str, Any, Mapping[str, Any], Entities], Mismatch | None]]] = {
    **dict.fromkeys(
        (
            "command",
            "reply",
            "commandName",
            "databaseName",
            "interruptInUseConnections",
            "reason",
            "previousDescription",
            "newDescription",
            "awaited",
        ),
        _field,
    ),
    "hasServiceId": _has_service_id,
    "hasServerConnectionId": _has_connection_id,
}
