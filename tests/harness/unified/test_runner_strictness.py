"""What a scenario gets wrong is told, with its line, and never passes in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scenario_world import ENTITIES, World

from harness.adapters.base import ErrorReport, Event
from harness.adapters.deployment import Topology
from harness.unified.errors import ScenarioError
from harness.unified.loader import load
from harness.unified.outcome import Status

if TYPE_CHECKING:
    from pathlib import Path

THREADS = """\
createEntities:
  - client: {id: client0, observeEvents: [connectionReadyEvent]}
  - database: {id: database0, client: client0, databaseName: db}
  - collection: {id: collection0, database: database0, collectionName: coll}
  - thread: {id: thread0}
"""
AGGREGATE = "- {name: aggregate, object: collection0, arguments: "
FIND = "{name: find, object: collection0, arguments: {filter: {}}}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def on_runner(name: str, **given: str) -> str:
    """Return an operation of the runner, as a line."""
    arguments = ", ".join(f"{key}: {value}" for key, value in given.items())
    return f"- {{name: {name}, object: testRunner, arguments: {{{arguments}}}}}\n"


async def after(world: World, seconds: float) -> None:
    clock = world.deployment.clock
    await clock.sleep_until(clock.now() + seconds)


RUN = on_runner("runOnThread", thread="thread0", operation=FIND)
JOIN = on_runner("waitForThread", thread="thread0")


class TestThreads:
    def test_a_failure_fails_the_case_also_when_nobody_waits_for_the_thread(self, world: World) -> None:
        async def late() -> None:
            await after(world, 5)
            world.adapter.fail(ErrorReport("too late"))

        world.adapter.answers["find"] = lambda _: late()
        outcome, seconds = world.run_virtual(RUN, head=THREADS)
        assert (outcome.status, outcome.reason) == (Status.FAILED, "find failed: too late")
        assert seconds == pytest.approx(5, abs=0.01)

    def test_what_a_thread_does_after_the_last_operation_is_observed(self, world: World) -> None:
        async def late() -> None:
            await after(world, 1)
            world.adapter.clients[0].events.append(Event("connectionReadyEvent", {}))

        world.adapter.answers["find"] = lambda _: late()
        expect = (
            "    expectEvents: [{client: client0, eventType: cmap, events: [connectionReadyEvent: {}]}]\n"
        )
        outcome, _ = world.run_virtual(RUN, expect, THREADS)
        assert outcome.status is Status.PASSED, outcome.reason

    def test_operations_of_one_thread_run_one_after_the_other_and_stop_at_the_first_failure(
        self, world: World
    ) -> None:
        world.adapter.answers["find"] = ErrorReport("first")
        count = FIND.replace("find", "countDocuments")
        second = on_runner("runOnThread", thread="thread0", operation=count)
        outcome, _ = world.run_virtual(RUN + second + JOIN, head=THREADS)
        assert outcome.reason == "find failed: first"
        assert [name for name, _ in world.adapter.calls] == ["find"]

    def test_a_thread_that_was_waited_for_takes_no_more_operations(self, world: World) -> None:
        outcome = world.run(RUN + JOIN + RUN, head=THREADS)
        assert outcome.status is Status.ERROR
        assert outcome.reason == "thread 'thread0' takes no more operations (waitForThread was its last)"

    def test_a_thread_runs_operations_on_entities_only(self, world: World) -> None:
        wait = "{name: wait, object: testRunner, arguments: {ms: 1}}"
        path = world.write(on_runner("runOnThread", thread="thread0", operation=wait), head=THREADS)
        with pytest.raises(ScenarioError, match=r"case.yml:11:\d+: .*: wait cannot stand here"):
            load(path)


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (
            on_runner("assertSessionTransactionState", session="session0", state="inProgress"),
            "state cannot be 'inProgress' (one of none, starting, in_progress, committed, aborted)",
        ),
        (
            on_runner("recordTopologyDescription", client="client0", id="t")
            + on_runner("assertTopologyType", topologyDescription="t", topologyType="Replica"),
            "topologyType cannot be 'Replica' (one of Single, Unknown,",
        ),
        (
            on_runner("assertEventCount", client="client0", event="{poolReadyEvent: {}}", count="-1"),
            "count must be an integer from 0 on, is -1",
        ),
        (on_runner("wait", ms="1.5"), "ms must be an integer from 0 on, is 1.5"),
        (
            AGGREGATE + "{pipeline: [], readPreference: {mode: primary, x: 1}}}",
            "readPreference has no argument 'x'",
        ),
        (
            "- {name: deleteOne, object: collection0, arguments: {filter: {}, writeConcern: {wtimeout: 1}}}",
            "writeConcern has no argument 'wtimeout' (did you mean 'wtimeoutMS'?)",
        ),
        (
            AGGREGATE + "{pipeline: [], readConcern: local}}",
            "readConcern must be a mapping",
        ),
    ],
)
def test_a_value_that_no_runner_knows_is_an_error_at_its_operation(
    operation: str, said: str, world: World
) -> None:
    outcome = world.run(operation)
    assert outcome.status is Status.ERROR
    assert said in outcome.reason
    assert outcome.location is not None
    assert outcome.location.line == 10 + operation.rstrip("\n").count("\n") + 1


@pytest.mark.parametrize(
    ("entity", "said"),
    [
        (
            "database: {id: d, client: client0, databaseName: db, databaseOptions: {readConcern: {levl: x}}}",
            "readConcern has no argument 'levl'",
        ),
        (
            "bucket: {id: b, database: database0, bucketOptions: {writeConcern: {j: true}}}",
            "writeConcern has no argument 'j'",
        ),
        (
            "session: {id: s, client: client0, sessionOptions: {defaultTransactionOptions: {maxTimeMS: 1}}}",
            "defaultTransactionOptions has no argument 'maxTimeMS'",
        ),
    ],
)
def test_options_of_entities_are_read_as_strictly(entity: str, said: str, world: World) -> None:
    outcome = world.run("", head=f"{ENTITIES}  - {entity}\n")
    assert outcome.status is Status.ERROR
    assert said in outcome.reason
    assert outcome.location is not None
    assert outcome.location.line == 8


def test_entities_to_create_are_at_least_one(world: World) -> None:
    with pytest.raises(ScenarioError, match=r"entities: is empty \(give at least one entity\)"):
        load(world.write(on_runner("createEntities", entities="[]")))


class TestPoolsThatFill:
    """A client with `awaitMinPoolSizeMS` waits for the pools that it will have, and for no other."""

    def waited_for(self, world: World, options: str = "", more: str = "") -> str:
        client = f"{{id: client0, uriOptions: {{minpoolsize: 3{options}}}, awaitMinPoolSizeMS: 50{more}}}"
        outcome = world.run("", head=f"createEntities: [{{client: {client}}}]\n")
        return outcome.reason.partition(" did not have ")[2]

    def test_one_for_each_member(self, world: World) -> None:
        assert self.waited_for(world) == "6 connections after 50 ms"

    def test_one_for_the_only_server_of_a_direct_connection(self, world: World) -> None:
        assert self.waited_for(world, ", directConnection: true") == "3 connections after 50 ms"

    @pytest.mark.parametrize(("multiple", "wanted"), [("true", 6), ("false", 3)])
    def test_one_for_each_mongos(self, multiple: str, wanted: int, world: World) -> None:
        world.deployment.topology = Topology.SHARDED
        more = f", useMultipleMongoses: {multiple}"
        assert self.waited_for(world, more=more) == f"{wanted} connections after 50 ms"


class TestInnerOperations:
    """What operations inside others ask for counts as what those outside ask for."""

    def test_a_transaction_begun_on_a_thread_is_ended(self, world: World) -> None:
        start = "{name: startTransaction, object: session0}"
        thread = on_runner("createEntities", entities="[thread: {id: thread0}]")
        run = on_runner("runOnThread", thread="thread0", operation=start)
        assert world.run(thread + run + JOIN).status is Status.PASSED
        assert world.deployment.sent("killAllSessions")

    def test_a_fail_point_in_a_callback_makes_clients_look_for_servers_often(self, world: World) -> None:
        point = "{configureFailPoint: failCommand, mode: alwaysOn}"
        fail = f"{{name: failPoint, object: testRunner, arguments: {{client: client0, failPoint: {point}}}}}"
        callback = f"- {{name: withTransaction, object: session0, arguments: {{callback: [{fail}]}}}}"
        world.run(callback)
        assert "heartbeatFrequencyMS=500" in world.adapter.clients[0].spec.uri


def test_the_expected_documents_of_a_cursor_are_root_documents_inside_operators_too(world: World) -> None:
    found: list[dict[str, Any]] = [{"_id": 1, "x": 1}]
    world.adapter.answers["find"] = found
    find = f"- {FIND[:-1]}, "
    assert world.run(find + "expectResult: {$$unsetOrMatches: [{_id: 1}]}}").status is Status.PASSED
    assert world.run(find + "expectResult: {$$unsetOrMatches: [{_id: 2}]}}").status is Status.FAILED
    world.adapter.answers["distinct"] = [{"_id": 1}]
    distinct = "- {name: distinct, object: collection0, arguments: {fieldName: x, filter: {}}"
    save = f"{distinct}, saveResultAsEntity: e}}"
    assert world.run(f"{save}\n{find}expectResult: {{$$matchesEntity: e}}}}").status is Status.PASSED


BULK = "- {name: bulkWrite, object: collection0, arguments: {requests: [insertOne: {document: {}}]}"
CLIENT_BULK = (
    "- {name: clientBulkWrite, object: client0,"
    " arguments: {models: [insertOne: {document: {}, namespace: db.coll}]}"
)


@pytest.mark.parametrize("expected", ["errorContains: index", "errorCodeName: WriteConcernTimeout"])
def test_a_bulk_write_has_the_errors_inside_its_own_and_that_of_a_client_has_not(
    expected: str, world: World
) -> None:
    report = ErrorReport(
        "batch op errors occurred",
        code=1,
        write_errors={0: {"code": 11000, "message": "duplicate key of index x"}},
        write_concern_errors=[{"code": 64, "codeName": "WriteConcernTimeout", "errmsg": "waited"}],
    )
    world.adapter.answers.update(bulkWrite=report, clientBulkWrite=report)
    expect = f", expectError: {{{expected}}}}}"
    assert world.run(BULK + expect).status is Status.PASSED
    assert world.run(CLIENT_BULK + expect).status is Status.FAILED
