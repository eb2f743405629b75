"""OpenTelemetry: spans of operations and commands, as the SDK sees them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from driven_client import Stage, play
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from scripted_mongod import Drop, ScriptedMongod, error, standalone_hello

from driver.cmap.metadata import NAME, VERSION
from driver.errors import BulkError, ConfigurationError, DriverError, ServerError, WriteError
from driver.execute import Executor
from driver.operations.base import collection_of
from driver.operations.models import InsertOne, UpdateOne
from driver.tracing.options import ENABLED, QUERY_TEXT_LENGTH, TracingOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from opentelemetry.sdk.trace import ReadableSpan

    from driver.operations.models import WriteModel


class Recorded:
    """The spans of a scenario by name, those that ended first before the others."""

    def __init__(self, spans: tuple[ReadableSpan, ...]) -> None:
        self.spans = [span for span in spans if "endSessions" not in span.name]

    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    def one(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def attributes(self, name: str) -> dict[str, Any]:
        return dict(self.one(name).attributes or {})

    def within(self, name: str) -> list[str]:
        outer = self.one(name).context
        return [span.name for span in self.spans if span.parent and span.parent.span_id == outer.span_id]

    def roots(self) -> list[str]:
        return [span.name for span in self.spans if span.parent is None]


def traced(
    scenario: Callable[[Stage], Coroutine[Any, Any, None]], *, text: int = 0, **given: Any
) -> Recorded:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    play(scenario, tracing=TracingOptions(query_text_length=text, provider=provider), **given)
    return Recorded(exporter.get_finished_spans())


# --- whether and how much ---


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, TracingOptions(enabled=False)),
        ({ENABLED: "false"}, TracingOptions(enabled=False)),
        ({ENABLED: "True"}, TracingOptions()),
        ({ENABLED: "1", QUERY_TEXT_LENGTH: "50"}, TracingOptions(query_text_length=50)),
        ({ENABLED: "1", QUERY_TEXT_LENGTH: "much"}, TracingOptions()),
    ],
)
def test_the_environment_decides_what_is_traced(environment: dict[str, str], options: TracingOptions) -> None:
    assert TracingOptions.of_environment(environment) == options


def test_a_client_is_not_traced_unless_asked_for_whatever_the_sdk() -> None:
    kinds: list[type[Executor]] = []

    async def scenario(stage: Stage) -> None:
        kinds.append(type(stage.client.executor))
        await stage.client.command("admin", {"ping": 1})

    play(scenario)
    assert kinds == [Executor]


def test_the_environment_is_asked_by_a_client_that_was_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[type[Executor]] = []

    async def scenario(stage: Stage) -> None:
        kinds.append(type(stage.client.executor))

    monkeypatch.setenv(ENABLED, "true")
    play(scenario)
    play(scenario, tracing=TracingOptions(enabled=False))
    assert [kind.__name__ for kind in kinds] == ["TracedExecutor", "Executor"]


def test_tracing_without_opentelemetry_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "driver.tracing.spans", None)
    with pytest.raises(ConfigurationError, match=r"pushbackd\[otel\]"):
        TracingOptions().tracing()
    assert TracingOptions(enabled=False).tracing() is None


def test_the_tracer_has_the_driver_s_name_and_version() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})

    scope = traced(scenario).one("ping").instrumentation_scope
    assert scope is not None
    assert (scope.name, scope.version) == (NAME, VERSION)


# --- operations and commands ---


def test_a_command_is_within_its_operation() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.collection.insert_one({"_id": 1})

    members = [ScriptedMongod(7, standalone_hello(connectionId=9))]
    spans = traced(scenario, members=members)
    assert spans.roots() == ["insert db.things"]
    assert spans.within("insert db.things") == ["insert"]
    assert {span.kind for span in spans.spans} == {SpanKind.CLIENT}
    assert spans.attributes("insert db.things") == {
        "db.system.name": "mongodb",
        "db.namespace": "db",
        "db.collection.name": "things",
        "db.operation.name": "insert",
        "db.operation.summary": "insert db.things",
    }
    command = spans.attributes("insert")
    assert json.loads(command.pop("db.mongodb.lsid")).keys() == {"id"}
    assert command == {
        "db.system.name": "mongodb",
        "db.namespace": "db",
        "db.collection.name": "things",
        "db.command.name": "insert",
        "db.query.summary": "insert db.things",
        "server.address": "localhost",
        "server.port": 7,
        "network.transport": "tcp",
        "db.mongodb.driver_connection_id": 1,
        "db.mongodb.server_connection_id": 9,
    }


def test_the_text_of_a_command_is_told_only_where_asked_and_without_what_drivers_add() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.collection.find_one({"x": 1})

    told = json.loads(traced(scenario, text=1000).attributes("find")["db.query.text"])
    assert told["filter"] == {"x": 1}
    assert not told.keys() & {"lsid", "$db", "$clusterTime"}
    assert traced(scenario, text=9).attributes("find")["db.query.text"] == '{"find": ...'
    assert "db.query.text" not in traced(scenario).attributes("find")


def test_a_cursor_is_told_where_it_is_opened_and_used() -> None:
    async def scenario(stage: Stage) -> None:
        first = {"ok": 1.0, "cursor": {"id": 5, "ns": "db.things", "firstBatch": [{"x": 1}]}}
        stage.primary.will("find", first)
        stage.primary.will("getMore", {"ok": 1.0, "cursor": {"id": 0, "ns": "db.things", "nextBatch": []}})
        await (await stage.collection.find({})).to_list()
        await (await stage.collection.find({"x": 2})).to_list()

    spans = traced(scenario)
    finds = [dict(span.attributes or {}) for span in spans.spans if span.name == "find"]
    assert [find.get("db.mongodb.cursor_id") for find in finds] == [5, None]
    assert spans.attributes("getMore")["db.mongodb.cursor_id"] == 5
    assert spans.attributes("getMore db.things")["db.collection.name"] == "things"


def test_each_attempt_has_a_span_and_the_lost_one_says_why() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", error(91, "going down", "RetryableWriteError"))
        await stage.collection.insert_one({"_id": 1})

    spans = traced(scenario)
    assert spans.within("insert db.things") == ["insert", "insert"]
    lost, taken = (dict(span.attributes or {}) for span in spans.spans if span.name == "insert")
    assert lost["db.response.status_code"] == "91"
    assert lost["exception.type"] == "ServerError"
    assert lost["exception.message"] == "going down"
    assert "raise" in str(lost["exception.stacktrace"])
    assert not any(name.startswith(("exception", "db.response")) for name in taken)
    assert "exception.type" not in spans.attributes("insert db.things")


def test_an_operation_that_fails_says_why() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("ping", Drop())
        with pytest.raises(DriverError):
            await stage.client.command("admin", {"ping": 1})

    spans = traced(scenario)
    for name in ("ping", "ping admin"):
        assert spans.attributes(name)["exception.type"] == "NetworkError"
        assert spans.one(name).status.status_code is StatusCode.ERROR
    assert "db.response.status_code" not in spans.attributes("ping")


def test_a_write_error_is_the_operation_s_and_not_the_command_s() -> None:
    async def scenario(stage: Stage) -> None:
        refused = {"ok": 1.0, "n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "twice"}]}
        stage.primary.will("insert", refused)
        with pytest.raises(WriteError):
            await stage.collection.insert_one({"_id": 1})

    spans = traced(scenario)
    assert spans.attributes("insert db.things")["exception.type"] == "WriteError"
    assert "exception.type" not in spans.attributes("insert")


def test_secrets_appear_in_no_span() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("createUser", error(18, "s3cret"))
        with pytest.raises(ServerError):
            await stage.client.command("admin", {"createUser": "u", "pwd": "s3cret"})

    spans = traced(scenario, text=1000)
    assert spans.names() == ["createUser admin"]
    assert "s3cret" not in spans.one("createUser admin").to_json()
    assert spans.attributes("createUser admin")["exception.type"] == "ServerError"


def test_a_bulk_write_is_one_operation_of_several_commands() -> None:
    async def scenario(stage: Stage) -> None:
        models: list[WriteModel] = [
            InsertOne(document={"_id": 1}),
            UpdateOne(filter={}, update={"$set": {"x": 1}}),
        ]
        stage.primary.will("insert", {"ok": 1.0, "n": 1}, {"ok": 1.0, "n": 1}, error(8, "boom"))
        await stage.collection.bulk_write(models)
        await stage.collection.insert_many([{}])
        with pytest.raises(BulkError):
            await stage.collection.bulk_write(models[:1])

    spans = traced(scenario)
    assert spans.roots() == ["bulkWrite db.things", "insert db.things", "bulkWrite db.things"]
    first = next(span for span in spans.spans if span.name == "bulkWrite db.things")
    inner = [
        span.name for span in spans.spans if span.parent and span.parent.span_id == first.context.span_id
    ]
    assert inner == ["insert", "update"]
    failed = dict(spans.spans[-1].attributes or {})
    assert failed["exception.type"] == "BulkWriteError"


def test_a_client_bulk_write_is_about_no_collection() -> None:
    async def scenario(stage: Stage) -> None:
        cursor = {"id": 0, "ns": "admin.$cmd", "firstBatch": []}
        counts = dict.fromkeys(("nErrors", "nInserted", "nUpserted", "nMatched", "nModified", "nDeleted"), 0)
        stage.primary.will("bulkWrite", {"ok": 1.0, "cursor": cursor, **counts})
        await stage.client.bulk_write([InsertOne(document={"_id": 1}, namespace="db.things")])

    spans = traced(scenario)
    assert spans.within("bulkWrite admin") == ["bulkWrite"]
    assert "db.collection.name" not in spans.attributes("bulkWrite admin")


def test_operations_whose_command_has_another_name_keep_their_own() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.database("db").create_collection("made")
        await stage.client.database("db").drop_collection("made")

    spans = traced(scenario)
    assert spans.roots() == ["createCollection db.made", "dropCollection db.made"]
    assert spans.within("dropCollection db.made") == ["drop"]


@pytest.mark.parametrize(
    ("command", "collection"),
    [
        ({"find": "t"}, "t"),
        ({"getMore": 5, "collection": "t"}, "t"),
        ({"aggregate": 1}, None),
        ({"ping": 1}, None),
        ({"dropRole": "reader"}, None),
    ],
)
def test_a_command_is_about_a_collection_if_its_name_says_so(
    command: dict[str, Any], collection: str | None
) -> None:
    assert collection_of(command) == collection


# --- transactions ---


def test_a_transaction_holds_its_operations_up_to_its_end() -> None:
    async def scenario(stage: Stage) -> None:
        async with stage.client.start_session() as session:
            session.start_transaction()
            await stage.collection.insert_one({}, session=session)
            await session.commit_transaction()
            await stage.collection.find_one({}, session=session)

    spans = traced(scenario)
    assert spans.roots() == ["transaction", "find db.things"]
    assert spans.within("transaction") == ["insert db.things", "commitTransaction admin"]
    assert spans.attributes("transaction") == {"db.system.name": "mongodb"}
    assert spans.attributes("insert")["db.mongodb.txn_number"] == 1


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction", "aclose", "end"])
def test_a_transaction_that_did_nothing_has_an_end_too(end: str) -> None:
    async def scenario(stage: Stage) -> None:
        session = stage.client.start_session()
        session.start_transaction()
        ending = getattr(session, end)()
        if ending is not None:
            await ending

    assert traced(scenario).names() == ["transaction"]


def test_with_transaction_shows_a_transaction_for_each_attempt() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", error(112, "conflict", "TransientTransactionError"))

        async def callback(session: Any) -> None:
            await stage.collection.insert_one({}, session=session)

        async with stage.client.start_session() as session:
            await session.with_transaction(callback)

    spans = traced(scenario)
    assert spans.roots() == ["transaction", "transaction"]
    operations = [span.name for span in spans.spans if span.name.endswith((" admin", " db.things"))]
    assert operations == [
        *("insert db.things", "abortTransaction admin", "insert db.things", "commitTransaction admin")
    ]
