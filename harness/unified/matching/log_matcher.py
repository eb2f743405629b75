"""Did a client log what a scenario expects? The first divergence, or None.

Unified Test Format: expectedLogMessagesForClient.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from harness.unified.matching.matcher import Mismatch, match, missing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.adapters.base import Event
    from harness.unified.matching.matcher import Entities
    from harness.unified.model import ExpectedLog, ExpectedLogs
    from mongowire.documents.marks import Location

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
    return _match_failure(expected, fields["data"])


def _match_failure(expected: ExpectedLog, data: Mapping[str, Any]) -> Mismatch | None:
    """Command Logging and Monitoring: Security. Of a server's error nothing secret may be left."""
    wanted = expected.failure_is_redacted
    if wanted is None:
        return None
    failure = data.get("failure", missing)
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
