"""hello in all its forms, and what a connection is from then on."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64, ObjectId
from talking import LATENCY, STANDALONE, Deployment, play

from fakeserver import ClusterSpec
from fakeserver.profile import PROFILES
from mongowire.compression import Compressor
from mongowire.messages import OpMsg, OpQuery, OpReply

_CLIENT = {"driver": {"name": "d", "version": "1"}, "os": {"type": "Linux"}}
_MEMBER_FIELDS = [
    *("topologyVersion", "hosts", "setName", "setVersion", "isWritablePrimary", "secondary", "primary"),
    *("me", "electionId", "lastWrite"),
]
_LIMITS = [
    *("maxBsonObjectSize", "maxMessageSizeBytes", "maxWriteBatchSize", "localTime"),
    *("logicalSessionTimeoutMinutes", "connectionId", "minWireVersion", "maxWireVersion", "readOnly"),
]
_GOSSIP = ["$clusterTime", "operationTime"]


def _awaitable(reply: dict[str, Any], milliseconds: int = 10_000) -> dict[str, Any]:
    version = reply["topologyVersion"]
    return {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": Int64(milliseconds)}


# The reply.


def test_a_standalone_answers_with_these_fields_in_this_order() -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).ok({"hello": 1})
        assert list(reply) == ["isWritablePrimary", "topologyVersion", *_LIMITS, "ok"]
        assert reply["isWritablePrimary"] is True

    play(scenario, STANDALONE)


def test_a_primary_answers_with_these_fields_in_this_order() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        reply = await talker.ok({"hello": 1, "helloOk": True, "compression": ["zlib", "bogus"]})
        assert list(reply) == ["compression", "helloOk", *_MEMBER_FIELDS, *_LIMITS, "ok", *_GOSSIP]
        assert (reply["isWritablePrimary"], reply["secondary"]) == (True, False)
        assert reply["hosts"] == [node.address for node in deployment.cluster.nodes]
        assert reply["me"] == reply["primary"] == deployment.primary.address
        assert reply["electionId"] == ObjectId("7fffffff0000000000000001")
        assert (reply["setName"], reply["setVersion"]) == ("rs0", 1)
        assert reply["compression"] == ["zlib"]

    play(scenario)


def test_a_secondary_names_the_primary_and_no_election() -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect(deployment.secondary)).ok({"hello": 1})
        expected = [name for name in _MEMBER_FIELDS if name != "electionId"]
        assert list(reply) == [*expected, *_LIMITS, "ok", *_GOSSIP]
        assert (reply["isWritablePrimary"], reply["secondary"]) == (False, True)
        assert reply["primary"] == deployment.primary.address

    play(scenario)


@pytest.mark.parametrize("name", ["isMaster", "ismaster"])
def test_the_old_command_says_the_old_word(name: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).ok({name: 1})
        assert reply["ismaster"] is True
        assert "isWritablePrimary" not in reply
        assert "helloOk" not in reply

    play(scenario)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_wire_version_is_the_releases(profile: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).ok({"hello": 1})
        assert (reply["minWireVersion"], reply["maxWireVersion"]) == (0, PROFILES[profile].max_wire_version)
        assert ("topologyVersion" in reply) is (profile != "4.2")

    play(scenario, ClusterSpec.replica_set(1, profile=profile))


def test_each_connection_has_its_id() -> None:
    async def scenario(deployment: Deployment) -> None:
        replies = [await (await deployment.connect()).ok({"hello": 1}) for _ in range(3)]
        assert [reply["connectionId"] for reply in replies] == [1, 2, 3]

    play(scenario)


def test_unknown_fields_of_hello_are_ignored() -> None:
    async def scenario(deployment: Deployment) -> None:
        await (await deployment.connect()).ok({"hello": 1, "backpressure": "2", "bogus": [1]})

    play(scenario)


def test_a_speculation_that_cannot_succeed_is_passed_over() -> None:
    async def scenario(deployment: Deployment) -> None:
        attempt = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=u,r=abcd", "db": "admin"}
        mechs = {"saslSupportedMechs": "admin.user"}
        reply = await (await deployment.connect()).ok(
            {"hello": 1, "speculativeAuthenticate": attempt, **mechs}
        )
        assert "speculativeAuthenticate" not in reply
        assert "saslSupportedMechs" not in reply

    play(scenario)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"speculativeAuthenticate": {}}, 2),
        ({"speculativeAuthenticate": {"ping": 1}}, 51769),
        ({"speculativeAuthenticate": 5}, 14),
        ({"compression": "zlib"}, 14),
        ({"maxAwaitTimeMS": Int64(5)}, 51759),
        ({"topologyVersion": {"processId": ObjectId(bytes(12)), "counter": Int64(1)}}, 31368),
        ({"topologyVersion": {"processId": 5, "counter": Int64(1)}, "maxAwaitTimeMS": 5}, 14),
        ({"topologyVersion": {"processId": ObjectId(bytes(12))}, "maxAwaitTimeMS": 5}, 14),
        (
            {
                "topologyVersion": {"processId": ObjectId(bytes(12)), "counter": Int64(-1)},
                "maxAwaitTimeMS": 5,
            },
            31372,
        ),
        ({"maxAwaitTimeMS": -1, "topologyVersion": {}}, 2),
    ],
)
def test_a_bad_hello_is_refused(fields: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert (await (await deployment.connect()).fails({"hello": 1, **fields}))["code"] == code

    play(scenario)


# Client metadata.


@pytest.mark.parametrize(
    ("client", "code"),
    [
        ("x", 14),
        ({}, 183),
        ({"driver": {"name": "d", "version": "1"}}, 183),
        ({"driver": {"name": "d"}, "os": {"type": "Linux"}}, 183),
        ({**_CLIENT, "application": {"name": "a" * 129}}, 184),
        ({**_CLIENT, "application": {"name": 5}}, 14),
        ({**_CLIENT, "application": "x"}, 14),
        ({**_CLIENT, "platform": "p" * 500}, 185),
    ],
)
def test_bad_client_metadata_are_refused(client: Any, code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert (await (await deployment.connect()).fails({"hello": 1, "client": client}))["code"] == code

    play(scenario)


def test_client_metadata_are_told_once() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"hello": 1, "client": {**_CLIENT, "application": {"name": "a" * 128}}})
        assert (await talker.fails({"hello": 1, "client": _CLIENT}))["code"] == 186
        await talker.ok({"hello": 1})

    play(scenario)


# Compression.


@pytest.mark.parametrize("compressor", Compressor)
def test_a_reply_is_compressed_as_the_request_was(compressor: Compressor) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.send({"ping": 1}, compressor=compressor)
        await talker.send({"ping": 1})
        replies = [await talker.receive(), await talker.receive()]
        assert [None if reply is None else reply.compressor for reply in replies] == [compressor, None]

    play(scenario)


def test_compressors_are_agreed_on_once() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        first = await talker.ok({"hello": 1, "compression": ["zlib"]})
        again = await talker.ok({"hello": 1, "compression": ["snappy", "zlib"]})
        assert first["compression"] == again["compression"] == ["zlib"]
        assert "compression" not in await talker.ok({"hello": 1})

    play(scenario, ClusterSpec.standalone(compressors=("zlib", "snappy")))


def test_no_common_compressor_means_no_field() -> None:
    async def scenario(deployment: Deployment) -> None:
        assert "compression" not in await (await deployment.connect()).ok(
            {"hello": 1, "compression": ["zstd"]}
        )

    play(scenario, ClusterSpec.standalone(compressors=()))


def test_a_checksummed_request_gets_a_checksummed_reply() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.send({"ping": 1}, checksum=True)
        reply = await talker.receive()
        assert reply is not None
        assert reply.checksum_present
        assert reply.parse().decode()["ok"] == 1.0

    play(scenario)


# Waiting.


def test_an_awaitable_hello_is_answered_when_its_time_is_over() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        first = await talker.ok({"hello": 1})
        begun = deployment.world.clock.now()
        again = await talker.ok(_awaitable(first))
        assert deployment.world.clock.now() - begun == pytest.approx(10 + 2 * LATENCY)
        assert again["topologyVersion"] == first["topologyVersion"]

    play(scenario)


@pytest.mark.parametrize("spec", [STANDALONE, ClusterSpec.replica_set(1), ClusterSpec.sharded()])
def test_the_wait_of_a_hello_begins_after_a_fail_points_block(spec: ClusterSpec) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        first = await talker.ok({"hello": 1})
        await deployment.fail_command({"times": 1}, "hello", blockConnection=True, blockTimeMS=1000)
        begun = deployment.world.clock.now()
        await talker.ok(_awaitable(first, 500))
        assert deployment.world.clock.now() - begun == pytest.approx(1.5 + 2 * LATENCY)

    play(scenario, spec)


def test_an_awaitable_hello_of_a_standalone_waits_as_well() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        first = await talker.ok({"hello": 1})
        begun = deployment.world.clock.now()
        await talker.ok(_awaitable(first, 1000))
        assert deployment.world.clock.now() - begun == pytest.approx(1 + 2 * LATENCY)

    play(scenario, STANDALONE)


def test_an_awaitable_hello_is_answered_at_once_when_something_changes() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        first = await talker.ok({"hello": 1})
        await talker.send(_awaitable(first))
        await deployment.sleep(1.0)
        deployment.cluster.step_down()
        begun = deployment.world.clock.now()
        changed = await talker.reply()
        assert changed is not None
        assert deployment.world.clock.now() - begun == pytest.approx(LATENCY)
        assert changed["topologyVersion"]["counter"] == first["topologyVersion"]["counter"] + 1
        assert (changed["isWritablePrimary"], changed["secondary"]) == (False, True)
        assert "primary" not in changed

    play(scenario)


@pytest.mark.parametrize("difference", ["older counter", "another process"])
def test_who_knows_less_is_answered_at_once(difference: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        ask = _awaitable(await talker.ok({"hello": 1}))
        if difference == "older counter":
            ask["topologyVersion"]["counter"] = Int64(0)
        else:
            ask["topologyVersion"] = {"processId": ObjectId(bytes(12)), "counter": Int64(99)}
        begun = deployment.world.clock.now()
        await talker.ok(ask)
        assert deployment.world.clock.now() - begun < 0.1

    play(scenario)


@pytest.mark.parametrize(("spec", "code"), [(STANDALONE, 51764), (ClusterSpec.replica_set(1), 31382)])
def test_who_claims_to_know_more_is_refused(spec: ClusterSpec, code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        ask = _awaitable(await talker.ok({"hello": 1}))
        ask["topologyVersion"]["counter"] = Int64(99)
        assert (await talker.fails(ask))["code"] == code

    play(scenario, spec)


def test_a_release_without_topology_versions_waits_for_nobody() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"hello": 1, "maxAwaitTimeMS": 10_000})
        assert deployment.world.clock.now() < 1.0

    play(scenario, ClusterSpec.standalone(profile="4.2"))


# Streaming.


def test_an_exhaust_hello_is_answered_again_and_again() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        first = await talker.ok({"hello": 1})
        request_id = await talker.send(_awaitable(first, 1000), exhaust_allowed=True)
        expected = request_id
        for second in range(1, 4):
            reply = await talker.receive()
            assert reply is not None
            assert reply.more_to_come
            assert reply.response_to == expected
            assert deployment.world.clock.now() == pytest.approx(second, abs=0.1)
            expected = reply.request_id

    play(scenario)


def test_a_stream_tells_of_a_change_and_goes_on() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        first = await talker.ok({"hello": 1})
        await talker.send(_awaitable(first), exhaust_allowed=True)
        await deployment.sleep(0.1)
        deployment.cluster.step_down()
        replies = [await talker.reply(), await talker.reply()]
        counters = [None if reply is None else reply["topologyVersion"]["counter"] for reply in replies]
        assert counters == [first["topologyVersion"]["counter"] + 1, first["topologyVersion"]["counter"] + 2]
        assert deployment.world.clock.now() < 1.0
        (old, new) = (deployment.cluster.nodes[0].address, deployment.primary.address)
        assert replies[1] is not None
        assert replies[1]["primary"] == new != old

    play(scenario)


def test_a_failure_ends_a_stream_without_more_to_come() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        first = await talker.ok({"hello": 1})
        await talker.send(_awaitable(first, 1000), exhaust_allowed=True)
        await talker.receive()
        await deployment.fail_command({"times": 1}, "hello", errorCode=91)
        await talker.receive()
        last = await talker.receive()
        assert last is not None
        assert not last.more_to_come
        assert last.parse().decode()["code"] == 91
        await talker.ok({"ping": 1})

    play(scenario)


def test_requests_behind_a_stream_wait_for_its_end() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        first = await talker.ok({"hello": 1})
        await talker.send(_awaitable(first, 1000), exhaust_allowed=True)
        ping = await talker.send({"ping": 1})
        await deployment.fail_command({"skip": 1}, "hello", closeConnection=True)
        replies = []
        while (reply := await talker.receive()) is not None:
            replies.append(reply.response_to)
        assert ping not in replies

    play(scenario)


def test_an_exhaust_hello_must_say_how_long_to_wait() -> None:
    async def scenario(deployment: Deployment) -> None:
        assert (await (await deployment.connect()).fails({"hello": 1}, exhaust_allowed=True))["code"] == 51756

    play(scenario)


def test_a_client_that_leaves_a_stream_is_forgotten() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        first = await talker.ok({"hello": 1})
        await talker.send(_awaitable(first, 1000), exhaust_allowed=True)
        await talker.receive()
        await talker.aclose()
        await deployment.sleep(10.0)
        assert not deployment.cluster.nodes[0].connections
        hellos = deployment.cluster.journal.of_kind("commandFinished")
        assert len(hellos) < 4

    play(scenario)


def test_an_exhaust_get_more_streams_a_cursor_to_its_end() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        documents = [{"_id": number} for number in range(7)]
        await talker.ok({"insert": "c", "documents": documents, "$db": "db"})
        found = await talker.ok({"find": "c", "batchSize": 1, "$db": "db"})
        more = {"getMore": found["cursor"]["id"], "collection": "c", "batchSize": 2, "$db": "db"}
        await talker.send(more, exhaust_allowed=True)
        fetched: list[int] = []
        going_on = True
        while going_on:
            reply = await talker.receive()
            assert reply is not None
            fetched += [each["_id"] for each in reply.parse().decode()["cursor"]["nextBatch"]]
            going_on = reply.more_to_come
        assert fetched == [1, 2, 3, 4, 5, 6]
        await talker.ok({"ping": 1})

    play(scenario)


# Legacy messages.


@pytest.mark.parametrize(
    "message",
    [
        OpQuery.of("admin", {"isMaster": 1}),
        OpQuery.of("admin", {"$query": {"isMaster": 1}, "$readPreference": {"mode": "primary"}}),
        OpQuery.of("admin", {"ismaster": 1}, flags=4),
    ],
)
def test_a_handshake_may_come_as_a_legacy_query(message: OpQuery) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.send(message)
        reply = await talker.receive()
        assert reply is not None
        parsed = reply.parse()
        assert isinstance(parsed, OpReply)
        assert parsed.decode()["ismaster"] is True

    play(scenario)


def test_old_releases_take_any_command_as_a_legacy_query() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.secondary)
        await talker.send(OpQuery.of("db", {"find": "c"}))
        assert ((await talker.reply()) or {})["code"] == 13435
        await talker.send(OpQuery.of("db", {"find": "c"}, flags=4))
        assert ((await talker.reply()) or {})["ok"] == 1.0

    play(scenario, ClusterSpec.replica_set(2, profile="5.0"))


def test_a_reply_in_the_place_of_a_request_is_ignored() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.send(OpReply.of({"ok": 1}))
        await talker.ok({"ping": 1})

    play(scenario)


def test_who_wants_no_reply_gets_none() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        insert = {"insert": "c", "documents": [{"_id": 1}], "writeConcern": {"w": 0}, "$db": "db"}
        await talker.send(OpMsg.of(insert, more_to_come=True))
        await talker.send(OpMsg.of({"bogus": 1, "$db": "db"}, more_to_come=True))
        found = await talker.ok({"find": "c", "$db": "db"})
        assert len(found["cursor"]["firstBatch"]) == 1

    play(scenario)
