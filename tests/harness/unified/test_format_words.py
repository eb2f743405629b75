"""Every word that the format has for something works: events, levels, components, types, options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scenario_world import World

from harness.adapters.base import LOG_MESSAGE, EntityKind, Event, Feature
from harness.adapters.deployment import Topology
from harness.unified.outcome import Status
from harness.unified.requirements import feature_of_event
from harness.unified.schema.events import EVENTS, LOG_LEVELS, TOPOLOGY_TYPES

if TYPE_CHECKING:
    from pathlib import Path

RUN = "- {name: runCommand, object: database0, arguments: {command: {ping: 1}, commandName: ping}}\n"
KINDS = [(event_type, kind) for event_type, events in EVENTS.items() for kind in events["properties"]]
COMPONENTS = ("command", "topology", "serverSelection", "connection")
SERVER_TYPES = (
    *("Standalone", "Mongos", "PossiblePrimary", "RSPrimary", "RSSecondary", "RSOther", "RSArbiter"),
    *("RSGhost", "LoadBalancer", "Unknown"),
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def created(client: str) -> str:
    """Return the operation that creates a client with options and a database on it."""
    database = "{database: {id: database0, client: client0, databaseName: db}}"
    entities = f"[{{client: {{id: client0{client}}}}}, {database}]"
    return f"- {{name: createEntities, object: testRunner, arguments: {{entities: {entities}}}}}\n"


def expecting(event_type: str, *events: str) -> str:
    listed = ", ".join(f"{{{event}}}" for event in events)
    return f"    expectEvents: [{{client: client0, eventType: {event_type}, events: [{listed}]}}]\n"


@pytest.mark.parametrize(("event_type", "kind"), KINDS, ids=[kind for _, kind in KINDS])
def test_every_event_can_be_observed_expected_awaited_and_counted(
    event_type: str, kind: str, world: World
) -> None:
    world.adapter.answers["runCommand"] = world.observe(Event(kind, {}), Event("other", {}))
    count = f"arguments: {{client: client0, event: {{{kind}: {{}}}}, count: 1}}}}\n"
    asked = [
        f"- {{name: {name}, object: testRunner, {count}" for name in ("waitForEvent", "assertEventCount")
    ]
    operations = created(f", observeEvents: [{kind}]") + RUN + "".join(asked)
    assert world.run(operations, expecting(event_type, f"{kind}: {{}}"), "").status is Status.PASSED
    world.adapter.clients.clear()
    assert world.run(operations, expecting(event_type), "").status is Status.FAILED


@pytest.mark.parametrize(("event_type", "kind"), KINDS, ids=[kind for _, kind in KINDS])
def test_an_event_that_a_client_does_not_observe_is_not_there(
    event_type: str, kind: str, world: World
) -> None:
    world.adapter.answers["runCommand"] = world.observe(Event(kind, {}))
    outcome = world.run(created("") + RUN, expecting(event_type), "")
    assert outcome.status is Status.PASSED, outcome.reason


@pytest.mark.parametrize(("event_type", "kind"), KINDS, ids=[kind for _, kind in KINDS])
def test_every_event_needs_the_feature_of_its_monitor(event_type: str, kind: str) -> None:
    features = {"command": Feature.COMMAND_EVENTS, "cmap": Feature.POOL_EVENTS, "sdam": Feature.SDAM_EVENTS}
    assert feature_of_event(kind) is features[event_type]


@pytest.mark.parametrize("side", ["previousDescription", "newDescription"])
@pytest.mark.parametrize(
    ("kind", "type_name"),
    [
        *(("serverDescriptionChangedEvent", name) for name in SERVER_TYPES),
        *(("topologyDescriptionChangedEvent", name) for name in TOPOLOGY_TYPES),
    ],
)
def test_every_type_of_server_and_topology_can_be_expected(
    side: str, kind: str, type_name: str, world: World
) -> None:
    described = Event(kind, {side: {"type": type_name, "address": "a:1"}})
    world.adapter.answers["runCommand"] = world.observe(described)
    operations = created(f", observeEvents: [{kind}]") + RUN
    expected = expecting("sdam", f"{kind}: {{{side}: {{type: {type_name}}}}}")
    assert world.run(operations, expected, "").status is Status.PASSED
    world.adapter.clients.clear()
    world.adapter.answers["runCommand"] = world.observe(Event(kind, {side: {"type": "another"}}))
    assert world.run(operations, expected, "").status is Status.FAILED


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("level", LOG_LEVELS)
def test_every_component_is_heard_from_the_level_on_that_was_asked_for(
    level: str, component: str, world: World
) -> None:
    said = [
        Event(LOG_MESSAGE, {"level": each, "component": each_of, "data": {"message": f"{each} {each_of}"}})
        for each in LOG_LEVELS
        for each_of in COMPONENTS
    ]
    world.adapter.answers["runCommand"] = world.observe(*said)
    heard = LOG_LEVELS[: LOG_LEVELS.index(level) + 1]
    messages = ", ".join(
        f"{{level: {each}, component: {component}, data: {{message: {each} {component}}}}}" for each in heard
    )
    expected = f"    expectLogMessages: [{{client: client0, messages: [{messages}]}}]\n"
    outcome = world.run(created(f", observeLogMessages: {{{component}: {level}}}") + RUN, expected, "")
    assert outcome.status is Status.PASSED, outcome.reason


@pytest.mark.parametrize("topology", Topology)
def test_every_topology_can_be_asked_for(topology: Topology, world: World) -> None:
    world.deployment.topology = topology
    others = [other for other in Topology if not (other.has_mongos or topology == other)]
    asked = f"runOnRequirements: [{{topologies: [{topology}]}}]\n"
    assert world.run("", head=asked).status is Status.PASSED
    for other in others:
        assert (
            world.run("", head=f"runOnRequirements: [{{topologies: [{other}]}}]\n").status is Status.SKIPPED
        )


def test_anchors_may_stand_where_nobody_looks(world: World) -> None:
    head = "_yamlAnchors: {document: &document {x: {$$nothing: 1}}, list: [1]}\n"
    assert world.run("", head=head).status is Status.PASSED


CONCERNS = "readConcern: {level: majority}, writeConcern: {w: 1, journal: true, wtimeoutMS: 5}"
PREFERENCE = "readPreference: {mode: nearest, tagSets: [{a: b}], maxStalenessSeconds: 90, hedge: {}}"
OPTIONS = f"{{{CONCERNS}, {PREFERENCE}, timeoutMS: 7}}"
ENTITIES = f"""\
createEntities:
  - client: {{id: client0, serverApi: {{version: "1", strict: true, deprecationErrors: false}}}}
  - database: {{id: database0, client: client0, databaseName: db, databaseOptions: {OPTIONS}}}
  - collection: {{id: c, database: database0, collectionName: coll, collectionOptions: {OPTIONS}}}
  - bucket: {{id: b, database: database0, bucketOptions: {{bucketName: x, chunkSizeBytes: 4, {CONCERNS}}}}}
"""
GIVEN: dict[str, Any] = {
    "readConcern": {"level": "majority"},
    "writeConcern": {"w": 1, "journal": True, "wtimeoutMS": 5},
}
PREFERRED = {"mode": "nearest", "tagSets": [{"a": "b"}], "maxStalenessSeconds": 90, "hedge": {}}


def test_options_of_entities_reach_the_driver(world: World) -> None:
    assert world.run("", head=ENTITIES).status is Status.PASSED
    api = {"version": "1", "strict": True, "deprecationErrors": False}
    assert world.adapter.clients[0].spec.server_api == api
    options = {**GIVEN, "readPreference": PREFERRED, "timeoutMS": 7}
    database, collection, bucket = world.adapter.handles
    assert database.spec["databaseOptions"] == options
    assert collection.spec["collectionOptions"] == options
    assert bucket.spec["bucketOptions"] == {"bucketName": "x", "chunkSizeBytes": 4, **GIVEN}
    assert [handle.kind for handle in world.adapter.handles] == [
        EntityKind.DATABASE,
        EntityKind.COLLECTION,
        EntityKind.BUCKET,
    ]


def test_a_session_s_snapshot_time_is_the_saved_result_that_it_names(world: World) -> None:
    head = "createEntities: [{client: {id: client0}}, {session: {id: first, client: client0}}]\n"
    world.adapter.answers["getSnapshotTime"] = 17
    get = "- {name: getSnapshotTime, object: first, saveResultAsEntity: then}\n"
    options = "{snapshot: true, snapshotTime: then, causalConsistency: false, defaultTimeoutMS: 9}"
    second = f"{{session: {{id: second, client: client0, sessionOptions: {options}}}}}"
    create = f"- {{name: createEntities, object: testRunner, arguments: {{entities: [{second}]}}}}"
    assert world.run(get + create, head=head).status is Status.PASSED
    assert world.adapter.handles[-1].spec["sessionOptions"] == {
        "snapshot": True,
        "snapshotTime": 17,
        "causalConsistency": False,
        "defaultTimeoutMS": 9,
    }


def test_a_collection_is_created_with_its_options(world: World) -> None:
    options = "createOptions: {capped: true, size: 9}"
    data = f"{{databaseName: db, collectionName: c, {options}, documents: [{{_id: 1}}]}}"
    outcome = world.run("", f"    outcome: [{data}]\n", f"initialData: [{data}]\n")
    assert outcome.status is Status.PASSED
    (created_with,) = world.deployment.sent("create")
    assert created_with[1] == {
        "create": "c",
        "capped": True,
        "size": 9,
        "writeConcern": {"w": "majority"},
    }
    assert [next(iter(sent[1])) for sent in world.deployment.commands] == ["drop", "create", "insert", "find"]
