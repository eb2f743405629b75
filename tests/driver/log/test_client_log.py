"""Structured logging: components, levels, messages, and what must not be in them."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest
from bson import ObjectId
from driven_client import Stage, discovered, play
from scripted_mongod import Drop, ScriptedMongod, error, mongos_hello, replica_set, standalone_hello

from driver.concerns import ReadMode, ReadPreference
from driver.errors import DriverError, ServerError
from driver.log import client_log
from driver.log.components import (
    OFF,
    ROOT,
    Component,
    configure,
    document_length,
    handler,
    levels,
)
from driver.log.message import SENTENCES, LogMessage, cut, document_text, error_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLIENT = ObjectId("6500000000000000000000cc")


@pytest.fixture
def unchanged_loggers() -> Iterator[None]:
    loggers = [logging.getLogger(ROOT), *(component.logger for component in Component)]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture
def all_components(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, ROOT)
    return caplog


def heard(caplog: pytest.LogCaptureFixture, component: Component) -> list[dict[str, Any]]:
    records = [record for record in caplog.records if record.name == component.logger.name]
    return [dict(record.msg.data) for record in records if isinstance(record.msg, LogMessage)]


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["message"] for message in messages]


# --- configuration ---


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {}),
        ({"MONGODB_LOG_COMMAND": "debug"}, {Component.COMMAND: logging.DEBUG}),
        ({"MONGODB_LOG_TOPOLOGY": "INFO"}, {Component.TOPOLOGY: logging.INFO}),
        ({"MONGODB_LOG_SERVER_SELECTION": "notice"}, {Component.SERVER_SELECTION: logging.INFO}),
        ({"MONGODB_LOG_CONNECTION": "trace"}, {Component.CONNECTION: logging.DEBUG}),
        ({"MONGODB_LOG_CONNECTION": "emergency"}, {Component.CONNECTION: logging.CRITICAL}),
        ({"MONGODB_LOG_COMMAND": "loud"}, {}),
        ({"MONGODB_LOG_ALL": "warn"}, dict.fromkeys(Component, logging.WARNING)),
        (
            {"MONGODB_LOG_ALL": "debug", "MONGODB_LOG_COMMAND": "off"},
            {**dict.fromkeys(Component, logging.DEBUG), Component.COMMAND: OFF},
        ),
        (
            {"MONGODB_LOG_ALL": "error", "MONGODB_LOG_COMMAND": "loud"},
            dict.fromkeys(Component, logging.ERROR),
        ),
    ],
)
def test_the_environment_sets_the_severity_of_each_component(
    environment: dict[str, str], expected: dict[Component, int]
) -> None:
    assert levels(environment) == expected


@pytest.mark.parametrize(
    ("given", "length"), [(None, 1000), ("5", 5), ("0", 0), ("-1", 1000), ("many", 1000), ("", 1000)]
)
def test_documents_are_cut_off_where_the_environment_says(given: str | None, length: int) -> None:
    assert document_length({} if given is None else {"MONGODB_LOG_MAX_DOCUMENT_LENGTH": given}) == length


@pytest.mark.parametrize(("path", "stream"), [("STDOUT", "stdout"), ("stderr", "stderr"), (None, "stderr")])
def test_messages_go_to_a_standard_stream(path: str | None, stream: str) -> None:
    made = handler({} if path is None else {"MONGODB_LOG_PATH": path})
    assert isinstance(made, logging.StreamHandler)
    assert made.stream is getattr(sys, stream)


def test_messages_go_to_the_end_of_a_file(tmp_path: Path, unchanged_loggers: None) -> None:
    file = tmp_path / "driver.log"
    file.write_text("before\n")
    added = configure({"MONGODB_LOG_CONNECTION": "debug", "MONGODB_LOG_PATH": str(file)})
    assert added is not None
    data = {"message": "Connection pool ready", "serverHost": "a", "serverPort": 1}
    Component.CONNECTION.logger.debug(LogMessage(CLIENT, data))
    added.close()
    before, line = file.read_text().splitlines()
    assert before == "before"
    assert line.endswith("DEBUG pushbackd.connection: Connection pool ready for a:1")


def test_a_file_that_cannot_be_opened_is_no_error(tmp_path: Path) -> None:
    made = handler({"MONGODB_LOG_PATH": str(tmp_path / "nowhere" / "driver.log")})
    assert isinstance(made, logging.StreamHandler)
    assert made.stream is sys.stderr


@pytest.mark.parametrize("environment", [{}, {"MONGODB_LOG_PATH": "stdout"}, {"MONGODB_LOG_ALL": "off"}])
def test_nothing_is_logged_unless_it_is_asked_for(
    environment: dict[str, str], unchanged_loggers: None
) -> None:
    handlers = list(logging.getLogger(ROOT).handlers)
    assert configure(environment) is None
    assert logging.getLogger(ROOT).handlers == handlers
    assert not any(component.logger.isEnabledFor(logging.INFO) for component in Component)


# --- documents, errors, sentences ---


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [("abc", 3, "abc"), ("abcd", 3, "abc..."), ("ééé", 2, "éé..."), ("a", 0, "...")],
)
def test_the_ellipsis_does_not_count(text: str, limit: int, shown: str) -> None:
    assert cut(text, limit) == shown


def test_documents_are_relaxed_extended_json() -> None:
    assert document_text({"n": 1, "d": 0.5}, 100) == '{"n": 1, "d": 0.5}'


def test_an_error_of_a_server_is_its_reply_and_any_other_its_words() -> None:
    refused = ServerError.of_reply({"ok": 0.0, "code": 8, "errmsg": "boom"}, "a:1")
    assert error_text(refused, 100) == '{"ok": 0.0, "code": 8, "errmsg": "boom"}'
    assert error_text(refused, 5) == '{"ok"...'
    assert error_text(DriverError("lost"), 3) == "DriverError: lost"


@pytest.mark.parametrize("message", sorted(SENTENCES))
def test_a_sentence_is_told_in_full_when_every_field_is_there(message: str) -> None:
    names = frozenset[str]().union(*(names for _, names in SENTENCES[message]))
    told = str(LogMessage(CLIENT, {"message": message, **{name: f"<{name}>" for name in names}}))
    assert all(f"<{name}>" in told for name in names)
    assert "{" not in told


def test_a_sentence_leaves_out_what_is_absent() -> None:
    cleared = {"message": "Connection pool cleared", "serverHost": "a", "serverPort": 1}
    assert str(LogMessage(CLIENT, cleared)) == "Connection pool for a:1 cleared"
    of_service = {**cleared, "serviceId": "5f"}
    assert str(LogMessage(CLIENT, of_service)) == "Connection pool for a:1 cleared for serviceId 5f"


# --- commands ---


def test_a_command_is_logged_when_it_starts_and_when_it_ends(
    all_components: pytest.LogCaptureFixture,
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("ping", {"ok": 1.0, "word": "pong"}, error(8, "boom"))
        await stage.client.command("admin", {"ping": 1})
        with pytest.raises(ServerError):
            await stage.client.command("admin", {"ping": 1})

    stage = play(scenario)
    logged = heard(all_components, Component.COMMAND)[:4]
    assert texts(logged) == ["Command started", "Command succeeded", "Command started", "Command failed"]
    host, port = stage.primary.address.split(":")
    for message in logged:
        assert (message["commandName"], message["databaseName"]) == ("ping", "admin")
        assert (message["serverHost"], message["serverPort"]) == (host, int(port))
        assert message["driverConnectionId"] == 1
        assert "serverConnectionId" not in message, "the server gave none"
        assert "serviceId" not in message
    assert '"ping": 1' in logged[0]["command"]
    assert logged[1]["durationMS"] == pytest.approx(1)
    assert '"pong"' in logged[1]["reply"]
    assert '"boom"' in logged[3]["failure"]
    assert logged[0]["requestId"] == logged[1]["requestId"] != logged[2]["requestId"]
    assert logged[0]["operationId"] == logged[1]["operationId"]


def test_secrets_appear_in_no_message(all_components: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("createUser", {"ok": 1.0, "secret": "s3cret"}, error(18, "s3cret"))
        await stage.client.command("admin", {"createUser": "u", "pwd": "s3cret"})
        with pytest.raises(ServerError):
            await stage.client.command("admin", {"createUser": "u", "pwd": "s3cret"})

    play(scenario)
    logged = heard(all_components, Component.COMMAND)
    assert not any("s3cret" in str(message) for message in logged)
    assert (logged[0]["command"], logged[1]["reply"]) == ("{}", "{}")
    assert logged[3]["failure"] == '{"code": 18}'
    assert "s3cret" not in all_components.text


def test_a_client_says_where_its_documents_are_cut_off(all_components: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1, "comment": "x" * 50})

    play(scenario, log_document_length=9)
    assert heard(all_components, Component.COMMAND)[0]["command"] == '{"ping": ...'


def test_nothing_is_made_of_messages_that_nobody_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_arguments: object) -> None:
        raise AssertionError("a message was made")

    for name in ("LogMessage", "SelectionLog", "document_text"):
        monkeypatch.setattr(client_log, name, made)

    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})

    assert play(scenario).kinds() == ["commandStarted", "commandSucceeded"] * 2


# --- connections ---


@pytest.mark.spec("CMAP-33", "CMAP-34", "CMAP-115", "CMAP-117", "CMAP-118")
def test_a_pool_tells_its_life_in_the_words_of_the_specification(
    all_components: pytest.LogCaptureFixture,
) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})

    play(scenario, "maxIdleTimeMS=10000", members=[ScriptedMongod(1, standalone_hello())])
    logged = heard(all_components, Component.CONNECTION)
    checked = ["Connection checkout started", "Connection checked out", "Connection checked in"]
    assert texts(logged) == [
        "Connection pool created",
        "Connection pool ready",
        "Connection checkout started",
        "Connection created",
        "Connection ready",
        *checked[1:],
        *checked,
        "Connection closed",
        "Connection pool closed",
    ]
    assert all((message["serverHost"], message["serverPort"]) == ("localhost", 1) for message in logged)
    created = {name: value for name, value in logged[0].items() if name.startswith(("max", "min", "wait"))}
    assert created == {
        "maxIdleTimeMS": 10000,
        "minPoolSize": 0,
        "maxPoolSize": 100,
        "maxConnecting": 2,
        "waitQueueTimeoutMS": 0,
    }
    assert logged[4]["durationMS"] > 0
    assert logged[-2]["reason"] == "Connection pool was closed"
    assert "error" not in logged[-2]


@pytest.mark.spec("CMAP-79", "CMAP-117")
def test_a_connection_that_cannot_be_made_is_told_of_after_the_clear(
    all_components: pytest.LogCaptureFixture,
) -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        stage.primary.will("saslStart", Drop())
        with pytest.raises(DriverError):
            await stage.client.command("admin", {"ping": 1})

    members = [ScriptedMongod(1, standalone_hello())]
    options = "authMechanism=SCRAM-SHA-256&heartbeatFrequencyMS=60000"
    play(scenario, options, members=members, credentials="u:p@")
    logged = heard(all_components, Component.CONNECTION)
    failing = texts(logged).index("Connection pool cleared")
    cleared, closed, failed = logged[failing : failing + 3]
    assert "serviceId" not in cleared
    assert closed["reason"] == "An error occurred while using the connection"
    assert failed["message"] == "Connection checkout failed"
    assert failed["reason"] == "An error occurred while trying to establish a new connection"
    assert "NetworkError" in closed["error"]
    assert "NetworkError" in failed["error"]


def test_a_wait_that_timed_out_gives_its_reason_without_an_error(
    all_components: pytest.LogCaptureFixture,
) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})
        pool = stage.client.topology.server(stage.primary.address)
        assert pool is not None
        held = await pool.pool.check_out()
        with pytest.raises(DriverError):
            await stage.client.command("admin", {"ping": 1})
        pool.pool.check_in(held)

    play(scenario, "maxPoolSize=1&waitQueueTimeoutMS=20", members=replica_set([1]))
    logged = heard(all_components, Component.CONNECTION)
    failed = next(message for message in logged if message["message"] == "Connection checkout failed")
    assert failed["reason"] == "Wait queue timeout elapsed without a connection becoming available"
    assert "error" not in failed
    assert failed["durationMS"] == pytest.approx(20)


def test_a_pool_is_heard_from_the_moment_at_which_its_logger_is_switched_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})
        caplog.set_level(logging.DEBUG, Component.CONNECTION.logger.name)
        await stage.client.command("admin", {"ping": 1})
        caplog.set_level(logging.WARNING, Component.CONNECTION.logger.name)
        await stage.client.command("admin", {"ping": 1})

    play(scenario, members=replica_set([1]), heard=False)
    assert texts(heard(caplog, Component.CONNECTION)) == [
        "Connection checkout started",
        "Connection checked out",
        "Connection checked in",
    ]


# --- topology ---


def test_a_topology_tells_its_life_and_every_check(all_components: pytest.LogCaptureFixture) -> None:
    members = [ScriptedMongod(1, standalone_hello(connectionId=77))]

    async def scenario(stage: Stage) -> None:
        await discovered(stage)

    stage = play(scenario, members=members)
    logged = heard(all_components, Component.TOPOLOGY)
    assert texts(logged) == [
        "Starting topology monitoring",
        "Topology description changed",
        "Starting server monitoring",
        "Server heartbeat started",
        "Server heartbeat succeeded",
        "Topology description changed",
        "Stopped server monitoring",
        "Topology description changed",
        "Stopped topology monitoring",
    ]
    assert {message["topologyId"] for message in logged} == {str(stage.client.topology.id)}
    started, succeeded = logged[3:5]
    assert (started["driverConnectionId"], succeeded["driverConnectionId"]) == (1, 1)
    assert "serverConnectionId" not in started
    assert succeeded["serverConnectionId"] == 77
    assert '"connectionId": 77' in succeeded["reply"]
    assert (started["awaited"], succeeded["durationMS"] > 0) == (False, True)
    assert "Standalone" in logged[5]["newDescription"]


def test_a_failed_check_is_told_with_its_error_and_the_next_one_on_a_new_connection(
    all_components: pytest.LogCaptureFixture,
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("isMaster", Drop())
        stage.client.open()
        await stage.world.clock.sleep_until(stage.world.clock.now() + 2.0)

    play(scenario, "heartbeatFrequencyMS=1000", members=replica_set([1]))
    logged = heard(all_components, Component.TOPOLOGY)
    checks = [message for message in logged if "heartbeat" in message["message"]]
    assert texts(checks)[:4] == [
        "Server heartbeat started",
        "Server heartbeat failed",
        "Server heartbeat started",
        "Server heartbeat succeeded",
    ]
    assert "NetworkError" in checks[1]["failure"]
    assert [check["driverConnectionId"] for check in checks[:4]] == [1, 1, 2, 2]


def test_behind_a_load_balancer_there_are_no_checks_to_tell_of(
    all_components: pytest.LogCaptureFixture,
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("ping", Drop())
        with pytest.raises(DriverError):
            await stage.client.command("admin", {"ping": 1})

    service = ObjectId()
    members = [ScriptedMongod(1, mongos_hello(serviceId=service))]
    play(scenario, "loadBalanced=true", members=members)
    assert not any("heartbeat" in text for text in texts(heard(all_components, Component.TOPOLOGY)))
    logged = heard(all_components, Component.CONNECTION)
    cleared = next(message for message in logged if message["message"] == "Connection pool cleared")
    assert cleared["serviceId"] == str(service)
    assert heard(all_components, Component.COMMAND)[0]["serviceId"] == str(service)


# --- server selection ---


def test_a_selection_is_told_with_its_operation_and_the_server_that_was_found(
    all_components: pytest.LogCaptureFixture,
) -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        await stage.collection.insert_one({})

    stage = play(scenario)
    started, succeeded = heard(all_components, Component.SERVER_SELECTION)[:2]
    assert texts([started, succeeded]) == ["Server selection started", "Server selection succeeded"]
    assert {started["operation"], succeeded["operation"]} == {"insert"}
    assert started["operationId"] == succeeded["operationId"]
    assert started["selector"] == "a writable server"
    assert "ReplicaSetWithPrimary" in started["topologyDescription"]
    host, port = stage.primary.address.split(":")
    assert (succeeded["serverHost"], succeeded["serverPort"]) == (host, int(port))


def test_a_selection_says_once_that_it_waits_and_then_why_it_failed(
    all_components: pytest.LogCaptureFixture,
) -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        with pytest.raises(DriverError):
            await stage.client.database("db").collection("t", read_preference=nowhere).find_one({})

    nowhere = ReadPreference(ReadMode.SECONDARY, ({"dc": "nowhere"},))
    play(scenario, "serverSelectionTimeoutMS=2000&heartbeatFrequencyMS=500")
    logged = [
        each for each in heard(all_components, Component.SERVER_SELECTION) if each["operation"] == "find"
    ]
    assert texts(logged) == [
        "Server selection started",
        "Waiting for suitable server to become available",
        "Server selection failed",
    ]
    assert logged[1]["remainingTimeMS"] == 2000
    assert "ServerSelectionTimeoutError" in logged[2]["failure"]
    levels_heard = [
        record.levelname
        for record in all_components.records
        if isinstance(record.msg, LogMessage) and record.msg.data.get("operation") == "find"
    ]
    assert levels_heard == ["DEBUG", "INFO", "DEBUG"]


def test_with_the_level_info_a_selection_only_says_that_it_waits(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, ROOT)

    async def scenario(stage: Stage) -> None:
        await stage.collection.insert_one({})

    play(scenario)
    waiting = "Waiting for suitable server to become available"
    assert set(texts(heard(caplog, Component.SERVER_SELECTION))) == {waiting}


@pytest.mark.parametrize(
    ("run", "operation"),
    [
        (lambda stage: stage.collection.find_one({}), "find"),
        (lambda stage: stage.collection.insert_many([{}]), "insert"),
        (lambda stage: stage.collection.count_documents({}), "aggregate"),
        (lambda stage: stage.collection.drop(), "drop"),
        (lambda stage: stage.collection.find_one_and_delete({}), "findAndModify"),
        (lambda stage: stage.collection.create_index({"x": 1}), "createIndexes"),
        (lambda stage: stage.client.list_database_names(), "listDatabases"),
        (lambda stage: stage.client.command("admin", {"ping": 1}), "ping"),
    ],
)
def test_an_operation_is_named_after_its_command(
    run: Any, operation: str, all_components: pytest.LogCaptureFixture
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("listDatabases", {"ok": 1.0, "databases": []})
        stage.primary.will("findAndModify", {"ok": 1.0, "value": None})
        stage.primary.will("insert", {"ok": 1.0, "n": 1})
        await run(stage)

    play(scenario)
    assert heard(all_components, Component.SERVER_SELECTION)[0]["operation"] == operation
