"""Events, log messages and spans of a client against those that a scenario expects: the first divergence.

Unified Test Format: expectedEvent, expectedLogMessagesForClient, expectedTracingMessagesForClient. All three
are judged alike: in order, without gaps, up to the end of the expected list; what follows it is an error
unless the scenario ignores it. A divergence is returned with the line of the expectation, since that is where
an author looks. The first one only: after it the lists are out of step, and further differences would be
noise (`comparison` shows the rest aligned).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from bson import ObjectId

from harness.unified.errors import ScenarioError
from harness.unified.matching.matcher import Mismatch, match, missing
from harness.unified.observation import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.adapters.base import Event
    from harness.unified.matching.matcher import Entities
    from harness.unified.model import (
        ExpectedEvent,
        ExpectedEvents,
        ExpectedLog,
        ExpectedLogs,
        ExpectedSpan,
        ExpectedSpans,
    )
    from mongowire.documents.marks import Location

    Found = tuple[Mismatch, Location] | None


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
    # Asked before anything is compared, so that a misspelt field is an error in every run, also where the
    # kinds differ.
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
    # An ObjectId of zeros names no service.
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
    # 0 is no number of a connection: servers count from 1.
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


# Log messages of a client against those that a scenario expects.
#
# Unified Test Format: expectedLogMessagesForClient.


# The fields of a server's error that may be logged where the command is sensitive.
_LEFT_BY_REDACTION: Final = frozenset({"code", "codeName", "errorLabels"})


def match_logs(
    expected: ExpectedLogs, logged: Sequence[Event], *, entities: Entities
) -> tuple[Mismatch, Location] | None:
    """Return the first divergence of a client's messages, with the line of the message that was expected."""
    actual = _judged(expected, logged, entities)
    for index, want in enumerate(expected.messages):
        if index == len(actual):
            why = f"expected {want.data.get('message')!r}, but only {len(actual)} messages were logged"
            return Mismatch(f"messages[{index}]", want.data, missing, why), want.location
        found = match_log(want, actual[index], entities=entities)
        if found is not None:
            return found.below(f"messages[{index}]"), want.location
    count = len(expected.messages)
    if len(actual) > count and not expected.ignore_extra:
        extra = actual[count].fields["data"]
        first = extra.get("message")
        why = f"expected {count} messages, got {len(actual)}; the first extra one is {first!r}"
        return Mismatch(f"messages[{count}]", missing, dict(extra), why), expected.location
    return None


def has_enough(expected: ExpectedLogs, logged: Sequence[Event], *, entities: Entities) -> bool:
    """Return whether a client has logged as many messages as are expected, whatever they say."""
    return len(_judged(expected, logged, entities)) >= len(expected.messages)


def _judged(expected: ExpectedLogs, logged: Sequence[Event], entities: Entities) -> list[Event]:
    """Return the messages that are compared.

    ignoreMessages: they are taken away first, also from among those that are expected.
    """
    return [
        message
        for message in logged
        if all(match_log(each, message, entities=entities) is not None for each in expected.ignored)
    ]


def match_log(expected: ExpectedLog, actual: Event, *, entities: Entities) -> Mismatch | None:
    """Return where one message differs; its data are a root document."""
    fields = actual.fields
    for name, value in (("level", expected.level), ("component", expected.component)):
        if fields.get(name) != value:
            return Mismatch(name, value, fields.get(name), f"expected {value}, got {fields.get(name)}")
    found = match(expected.data, fields["data"], entities=entities)
    if found is not None:
        return found.below("data")
    # Command Logging and Monitoring: Security. Of a server's error nothing secret may be left.
    wanted = expected.failure_is_redacted
    if wanted is None:
        return None
    failure = fields["data"].get("failure", missing)
    if failure is missing:
        return Mismatch("data.failure", {}, failure, "is missing")
    redacted = _is_redacted(failure)
    if redacted == wanted:
        return None
    why = f"expected to be {'' if wanted else 'not '}redacted, got {failure!r}"
    return Mismatch("data.failure", wanted, failure, why)


def _is_redacted(failure: Any) -> bool:
    """Drivers give a failure as a document, or as its text."""
    if isinstance(failure, str):
        try:
            failure = json.loads(failure)
        except ValueError:
            return False
    return isinstance(failure, dict) and failure.keys() <= _LEFT_BY_REDACTION


# Spans of a client against those that a scenario expects.
#
# Unified Test Format: expectedTracingMessagesForClient. Spans are a tree; those of one level are compared in
# the order in which they began.


def match_spans(expected: ExpectedSpans, spans: Sequence[Event], *, entities: Entities) -> Found:
    """Return the first divergence of a client's spans, with the line of the span that was expected."""
    tree = _Tree(spans, entities, ignore_extra=expected.ignore_extra)
    return tree.match_level(expected.spans, tree.roots, expected.location)


class _Tree:
    """The spans of a client. One whose parent is not the client's is a root."""

    def __init__(self, spans: Sequence[Event], entities: Entities, *, ignore_extra: bool) -> None:
        self._entities = entities
        self._ignore_extra = ignore_extra
        self.roots: list[Mapping[str, Any]] = []
        self._nested: dict[Any, list[Mapping[str, Any]]] = {span.fields["id"]: [] for span in spans}
        for span in spans:
            # A parent that is no span of this client is one of the program around it, which the scenario
            # knows nothing of.
            self._nested.get(span.fields["parent"], self.roots).append(span.fields)

    def match_level(
        self, expected: Sequence[ExpectedSpan], actual: Sequence[Mapping[str, Any]], location: Location
    ) -> Found:
        """Compare the spans within one; each of the expected ones follows the one before it."""
        left = list(actual)
        for index, want in enumerate(expected):
            found = self._match_next(want, left)
            if found is not None:
                return found[0].below(f"[{index}]"), found[1]
        if left and not self._ignore_extra:
            name = left[0]["name"]
            why = f"expected {len(expected)} spans, got {len(actual)}; the first extra one is {name!r}"
            return Mismatch(f"[{len(expected)}]", missing, name, why), location
        return None

    def _match_next(self, expected: ExpectedSpan, left: list[Mapping[str, Any]]) -> Found:
        """Take spans away up to the one that is expected: the next, unless extra spans are ignored."""
        first: Found = None
        while left:
            found = self._match(expected, left.pop(0))
            if found is None:
                return None
            first = first or found
            if not self._ignore_extra:
                break
        gone = Mismatch(
            "", expected.name, missing, f"expected a span {expected.name!r}, but there is no more"
        )
        return first or (gone, expected.location)

    def _match(self, expected: ExpectedSpan, actual: Mapping[str, Any]) -> Found:
        name = actual["name"]
        if name != expected.name:
            why = f"expected {expected.name!r}, got {name!r}"
            return Mismatch("name", expected.name, name, why), expected.location
        found = match(dict(expected.attributes), actual["attributes"], entities=self._entities)
        if found is not None:
            return found.below("attributes"), expected.location
        below = self.match_level(expected.nested, self._nested[actual["id"]], expected.location)
        return None if below is None else (below[0].below("nested"), below[1])
