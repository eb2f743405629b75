"""Unified Test Format: expectedEvent, and which events a scenario sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId

from harness.adapters.base import Event
from harness.unified.entities import ClientEntity, EntityMap
from harness.unified.errors import ScenarioError
from harness.unified.matching.event_matcher import match_event, match_events
from harness.unified.model import ExpectedEvent, ExpectedEvents
from harness.unified.observation import checked_out, observed
from mongowire.documents.marks import Location

PATH = Path("x.yml")


def expected(
    *events: tuple[str, dict[str, Any]], event_type: str = "command", extra: bool = False
) -> ExpectedEvents:
    wanted = tuple(ExpectedEvent(kind, body, Location(PATH, 10 + n)) for n, (kind, body) in enumerate(events))
    return ExpectedEvents("client0", event_type, wanted, extra, Location(PATH, 9))


def started(name: str, **fields: Any) -> Event:
    return Event("commandStartedEvent", {"commandName": name, "command": {name: "c"}, **fields})


FIND, INSERT = started("find"), started("insert")
EXPECT_FIND = ("commandStartedEvent", {"commandName": "find"})
EXPECT_INSERT = ("commandStartedEvent", {"command": {"insert": "c"}})


def divergence(want: ExpectedEvents, *events: Event) -> tuple[str, str, int] | None:
    found = match_events(want, events, entities=EntityMap())
    return found and (found[0].path, found[0].why, found[1].line)


def test_events_in_the_expected_order_match() -> None:
    assert divergence(expected(EXPECT_FIND, EXPECT_INSERT), FIND, INSERT) is None


def test_the_first_divergence_is_reported_with_its_index_field_and_line() -> None:
    wrong = ("commandStartedEvent", {"command": {"insert": "other"}})
    said = divergence(expected(EXPECT_FIND, wrong), FIND, INSERT)
    assert said == ("events[1].command.insert", "expected 'other', got 'c'", 11)


def test_another_kind_of_event_is_a_divergence() -> None:
    said = divergence(expected(("commandFailedEvent", {"commandName": "find"})), FIND)
    assert said == ("events[0]", "expected commandFailedEvent, got commandStartedEvent (find)", 10)


def test_too_few_events_name_the_one_that_did_not_come() -> None:
    said = divergence(expected(EXPECT_FIND, EXPECT_INSERT), FIND)
    assert said == ("events[1]", "expected commandStartedEvent, but only 1 events were observed", 11)


def test_too_many_events_name_the_first_extra_one_unless_extra_events_are_ignored() -> None:
    said = divergence(expected(EXPECT_FIND), FIND, INSERT)
    assert said is not None
    assert said[0] == "events[1]"
    assert "the first extra one is commandStartedEvent (insert)" in said[1]
    assert divergence(expected(EXPECT_FIND, extra=True), FIND, INSERT) is None
    assert divergence(expected(), FIND) is not None


def test_each_monitor_is_asserted_by_itself() -> None:
    ready = Event("poolReadyEvent", {})
    assert divergence(expected(EXPECT_FIND), ready, FIND) is None
    assert divergence(expected(("poolReadyEvent", {}), event_type="cmap"), ready, FIND) is None
    changed = Event("topologyDescriptionChangedEvent", {"newDescription": {"type": "Single", "more": 1}})
    wanted = ("topologyDescriptionChangedEvent", {"newDescription": {"type": "Single"}})
    assert divergence(expected(wanted, event_type="sdam"), changed, FIND) is None


@pytest.mark.parametrize(
    ("kind", "body", "fields", "path"),
    [
        ("commandStartedEvent", {"hasServiceId": True}, {"serviceId": ObjectId(b"1" * 12)}, None),
        ("commandStartedEvent", {"hasServiceId": True}, {"serviceId": ObjectId(b"\0" * 12)}, "hasServiceId"),
        ("commandStartedEvent", {"hasServiceId": False}, {}, None),
        ("commandStartedEvent", {"hasServerConnectionId": True}, {"serverConnectionId": 5}, None),
        (
            "commandStartedEvent",
            {"hasServerConnectionId": True},
            {"serverConnectionId": 0},
            "hasServerConnectionId",
        ),
        ("commandStartedEvent", {"hasServerConnectionId": False}, {"serverConnectionId": -1}, None),
        ("commandSucceededEvent", {"reply": {"ok": 1}}, {"reply": {"ok": 1.0, "n": 1}}, None),
        ("commandSucceededEvent", {"databaseName": "a"}, {"databaseName": "b"}, "databaseName"),
        ("poolClearedEvent", {"interruptInUseConnections": True}, {"interruptInUseConnections": True}, None),
        ("poolClearedEvent", {"interruptInUseConnections": True}, {}, "interruptInUseConnections"),
        ("connectionClosedEvent", {"reason": "stale"}, {"reason": "idle"}, "reason"),
        ("serverHeartbeatStartedEvent", {"awaited": True}, {"awaited": True}, None),
        ("serverHeartbeatStartedEvent", {"awaited": True}, {"awaited": False}, "awaited"),
    ],
)
def test_assertions_on_fields(
    kind: str, body: dict[str, Any], fields: dict[str, Any], path: str | None
) -> None:
    event = ExpectedEvent(kind, body, Location(PATH, 1))
    found = match_event(event, Event(kind, fields), entities=EntityMap())
    assert (found and found.path) == path


def test_an_assertion_that_no_event_has_is_an_error_of_the_scenario() -> None:
    event = ExpectedEvent("commandStartedEvent", {"comand": {}}, Location(PATH, 7))
    with pytest.raises(ScenarioError, match=r"x\.yml:7: events have no field 'comand'"):
        match_event(event, FIND, entities=EntityMap())


def client(*events: Event, sensitive: bool = False, ignored: str = "") -> ClientEntity:
    kinds = frozenset({"commandStartedEvent", "commandSucceededEvent", "commandFailedEvent"})
    return ClientEntity(
        None, kinds, frozenset({"configureFailPoint", ignored}), sensitive, lambda: list(events)
    )


class TestObservation:
    def test_events_that_were_not_asked_for_are_not_seen(self) -> None:
        assert observed(client(FIND, Event("poolReadyEvent", {}))) == (FIND,)

    def test_ignored_commands_and_fail_points_are_not_seen(self) -> None:
        assert observed(client(FIND, INSERT, started("configureFailPoint"), ignored="insert")) == (FIND,)

    @pytest.mark.parametrize("name", ["authenticate", "saslStart", "saslContinue", "getnonce", "createUser"])
    def test_sensitive_commands_are_seen_only_when_asked_for(self, name: str) -> None:
        secret = started(name)
        assert observed(client(secret)) == ()
        assert observed(client(secret, sensitive=True)) == (secret,)

    @pytest.mark.parametrize("name", ["hello", "isMaster", "ismaster"])
    def test_a_hello_is_sensitive_when_the_driver_has_emptied_it(self, name: str) -> None:
        plain = [
            Event("commandStartedEvent", {"commandName": name, "command": {name: 1}, "requestId": 1}),
            Event("commandSucceededEvent", {"commandName": name, "reply": {"ok": 1}, "requestId": 1}),
        ]
        secret = [
            Event("commandStartedEvent", {"commandName": name, "command": {}, "requestId": 2}),
            Event("commandFailedEvent", {"commandName": name, "failure": {}, "requestId": 2}),
        ]
        assert observed(client(*plain, *secret)) == tuple(plain)

    def test_events_from_before_the_pools_were_full_are_dropped(self) -> None:
        waiting = client(FIND, INSERT)
        waiting.skipped = 1
        assert observed(waiting) == (INSERT,)

    def test_connections_that_are_out_are_counted_though_nobody_observes_them(self) -> None:
        out, back = Event("connectionCheckedOutEvent", {}), Event("connectionCheckedInEvent", {})
        assert checked_out(client(out, out, back)) == 1
