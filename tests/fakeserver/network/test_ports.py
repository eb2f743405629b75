"""The ports beside the main one: for operators, without limits; for load balancers that name the client."""

from __future__ import annotations

import json
from typing import Any

import pytest
from talking import Deployment, Talker, play

from fakeserver import ClusterSpec
from fakeserver.deployment.doors import Door

_PING = {"ping": 1}
_ONE_TOKEN = {
    "ingressRequestRateLimiterEnabled": True,
    "ingressRequestAdmissionRatePerSec": 1,
    "ingressRequestAdmissionBurstCapacitySecs": 1.0,
}
_ONE_CONNECTION = {
    "ingressConnectionEstablishmentRateLimiterEnabled": True,
    "ingressConnectionEstablishmentRatePerSec": 1,
    "ingressConnectionEstablishmentBurstCapacitySecs": 1.0,
}


def _with_priority(**parameters: Any) -> ClusterSpec:
    return ClusterSpec.standalone(profile="9.0", priority_ports=(0,), parameters=parameters)


def _with_proxy(profile: str = "8.2", **parameters: Any) -> ClusterSpec:
    return ClusterSpec.standalone(profile=profile, proxy_ports=(0,), parameters=parameters)


async def _connections(talker: Talker) -> dict[str, Any]:
    shown: dict[str, Any] = (await talker.ok({"serverStatus": 1}))["connections"]
    return shown


async def _proxied(deployment: Deployment, header: bytes) -> Talker:
    talker = await deployment.connect(door=Door.PROXY)
    await talker.send_bytes(header)
    return talker


def test_who_comes_by_the_priority_port_needs_no_token_and_is_counted_as_exempt() -> None:
    async def scenario(deployment: Deployment) -> None:
        ordinary, operator = await deployment.connect(), await deployment.connect(door=Door.PRIORITY)
        await ordinary.ok(_PING)
        assert (await ordinary.fails(_PING))["code"] == 462
        before = deployment.cluster.nodes[0].admission.requests.exempted
        for _ in range(3):
            await operator.ok(_PING)
        assert deployment.cluster.nodes[0].admission.requests.exempted == before + 3

    play(scenario, _with_priority(**_ONE_TOKEN))


def test_who_comes_by_the_priority_port_is_established_at_once_and_counted_as_exempt() -> None:
    async def scenario(deployment: Deployment) -> None:
        ordinary = await deployment.connect()
        assert await (await deployment.connect()).command(_PING) is None
        await (await deployment.connect(door=Door.PRIORITY)).ok(_PING)
        limited = (await _connections(ordinary))["establishmentRateLimit"]
        assert (limited["rejected"], limited["exempted"]) == (1, 1)

    play(scenario, _with_priority(**_ONE_CONNECTION))


def test_the_priority_port_is_open_when_no_other_connection_may_be() -> None:
    async def scenario(deployment: Deployment) -> None:
        ordinary = [await deployment.connect() for _ in range(5)]
        assert await (await deployment.connect()).command(_PING) is None
        await (await deployment.connect(door=Door.PRIORITY)).ok(_PING)
        shown = await _connections(ordinary[0])
        assert [shown[name] for name in ("current", "available", "limitExempt", "priority")] == [6, -1, 1, 1]

    play(scenario, _with_priority(maxIncomingConnections=5))


def test_connections_of_the_priority_port_are_counted_and_logged_and_others_are_not() -> None:
    async def scenario(deployment: Deployment) -> None:
        ordinary = await deployment.connect()
        shown = []
        for _ in range(3):
            shown.append((await _connections(ordinary))["priority"])
            operator = await deployment.connect(door=Door.PRIORITY)
        assert shown == [0, 1, 2]
        lines = [json.loads(line) for line in (await ordinary.ok({"getLog": "global"}))["log"]]
        accepted = [line for line in lines if line["id"] == 22943]
        assert [line["attr"]["isPriority"] for line in accepted] == [True] * 3
        await operator.aclose()
        await deployment.sleep(0.1)
        assert (await _connections(ordinary))["priority"] == 2

    play(scenario, _with_priority())


def test_a_fail_point_may_be_for_the_priority_port_alone() -> None:
    async def scenario(deployment: Deployment) -> None:
        ordinary, operator = await deployment.connect(), await deployment.connect(door=Door.PRIORITY)
        await deployment.fail_command("alwaysOn", "ping", errorCode=11600, priorityPortOnly=True)
        await ordinary.ok(_PING)
        assert (await operator.fails(_PING))["code"] == 11600

    play(scenario, _with_priority())


def test_a_server_that_starts_again_listens_on_all_its_ports() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[0]
        before = dict(node.doors.addresses)
        await node.kill()
        await node.start()
        assert node.doors.addresses == before
        await (await deployment.connect(door=Door.PRIORITY)).ok(_PING)

    play(scenario, _with_priority())


def test_each_member_and_each_mongos_has_a_priority_port_of_its_own() -> None:
    async def scenario(deployment: Deployment) -> None:
        for node in deployment.cluster.nodes:
            await (await deployment.connect(node, Door.PRIORITY)).ok(_PING)

    play(scenario, ClusterSpec.replica_set(2, profile="9.0", priority_ports=(0, 0)))
    play(scenario, ClusterSpec.sharded(2, members=1, profile="9.0", priority_ports=(0, 0)))


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY TCP4 10.1.2.3 10.9.9.9 4711 27017\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c" + bytes([10, 1, 2, 3, 10, 9, 9, 9, 0x12, 0x67, 0x69, 0x89]),
    ],
)
def test_a_proxys_header_says_who_the_client_is(header: bytes) -> None:
    async def scenario(deployment: Deployment) -> None:
        for cut in (len(header), 5):  # whole, and in two parts
            talker = await _proxied(deployment, header[:cut])
            await deployment.sleep(0.1)
            await talker.send_bytes(header[cut:])
            assert (await talker.ok({"whatsmyuri": 1}))["you"] == "10.1.2.3:4711"

    play(scenario, _with_proxy())


@pytest.mark.parametrize("header", [b"PROXY UNKNOWN\r\n", b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00"])
def test_a_proxy_may_speak_for_itself(header: bytes) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await _proxied(deployment, header)
        assert (await talker.ok({"whatsmyuri": 1}))["you"].startswith("127.0.0.1:")

    play(scenario, _with_proxy())


@pytest.mark.parametrize(
    "start",
    [
        b"GET / HTTP/1.1\r\n",
        b"PROXY TCP4 nowhere 10.9.9.9 1 2\r\n",
        b"PROXY " + b"x" * 110,
        b"\r\n\r\n\0\r\nQUIT\n\x91\x11\0\0",
    ],
)
def test_who_sends_no_header_on_the_proxy_port_is_cut_off(start: bytes) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await _proxied(deployment, start)
        assert await talker.receive() is None
        log = (await (await deployment.connect()).ok({"getLog": "global"}))["log"]
        assert any("Error while parsing proxy protocol header" in line for line in log)

    play(scenario, _with_proxy())


@pytest.mark.parametrize(("source", "gets_in"), [("127.0.0.1", True), ("10.1.2.3", False)])
def test_the_clients_address_and_not_the_proxys_decides_on_the_rate_of_connections(
    source: str, *, gets_in: bool
) -> None:
    async def scenario(deployment: Deployment) -> None:
        header = f"PROXY TCP4 {source} 10.9.9.9 4711 27017\r\n".encode()
        replies = [await (await _proxied(deployment, header)).command(_PING) for _ in range(4)]
        assert [reply is not None for reply in replies] == [True, *[gets_in] * 3]
        limited = deployment.cluster.nodes[0].gate.stats()["establishmentRateLimit"]
        assert (limited["exempted"], limited["rejected"]) == ((4, 0) if gets_in else (0, 3))

    bypass = {"ingressConnectionEstablishmentRateLimiterBypass": {"ranges": ["127.0.0.1"]}}
    parameters: dict[str, Any] = {**_ONE_CONNECTION, **bypass}
    play(scenario, _with_proxy(**parameters))


@pytest.mark.parametrize(("source", "open_at_last"), [("127.0.0.1", 7), ("10.1.2.3", 5)])
def test_the_clients_address_and_not_the_proxys_decides_on_the_number_of_connections(
    source: str, open_at_last: int
) -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[0]
        node.parameters.set({"maxIncomingConnectionsOverride": {"ranges": ["127.0.0.1"]}})
        header = f"PROXY TCP4 {source} 10.9.9.9 4711 27017\r\n".encode()
        for _ in range(7):
            await (await _proxied(deployment, header)).command(_PING)
        assert len(node.connections) == open_at_last

    play(scenario, _with_proxy(maxIncomingConnections=5))


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"priority_ports": (0,)}, "release 8.2 has no such port"),
        ({"profile": "8.0", "proxy_ports": (0,)}, "release 8.0 has no such port"),
        ({"profile": "9.0", "priority_ports": (0, 0)}, "one port for each of the 1 servers"),
        ({"ports": (27017,), "proxy_ports": (27017,)}, "must differ"),
    ],
)
def test_ports_that_a_server_cannot_have_are_refused(facts: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClusterSpec.standalone(**facts)


def test_a_mongos_has_no_port_for_proxies() -> None:
    with pytest.raises(ValueError, match="a mongos has no such port"):
        ClusterSpec.sharded(1, proxy_ports=(0,))
