"""Unified Test Format: Executing a Test, Executing an Operation, Special Test Operations."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from scenario_world import ENTITIES, World
from scripted import ScriptedAdapter

from harness.adapters.base import (
    LOG_MESSAGE,
    SPAN,
    ErrorReport,
    Event,
    Feature,
    OperationFailed,
    SessionState,
    UnsupportedOperation,
)
from harness.adapters.deployment import Topology
from harness.unified.loader import load
from harness.unified.outcome import Status
from harness.unified.runner import run_case

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


REPLACE = "{name: findOneAndReplace, object: collection0, arguments: "
FIND = "- {name: find, object: collection0, arguments: {filter: {}}"
INSERT = "- {name: insertOne, object: collection0, arguments: {document: {_id: 1}}"
CREATE_CURSOR = "- {name: createFindCursor, object: collection0, arguments: {filter: {}}"
FAILURE = ErrorReport("no such thing", code=26, code_name="NamespaceNotFound")


def started(**command: Any) -> Event:
    name = next(iter(command))
    return Event("commandStartedEvent", {"commandName": name, "command": command})


class TestOperations:
    def test_an_operation_reaches_the_driver_with_its_arguments(self, world: World) -> None:
        outcome = world.run(
            "- {name: insertOne, object: collection0, arguments: {document: {_id: 1}, session: session0}}"
        )
        assert outcome.status is Status.PASSED
        operation, arguments = world.adapter.calls[0]
        assert operation == "insertOne"
        assert arguments["document"] == {"_id": 1}
        assert arguments["session"] is world.adapter.handles[2]

    def test_arguments_are_the_drivers_own_to_change(self, world: World) -> None:
        world.adapter.answers["insertOne"] = lambda arguments: arguments["document"].clear()
        (case,) = load(world.write(INSERT + "}")).cases
        for _ in range(2):
            asyncio.run(run_case(case, adapter=world.adapter, deployment=world.deployment))
        assert case.operations[0].arguments == {"document": {"_id": 1}}

    def test_an_error_that_was_not_expected_fails_the_case_and_names_the_line(self, world: World) -> None:
        world.adapter.answers["find"] = FAILURE
        outcome = world.run(FIND + "}")
        assert outcome.status is Status.FAILED
        assert outcome.reason == "find failed: no such thing"
        assert outcome.error is FAILURE
        assert outcome.location is not None
        assert outcome.location.line == 11

    def test_an_expected_error_is_compared(self, world: World) -> None:
        world.adapter.answers["find"] = FAILURE
        assert world.run(FIND + ", expectError: {errorCode: 26}}").status is Status.PASSED
        outcome = world.run(FIND + ", expectError: {errorCode: 27}}")
        assert outcome.status is Status.FAILED
        assert outcome.mismatch is not None
        assert outcome.mismatch.path == "errorCode"

    def test_an_expected_error_that_does_not_come_fails_the_case(self, world: World) -> None:
        outcome = world.run(FIND + ", expectError: {isError: true}}")
        assert (outcome.status, outcome.reason) == (Status.FAILED, "find succeeded, an error was expected")

    def test_a_result_is_compared_and_its_mismatch_kept(self, world: World) -> None:
        world.adapter.answers["find"] = [{"_id": 1, "x": 1}]
        assert world.run(FIND + ", expectResult: [{_id: 1}]}").status is Status.PASSED
        outcome = world.run(FIND + ", expectResult: [{_id: 2}]}")
        assert outcome.mismatch is not None
        assert (outcome.mismatch.path, outcome.mismatch.expected, outcome.mismatch.actual) == (
            "[0]._id",
            2,
            1,
        )

    def test_values_that_are_no_cursors_documents_are_not_root_documents(self, world: World) -> None:
        world.adapter.answers["distinct"] = [{"x": 1, "y": 2}]
        distinct = "- {name: distinct, object: collection0, arguments: {fieldName: x, filter: {}}"
        assert world.run(distinct + ", expectResult: [{x: 1}]}").status is Status.FAILED

    def test_result_and_error_can_be_ignored_but_not_a_wrong_argument(self, world: World) -> None:
        world.adapter.answers["insertOne"] = FAILURE
        assert world.run(INSERT + ", ignoreResultAndError: true}").status is Status.PASSED
        wrong = (
            "- {name: insertOne, object: collection0, arguments: {docment: {}}, ignoreResultAndError: true}"
        )
        outcome = world.run(wrong)
        assert outcome.status is Status.ERROR
        assert "insertOne has no argument 'docment'" in outcome.reason

    @pytest.mark.parametrize(
        ("operation", "said"),
        [
            (
                "{name: insertTwo, object: collection0}",
                "'insertTwo' (did you mean 'insertOne'?)",
            ),
            ("{name: find, object: collection1}", "no entity 'collection1' (did you mean 'collection0'?)"),
            ("{name: find, object: collection0}", "find needs argument 'filter'"),
            ("{name: find, object: testRunner}", "testRunner has no operation 'find'"),
            (
                "{name: find, object: database0, arguments: {filter: {}}}",
                "a database has no operation 'find'",
            ),
            (
                "{name: find, object: collection0, arguments: {filter: {}, session: client0}}",
                "'client0' is a client, not a session",
            ),
            (
                REPLACE + "{filter: {}, replacement: {}, returnDocument: x}}",
                "returnDocument cannot be 'x' (Before or After)",
            ),
            (
                "{name: bulkWrite, object: collection0, arguments: {requests: [{insertTwo: {}}]}}",
                "requests[0] has unknown kind 'insertTwo'",
            ),
            (
                "{name: bulkWrite, object: collection0, arguments: {requests: [{insertOne: {}}]}}",
                "requests[0].insertOne needs argument 'document'",
            ),
            ("{name: wait, object: testRunner}", "wait needs argument 'ms'"),
            (
                "{name: wait, object: testRunner, arguments: {ms: soon}}",
                "ms must be an integer from 0 on, is 'soon'",
            ),
            (
                "{name: find, object: collection0, arguments: {filter: {}, session: {}}}",
                "{} is not the name of an entity",
            ),
        ],
    )
    def test_an_operation_that_makes_no_sense_is_an_error_of_the_scenario(
        self, operation: str, said: str, world: World
    ) -> None:
        outcome = world.run(f"- {operation}")
        assert outcome.status is Status.ERROR
        assert said in outcome.reason
        assert outcome.location is not None
        assert outcome.location.line == 11

    def test_an_operation_that_the_driver_lacks_skips_the_case(self, world: World) -> None:
        def refuse(arguments: Mapping[str, Any]) -> None:
            raise UnsupportedOperation("there is no find here")

        world.adapter.answers["find"] = refuse
        outcome = world.run(FIND + "}")
        assert (outcome.status, outcome.reason) == (Status.SKIPPED, "there is no find here")

    @pytest.mark.parametrize(
        ("operation", "feature"),
        [
            ("{name: startTransaction, object: session0}", Feature.TRANSACTIONS),
            (
                "{name: createChangeStream, object: client0, arguments: {pipeline: []}}",
                Feature.CHANGE_STREAMS,
            ),
            ("{name: find, object: collection0, arguments: {filter: {}, timeoutMS: 5}}", Feature.TIMEOUT_MS),
            ("{name: clientBulkWrite, object: client0, arguments: {models: []}}", Feature.CLIENT_BULK_WRITE),
        ],
    )
    def test_an_operation_beyond_the_drivers_features_skips_the_case(
        self, operation: str, feature: Feature, world: World
    ) -> None:
        world.adapter = ScriptedAdapter(lacks=[feature])
        outcome = world.run(f"- {operation}")
        assert outcome.status is Status.SKIPPED
        assert feature.name in outcome.reason
        assert not any(name not in ("endSession", "close") for name, _ in world.adapter.calls)

    def test_a_bug_in_an_adapter_is_an_error_and_not_the_end_of_the_run(self, world: World) -> None:
        def broken(arguments: Mapping[str, Any]) -> None:
            raise ZeroDivisionError("oops")

        world.adapter.answers["find"] = broken
        outcome = world.run(FIND + "}")
        assert (outcome.status, outcome.reason) == (Status.ERROR, "ZeroDivisionError: oops")
        assert world.adapter.clients[0].closed


class TestSavedResults:
    def test_a_result_can_be_saved_and_matched(self, world: World) -> None:
        world.adapter.answers.update(insertOne={"insertedId": 5}, findOne={"insertedId": 5})
        find = "- {name: findOne, object: collection0, arguments: {filter: {}}"
        operations = (
            INSERT + ", saveResultAsEntity: saved}\n" + find + ", expectResult: {$$matchesEntity: saved}}"
        )
        assert world.run(operations).status is Status.PASSED

    def test_a_missing_result_cannot_be_saved(self, world: World) -> None:
        outcome = world.run(INSERT + ", saveResultAsEntity: saved}")
        assert (outcome.status, outcome.reason) == (
            Status.ERROR,
            "insertOne has no result to save as 'saved'",
        )

    def test_a_cursor_that_is_saved_can_be_iterated_and_is_closed_at_the_end(self, world: World) -> None:
        cursor = object()
        world.adapter.answers.update(
            createFindCursor=lambda _: cursor, iterateUntilDocumentOrError={"x": 1, "y": 2}
        )
        create = CREATE_CURSOR + ", saveResultAsEntity: cursor0}\n"
        iterate = "- {name: iterateUntilDocumentOrError, object: cursor0, expectResult: {x: 1}}"
        assert world.run(create + iterate).status is Status.PASSED
        assert [name for name, _ in world.adapter.calls].count("close") == 1

    def test_a_change_stream_that_is_not_saved_is_closed_too(self, world: World) -> None:
        world.adapter.answers["createChangeStream"] = lambda _: object()
        operation = "- {name: createChangeStream, object: collection0, arguments: {pipeline: []}}"
        assert world.run(operation).status is Status.PASSED
        assert "close" in [name for name, _ in world.adapter.calls]

    def test_a_created_collection_is_saved_as_a_collection(self, world: World) -> None:
        world.adapter.answers["createCollection"] = lambda _: object()
        create = (
            "- {name: createCollection, object: database0, arguments: {collection: c},"
            " saveResultAsEntity: made}\n"
        )
        find = "- {name: find, object: made, arguments: {filter: {}}}"
        assert world.run(create + find).status is Status.PASSED

    def test_errors_of_closing_a_cursor_are_not_told(self, world: World) -> None:
        world.adapter.answers.update(createFindCursor=lambda _: object(), close=FAILURE)
        create = CREATE_CURSOR + ", saveResultAsEntity: c}\n"
        assert world.run(create + "- {name: close, object: c}").status is Status.PASSED


class TestTransactions:
    CALLBACK = """\
- name: withTransaction
  object: session0
  arguments:
    callback:
      - {name: insertOne, object: collection0, arguments: {document: {}}, expectError: {errorCode: 26}}
  expectError: {errorCode: 26}"""

    def test_an_error_in_the_callback_reaches_the_driver_even_if_expected(self, world: World) -> None:
        seen: list[OperationFailed] = []

        def run(arguments: Mapping[str, Any]) -> Any:
            async def transaction() -> None:
                try:
                    await arguments["callback"]()
                except OperationFailed as failed:
                    seen.append(failed)
                    raise

            return transaction()

        world.adapter.answers.update(withTransaction=run, insertOne=FAILURE)
        assert world.run(self.CALLBACK).status is Status.PASSED
        assert len(seen) == 1

    def test_open_transactions_are_ended_on_the_primary(self, world: World) -> None:
        assert world.run("- {name: startTransaction, object: session0}").status is Status.PASSED
        assert [sent[2] for sent in world.deployment.sent("killAllSessions")] == [None]
        assert world.adapter.handles[2].ended

    def test_and_on_each_mongos(self, world: World) -> None:
        world.deployment.topology = Topology.SHARDED
        world.run("- {name: startTransaction, object: session0}")
        assert [sent[2] for sent in world.deployment.sent("killAllSessions")] == ["a:1", "b:2"]

    def test_but_not_on_servers_that_end_with_the_case(self, world: World) -> None:
        world.deployment.ends_with_case = True
        world.run("- {name: startTransaction, object: session0}")
        assert not world.deployment.sent("killAllSessions")

    def test_a_case_without_transactions_kills_no_sessions(self, world: World) -> None:
        world.run(FIND + "}")
        assert not world.deployment.sent("killAllSessions")

    def test_sessions_on_a_sharded_cluster_know_the_cluster_time_of_the_data(self, world: World) -> None:
        world.deployment.topology = Topology.SHARDED
        world.deployment.replies["ping"] = {"ok": 1, "$clusterTime": {"clusterTime": 5}}
        world.run("- {name: startTransaction, object: session0}")
        assert world.adapter.advanced == [{"clusterTime": 5}]

    def test_a_distinct_in_a_transaction_is_warmed_up_on_each_mongos(self, world: World) -> None:
        world.deployment.topology = Topology.SHARDED
        distinct = "\n- {name: distinct, object: collection0, arguments: {fieldName: x, filter: {}}}"
        data = "initialData: [{databaseName: db, collectionName: coll, documents: []}]\n"
        world.run("- {name: startTransaction, object: session0}" + distinct, head=ENTITIES + data)
        assert [sent[2] for sent in world.deployment.sent("distinct")] == ["a:1", "b:2"]


class TestData:
    DATA = "initialData: [{databaseName: db, collectionName: coll, documents: [{_id: 1, x: 1}]}]\n"
    OUTCOME = "    outcome: [{{databaseName: db, collectionName: coll, documents: {}}}]\n"

    def test_collections_are_dropped_and_filled_with_majority(self, world: World) -> None:
        world.deployment.data["db.coll"] = [{"_id": 0}]
        outcome = world.run("", self.OUTCOME.format("[{x: 1, _id: 1}]"), head=ENTITIES + self.DATA)
        assert outcome.status is Status.PASSED
        names = [next(iter(command)) for _, command, _ in world.deployment.commands]
        assert names == ["drop", "insert", "find"]
        assert all(
            command.get("writeConcern") == {"w": "majority"}
            for _, command, _ in world.deployment.commands[:2]
        )

    def test_a_collection_without_documents_is_created(self, world: World) -> None:
        options = self.DATA.replace(
            "documents: [{_id: 1, x: 1}]", "createOptions: {capped: true}, documents: []"
        )
        world.run("", head=ENTITIES + options)
        ((_, command, _),) = world.deployment.sent("create")
        assert command["capped"] is True

    def test_other_data_at_the_end_fail_the_case_at_the_line_of_the_outcome(self, world: World) -> None:
        outcome = world.run("", self.OUTCOME.format("[{_id: 1}]"), head=ENTITIES + self.DATA)
        assert outcome.status is Status.FAILED
        assert outcome.reason == "collection db.coll differs: documents[0].x: is not expected here"
        assert outcome.location is not None
        assert outcome.location.field == "tests[0].outcome[0]"

    def test_a_server_that_refuses_the_data_is_an_error(self, world: World) -> None:
        world.deployment.replies["insert"] = {"ok": 1, "writeErrors": [{"code": 1, "errmsg": "no"}]}
        outcome = world.run("", head=ENTITIES + self.DATA)
        assert (outcome.status, outcome.reason) == (Status.ERROR, "the server refused insert on db: no")


class TestFailPoints:
    FAIL_POINT = (
        "- {name: failPoint, object: testRunner, arguments:"
        " {client: client0, failPoint: {configureFailPoint: failCommand, mode: alwaysOn}}}"
    )

    def test_the_client_sets_it_and_it_is_turned_off_everywhere(self, world: World) -> None:
        assert world.run(self.FAIL_POINT).status is Status.PASSED
        name, arguments = world.adapter.calls[0]
        assert name == "runCommand"
        assert arguments["command"] == {"configureFailPoint": "failCommand", "mode": "alwaysOn"}
        off = world.deployment.sent("configureFailPoint")
        assert [(command["mode"], address) for _, command, address in off] == [("off", "a:1"), ("off", "b:2")]

    def test_of_servers_that_end_with_the_case_the_one_is_asked_whose_data_is_read(
        self, world: World
    ) -> None:
        world.deployment.ends_with_case = True
        assert world.run(self.FAIL_POINT).status is Status.PASSED
        off = world.deployment.sent("configureFailPoint")
        assert [(command["mode"], address) for _, command, address in off] == [("off", None)]

    def test_it_is_turned_off_when_the_case_fails_too(self, world: World) -> None:
        world.adapter.answers["find"] = FAILURE
        assert world.run(f"{self.FAIL_POINT}\n{FIND}}}").status is Status.FAILED
        assert len(world.deployment.sent("configureFailPoint")) == 2

    def test_clients_of_a_case_with_fail_points_look_for_servers_often(self, world: World) -> None:
        world.run(self.FAIL_POINT)
        assert world.adapter.clients[0].spec.uri == "mongodb://a:1/?heartbeatFrequencyMS=500"

    def test_but_not_against_their_own_options(self, world: World) -> None:
        head = ENTITIES.replace("{id: client0,", "{id: client0, uriOptions: {heartbeatFrequencyMs: 9000},")
        world.run(self.FAIL_POINT, head=head)
        assert world.adapter.clients[0].spec.uri == "mongodb://a:1/?heartbeatFrequencyMs=9000"

    TARGETED = (
        "- {name: targetedFailPoint, object: testRunner, arguments:"
        " {session: session0, failPoint: {configureFailPoint: failCommand, mode: alwaysOn}}}"
    )

    def test_a_targeted_one_goes_to_the_server_of_the_session(self, world: World) -> None:
        world.deployment.topology = Topology.SHARDED

        def pin(arguments: Mapping[str, Any]) -> None:
            world.adapter.handles[2].state = SessionState({"id": b"lsid"}, pinned="b:2")

        world.adapter.answers["find"] = pin
        assert world.run(f"{FIND}}}\n{self.TARGETED}").status is Status.PASSED
        assert world.deployment.sent("configureFailPoint")[0][2] == "b:2"

    def test_a_session_that_is_not_pinned_cannot_be_targeted(self, world: World) -> None:
        outcome = world.run(self.TARGETED)
        assert (outcome.status, outcome.reason) == (
            Status.FAILED,
            "session 'session0' is not pinned to a server",
        )


class TestEvents:
    EXPECT = "    expectEvents: [{client: client0, events: [{commandStartedEvent: {commandName: find}}]}]\n"

    def test_expected_events_are_compared_and_the_observed_ones_reported(self, world: World) -> None:
        world.adapter.answers["find"] = world.observe(started(find="coll"), Event("poolReadyEvent", {}))
        outcome = world.run(FIND + "}", self.EXPECT)
        assert outcome.status is Status.PASSED
        assert outcome.events == {"client0": (started(find="coll"),)}

    def test_a_divergence_fails_the_case_at_the_line_of_the_event(self, world: World) -> None:
        world.adapter.answers["find"] = world.observe(started(insert="coll"))
        outcome = world.run(FIND + "}", self.EXPECT)
        assert outcome.status is Status.FAILED
        assert "events[0].commandName: expected 'find', got 'insert'" in outcome.reason
        assert outcome.location is not None
        assert outcome.location.line == 12
        assert outcome.events == {"client0": (started(insert="coll"),)}

    def test_the_driver_is_asked_for_what_the_scenario_and_the_runner_observe(self, world: World) -> None:
        world.run("")
        kinds = world.adapter.clients[0].spec.observe_events
        assert {"commandStartedEvent", "connectionCheckedOutEvent", "connectionCheckedInEvent"} <= kinds

    def test_expected_log_messages_are_compared(self, world: World) -> None:
        head = "createEntities: [{client: {id: client0, observeLogMessages: {command: debug}}}]\n"
        close = "- {object: client0, name: close}"
        expect = (
            "    expectLogMessages: [{client: client0, messages:"
            " [{level: debug, component: command, data: {message: bye}}]}]\n"
        )
        for text, status in (("bye", Status.PASSED), ("hello", Status.FAILED)):
            said = {"level": "debug", "component": "command", "data": {"message": text}}
            world.adapter.logs_at_close = [Event(LOG_MESSAGE, said)]
            outcome = world.run(close, expect, head)
            assert outcome.status is status
        assert "messages[0].data.message: expected 'bye', got 'hello'" in outcome.reason
        assert world.adapter.clients[0].spec.observe_logs == {"command"}

    def test_a_log_message_may_come_a_little_after_the_event_that_was_waited_for(self, world: World) -> None:
        head = "createEntities: [{client: {id: client0, observeLogMessages: {command: debug}}}]\n"
        expect = (
            "    expectLogMessages: [{client: client0, messages:"
            " [{level: debug, component: command, data: {message: bye}}]}]\n"
        )
        said = Event(LOG_MESSAGE, {"level": "debug", "component": "command", "data": {"message": "bye"}})

        async def log_later(arguments: Mapping[str, Any]) -> None:
            asyncio.get_running_loop().call_later(0.2, world.adapter.clients[0].events.append, said)

        world.adapter.answers["listDatabases"] = log_later
        outcome, took = world.run_virtual("- {object: client0, name: listDatabases}", expect, head)
        assert outcome.status is Status.PASSED, outcome.reason
        assert 0.2 <= took < 0.21

    def test_expected_spans_are_compared(self, world: World) -> None:
        tracing = "observeTracingMessages: {enableCommandPayload: true}"
        head = f"createEntities: [{{client: {{id: client0, {tracing}}}}}]\n"
        close = "- {object: client0, name: close}"
        expect = "    expectTracingMessages: [{client: client0, spans: [{name: bye, attributes: {x: 1}}]}]\n"
        for number, status in ((1, Status.PASSED), (2, Status.FAILED)):
            fields = {"id": 1, "parent": None, "name": "bye", "attributes": {"x": number}, "order": 0}
            world.adapter.logs_at_close = [Event(SPAN, fields)]
            outcome = world.run(close, expect, head)
            assert outcome.status is status, outcome.reason
        assert "[0].attributes.x: expected 1, got 2" in outcome.reason
        assert world.adapter.clients[0].spec.observe_spans == {"enableCommandPayload": True}

    @pytest.mark.parametrize(
        ("lsids", "holds"),
        [((1, 1), {"Same"}), ((1, 2), {"Different"}), ((0, 1, 1), {"Same"}), ((1,), set())],
    )
    @pytest.mark.parametrize("name", ["Same", "Different"])
    def test_lsids_of_the_last_two_commands(
        self, lsids: tuple[int, ...], holds: set[str], name: str, world: World
    ) -> None:
        world.adapter.answers["find"] = world.observe(*(started(find="c", lsid={"id": n}) for n in lsids))
        operation = f"assert{name}LsidOnLastTwoCommands"
        check = f"- {{name: {operation}, object: testRunner, arguments: {{client: client0}}}}"
        outcome = world.run(f"{FIND}}}\n{check}")
        assert outcome.status is (Status.PASSED if name in holds else Status.FAILED)

    WAIT = (
        "- {{name: {}, object: testRunner,"
        " arguments: {{client: client0, event: {{connectionReadyEvent: {{}}}}, count: {}}}}}"
    )

    def test_events_are_counted(self, world: World) -> None:
        world.adapter.answers["find"] = world.observe(*[Event("connectionReadyEvent", {})] * 2)
        assert world.run(f"{FIND}}}\n" + self.WAIT.format("assertEventCount", 2)).status is Status.PASSED
        world.adapter.clients.clear()
        outcome = world.run(f"{FIND}}}\n" + self.WAIT.format("assertEventCount", 1))
        assert outcome.reason == "expected 1 connectionReadyEvent, 2 were observed"

    def test_an_event_that_does_not_come_fails_the_case_after_ten_virtual_seconds(self, world: World) -> None:
        outcome, seconds = world.run_virtual(self.WAIT.format("waitForEvent", 1))
        assert outcome.reason == "0 of 1 connectionReadyEvent were observed within 10 s"
        assert seconds == pytest.approx(10.0)

    def test_an_event_that_has_come_is_not_waited_for(self, world: World) -> None:
        world.adapter.answers["find"] = world.observe(Event("connectionReadyEvent", {}))
        outcome, seconds = world.run_virtual(f"{FIND}}}\n" + self.WAIT.format("waitForEvent", 1))
        assert (outcome.status, seconds) == (Status.PASSED, 0.0)

    def test_connections_that_are_checked_out_are_counted(self, world: World) -> None:
        world.adapter.answers["find"] = world.observe(Event("connectionCheckedOutEvent", {}))
        check = (
            "- {{name: assertNumberConnectionsCheckedOut, object: testRunner,"
            " arguments: {{client: client0, connections: {}}}}}"
        )
        assert world.run(f"{FIND}}}\n" + check.format(1)).status is Status.PASSED
        assert world.run(check.format(1)).status is Status.FAILED

    def test_a_client_is_ready_when_its_pools_are_full_and_earlier_events_are_dropped(
        self, world: World
    ) -> None:
        head = ENTITIES.replace(
            "{id: client0,", "{id: client0, uriOptions: {minPoolSize: 1}, awaitMinPoolSizeMS: 50,"
        )
        outcome = world.run("", head=head)
        assert outcome.status is Status.FAILED
        assert "did not have 2 connections after 50 ms" in outcome.reason


class TestSessionsAndTopologies:
    @pytest.mark.parametrize(
        ("operation", "state", "status"),
        [
            ("assertSessionDirty", {"dirty": True}, Status.PASSED),
            ("assertSessionDirty", {}, Status.FAILED),
            ("assertSessionNotDirty", {}, Status.PASSED),
            ("assertSessionPinned", {"pinned": "a:1"}, Status.PASSED),
            ("assertSessionPinned", {}, Status.FAILED),
            ("assertSessionUnpinned", {}, Status.PASSED),
            ("assertSessionUnpinned", {"pinned": "a:1"}, Status.FAILED),
        ],
    )
    def test_states_of_a_session(
        self, operation: str, state: dict[str, Any], status: Status, world: World
    ) -> None:
        def set_state(arguments: Mapping[str, Any]) -> None:
            world.adapter.handles[-1].state = SessionState({"id": b"lsid"}, **state)

        world.adapter.answers["find"] = set_state
        check = f"- {{name: {operation}, object: testRunner, arguments: {{session: session0}}}}"
        assert world.run(f"{FIND}}}\n{check}").status is status

    def test_the_state_of_a_transaction(self, world: World) -> None:
        check = (
            "- {{name: assertSessionTransactionState, object: testRunner,"
            " arguments: {{session: session0, state: {}}}}}"
        )
        assert world.run(check.format("none")).status is Status.PASSED
        assert "expected to be in state committed" in world.run(check.format("committed")).reason

    RECORD = (
        "- {name: recordTopologyDescription, object: testRunner, arguments: {client: client0, id: before}}\n"
    )

    def test_a_topology_can_be_recorded_and_its_type_asserted(self, world: World) -> None:
        check = (
            "- {{name: assertTopologyType, object: testRunner,"
            " arguments: {{topologyDescription: before, topologyType: {}}}}}"
        )
        assert world.run(self.RECORD + check.format("ReplicaSetWithPrimary")).status is Status.PASSED
        assert world.run(self.RECORD + check.format("Single")).status is Status.FAILED

    CHANGE = (
        "- {name: waitForPrimaryChange, object: testRunner,"
        " arguments: {client: client0, priorTopologyDescription: before, timeoutMS: 1000}}"
    )

    def test_a_change_of_primary_is_awaited(self, world: World) -> None:
        world.adapter.primaries = ["a:1", "a:1", None, "b:2"]
        outcome, _ = world.run_virtual(self.RECORD + self.CHANGE)
        assert outcome.status is Status.PASSED

    def test_a_primary_that_does_not_change_fails_the_case_in_time(self, world: World) -> None:
        outcome, seconds = world.run_virtual(self.RECORD + self.CHANGE)
        assert outcome.reason == "the primary was still a:1 after 1 s"
        assert seconds == pytest.approx(1.0)


EXISTENCE = ("Exists", "NotExists")


class TestNamespaces:
    def listed(self, *names: str) -> dict[str, Any]:
        return {"ok": 1, "cursor": {"firstBatch": [{"name": name} for name in names]}}

    @pytest.mark.parametrize(("names", "exists"), [(["coll"], "Exists"), ([], "NotExists")])
    def test_collections(self, names: list[str], exists: str, world: World) -> None:
        world.deployment.replies["listCollections"] = self.listed(*names)
        check = (
            "- {{name: assertCollection{}, object: testRunner,"
            " arguments: {{databaseName: db, collectionName: coll}}}}"
        )
        passed = [name for name in EXISTENCE if world.run(check.format(name)).status is Status.PASSED]
        assert passed == [exists]

    @pytest.mark.parametrize(
        ("reply", "exists"),
        [
            ({"ok": 1, "cursor": {"firstBatch": [{"name": "x_1"}]}}, "Exists"),
            ({"ok": 1, "cursor": {"firstBatch": [{"name": "_id_"}]}}, "NotExists"),
            ({"ok": 0, "code": 26}, "NotExists"),
        ],
    )
    def test_indexes(self, reply: dict[str, Any], exists: str, world: World) -> None:
        world.deployment.replies["listIndexes"] = reply
        check = (
            "- {{name: assertIndex{}, object: testRunner,"
            " arguments: {{databaseName: db, collectionName: coll, indexName: x_1}}}}"
        )
        passed = [name for name in EXISTENCE if world.run(check.format(name)).status is Status.PASSED]
        assert passed == [exists]


class TestTimeAndThreads:
    def test_a_wait_takes_its_time_on_the_deployments_clock(self, world: World) -> None:
        outcome, seconds = world.run_virtual("- {name: wait, object: testRunner, arguments: {ms: 3600000}}")
        assert outcome.status is Status.PASSED
        assert seconds == pytest.approx(3600.0)

    THREAD = (
        "- {name: createEntities, object: testRunner, arguments: {entities: [{thread: {id: thread0}}]}}\n"
    )
    RUN = (
        "- {name: runOnThread, object: testRunner, arguments: {thread: thread0,"
        " operation: {name: find, object: collection0, arguments: {filter: {}}}}}\n"
    )
    JOIN = "- {name: waitForThread, object: testRunner, arguments: {thread: thread0}}"

    def test_operations_run_on_a_thread(self, world: World) -> None:
        outcome, _ = world.run_virtual(self.THREAD + self.RUN + self.JOIN)
        assert outcome.status is Status.PASSED
        assert world.adapter.calls[0][0] == "find"

    def test_a_failure_on_a_thread_fails_the_case_where_it_is_awaited(self, world: World) -> None:
        world.adapter.answers["find"] = FAILURE
        outcome, _ = world.run_virtual(self.THREAD + self.RUN + self.JOIN)
        assert (outcome.status, outcome.reason) == (Status.FAILED, "find failed: no such thing")

    def test_a_case_is_skipped_at_once_whose_thread_needs_what_the_driver_lacks(self, world: World) -> None:
        def refuse(arguments: Mapping[str, Any]) -> None:
            raise UnsupportedOperation("there is no find here")

        world.adapter.answers["find"] = refuse
        wait = TestEvents.WAIT.format("waitForEvent", 1)
        outcome, seconds = world.run_virtual(self.THREAD + self.RUN + wait)
        assert (outcome.status, outcome.reason) == (Status.SKIPPED, "there is no find here")
        assert seconds < 1

    def test_a_thread_that_does_not_end_fails_the_case_and_is_stopped(self, world: World) -> None:
        world.adapter.answers["find"] = lambda _: forever()
        outcome, seconds = world.run_virtual(self.THREAD + self.RUN + self.JOIN)
        assert outcome.reason == "thread 'thread0' was still running after 10 s"
        assert seconds == pytest.approx(10.0)


async def forever() -> None:
    await asyncio.Event().wait()


class TestClients:
    def test_every_client_is_closed_at_the_end_and_its_sessions_are_ended(self, world: World) -> None:
        world.adapter.answers["find"] = FAILURE
        world.run(FIND + "}")
        assert world.adapter.clients[0].closed == 1
        assert world.adapter.handles[2].ended

    def test_a_scenario_can_close_a_client(self, world: World) -> None:
        assert world.run("- {name: close, object: client0}").status is Status.PASSED
        assert world.adapter.clients[0].closed == 2

    @pytest.mark.parametrize(
        ("topology", "option", "uri"),
        [
            (Topology.REPLICA_SET, "true", "mongodb://a:1/"),
            (Topology.SHARDED, "true", "mongodb://a:1,b:2/"),
            (Topology.SHARDED, "false", "mongodb://a:1/"),
            (Topology.SHARDED, None, "mongodb://a:1/"),
            (Topology.LOAD_BALANCED, None, "mongodb://a:1,b:2/"),
            (Topology.LOAD_BALANCED, "false", "mongodb://a:1/"),
        ],
    )
    def test_the_connection_string_follows_use_multiple_mongoses(
        self, topology: Topology, option: str | None, uri: str, world: World
    ) -> None:
        world.deployment.topology = topology
        multiple = f", useMultipleMongoses: {option}" if option else ""
        world.run("", head=f"createEntities: [{{client: {{id: client0{multiple}}}}}]\n")
        assert world.adapter.clients[0].spec.uri == uri

    def test_two_mongos_are_needed_where_two_are_asked_for(self, world: World) -> None:
        world.deployment.topology, world.deployment.uri_multi = Topology.SHARDED, "mongodb://a:1/"
        outcome = world.run("", head="createEntities: [{client: {id: c, useMultipleMongoses: true}}]\n")
        assert (outcome.status, outcome.reason) == (
            Status.SKIPPED,
            "useMultipleMongoses needs a deployment with two mongos",
        )

    def test_an_entity_that_refers_to_nothing_is_an_error_at_its_line(self, world: World) -> None:
        outcome = world.run("", head="createEntities: [{database: {id: d, client: c, databaseName: x}}]\n")
        assert (outcome.status, outcome.reason) == (
            Status.ERROR,
            "there is no entity 'c' (entities so far: none)",
        )
        assert outcome.location is not None
        assert outcome.location.line == 3

    def test_a_case_that_may_not_run_here_touches_neither_driver_nor_servers(self, world: World) -> None:
        outcome = world.run(FIND + "}", head="runOnRequirements: [{auth: true}]\n" + ENTITIES)
        assert (outcome.status, outcome.reason) == (Status.SKIPPED, "needs authentication on")
        assert not world.adapter.clients
        assert not world.deployment.commands
