"""Looking up, validating and running commands; the commands that tell of the server itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson import Int64, Timestamp
from talking import STANDALONE, Deployment, DocumentSequence, play

from fakeserver import ClusterSpec
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandSpec
from fakeserver.request.pipeline import HangUp
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

_FIND = {"find": "c", "$db": "db"}


# From a message to a command.


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ({"frobnicate": 1}, 59, "no such command: 'frobnicate'"),
        ({"PING": 1}, 59, "no such command: 'PING'"),
        ({"ping": 1, "$db": 5}, 14, "BSON field '$db' is the wrong type 'int', expected type 'string'"),
        ({"ping": 1, "$db": "a.b"}, 73, "Invalid database name: 'a.b'"),
        ({"ping": 1, "$db": ""}, 73, "Invalid database name: ''"),
        ({"ping": 1, "$db": "x" * 64}, 73, None),
        ({"find": "c", "bogus": 1, "$db": "db"}, 40415, "BSON field 'find.bogus' is an unknown field."),
        ({"find": "", "$db": "db"}, 73, "Invalid namespace specified 'db.'"),
        ({"ping": 1, "maxTimeMS": -1}, 2, "BSON field 'maxTimeMS' value must be >= 0, actual value '-1'"),
        ({"ping": 1, "maxTimeMS": Int64(2**31)}, 2, None),
        ({"ping": 1, "maxTimeMS": 1.5}, 9, "Expected an integer: maxTimeMS: 1.5"),
        (
            {"ping": 1, "maxTimeMS": "x"},
            14,
            (
                "BSON field 'ping.maxTimeMS' is the wrong type 'string',"
                " expected types '[long, int, decimal, double']"
            ),
        ),
    ],
)
def test_a_command_that_is_wrong_is_refused(command: dict[str, Any], code: int, message: str | None) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).fails(command)
        assert reply["code"] == code
        assert message is None or reply["errmsg"] == message
        assert list(reply)[:4] == ["ok", "errmsg", "code", "codeName"]
        assert "operationTime" in reply

    play(scenario)


@pytest.mark.parametrize("name", ["$external", "x" * 63, "db"])
def test_a_database_may_have_this_name(name: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        await (await deployment.connect()).ok({"ping": 1, "$db": name})

    play(scenario)


def test_a_sequence_is_for_commands_that_take_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        sequence = DocumentSequence.of("documents", [{"_id": 1}, {"_id": 2}])
        await talker.send(OpMsg.of({"insert": "c", "$db": "db"}, sequences=[sequence]))
        assert ((await talker.reply()) or {})["n"] == 2
        await talker.send(OpMsg.of({"ping": 1, "$db": "db"}, sequences=[sequence]))
        reply = await talker.reply()
        assert reply is not None
        assert (reply["code"], reply["errmsg"]) == (
            40472,
            "The ping command does not support document sequences.",
        )

    play(scenario)


def _twice(document: dict[str, Any], more: dict[str, Any]) -> bytes:
    """Return a BSON document with the fields of both, repeated ones twice."""
    fields = bson.encode(document)[4:-1] + bson.encode(more)[4:-1]
    return (len(fields) + 5).to_bytes(4, "little") + fields + b"\0"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (_twice({"find": "c", "limit": 1, "$db": "db"}, {"limit": 2}), 40413),
        (_twice({"find": "c", "filter": {"limit": 1}, "$db": "db"}, {"limit": 2}), None),
        (_twice({"find": "c", "$db": "db"}, {"comment": 1}), None),
        (_twice({"listCommands": 1, "limit": 1, "$db": "db"}, {"limit": 2}), None),
    ],
)
def test_a_declared_field_stands_once_in_a_body(body: bytes, code: int | None) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.send(OpMsg(body))
        reply = await talker.reply()
        assert reply is not None
        assert reply.get("code") == code
        assert code is None or reply["errmsg"] == "BSON field 'find.limit' is a duplicate field"

    play(scenario)


def _with_command(deployment: Deployment, handler: Any) -> None:
    """Give the first server a command `test`."""
    node = deployment.cluster.nodes[0]
    node.commands = {**node.commands, "test": CommandSpec("test", handler, "internal", "Test.")}


def test_a_bug_is_answered_and_the_server_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def handler(_ctx: CommandContext, _command: dict[str, Any]) -> dict[str, Any]:
        return {"x": 1 / 0}

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        _with_command(deployment, handler)
        reply = await talker.fails({"test": 1})
        assert (reply["code"], reply["codeName"]) == (1, "InternalError")
        assert reply["errmsg"] == "ZeroDivisionError: division by zero"
        await talker.ok({"ping": 1})
        assert "ZeroDivisionError" in deployment.cluster.nodes[0].log.lines[-1]

    play(scenario)
    assert "test failed on node0" in caplog.text


def test_a_reply_that_cannot_be_encoded_is_an_error() -> None:
    def handler(_ctx: CommandContext, _command: dict[str, Any]) -> dict[str, Any]:
        return {"x": object()}

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        _with_command(deployment, handler)
        assert (await talker.fails({"test": 1}))["code"] == 1
        await talker.ok({"ping": 1})

    play(scenario)


def test_a_reply_that_is_too_large_is_an_error() -> None:
    def handler(_ctx: CommandContext, command: dict[str, Any]) -> dict[str, Any]:
        return {"x": b"x" * int(command["test"])}

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        _with_command(deployment, handler)
        reply = await talker.fails({"test": 17 * 1024 * 1024})
        assert reply["code"] == 10334
        assert reply["errmsg"].startswith("BSONObj size: 178")
        await talker.ok({"test": 16 * 1024 * 1024})

    play(scenario)


def test_a_handler_may_hang_up() -> None:
    def handler(_ctx: CommandContext, _command: dict[str, Any]) -> dict[str, Any]:
        raise HangUp("enough")

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        _with_command(deployment, handler)
        assert await talker.command({"test": 1}) is None

    play(scenario)


def test_an_errors_own_fields_follow_its_name() -> None:
    def handler(_ctx: CommandContext, _command: dict[str, Any]) -> dict[str, Any]:
        raise CommandError(11000, "dup", extra={"keyPattern": {"a": 1}})

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        _with_command(deployment, handler)
        assert list(await talker.fails({"test": 1})) == ["ok", "errmsg", "code", "codeName", "keyPattern"]

    play(scenario, STANDALONE)


def test_a_client_that_does_not_read_holds_its_own_requests_back_only() -> None:
    def handler(_ctx: CommandContext, _command: dict[str, Any]) -> dict[str, Any]:
        return {"x": b"x" * 1_000_000}

    async def scenario(deployment: Deployment) -> None:
        slow, quick = await deployment.connect(), await deployment.connect()
        _with_command(deployment, handler)
        for _ in range(50):
            await slow.send({"test": 1})
        await deployment.sleep(1.0)
        await quick.ok({"ping": 1})
        assert deployment.cluster.nodes[0].counters.commands["test"] <= 50
        for _ in range(50):
            reply = await slow.reply()
            assert reply is not None
            assert reply["ok"] == 1.0

    play(scenario)


def test_a_client_that_sends_far_ahead_of_a_block_is_read_no_further() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command({"times": 1}, "ping", blockConnection=True, blockTimeMS=1000)
        await talker.send({"ping": 1})
        for number in range(4):
            documents = [{"_id": number, "x": b"x" * 900_000}]
            await talker.send({"insert": "c", "documents": documents, "$db": "db"})
        for _ in range(5):
            reply = await talker.reply()
            assert reply is not None
            assert reply["ok"] == 1.0
        assert deployment.world.clock.now() > 1.0

    play(scenario)


# Read concern.


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({**_FIND, "readConcern": 5}, 14),
        ({**_FIND, "readConcern": {"level": 5}}, 14),
        ({**_FIND, "readConcern": {"level": "bogus"}}, 2),
        ({**_FIND, "readConcern": {"afterClusterTime": 5}}, 14),
        ({**_FIND, "readConcern": {"level": "majority"}}, None),
        ({**_FIND, "readConcern": {"level": "snapshot"}}, None),
        ({**_FIND, "readConcern": {"level": "linearizable"}}, None),
        ({**_FIND, "readConcern": {"afterClusterTime": Timestamp(1, 1)}}, None),
        ({"count": "c", "readConcern": {"level": "snapshot"}, "$db": "db"}, 72),
        ({"insert": "c", "documents": [{}], "readConcern": {"level": "snapshot"}, "$db": "db"}, 72),
        ({"insert": "c", "documents": [{}], "readConcern": {"level": "majority"}, "$db": "db"}, 72),
        ({"insert": "c", "documents": [{}], "readConcern": {"afterClusterTime": Timestamp(1, 1)}}, None),
    ],
)
def test_a_read_concern_must_fit_the_command(command: dict[str, Any], code: int | None) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).command(command)
        assert reply is not None
        assert reply.get("code") == code

    play(scenario)


@pytest.mark.parametrize(
    ("concern", "code"),
    [
        ({"level": "snapshot"}, 123),
        ({"afterClusterTime": Timestamp(1, 1)}, 20),
        ({"level": "majority"}, None),
    ],
)
def test_a_standalone_reads_no_snapshots(concern: dict[str, Any], code: int | None) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).command({**_FIND, "readConcern": concern})
        assert reply is not None
        assert reply.get("code") == code

    play(scenario, STANDALONE)


def test_only_a_primary_reads_linearizably() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.secondary)
        find = {**_FIND, "readConcern": {"level": "linearizable"}, "$readPreference": {"mode": "secondary"}}
        assert (await talker.fails(find))["code"] == 10107

    play(scenario)


# API versions.


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"ping": 1, "apiVersion": "1", "apiStrict": True, "apiDeprecationErrors": True}, None),
        ({"ping": 1, "apiVersion": "2"}, 322),
        ({"ping": 1, "apiVersion": 1}, 14),
        ({"ping": 1, "apiStrict": True}, 4886600),
        ({"serverStatus": 1, "apiVersion": "1"}, None),
        ({"serverStatus": 1, "apiVersion": "1", "apiStrict": True}, 323),
        ({"saslStart": 1, "mechanism": "NONE", "payload": b"", "apiVersion": "1", "apiStrict": True}, 334),
        ({"saslContinue": 1, "conversationId": 1, "payload": b"", "apiVersion": "1", "apiStrict": True}, 17),
        ({"testDeprecation": 1, "apiVersion": "1", "apiDeprecationErrors": True}, 324),
        ({"testDeprecation": 1, "apiVersion": "1"}, None),
        ({"testVersion2": 1, "apiVersion": "1"}, None),
        ({"testDeprecationInVersion2": 1, "apiVersion": "1", "apiDeprecationErrors": True}, None),
    ],
)
def test_a_declared_api_version_is_held_to(command: dict[str, Any], code: int | None) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).command(command)
        assert reply is not None
        assert reply.get("code") == code

    play(scenario, STANDALONE)


def test_version_2_exists_where_it_is_accepted() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"testVersion2": 1, "apiVersion": "2", "apiStrict": True})
        deprecated = {"testDeprecationInVersion2": 1, "apiVersion": "2", "apiDeprecationErrors": True}
        assert (await talker.fails(deprecated))["code"] == 324
        assert "either" in (await talker.fails({"ping": 1, "apiVersion": "3"}))["errmsg"]

    play(scenario, ClusterSpec.standalone(parameters={"acceptApiVersion2": True}))


def test_a_version_may_be_required() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"setParameter": 1, "requireApiVersion": True})
        assert (await talker.fails({"ping": 1}))["code"] == 498870
        await talker.ok({"ping": 1, "apiVersion": "1"})

    play(scenario, STANDALONE)


def test_a_release_before_api_versions_takes_no_notice() -> None:
    async def scenario(deployment: Deployment) -> None:
        await (await deployment.connect()).ok({"ping": 1, "apiVersion": "7"})

    play(scenario, ClusterSpec.standalone(profile="4.4"))


# Parameters.


def test_parameters_are_told_by_name_or_all() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        one = await talker.ok({"getParameter": 1, "logLevel": 1})
        assert one == {"logLevel": 0, "ok": 1.0}
        for everything in ("*", {"allParameters": True}):
            reply = await talker.ok({"getParameter": everything})
            assert reply["enableTestCommands"] is True
            assert isinstance(reply["authenticationMechanisms"], list)
            assert reply["requireApiVersion"] is False
        details = await talker.ok({"getParameter": {"showDetails": True}, "enableTestCommands": 1})
        assert details["enableTestCommands"] == {
            "value": True,
            "settableAtRuntime": False,
            "settableAtStartup": True,
        }
        runtime = await talker.ok({"getParameter": {"allParameters": True, "setAt": "runtime"}})
        assert "logLevel" in runtime
        assert "enableTestCommands" not in runtime

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ({"getParameter": 1, "bogus": 1}, 72, "no option found to get"),
        ({"setParameter": 1}, 72, "no option found to set, use help:true to see options "),
        ({"setParameter": 1, "bogus": 1}, 72, None),
        ({"setParameter": 1, "enableTestCommands": True}, 20, None),
        ({"setParameter": 1, "logLevel": 1, "$db": "db"}, 13, None),
    ],
)
def test_a_bad_parameter_command_is_refused(command: dict[str, Any], code: int, message: str | None) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).fails(command)
        assert reply["code"] == code
        assert message is None or reply["errmsg"] == message

    play(scenario)


def test_setting_parameters_tells_what_the_first_was() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert (await talker.ok({"setParameter": 1, "logLevel": 2, "quiet": True}))["was"] == 0
        assert (await talker.ok({"getParameter": 1, "logLevel": 1, "quiet": 1}))["quiet"] is True

    play(scenario)


# About the server.


def test_the_build_is_the_profiles() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for name in ("buildInfo", "buildinfo"):
            info = await talker.ok({name: 1, "$db": "test"})
            assert (info["version"], info["versionArray"]) == ("9.0.0", [9, 0, 0, 0])
            assert info["modules"] == []

    play(scenario, ClusterSpec.standalone(profile="9.0"))


def test_the_command_line_shows_how_it_was_started() -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).ok({"getCmdLineOpts": 1})
        assert reply["argv"][0] == "mongod"
        assert reply["parsed"]["replication"] == {"replSet": "rs0"}
        assert reply["parsed"]["setParameter"] == {"enableTestCommands": "1"}
        assert reply["parsed"]["net"]["port"] == int(deployment.cluster.nodes[0].address.rpartition(":")[2])

    play(scenario)


def test_the_status_counts_what_happened() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{}, {}, {}], "$db": "db"})
        await talker.ok({**_FIND, "lsid": {"id": bson.Binary(bytes(16), 4)}})
        await talker.fails({"getMore": Int64(1), "collection": "c", "$db": "db"})
        await deployment.sleep(2.0)
        status = await talker.ok({"serverStatus": 1})
        assert {name: status["opcounters"][name] for name in ("insert", "query", "getmore")} == {
            "insert": 3,
            "query": 1,
            "getmore": 1,
        }
        assert status["metrics"]["commands"]["getMore"] == {"failed": 1, "total": 1}
        assert status["connections"]["current"] == 1
        assert status["network"]["numRequests"] == 4
        assert status["network"]["bytesIn"] > 0 < status["network"]["bytesOut"]
        assert status["logicalSessionRecordCache"]["activeSessionsCount"] == 1
        assert status["uptime"] >= 2.0
        assert status["storageEngine"]["name"]
        assert status["repl"]["isWritablePrimary"] is True
        assert status["repl"]["me"] == deployment.cluster.nodes[0].address

    play(scenario)


def test_a_standalone_has_no_replication_section() -> None:
    async def scenario(deployment: Deployment) -> None:
        assert "repl" not in await (await deployment.connect()).ok({"serverStatus": 1})

    play(scenario, STANDALONE)


def test_nobody_is_authenticated() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        status = await talker.ok({"connectionStatus": 1, "showPrivileges": True})
        assert status["authInfo"] == {
            "authenticatedUsers": [],
            "authenticatedUserRoles": [],
            "authenticatedUserPrivileges": [],
        }
        assert ":" in (await talker.ok({"whatsmyuri": 1}))["you"]
        await talker.ok({"hostInfo": 1})
        await talker.ok({"logout": 1})

    play(scenario)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=u,r=abcd"}, 18),
        ({"saslStart": 1, "mechanism": "PLAIN", "payload": b""}, 334),
        ({"saslStart": 1, "payload": b""}, 40414),
        ({"saslContinue": 1, "conversationId": 1, "payload": b""}, 17),
        ({"authenticate": 1, "mechanism": "MONGODB-X509"}, 18),
        ({"authenticate": 1, "mechanism": "SCRAM-SHA-256", "user": "nobody"}, 18),
        ({"authenticate": 1}, 18),
        ({"getnonce": 1}, 59),
    ],
)
def test_authentication_fails_where_there_are_no_users(command: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert (await (await deployment.connect()).fails(command))["code"] == code

    play(scenario)


def test_an_old_release_tells_the_last_error_of_a_connection() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, other = await deployment.connect(), await deployment.connect()

        async def last() -> dict[str, Any]:
            reply = await talker.ok({"getlasterror": 1, "$db": "db"})
            assert reply.pop("connectionId") > 0
            return {
                name: reply[name] for name in reply if name not in {"ok", "$clusterTime", "operationTime"}
            }

        assert await last() == {"err": None, "n": 0}
        await talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        assert await last() == {"err": None, "n": 0}
        await talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        await talker.ok({"find": "c", "$db": "db"})
        failed = await last()
        assert failed.pop("err").startswith("E11000 duplicate key error")
        assert failed == {"code": 11000, "codeName": "DuplicateKey", "n": 0}
        updates = [{"q": {"_id": {"$lt": 9}}, "u": {"$set": {"x": 1}}, "multi": True}]
        await talker.ok({"update": "c", "updates": updates, "$db": "db"})
        assert await last() == {"err": None, "updatedExisting": True, "n": 1}
        upsert = [{"q": {"_id": 7}, "u": {"x": 1}, "upsert": True}]
        await talker.ok({"update": "c", "updates": upsert, "$db": "db"})
        assert await last() == {"err": None, "updatedExisting": False, "upserted": 7, "n": 1}
        await talker.ok({"delete": "c", "deletes": [{"q": {}, "limit": 0}], "$db": "db"})
        assert await last() == {"err": None, "n": 2}
        assert (await other.ok({"getLastError": 1, "$db": "db"}))["n"] == 0
        assert "uuid" not in await talker.ok({"connectionStatus": 1})

    play(scenario, ClusterSpec.standalone(profile="5.0"))


def test_a_release_since_6_0_has_no_last_error() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert (await talker.fails({"getLastError": 1}))["code"] == 59
        assert "uuid" in await talker.ok({"connectionStatus": 1})

    play(scenario)


def test_an_old_release_gives_nonces() -> None:
    async def scenario(deployment: Deployment) -> None:
        assert len((await (await deployment.connect()).ok({"getnonce": 1}))["nonce"]) == 16

    play(scenario, ClusterSpec.standalone(profile="4.2"))


def test_the_commands_are_listed_from_the_table() -> None:
    async def scenario(deployment: Deployment) -> None:
        commands = (await (await deployment.connect()).ok({"listCommands": 1}))["commands"]
        assert commands["getParameter"]["adminOnly"] is True
        assert commands["insert"]["secondaryOk"] is False
        assert commands["find"]["secondaryOk"] is True
        assert commands["ping"]["help"] == "Do nothing, to show that the server answers."

    play(scenario)


def test_the_log_can_be_read() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert (await talker.ok({"getLog": "*"}))["names"] == ["global", "startupWarnings"]
        await talker.ok({"setParameter": 1, "logLevel": 1})
        await deployment.connect()
        await talker.ok({"ping": 1})
        log = await talker.ok({"getLog": "global"})
        lines = [json.loads(line) for line in log["log"]]
        assert [line["msg"] for line in lines if line["id"] == 22943] == ["Connection accepted"]
        assert log["totalLinesWritten"] == len(lines)
        assert (await talker.ok({"getLog": "startupWarnings"}))["log"] == []
        assert (await talker.fails({"getLog": "bogus"}))["code"] == 96
        assert (await talker.fails({"getLog": 5}))["code"] == 14

    play(scenario)


# The journal.


def test_the_journal_holds_what_clients_did_in_order() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"ping": 1, "lsid": {"id": bson.Binary(b"\x01" * 16, 4)}})
        await talker.fails({"bogus": 1})
        await talker.aclose()
        await deployment.sleep(1.0)
        lines = [json.loads(line) for line in deployment.cluster.journal.to_json_lines().splitlines()]
        assert [line["kind"] for line in lines] == [
            "connectionAccepted",
            "commandFinished",
            "commandFinished",
            "connectionClosed",
        ]
        assert [line["seq"] for line in lines] == [1, 2, 3, 4]
        assert lines[1] | {"at": 0} == {
            "at": 0,
            "seq": 2,
            "source": "node0",
            "kind": "commandFinished",
            "name": "ping",
            "db": "admin",
            "request_id": 101,
            "connection": 1,
            "lsid": "01" * 16,
            "outcome": "ok",
        }
        assert lines[2]["outcome"] == 59
        assert lines[3]["reason"] == "peer"

    play(scenario, STANDALONE)
