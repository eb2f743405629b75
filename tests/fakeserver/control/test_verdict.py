"""The verdict on a run: what happened, what never did, what came near, and what the application was told."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from bson import Int64
from played import Play
from played import play as play_scenario
from talking import REPLICA_SET, STANDALONE, Deployment, lsid, play

from fakeserver.control.scenario.building import build
from fakeserver.control.scenario.loader import read_text
from fakeserver.rules import error

if TYPE_CHECKING:
    from collections.abc import Callable

FIND = {"find": "orders", "$db": "shop"}
INSERT = {"insert": "orders", "documents": [{}], "$db": "shop"}


def verdict_on(act: Callable[[Deployment], Any]) -> dict[str, Any]:
    """Return the verdict on a deployment on which something is set up, and then a find fails or not."""
    found: dict[str, Any] = {}

    async def scenario(deployment: Deployment) -> None:
        made = act(deployment)
        if asyncio.iscoroutine(made):
            await made
        talker = await deployment.connect()
        await talker.command(FIND)
        found.update(deployment.cluster.control.verdict())

    play(scenario, REPLICA_SET)
    return found


def rule(**when: Any) -> Callable[[Deployment], Any]:
    return lambda deployment: deployment.cluster.control.when(**when).then(error(2))


def fault(**document: Any) -> Callable[[Deployment], Any]:
    return lambda deployment: deployment.cluster.control.add_fault({"do": {"delay": "100ms"}, **document})


def fail_point(**data: Any) -> Callable[[Deployment], Any]:
    return lambda deployment: deployment.cluster.control.set_fail_point(
        "failCommand", data={"errorCode": 2, **data}
    )


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (rule(command="find"), "rule"),
        (fault(at="reply", command="find"), "fault"),
        (fail_point(failCommands=["find"]), "fail point"),
        (lambda deployment: deployment.cluster.control.expect("find"), "expectation"),
    ],
)
def test_what_was_met_is_counted(act: Callable[[Deployment], Any], kind: str) -> None:
    verdict = verdict_on(act)
    assert [(each["kind"], each["hits"]) for each in verdict["met"]] == [(kind, 1)]
    assert verdict["asExpected"]
    assert (verdict["neverMet"], verdict["reason"]) == ([], "")


NEAR = "find shop.orders -> ok at node0: "


@pytest.mark.parametrize(
    ("act", "near"),
    [
        (rule(command="find", namespace="shop.oders"), NEAR + "namespace is shop.orders"),
        (rule(command="insert"), NEAR + "command is find"),
        (rule(command="find", app_name="shop"), NEAR + "appName is unknown"),
        (rule(command="find", nth=2), "1 request met the conditions; it is for number 2 of them"),
        (fault(at="reply", command="insert"), NEAR + "command is find"),
        (fault(at="reply", command="find", every=3), "1 request met the conditions; it is for one in 3"),
        (fail_point(failCommands=["insert"]), NEAR + "command is find"),
        (fail_point(failCommands=["find"], namespace="shop.carts"), NEAR + "namespace is shop.orders"),
        (
            lambda deployment: deployment.cluster.control.expect("insert"),
            "find on shop.orders: command is find, expected insert",
        ),
    ],
)
def test_what_was_never_met_is_told_with_what_came_near(act: Callable[[Deployment], Any], near: str) -> None:
    verdict = verdict_on(act)
    (never_met,) = verdict["neverMet"]
    assert near in never_met["nearMisses"][0]
    assert not verdict["asExpected"]
    assert verdict["reason"] == "1 of its faults and expectations never met"
    assert verdict["complaints"][1] == f"    near miss: {never_met['nearMisses'][0]}"


@pytest.mark.parametrize("act", [rule(command="find", probability=0), fault(at="reply", probability=0)])
def test_what_left_it_to_chance_was_met(act: Callable[[Deployment], Any]) -> None:
    assert verdict_on(act)["asExpected"]


def test_a_request_that_a_rule_held_is_no_fault() -> None:
    async def hold(deployment: Deployment) -> None:
        with deployment.cluster.control.hold("insert"):
            pass

    assert verdict_on(hold)["asExpected"]


def test_operations_that_failed_are_told_and_judge_nothing() -> None:
    verdict = verdict_on(rule(command="find"))
    assert verdict["complaints"] == []
    assert verdict["operations"] == {
        "operations": 1,
        "errors": 1,
        "failed": [{"command": "find", "code": 2, "error": "BadValue", "count": 1}],
        "awaiting": {"operations": 0, "errors": 0},
    }
    assert verdict["lines"] == [
        "verdict: met rule rule1 once; 1 of 1 operations failed",
        "  failed in the application: find, 2 BadValue, once",
    ]


def test_a_reply_that_a_fault_broke_did_not_arrive() -> None:
    async def scenario(deployment: Deployment) -> None:
        deployment.cluster.control.add_fault(
            {"at": "beforeReply", "command": "insert", "times": 1, "do": {"reset": True}}
        )
        write = {**INSERT, "lsid": lsid(), "txnNumber": Int64(1)}
        talker = await deployment.connect()
        await talker.send(write)
        with suppress(OSError, EOFError):
            await talker.reply()
        found.append(deployment.cluster.control.verdict()["operations"])
        await (await deployment.connect()).ok(write)
        found.append(deployment.cluster.control.verdict()["operations"])

    found: list[dict[str, Any]] = []
    play(scenario, REPLICA_SET)
    lost, retried = found
    assert lost["failed"] == [{"command": "insert", "code": None, "error": "connection lost", "count": 1}]
    assert (retried["operations"], retried["errors"]) == (1, 0)


def timeline(*steps: str) -> dict[str, Any]:
    """Return the verdict on a timeline after two seconds without a request."""
    text = 'pushbackd: "1.0"\ntimeline:\n' + "".join(f"  - {step}\n" for step in steps)

    async def to_two_seconds(stage: Play) -> None:
        await stage.until(stage.now + 2)
        found.update(stage.cluster.control.verdict())

    found: dict[str, Any] = {}
    play_scenario(build(read_text(text, "s.yml")), to_two_seconds)
    return found


def test_steps_that_were_performed_are_counted_and_the_others_say_what_they_wait_for() -> None:
    verdict = timeline("{at: 1s, freeze: {node: node1}}", "{after: 3 insert requests, stepDown: {}}")
    assert verdict["asExpected"]
    assert verdict["lines"] == [
        "verdict: 1 of 2 steps performed; 0 of 0 operations failed",
        "  not performed: s.yml:4 after 3 insert requests: stepDown (0 of 3 insert requests came)",
    ]


@pytest.mark.parametrize(
    ("step", "reading"),
    [
        ("{at: 5s, stepDown: {}}", "2 s of 5 s passed"),
        ("{when: connections > 5, stepDown: {}}", "connections is 0"),
        ("{every: 9s, stepDown: {}}", "2 s of 9 s passed"),
    ],
)
def test_a_timeline_of_which_nothing_happened_is_not_as_expected(step: str, reading: str) -> None:
    verdict = timeline(step)
    assert verdict["reason"] == "no step of the timeline was performed"
    (line,) = verdict["complaints"]
    assert line.endswith(f"stepDown ({reading})")


def test_a_step_that_failed_is_not_as_expected() -> None:
    verdict = timeline("{at: 1s, verify: {command: insert}}")
    assert verdict["reason"] == "1 of its steps failed"
    (line,) = verdict["complaints"]
    assert line == (
        "  failed: s.yml:3 at 1s: verify: 1 or more insert requests expected, 0 came; nothing came near"
    )


def test_a_transaction_on_a_standalone_server_is_explained() -> None:
    found: dict[str, Any] = {}

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        began = {"lsid": lsid(), "txnNumber": Int64(1), "startTransaction": True, "autocommit": False}
        await talker.command({**INSERT, **began})
        found.update(deployment.cluster.control.verdict())

    play(scenario, STANDALONE)
    assert found["lines"][-1].startswith("  hint: transactions and change streams cannot run on a standalone")
