"""The reference driver under faults of bytes, in virtual time: every operation ends within its deadlines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from tls_files import tls

import fakeserver
from driver import AsyncClient
from driver.errors import DriverError
from driver.events import ConnectionClosedEvent
from fakeserver import ClusterSpec
from fakeserver.deployment.records.events import FaultHit
from harness.sim import World, run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from driver.events import DriverEvent
    from fakeserver.deployment.cluster import Cluster

    Scenario = Callable[[World, Cluster, AsyncClient, list[DriverEvent]], Awaitable[None]]

TIMES: Final = "connectTimeoutMS=2000&socketTimeoutMS=2000&serverSelectionTimeoutMS=6000"
LINE: Final[dict[str, Any]] = {
    "delay": "1s",
    "bandwidth": "1KB/s",
    "cut": 10,
    "split": 50,
    "reset": True,
    "halfOpen": True,
    "garbage": 40,
}
EDITS: Final[dict[str, Any]] = {
    "responseTo": 4242,
    "length": 15,
    "checksum": "bad",
    "truncate": 3,
    "duplicate": True,
}
PHASES: Final = (
    *("accept", "handshake", "saslStart", "saslContinue", "requestHeader", "requestBody", "beforeReply"),
    "reply",
)
TABLE: Final = [
    (phase, effect, value)
    for phase in ("tlsHello", *PHASES)
    for effect, value in (LINE if phase in {"tlsHello", "accept"} else LINE | EDITS).items()
] + [("close", effect, LINE[effect]) for effect in ("delay", "reset", "halfOpen", "garbage")]
SPEC: Final = ClusterSpec.replica_set(2)
WITH_AUTHENTICATION: Final = ClusterSpec.standalone(
    auth=True, users=(fakeserver.UserSpec("u", password="p", roles=("root",)),)
)


def play(scenario: Scenario, *, options: str = "", spec: ClusterSpec = SPEC) -> None:
    async def run(world: World) -> None:
        ports: dict[str, Any] = {"network": world.network, "clock": world.clock}
        events: list[DriverEvent] = []
        async with fakeserver.start(spec, rng=world.rng.spawn("server"), **ports) as cluster:
            uri = f"{cluster.uri}{'&' if '?' in cluster.uri else '?'}{TIMES}{options}"
            async with AsyncClient(
                uri, rng=world.rng.spawn("client"), listeners=[events.append], **ports
            ) as client:
                await scenario(world, cluster, client, events)

    run_virtual(run)


async def outcome(client: AsyncClient) -> str:
    try:
        await client.database("db").collection("c").find_one({})
    except DriverError as error:
        return type(error).__name__
    return "ok"


@pytest.mark.parametrize(("phase", "effect", "value"), TABLE)
def test_an_operation_ends_in_time_whatever_happens_to_its_bytes(phase: str, effect: str, value: Any) -> None:
    async def scenario(
        world: World, cluster: Cluster, client: AsyncClient, events: list[DriverEvent]
    ) -> None:
        if phase == "close":
            closes = {"failCommands": ["find"], "closeConnection": True}
            cluster.nodes[0].configure_fail_point("failCommand", mode={"times": 1}, data=closes)
        fault = cluster.control.add_fault({"at": phase, "do": {effect: value}})
        for _ in range(2):
            begun = world.clock.now()
            await outcome(client)
            assert world.clock.now() - begun < 20
        assert len(cluster.journal.of_kind("faultHit")) >= 1
        cluster.control.remove_fault(fault["id"])
        cluster.faults.restore((), cluster)
        await world.clock.sleep_until(world.clock.now() + 30)
        assert await outcome(client) == "ok"

    play(scenario, spec=_spec(phase))


def _spec(phase: str) -> ClusterSpec:
    if phase == "tlsHello":
        return ClusterSpec.standalone(tls=tls())
    return WITH_AUTHENTICATION if phase.startswith("sasl") else SPEC


@pytest.mark.parametrize(
    ("do", "error", "seconds"),
    [
        ({"halfOpen": True}, "NetworkTimeoutError", 2.0),
        ({"reset": True}, "NetworkError", 0.0),
        ({"cut": 10}, "NetworkError", 0.0),
        ({"responseTo": 4242}, "NetworkError", 0.0),
        ({"length": 15}, "NetworkError", 0.0),
        ({"length": 1000}, "NetworkTimeoutError", 2.0),
        ({"length": 48_000_001}, "NetworkError", 0.0),
        ({"checksum": "bad"}, "NetworkError", 0.0),
        ({"truncate": 3}, "NetworkError", 0.0),
        ({"garbage": 100}, "NetworkError", 0.0),
        ({"delay": "1s"}, None, 1.0),
        ({"split": 1}, None, None),
    ],
)
def test_a_damaged_reply_is_an_error_and_the_end_of_its_connection(
    do: dict[str, Any], error: str | None, seconds: float | None
) -> None:
    async def scenario(
        world: World, cluster: Cluster, client: AsyncClient, events: list[DriverEvent]
    ) -> None:
        assert await outcome(client) == "ok"
        cluster.control.add_fault({"at": "reply", "command": "find", "times": 1, "do": do})
        begun, before = world.clock.now(), len(events)
        assert await outcome(client) == (error or "ok")
        if seconds is not None:
            assert round(world.clock.now() - begun, 1) == seconds
        await world.clock.sleep_until(world.clock.now() + 1)
        closed = [event for event in events[before:] if isinstance(event, ConnectionClosedEvent)]
        assert [event.reason for event in closed] == ([] if error is None else ["error"])
        assert await outcome(client) == "ok"

    play(scenario, options="&retryReads=false")


@pytest.mark.parametrize("do", [{"reset": True}, {"cut": 3}, {"halfOpen": True}, {"truncate": 4}])
def test_a_read_is_tried_again_on_another_connection(do: dict[str, Any]) -> None:
    async def scenario(
        world: World, cluster: Cluster, client: AsyncClient, events: list[DriverEvent]
    ) -> None:
        assert await outcome(client) == "ok"
        cluster.control.add_fault({"at": "reply", "command": "find", "times": 1, "do": do})
        assert await outcome(client) == "ok"

    play(scenario)


def test_a_write_that_ran_and_whose_reply_is_lost_is_written_once() -> None:
    async def scenario(
        world: World, cluster: Cluster, client: AsyncClient, events: list[DriverEvent]
    ) -> None:
        collection = client.database("db").collection("c")
        cluster.control.add_fault(
            {"at": "beforeReply", "command": "insert", "times": 1, "do": {"reset": True}}
        )
        await collection.insert_one({"_id": 1})
        assert await collection.count_documents({}) == 1
        assert len(cluster.journal.of_kind("faultHit")) == 1

    play(scenario)


def test_a_reply_that_comes_twice_is_not_taken_for_the_next_one() -> None:
    async def scenario(
        world: World, cluster: Cluster, client: AsyncClient, events: list[DriverEvent]
    ) -> None:
        assert await outcome(client) == "ok"
        cluster.control.add_fault({"at": "reply", "command": "find", "times": 1, "do": {"duplicate": True}})
        assert [await outcome(client) for _ in range(3)] == ["ok", "NetworkError", "ok"]

    play(scenario, options="&retryReads=false")


def test_the_same_seed_gives_the_same_journal_with_every_kind_of_fault() -> None:
    journals: list[str] = []

    async def scenario(
        world: World, cluster: Cluster, client: AsyncClient, events: list[DriverEvent]
    ) -> None:
        for number, (effect, value) in enumerate((LINE | EDITS).items()):
            at = ("requestHeader", "beforeReply", "reply")[number % 3]
            do = {effect: value, "jitter": "1ms"}
            cluster.control.add_fault({"at": at, "probability": "20%", "times": 2, "do": do})
        for _ in range(25):
            await outcome(client)
        met = {event.effect for record in cluster.journal if isinstance(event := record.event, FaultHit)}
        assert len(met) == len(LINE | EDITS)
        journals.append(cluster.journal.to_json_lines())

    play(scenario)
    play(scenario)
    assert journals[0] == journals[1]
