"""Unified Test Format: expectedLogMessage, and which messages a scenario sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.adapters.base import LOG_MESSAGE, Event
from harness.unified.entities import ClientEntity, EntityMap
from harness.unified.matching.event_matcher import match_logs
from harness.unified.model import ExpectedLog, ExpectedLogs
from harness.unified.observation import logged, observed
from mongowire.documents.marks import Location

PATH = Path("x.yml")


def message(text: str, *, level: str = "debug", component: str = "command", **data: Any) -> Event:
    return Event(LOG_MESSAGE, {"level": level, "component": component, "data": {"message": text, **data}})


def want(text: str, *, line: int = 0, redacted: bool | None = None, **data: Any) -> ExpectedLog:
    return ExpectedLog("debug", "command", {"message": text, **data}, redacted, Location(PATH, line))


def divergence(
    *wanted: ExpectedLog, logs: tuple[Event, ...], ignored: tuple[ExpectedLog, ...] = (), extra: bool = False
) -> tuple[str, str, int] | None:
    expected = ExpectedLogs("client", wanted, ignored, extra, Location(PATH, 9))
    found = match_logs(expected, logs, entities=EntityMap())
    return found and (found[0].path, found[0].why, found[1].line)


STARTED, FAILED = message("Command started", requestId=1), message("Command failed", failure="{}")


def test_messages_in_the_expected_order_match_and_may_have_more_data() -> None:
    assert divergence(want("Command started"), want("Command failed"), logs=(STARTED, FAILED)) is None


@pytest.mark.parametrize(
    ("actual", "path", "why"),
    [
        (message("Command failed"), "messages[0].data.message", "expected 'Command started', got 'Comm"),
        (message("Command started", level="info"), "messages[0].level", "expected debug, got info"),
        (message("Command started", component="topology"), "messages[0].component", "expected command"),
    ],
)
def test_a_divergence_is_reported_with_its_index_field_and_line(actual: Event, path: str, why: str) -> None:
    said = divergence(want("Command started", line=11), logs=(actual,))
    assert said is not None
    assert (said[0], said[2]) == (path, 11)
    assert said[1].startswith(why)


def test_a_message_that_did_not_come_is_named() -> None:
    said = divergence(want("Command started"), want("Command failed", line=12), logs=(STARTED,))
    assert said == ("messages[1]", "expected 'Command failed', but only 1 messages were logged", 12)


def test_the_first_message_too_many_is_named_unless_extra_messages_are_ignored() -> None:
    said = divergence(want("Command started"), logs=(STARTED, FAILED))
    assert said == ("messages[1]", "expected 1 messages, got 2; the first extra one is 'Command failed'", 9)
    assert divergence(want("Command started"), logs=(STARTED, FAILED), extra=True) is None


def test_ignored_messages_count_nowhere() -> None:
    wanted, ignored = want("Command failed"), (want("Command started"),)
    assert divergence(wanted, logs=(STARTED, FAILED, STARTED), ignored=ignored) is None


@pytest.mark.parametrize(
    ("failure", "redacted"),
    [
        ('{"code": 1, "codeName": "InternalError"}', True),
        ({"code": 1, "errorLabels": ["RetryableWriteError"]}, True),
        ('{"code": 1, "errmsg": "secret"}', False),
        ({"errmsg": "secret"}, False),
        ("the connection is closed", False),
    ],
)
def test_a_redacted_failure_keeps_nothing_secret(failure: Any, redacted: object) -> None:
    logs = (message("Command failed", failure=failure),)
    assert (divergence(want("Command failed", redacted=True), logs=logs) is None) is redacted
    assert (divergence(want("Command failed", redacted=False), logs=logs) is None) is not redacted


def test_redaction_is_asserted_of_a_failure_that_is_there() -> None:
    said = divergence(want("Command failed", redacted=True), logs=(message("Command failed"),))
    assert said == ("messages[0].data.failure", "is missing", 0)


def entity(events: list[Event], **logs: str) -> ClientEntity:
    return ClientEntity(
        handle=None,
        observed=frozenset({"x"}),
        ignored_commands=frozenset(),
        observe_sensitive=False,
        read=lambda: events,
        observed_logs=logs,
    )


def test_a_scenario_sees_the_components_that_it_asked_for_as_severe_as_it_said() -> None:
    events = [
        message("a", level="debug"),
        message("b", level="info"),
        message("c", level="error"),
        message("d", level="error", component="topology"),
    ]
    seen = [event.fields["data"]["message"] for event in logged(entity(events, command="info"))]
    assert seen == ["b", "c"]
    assert logged(entity(events)) == ()


def test_messages_are_no_events() -> None:
    assert observed(entity([message("a"), Event("x", {})], command="debug")) == (Event("x", {}),)
