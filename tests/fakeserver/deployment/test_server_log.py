"""The log of a deployment: which server speaks, what is counted by the second, how long a line may be."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talking import REPLICA_SET, STANDALONE, Deployment, play

from fakeserver import ClusterSpec
from fakeserver.deployment.logs.log_lines import COUNTED, LOGGED, REJECTED, VERB
from fakeserver.deployment.logs.server_log import ServerLog
from fakeserver.deployment.records.events import FailPointHit

if TYPE_CHECKING:
    from fakeserver.deployment.node import Node

ACCEPTED = 22943
Line = dict[str, Any]


def logged(node: Node, *numbers: int) -> list[Line]:
    """Return the lines of a server, of these numbers where some are given."""
    lines = [json.loads(line) for line in node.log.lines]
    return [line for line in lines if not numbers or line["id"] in numbers]


def test_every_line_names_its_server() -> None:
    async def scenario(deployment: Deployment) -> None:
        for node in deployment.cluster.servers:
            lines = logged(node)
            assert lines
            assert {line["attr"]["node"] for line in lines} == {node.name}

    play(scenario, ClusterSpec.sharded(1))


def test_an_election_and_a_step_down_are_logged_as_a_mongod_does() -> None:
    async def scenario(deployment: Deployment) -> None:
        first, second, _ = deployment.cluster.servers
        deployment.cluster.elect(second)
        assert [line["attr"] for line in logged(first, 21358)] == [
            {"newState": "PRIMARY", "oldState": "SECONDARY", "node": "node0"},
            {"newState": "SECONDARY", "oldState": "PRIMARY", "term": 1, "node": "node0"},
        ]
        (won,) = logged(second, 21450)
        assert (won["c"], won["ctx"], won["attr"]) == ("ELECTION", "ReplCoord", {"term": 2, "node": "node1"})

    play(scenario, REPLICA_SET)


def test_a_parameter_is_logged_with_its_old_and_new_value_when_it_changes() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for value in (5, 5, 7):
            await talker.ok({"setParameter": 1, "cursorTimeoutMillis": value})
        changes = [
            (line["attr"]["oldValue"], line["attr"]["newValue"])
            for line in logged(talker_node(deployment), 23435)
        ]
        assert changes == [(600_000, 5), (5, 7)]

    def talker_node(deployment: Deployment) -> Node:
        return deployment.cluster.nodes[0]

    play(scenario, STANDALONE)


def test_a_fail_point_is_logged_when_it_is_set_and_when_it_goes() -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.fail_command("alwaysOn", "find", errorCode=91)
        await deployment.configure("failCommand", "off")
        await deployment.configure("failCommand", "off")
        settings = [line["attr"]["failPoint"] for line in logged(deployment.primary, 23829)]
        assert settings == [
            {"mode": "alwaysOn", "data": {"failCommands": ["find"], "errorCode": 91}},
            {"mode": "off", "data": {}},
        ]

    play(scenario, STANDALONE)


def test_hits_and_rejections_are_counted_by_the_second() -> None:
    async def scenario(deployment: Deployment) -> None:
        node, talker = deployment.primary, await deployment.connect()
        await deployment.fail_command("alwaysOn", "find", errorCode=91)
        for _ in range(7):
            await talker.fails({"find": "c"})
        assert logged(node, 20435) == []
        await deployment.configure("failIngressRequestRateLimiting", {"times": 5})
        await talker.ok({"setParameter": 1, "ingressRequestRateLimiterEnabled": True})
        for _ in range(5):
            await talker.fails({"ping": 1})
        await deployment.sleep(1.0)
        (hit,) = logged(node, 20435)
        assert hit["attr"] == {
            "failPoint": "failCommand",
            "command": "find",
            "effect": "error",
            "count": 7,
            "node": "node0",
        }
        (rejected,) = logged(node, REJECTED)
        assert (rejected["s"], rejected["attr"]["mechanism"]) == ("W", "requestRateLimiter")
        assert rejected["attr"]["count"] == 5

    play(scenario, STANDALONE)


def test_what_was_counted_is_logged_when_the_server_ends() -> None:
    kept: list[Node] = []

    async def scenario(deployment: Deployment) -> None:
        kept.append(deployment.primary)
        deployment.primary.record(FailPointHit("failCommand", "find", 1, "block+error"))

    play(scenario, STANDALONE)
    (hit,) = logged(kept[0], 20435)
    assert hit["attr"]["count"] == 1


def test_hits_of_very_many_kinds_take_bounded_memory() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.primary
        for number in range(1000):
            node.record(FailPointHit("failCommand", f"command{number}", 1, "error"))
        assert len(node.tally._counts) <= 100
        assert len(logged(node, 20435)) == 900

    play(scenario, STANDALONE)


def test_what_happens_to_a_server_is_logged_by_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        control, second = deployment.cluster.control, deployment.cluster.nodes[1]
        await control.restart("node1")
        control.pause("node1")
        control.resume("node1")
        control.slow("node1", seconds="200ms")
        control.slow("node1", seconds=0)
        control.lag("node1", seconds=2)
        control.freeze("node1", seconds=3)
        control.partition(groups=[["node1"], ["clients"]])
        control.heal()
        changes = [line["attr"] for line in logged(second) if "change" in line["attr"]]
        assert [(each["change"], each.get("detail")) for each in changes] == [
            ("killed", None),
            ("started", None),
            ("paused", None),
            ("resumed", None),
            ("slow", "0.2 s"),
            ("no longer slow", None),
            ("lags", "2 s"),
            ("frozen", "for 3 s"),
            ("partitioned", "in group 1"),
            ("cut off from clients", "by silence"),
            ("partition healed", None),
            ("reached by clients again", None),
        ]
        verbs = Counter(line["attr"]["verb"] for line in logged(deployment.cluster.nodes[0], VERB))
        assert verbs == Counter(
            ["restart", "pause", "resume", "slow", "slow", "lag", "freeze", "partition", "heal"]
        )

    play(scenario, REPLICA_SET)


def test_connections_are_logged_for_debugging_alone() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"ping": 1})
        assert logged(deployment.primary, 22943, 22944) == []
        await talker.ok({"setParameter": 1, "logLevel": 1})
        other = await deployment.connect()
        await other.ok({"ping": 1})
        await other.aclose()
        await deployment.sleep(0.1)
        lines = logged(deployment.primary, 22943, 22944)
        assert [(line["s"], line["msg"]) for line in lines] == [
            ("D1", "Connection accepted"),
            ("D1", "Connection ended"),
        ]

    play(scenario, STANDALONE)


def test_a_deployment_can_begin_with_a_level() -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.connect()
        await deployment.sleep(0.1)
        assert len(logged(deployment.primary, 22943)) == 1

    play(scenario, ClusterSpec.standalone(parameters={"logLevel": 1}))


def test_a_large_value_is_cut_and_named() -> None:
    log = ServerLog(lambda: 0.0, node="node0")
    log.write("C", 1, "m", context="x", attr={"a": 1, "command": {"text": "x" * 50_000}, "after": "y"})
    (line,) = map(json.loads, log.lines)
    assert line["truncated"] == {"command": {"type": "dict"}, "after": {"type": "str"}}
    assert (line["attr"]["a"], line["attr"]["node"]) == (1, "node0")
    assert len(line["attr"]["command"]["text"]) < 10_300


def test_a_line_says_what_was_so_when_it_was_written() -> None:
    value, dates = {"list": [1]}, iter([0.5, 9.5])
    log = ServerLog(lambda: next(dates))
    log.write("C", 1, "m", context="x", attr={"value": value})
    value["list"].append(2)
    (line,) = map(json.loads, log.lines)
    assert (line["attr"]["value"], line["t"]["$date"]) == ({"list": [1]}, "1970-01-01T00:00:00.500+00:00")


VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=200), st.binary(max_size=200)),
    lambda inner: st.lists(inner, max_size=60) | st.dictionaries(st.text(max_size=9), inner, max_size=60),
    max_leaves=200,
)


@settings(max_examples=20)
@given(value=VALUES, times=st.integers(1, 30))
def test_no_line_is_long(value: Any, times: int) -> None:
    log = ServerLog(lambda: 0.0)
    log.write("C", 1, "m", context="x", attr={"value": [value] * times})
    assert len(log.lines[0]) < 100_000
    json.loads(log.lines[0])


def test_what_no_document_holds_is_written_as_text() -> None:
    log = ServerLog(lambda: 0.0)
    log.write("C", 1, "m", context="x", attr={"value": 1 + 2j})
    assert json.loads(log.lines[0])["attr"]["value"] == "(1+2j)"


@pytest.mark.parametrize("kind", COUNTED)
def test_what_is_counted_is_not_logged_as_it_comes(kind: type) -> None:
    assert kind not in LOGGED


def test_each_component_of_the_log_has_a_verbosity_that_it_inherits() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        node = deployment.cluster.nodes[0]
        name = "logComponentVerbosity"

        async def accepted_lines(change: dict[str, Any]) -> int:
            await talker.ok({"setParameter": 1, **change, "$db": "admin"})
            before = len(logged(node, ACCEPTED))
            await (await deployment.connect()).ok({"ping": 1, "$db": "db"})
            return len(logged(node, ACCEPTED)) - before

        assert await accepted_lines({name: {"verbosity": 0}}) == 0
        assert await accepted_lines({name: {"query": {"verbosity": 2}}}) == 0
        assert await accepted_lines({name: {"network": {"verbosity": 1}}}) == 1
        assert await accepted_lines({name: {"network": {"verbosity": -1}}}) == 0
        assert await accepted_lines({"logLevel": 1}) == 1
        assert await accepted_lines({name: {"network": 0}}) == 0
        told = await talker.ok({"getParameter": 1, name: 1, "logLevel": 1, "$db": "admin"})
        assert (told[name]["verbosity"], told["logLevel"]) == (1, 1)
        assert told[name]["network"] == {
            "verbosity": 0,
            **{part: {"verbosity": -1} for part in ("asio", "bridge", "connectionPool")},
        }

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    "change", [{"nonsense": {"verbosity": 1}}, {"query": {"verbosity": "high"}}, {"query": {"verbosity": 9}}]
)
def test_what_is_no_component_or_no_verbosity_is_refused(change: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        command = {"setParameter": 1, "logComponentVerbosity": change, "$db": "admin"}
        assert (await talker.fails(command))["code"] == 2

    play(scenario, STANDALONE)
