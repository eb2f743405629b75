"""Faults of bytes: when they fire, on what, and what becomes of requests, in virtual time."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from talking import LATENCY, REPLICA_SET, STANDALONE, Deployment, Talker, play
from talking import World as Ports

import fakeserver
from fakeserver import ClusterSpec
from fakeserver.deployment.records.events import FaultHit, MessageSent
from fakeserver.network.fault_layer import FaultTransport
from fakeserver.network.wire_entries import Sent
from fakeserver.network.wire_record import WireRecord
from fakeserver.network.wire_tap import WireTap
from harness.sim import World, run_virtual
from mongowire.compression import Compressor
from mongowire.connection import WireConnection
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from fakeserver.deployment.cluster import Node

PING = {"ping": 1}
INSERT = {"insert": "c", "documents": [{"_id": 1}], "$db": "db"}
ROUND_TRIP = 2 * LATENCY


def add(deployment: Deployment, at: str, do: dict[str, Any], **fields: Any) -> str:
    return str(deployment.cluster.control.add_fault({"at": at, "do": do, **fields})["id"])


def hits(deployment: Deployment) -> list[FaultHit]:
    events = [record.event for record in deployment.cluster.journal]
    return [event for event in events if isinstance(event, FaultHit)]


async def took(deployment: Deployment, talker: Talker, command: dict[str, Any] | None = None) -> float:
    """Return the seconds from a request to its reply, the round trip left out."""
    begun = deployment.world.clock.now()
    await talker.ok(command or PING)
    return round(deployment.world.clock.now() - begun - ROUND_TRIP, 9)


def seconds_of(at: str, do: dict[str, Any], command: dict[str, Any] | None = None, **fields: Any) -> float:
    found: list[float] = []

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        add(deployment, at, do, **fields)
        found.append(await took(deployment, talker, command))

    play(scenario, STANDALONE)
    return found[0]


# Time.


@pytest.mark.parametrize("at", ["requestHeader", "requestBody", "beforeReply", "reply"])
def test_a_delay_takes_as_long_as_it_says(at: str) -> None:
    assert seconds_of(at, {"delay": "2s"}) == 2.0


def test_delays_of_several_faults_add_up() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for at in ("requestHeader", "requestBody", "beforeReply", "reply"):
            add(deployment, at, {"delay": "1s"})
        assert await took(deployment, talker) == 4.0
        assert [hit.fault for hit in hits(deployment)] == ["fault1", "fault2", "fault3", "fault4"]

    play(scenario, STANDALONE)


def test_jitter_is_up_to_so_many_seconds_more_and_the_same_for_the_same_seed() -> None:
    first = seconds_of("reply", {"delay": "1s", "jitter": "1s"})
    assert 1.0 < first < 2.0
    assert seconds_of("reply", {"delay": "1s", "jitter": "1s"}) == first


def test_a_bandwidth_is_that_of_the_reply() -> None:
    reply_bytes = 38
    assert seconds_of("reply", {"bandwidth": "10B/s"}) == reply_bytes / 10


def test_a_bandwidth_of_accept_is_that_of_every_reply_of_the_connection() -> None:
    async def scenario(deployment: Deployment) -> None:
        add(deployment, "accept", {"bandwidth": "10B/s"}, times=1)
        slow, other = await deployment.connect(), await deployment.connect()
        assert [await took(deployment, slow) for _ in range(2)] == [3.8, 3.8]
        assert await took(deployment, other) == 0.0

    play(scenario, STANDALONE)


def test_a_delay_in_the_middle_of_a_reply_comes_behind_its_first_bytes() -> None:
    async def scenario(deployment: Deployment) -> None:
        add(deployment, "reply", {"delay": "3s"}, byte=16)
        talker = await deployment.connect()
        await talker.send(PING)
        assert len(await talker._stream.read(100)) == 16
        before = deployment.world.clock.now()
        assert len(await talker._stream.read(100)) == 22
        assert round(deployment.world.clock.now() - before, 9) == 3.0

    play(scenario, STANDALONE)


def test_pieces_arrive_one_by_one() -> None:
    async def scenario(deployment: Deployment) -> None:
        add(deployment, "reply", {"split": 15})
        talker = await deployment.connect()
        await talker.send(PING)
        assert [len(await talker._stream.read(100)) for _ in range(3)] == [15, 15, 8]

    play(scenario, STANDALONE)


def test_replies_keep_their_order_behind_one_that_is_late() -> None:
    async def scenario(deployment: Deployment) -> None:
        add(deployment, "reply", {"delay": "1s"}, times=1)
        talker = await deployment.connect()
        asked = [await talker.send(PING) for _ in range(3)]
        answered = [await talker.receive() for _ in range(3)]
        assert [each.response_to for each in answered if each is not None] == asked

    play(scenario, STANDALONE)


# What becomes of a request.


@pytest.mark.parametrize(
    ("at", "do", "inserted"),
    [
        ("requestHeader", {"reset": True}, 0),
        ("requestBody", {"cut": 0}, 0),
        ("requestHeader", {"halfOpen": True}, 0),
        ("requestHeader", {"cut": 4}, 1),
        ("beforeReply", {"reset": True}, 1),
        ("reply", {"cut": 4}, 1),
        ("reply", {"halfOpen": True}, 1),
    ],
)
def test_a_request_runs_unless_a_fault_meets_it_before(at: str, do: dict[str, Any], inserted: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        add(deployment, at, do, times=1)
        talker = await deployment.connect()
        await talker.send(INSERT)
        await deployment.sleep(1)
        other = await deployment.connect()
        assert (await other.ok({"count": "c", "$db": "db"}))["n"] == inserted

    play(scenario, STANDALONE)


def test_a_silent_connection_takes_bytes_and_ends_with_its_server() -> None:
    async def scenario(deployment: Deployment) -> None:
        add(deployment, "requestHeader", {"halfOpen": True}, times=1)
        talker = await deployment.connect()
        for _ in range(3):
            await talker.send(INSERT)
        await deployment.sleep(60)
        assert [hit.effect for hit in hits(deployment)] == ["halfOpen"]
        await deployment.cluster.nodes[0].kill()
        assert await talker.reply() is None

    play(scenario, STANDALONE)


def test_a_client_that_leaves_a_silent_connection_is_forgotten() -> None:
    async def scenario(deployment: Deployment) -> None:
        add(deployment, "requestHeader", {"halfOpen": True})
        talker = await deployment.connect()
        await talker.send(PING)
        await deployment.sleep(1)
        await talker.aclose()
        await deployment.sleep(1)
        assert deployment.cluster.nodes[0].connections == {}

    play(scenario, STANDALONE)


def test_what_was_sent_before_the_client_left_still_runs_late() -> None:
    async def scenario(deployment: Deployment) -> None:
        add(deployment, "requestHeader", {"delay": "5s"}, times=1)
        talker = await deployment.connect()
        await talker.send(INSERT, more_to_come=True)
        await talker.aclose()
        await deployment.sleep(6)
        other = await deployment.connect()
        assert (await other.ok({"count": "c", "$db": "db"}))["n"] == 1

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("do", "end"), [({"delay": "2s"}, 2.0), ({"reset": True}, 0.0), ({"garbage": 20}, 0.0)]
)
def test_the_close_of_a_server_is_late_or_dirty(do: dict[str, Any], end: float) -> None:
    async def scenario(deployment: Deployment) -> None:
        add(deployment, "close", do)
        talker = await deployment.connect()
        begun = deployment.world.clock.now()
        await talker.send_bytes(bytes(16))  # a message without a length: the server closes
        if "reset" in do:
            with pytest.raises(ConnectionResetError):
                await talker._stream.read(100)
        elif "garbage" in do:
            assert len(await talker._stream.read(100)) == 20
            assert await talker._stream.read(100) == b""
        else:
            assert await talker._stream.read(100) == b""
        assert round(deployment.world.clock.now() - begun - ROUND_TRIP, 9) == end
        assert [hit.phase for hit in hits(deployment)] == ["close"]

    play(scenario, STANDALONE)


# The bytes of a request.


@pytest.mark.parametrize(
    ("at", "byte", "sent", "fired"),
    [
        ("requestHeader", None, 15, False),
        ("requestHeader", None, 16, True),
        ("requestBody", None, 16, False),
        ("requestBody", None, 17, True),
        ("requestBody", 10, 25, False),
        ("requestBody", 10, 26, True),
        ("requestBody", 10_000, 41, False),
    ],
)
def test_a_fault_of_a_request_waits_for_its_byte(at: str, byte: int | None, sent: int, fired: bool) -> None:  # noqa: FBT001
    data = WireConnection().send(OpMsg.of({**PING, "$db": "admin"}), request_id=1)

    async def scenario(deployment: Deployment) -> None:
        add(deployment, at, {"reset": True}, **({} if byte is None else {"byte": byte}))
        talker = await deployment.connect()
        await talker.send_bytes(data[:sent])
        await deployment.sleep(1)
        assert bool(hits(deployment)) is fired

    play(scenario, STANDALONE)


def test_a_fault_added_in_the_middle_of_a_request_counts_from_the_next_one() -> None:
    data = WireConnection().send(OpMsg.of({**PING, "$db": "admin"}), request_id=1)

    async def scenario(deployment: Deployment) -> None:
        for cut in (2, 16, 30):
            talker = await deployment.connect()
            await talker.send_bytes(data + data[:cut])
            await deployment.sleep(1)
            fault = add(deployment, "reply", {"responseTo": 99})
            await talker.send_bytes(data[cut:])
            replies = [await talker.receive() for _ in range(2)]
            assert [each.response_to for each in replies if each is not None] == [1, 99]
            deployment.cluster.control.remove_fault(fault)

    play(scenario, STANDALONE)


def test_what_is_no_wire_protocol_reaches_the_server() -> None:
    async def scenario(deployment: Deployment) -> None:
        add(deployment, "reply", {"reset": True})
        talker = await deployment.connect()
        await talker.send_bytes(b"GET / HTTP/1.1\r\n\r\n" + bytes(40))
        assert (await talker.rest()).startswith(b"HTTP/1.0 200 OK")
        assert hits(deployment) == []

    play(scenario, STANDALONE)


# Filters.


async def fired(deployment: Deployment, talker: Talker, count: int, command: Any = None) -> list[int]:
    """Return the numbers, from 1, of the requests that a fault met, which sets `responseTo` to 0."""
    replies = []
    for _ in range(count):
        await talker.send(command or PING)
        envelope = await talker.receive()
        assert envelope is not None
        replies.append(envelope.response_to)
    return [number for number, response_to in enumerate(replies, 1) if response_to == 0]


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"nth": 3}, [3]),
        ({"every": 2}, [2, 4, 6]),
        ({"times": 2}, [1, 2]),
        ({"every": 2, "times": 2}, [2, 4]),
        ({"connection": 1}, [1, 2, 3, 4, 5, 6]),
        ({"connection": 2}, []),
        ({"command": "ping"}, [1, 2, 3, 4, 5, 6]),
        ({"command": ["find", "hello"]}, []),
        ({"node": "primary"}, [1, 2, 3, 4, 5, 6]),
        ({"node": "node1"}, []),
        ({"appName": "shop"}, []),
    ],
)
def test_a_fault_fires_where_its_filters_say(filters: dict[str, Any], numbers: list[int]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        add(deployment, "reply", {"responseTo": 0}, **filters)
        assert await fired(deployment, talker, 6) == numbers
        (listed,) = deployment.cluster.control.list_faults()["faults"]
        assert listed["hits"] == len(numbers)

    play(scenario, REPLICA_SET)


def test_a_fault_for_a_role_follows_an_election() -> None:
    async def met(deployment: Deployment, node: Node) -> bool:
        return bool(await fired(deployment, await deployment.connect(node), 1))

    async def scenario(deployment: Deployment) -> None:
        add(deployment, "reply", {"responseTo": 0}, node="primary")
        first, second, _ = deployment.cluster.nodes
        assert (await met(deployment, first), await met(deployment, second)) == (True, False)
        deployment.cluster.elect(second)
        assert (await met(deployment, first), await met(deployment, second)) == (False, True)

    play(scenario, REPLICA_SET)


def test_a_fault_for_an_application_knows_it_by_its_hello() -> None:
    async def scenario(deployment: Deployment) -> None:
        add(deployment, "reply", {"responseTo": 0}, appName="shop", command="ping")
        talker = await deployment.connect()
        client = {
            "application": {"name": "shop"},
            "driver": {"name": "d", "version": "1"},
            "os": {"type": "Linux"},
        }
        await talker.ok({"hello": 1, "client": client})
        assert await fired(deployment, talker, 2) == [1, 2]

    play(scenario, STANDALONE)


def test_a_fault_lasts_as_long_as_it_says() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        add(deployment, "reply", {"responseTo": 0}, **{"for": "5s"})
        assert await fired(deployment, talker, 2) == [1, 2]
        await deployment.sleep(5)
        assert await fired(deployment, talker, 2) == []
        assert deployment.cluster.control.list_faults()["faults"][0]["over"]

    play(scenario, STANDALONE)


def test_a_probability_is_drawn_from_the_seed() -> None:
    drawn: list[list[int]] = []

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        add(deployment, "reply", {"responseTo": 0}, probability="30%")
        drawn.append(await fired(deployment, talker, 200))

    play(scenario, STANDALONE)
    play(scenario, STANDALONE)
    assert 30 < len(drawn[0]) < 90
    assert drawn[0] == drawn[1]


def test_all_faults_that_fire_act_together() -> None:
    async def scenario(deployment: Deployment) -> None:
        add(deployment, "requestHeader", {"duplicate": True})
        add(deployment, "beforeReply", {"responseTo": 5})
        add(deployment, "reply", {"delay": "1s", "split": 8})
        talker = await deployment.connect()
        begun = deployment.world.clock.now()
        await talker.send(PING)
        replies = [await talker.receive() for _ in range(2)]
        assert [each.response_to for each in replies if each is not None] == [5, 5]
        assert (
            round(deployment.world.clock.now() - begun - ROUND_TRIP, 9) == 1.0009
        )  # nine gaps between pieces

    play(scenario, STANDALONE)


# The layer.


def test_a_connection_has_no_layer_before_the_first_fault_and_after_the_last_one() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(PING)
        connection: Any = next(iter(deployment.cluster.nodes[0].connections.values()))
        own = connection.transport
        assert not isinstance(own, FaultTransport)
        fault = add(deployment, "reply", {"delay": "1s"})
        assert isinstance(connection.transport, FaultTransport)
        assert await took(deployment, talker) == 1.0
        deployment.cluster.control.remove_fault(fault)
        await talker.ok(PING)
        assert connection.transport is own
        assert own.get_protocol() is connection

    play(scenario, STANDALONE)


def test_a_fault_that_is_removed_ends_what_it_has_begun() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        fault = add(deployment, "reply", {"delay": "5s"})
        await talker.send(PING)
        await deployment.sleep(1)
        deployment.cluster.control.remove_fault(fault)
        begun = deployment.world.clock.now()
        assert await talker.reply() == {"ok": 1.0}
        assert round(deployment.world.clock.now() - begun, 3) == 4.001

    play(scenario, STANDALONE)


def test_clearing_the_faults_mends_connections_and_numbers_anew() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        add(deployment, "accept", {"bandwidth": "1B/s"})
        add(deployment, "requestHeader", {"halfOpen": True}, connection=2)
        slow, silent = await deployment.connect(), await deployment.connect()
        await silent.send(PING)
        await deployment.sleep(1)
        cluster.faults.restore((), cluster)
        assert await took(deployment, slow) == 0.0
        assert await silent.reply() is None
        assert add(deployment, "reply", {"reset": True}) == "fault1"

    play(scenario, STANDALONE)


@pytest.mark.parametrize("compressor", [None, Compressor.ZLIB])
def test_a_fault_of_a_body_knows_the_command_of_a_request_however_it_is_sent(
    compressor: Compressor | None,
) -> None:
    async def scenario(deployment: Deployment) -> None:
        add(deployment, "requestBody", {"responseTo": 3}, command="find")
        talker = await deployment.connect()
        for command in (PING, {"find": "c", "$db": "db"}):
            await talker.send(command, compressor=compressor)
            envelope = await talker.receive()
            assert envelope is not None
            assert (envelope.response_to == 3) is ("find" in command)

    play(scenario, STANDALONE)


def test_a_client_that_asks_faster_than_it_is_answered_waits() -> None:
    async def scenario(deployment: Deployment) -> None:
        add(deployment, "reply", {"delay": "1ms"})
        talker = await deployment.connect()
        asked = [await talker.send(PING) for _ in range(500)]
        await deployment.sleep(0.1)
        assert len(hits(deployment)) < 250
        answered = [await talker.receive() for _ in range(500)]
        assert [each.response_to for each in answered if each is not None] == asked

    play(scenario, STANDALONE)


@pytest.mark.parametrize("early", [True, False])
def test_what_is_seen_of_the_wire_has_the_fault(early: bool) -> None:  # noqa: FBT001 - a case
    async def main(world: World) -> None:
        tap = WireTap(world.network, world.clock)
        record = WireRecord(tap, world.clock, itertools.count(1).__next__)
        record.begin()
        ports: dict[str, Any] = {"network": record, "clock": world.clock, "rng": world.rng}
        async with fakeserver.start(STANDALONE, **ports) as cluster:
            tap.journal = cluster.journal
            deployment = Deployment(Ports(world.clock, world.rng, record), cluster, [])
            talker = None if early else await deployment.connect()
            add(deployment, "reply", {"responseTo": 99})
            talker = talker or await deployment.connect()
            await talker.command(PING)
            sent = [entry.envelope.response_to for entry in record.entries if isinstance(entry, Sent)]
            events = [each.event for each in cluster.journal]
            assert sent == [99]
            assert [each.response_to for each in events if isinstance(each, MessageSent)] == [99]
            await talker.aclose()

    run_virtual(main)


# Scripts of requests.


def test_a_request_may_say_itself_how_its_reply_is_sent() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        actions = [{"sendBytes": 2}, {"delayMs": 400}, {"sendBytes": 20}, {"delayMs": 100}, {"sendAll": True}]
        begun = deployment.world.clock.now()
        await talker.send({"ping": 1, "proxyTest": {"actions": actions}})
        seen = []
        for _ in range(3):
            data = await talker._stream.read(100)
            seen.append((round(deployment.world.clock.now() - begun - ROUND_TRIP, 9), len(data)))
        assert seen == [(0.0, 2), (0.4, 20), (0.5, 16)]
        assert await took(deployment, talker) == 0.0

    play(scenario, STANDALONE)


def test_what_a_script_leaves_out_is_sent_at_its_end() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        insert = INSERT | {"proxyTest": {"actions": [{"delayMs": 1000, "sendBytes": 5}]}}
        assert await took(deployment, talker, insert) == 1.0
        assert (await talker.ok({"count": "c", "$db": "db"}))["n"] == 1

    play(scenario, STANDALONE)


def test_without_test_commands_a_script_is_an_unknown_field() -> None:
    spec = ClusterSpec.standalone(parameters={"enableTestCommands": False})

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert (await talker.fails(INSERT | {"proxyTest": {"actions": []}}))["code"] == 40415

    play(scenario, spec)


@pytest.mark.parametrize(
    "spec", [ClusterSpec.sharded(shards=2, mongos=1), ClusterSpec.load_balanced(mongos=2)], ids=str
)
def test_a_mongos_has_faults_and_scripts_of_its_own(spec: ClusterSpec) -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        add(deployment, "accept", {"delay": "2s"}, node="mongos", times=1)
        host, _, port = (cluster.balancers or cluster.nodes)[-1].address.rpartition(":")
        deadline = deployment.world.clock.now() + 10
        talker = Talker(await deployment.world.network.connect(host, int(port), deadline=deadline))
        script = {"proxyTest": {"actions": [{"sendBytes": 3}, {"delayMs": 500}]}}
        more = {"loadBalanced": True} if cluster.balancers else {}
        client = {"driver": {"name": "d", "version": "1"}, "os": {"type": "Linux"}}
        begun = deployment.world.clock.now()
        await talker.ok({"hello": 1, "client": client, **more})
        assert round(deployment.world.clock.now() - begun, 2) == 2.0
        assert await took(deployment, talker, INSERT | script) == 0.5
        assert (await talker.ok({"count": "c", "$db": "db"}))["n"] == 1
        await talker.aclose()

    play(scenario, spec)
