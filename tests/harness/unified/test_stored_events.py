"""Unified Test Format: storeEventsAsEntity; retrieving entities at the end of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson import ObjectId
from scenario_world import World
from scripted import ScriptedAdapter

from harness.adapters.base import Event, Feature
from harness.unified.outcome import Status
from harness.unified.schema.grammar import MINOR_MAX, file_schema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STORABLE: list[str] = file_schema(MINOR_MAX)["properties"]["createEntities"]["items"]["properties"]["client"][
    "properties"
]["storeEventsAsEntities"]["items"]["properties"]["events"]["items"]["enum"]
HEAD = """\
createEntities:
  - client:
      id: client0
      observeEvents: [poolReadyEvent]
      ignoreCommandMonitoringEvents: [find]
      storeEventsAsEntities:
        - {id: pool, events: [PoolReadyEvent, ConnectionClosedEvent]}
        - {id: commands, events: [CommandStartedEvent, CommandFailedEvent]}
  - database: {id: database0, client: client0, databaseName: db}
"""
RUN = "- {name: runCommand, object: database0, arguments: {command: {ping: 1}, commandName: ping}}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def stored(world: World, *events: Event) -> dict[str, Any]:
    """Run a case in which a client publishes events, and return what it has stored."""
    world.adapter.answers["runCommand"] = world.observe(*events)
    outcome = world.run(RUN, head=HEAD)
    assert outcome.status is Status.PASSED, outcome.reason
    assert outcome.entities is not None
    return dict(outcome.entities)


def test_each_event_is_a_document_in_the_list_that_asked_for_its_kind(world: World) -> None:
    found = stored(
        world,
        Event("poolReadyEvent", {"address": "a:1"}),
        Event("connectionReadyEvent", {"address": "a:1"}),
        Event("connectionClosedEvent", {"address": "a:1", "reason": "idle"}),
    )
    assert [(one["name"], one["address"], one.get("reason")) for one in found["pool"]] == [
        ("PoolReadyEvent", "a:1", None),
        ("ConnectionClosedEvent", "a:1", "idle"),
    ]
    assert found["commands"] == []


def test_nothing_that_is_ignored_elsewhere_is_left_out(world: World) -> None:
    """Neither `observeEvents` nor `ignoreCommandMonitoringEvents` is heard, nor what is sensitive."""
    names = ("find", "configureFailPoint", "saslStart")
    found = stored(world, *(Event("commandStartedEvent", {"commandName": name}) for name in names))
    assert [one["commandName"] for one in found["commands"]] == list(names)
    assert world.adapter.clients[0].spec.observe_events >= {
        "commandStartedEvent",
        "commandFailedEvent",
        "connectionClosedEvent",
    }


def test_a_document_says_when_it_was_observed_in_seconds_since_the_epoch(world: World) -> None:
    clock = world.deployment.clock

    def three_seconds_ago(_: Mapping[str, Any]) -> None:
        world.adapter.clients[0].events.append(Event("poolReadyEvent", {}, at=clock.now() - 3))

    world.adapter.answers["runCommand"] = three_seconds_ago
    outcome = world.run(RUN, head=HEAD)
    assert outcome.entities is not None
    assert clock.utc() - outcome.entities["pool"][0]["observedAt"] == pytest.approx(3, abs=1)


def test_fields_that_bson_cannot_hold_are_stored_as_texts_and_commands_not_at_all(world: World) -> None:
    service, failure = ObjectId(), OSError("refused")
    fields = {"command": {"ping": 1}, "failure": failure, "serviceId": service, "at": ("a", 1)}
    (found,) = stored(world, Event("commandFailedEvent", fields))["commands"]
    assert (found["failure"], found["serviceId"], found["at"]) == ("refused", service, ["a", 1])
    assert "command" not in found


def test_they_can_be_compared_while_the_case_runs(world: World) -> None:
    world.adapter.answers["runCommand"] = world.observe(Event("poolReadyEvent", {"address": "a:1"}))
    world.adapter.answers["listDatabaseNames"] = [{"name": "PoolReadyEvent", "address": "a:1"}]
    expect = "expectResult: {$$matchesEntity: pool}"
    names = f"- {{name: listDatabaseNames, object: client0, {expect}}}"
    outcome = world.run(f"{RUN}\n{names}", head=HEAD)
    assert outcome.reason == "listDatabaseNames returned another result: [0].observedAt: is missing"


@pytest.mark.parametrize("name", ["commands", "client0"])
def test_a_name_is_written_once(name: str, world: World) -> None:
    outcome = world.run("", head=HEAD.replace("id: pool", f"id: {name}"))
    assert outcome.status is Status.ERROR
    assert f"entity '{name}' already exists" in outcome.reason


def test_a_driver_without_such_events_skips_the_case(world: World) -> None:
    world.adapter = ScriptedAdapter(lacks=[Feature.COMMAND_EVENTS])
    outcome = world.run("", head=HEAD)
    assert outcome.reason.startswith("commandStartedEvent needs a driver with COMMAND_EVENTS")


def test_saved_results_can_be_read_when_the_case_has_ended(world: World) -> None:
    world.adapter.answers["runCommand"] = {"ok": 1}
    outcome = world.run(RUN[:-1] + ", saveResultAsEntity: reply}", head=HEAD)
    assert outcome.entities is not None
    assert outcome.entities["reply"] == {"ok": 1}
    assert "client0" not in outcome.entities, "a driver's objects stay inside"


@pytest.mark.parametrize("name", STORABLE)
def test_every_event_that_can_be_stored_is(name: str, world: World) -> None:
    head = HEAD.replace("[PoolReadyEvent, ConnectionClosedEvent]", f"[{name}]")
    kind = name[0].lower() + name[1:]
    world.adapter.answers["runCommand"] = world.observe(Event(kind, {}), Event("other", {}))
    outcome = world.run(RUN, head=head)
    assert outcome.entities is not None
    assert [one["name"] for one in outcome.entities["pool"]] == [name]
