"""Scenarios on running servers: steps that fail, steps that are undone, and a reset."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from played import Play, play

import fakeserver
from fakeserver.control.scenario.building import build
from fakeserver.control.scenario.loader import ScenarioFileError, read_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.control.scenario.model import Scenario


def scenario(text: str) -> Scenario:
    return build(read_text('pushbackd: "1.0"\n' + text, "s.yml"))


def steps(stage: Play) -> list[tuple[str, dict[str, Any]]]:
    """Return message and attributes of the log's lines about the scenario."""
    lines = [json.loads(line) for line in stage.log]
    return [(line["msg"], line["attr"]) for line in lines if line["ctx"] == "scenario"]


async def to_the_end(stage: Play) -> None:
    while not stage.player.is_over:
        await stage.until(stage.now + 0.1)


def test_a_step_that_fails_ends_alone_with_its_line_in_the_log() -> None:
    stage = play(
        scenario(
            "timeline:\n"
            "  - at: 1s\n"
            "    resume: {node: node1}\n"
            "  - at: 2s\n"
            "    seed: {namespace: shop.orders, documents: [{_id: 1}]}\n"
        ),
        to_the_end,
    )
    assert [(row["state"], row["performed"]) for row in stage.final] == [("failed", 1), ("over", 1)]
    (failed,) = [attr for message, attr in steps(stage) if message == "Scenario step failed"]
    assert (failed["step"], failed["verb"]) == ("s.yml:3", "resume")
    assert "node1" in failed["error"]


def test_a_repeating_step_that_fails_is_left_out_and_goes_on() -> None:
    """A nemesis that once finds no primary does not fall silent."""
    stage = play(
        scenario(
            "timeline:\n"
            "  - every: 1s\n"
            "    times: 5\n"
            "    stepDown: {seconds: 1ms}\n"
            "  - at: 1500ms\n"
            "    for: 2s\n"
            "    partition: {groups: [[node0, clients], [node1], [node2]]}\n"
        ),
        to_the_end,
    )
    told = [message for message, _ in steps(stage)]
    row = stage.final[0]
    assert row["skipped"] == told.count("Scenario step skipped") > 0
    assert row["performed"] == 5 - row["skipped"] > 1
    assert row["state"] == "over"
    assert told[-1] == "Scenario step"
    (skipped, *_) = [attr for message, attr in steps(stage) if message == "Scenario step skipped"]
    assert (skipped["step"], skipped["verb"]) == ("s.yml:3", "stepDown")


def test_a_verb_that_fails_while_it_is_under_way_is_told_too() -> None:
    stage = play(
        scenario("timeline:\n  - at: 1s\n    kill: {node: node1}\n  - at: 2s\n    kill: {node: node1}\n"),
        to_the_end,
    )
    assert [row["state"] for row in stage.final] == ["over", "failed"]


def test_what_a_role_meant_is_undone() -> None:
    """The server that was the primary is started again, whichever is the primary by then."""

    async def main(stage: Play) -> None:
        await to_the_end(stage)
        assert not any(node.stopped for node in stage.cluster.nodes)

    stage = play(scenario("timeline:\n  - at: 1s\n    for: 1s\n    kill:\n"), main)
    assert [(attr["verb"], attr["arguments"]) for _, attr in steps(stage)] == [
        ("kill", {}),
        ("start", {"node": "node0"}),
    ]


UNDONE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "pause": ("pause: {node: node1}", lambda cluster: cluster.node("node1").outages.is_paused),
    "slow": ("slow: {node: node1, seconds: 1s}", lambda cluster: cluster.node("node1").slowness.delay),
    "lag": ("lag: {node: node1}", lambda cluster: cluster.node("node1").position.delay),
    "freeze": (
        "freeze: {node: node1}",
        lambda cluster: cluster.node("node1").member.frozen_until > cluster.clock.now(),
    ),
    "partition": ("partition: {groups: [[node0]]}", lambda cluster: cluster.node("node0").member.island),
    "stepDown": ("stepDown:", lambda cluster: not cluster.node("node0").is_primary),
    "limits": ("limits: {requests: 5/s}", lambda cluster: cluster.nodes[0].admission.limits_requests),
    "serviceTime": (
        "serviceTime: {seconds: 1s}",
        lambda cluster: not cluster.nodes[0].admission.serves_at_once,
    ),
    "tickets": (
        "tickets: {read: 3}",
        lambda cluster: cluster.nodes[0].parameters["executionControlConcurrentReadTransactions"] == 3,
    ),
    "shed": ("shed: {share: 2%}", lambda cluster: state(cluster).get("shedding")),
    "addMember": ("addMember: {}", lambda cluster: len(cluster.shards[0].nodes) > 3),
    "addRule": (
        "addRule: {rule: {when: {command: find}, then: [{close: true}]}}",
        lambda cluster: cluster.control.perform("listRules")["rules"],
    ),
    "addFault": (
        "addFault: {fault: {at: accept, do: {reset: true}}}",
        lambda cluster: cluster.control.perform("listFaults")["faults"],
    ),
    "setFailPoint": (
        "setFailPoint: {name: failCommand, mode: alwaysOn, data: {failCommands: [ping], errorCode: 2}}",
        lambda cluster: cluster.nodes[0].fail_points.active,
    ),
    "seed": ("seed: {namespace: a.b, documents: [{n: 1}]}", lambda cluster: len(list(cluster.catalog))),
}


def state(cluster: Any) -> dict[str, Any]:
    return dict(cluster.control.perform("state"))


@pytest.mark.parametrize("verb", UNDONE)
def test_a_verb_is_in_effect_for_its_time_and_then_undone(verb: str) -> None:
    text, is_in_effect = UNDONE[verb]
    seen: list[bool] = []

    async def main(stage: Play) -> None:
        for instant in (0.5, 1.5, 2.5):
            await stage.until(instant)
            seen.append(bool(is_in_effect(stage.cluster)))

    stage = play(scenario(f"timeline:\n  - at: 1s\n    for: 1s\n    {text}\n"), main)
    assert not [attr for message, attr in steps(stage) if message == "Scenario step failed"]
    assert seen == [False, True, False]


def test_a_reset_begins_the_timeline_anew() -> None:
    counts: list[int] = []

    async def main(stage: Play) -> None:
        async def orders() -> int:
            return await stage.collection().count_documents({})

        await stage.until(2)
        counts.append(await orders())
        await stage.cluster.control.perform("reset")
        counts.append(await orders())
        await stage.until(stage.now + 2)
        counts.append(await orders())

    text = (
        "data: {shop.orders: [{_id: 0}]}\n"
        "timeline:\n"
        "  - at: 1s\n"
        "    seed: {namespace: shop.orders, documents: [{_id: 1}]}\n"
        "  - at: 1s\n"
        "    kill: {node: node2}\n"
    )
    stage = play(scenario(text), main)
    assert counts == [2, 1, 2]
    assert [row["performed"] for row in stage.final] == [1, 1]


def test_a_reset_on_the_timeline_repeats_the_scenario() -> None:
    counts: list[int] = []

    async def main(stage: Play) -> None:
        for instant in (0.5, 1.5, 2.5, 3.5, 4.5):
            await stage.until(instant)
            counts.append(await stage.collection().count_documents({}))

    text = (
        "timeline:\n"
        "  - at: 1s\n"
        "    seed: {namespace: shop.orders, documents: [{_id: 1}]}\n"
        "  - at: 2s\n"
        "    reset: {}\n"
    )
    play(scenario(text), main)
    assert counts == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("start", ["", "at: 0s\n    "])
def test_a_reset_at_the_start_of_the_timeline_is_refused(start: str) -> None:
    with pytest.raises(ValueError, match="cannot stand at its start; write at: 60s"):
        scenario(f"timeline:\n  - {start}reset: {{}}\n")


def test_a_verification_on_the_timeline_that_fails_says_so_in_the_log() -> None:
    async def main(stage: Play) -> None:
        await stage.collection().find_one({})
        await stage.until(2)

    found = "verify: {command: find, count: 1}"
    missed = "verify: {command: insert, count: 1}"
    stage = play(scenario(f"timeline:\n  - at: 1s\n    {found}\n  - at: 1s\n    {missed}\n"), main)
    failed = [attr for message, attr in steps(stage) if message == "Scenario step failed"]
    assert len(failed) == 1
    assert failed[0]["error"].startswith("1 insert")


def test_the_state_shows_the_timeline() -> None:
    async def main(stage: Play) -> None:
        await stage.until(1)
        (row,) = state(stage.cluster)["timeline"]
        assert row == {
            "step": "s.yml:3",
            "trigger": "at 5s for 2s",
            "verb": "kill",
            "arguments": {"node": "node1"},
            "performed": 0,
            "skipped": 0,
            "state": "waiting",
            "error": None,
            "reading": "1 s of 5 s passed",
            "next": pytest.approx(4.0),
        }

    play(scenario("timeline:\n  - at: 5s\n    for: 2s\n    kill: {node: node1}\n"), main)


def test_a_condition_on_the_primary_and_one_on_a_rate_are_seen() -> None:
    async def main(stage: Play) -> None:
        await stage.insert_every(0.01, until=3)
        await to_the_end(stage)

    text = (
        "timeline:\n"
        "  - when: requests/s > 50\n"
        "    stepDown: {seconds: 60}\n"
        "  - when: primary == node1\n"
        "    seed: {namespace: shop.notes, documents: [{_id: 1}]}\n"
    )
    stage = play(scenario(text), main)
    assert [row["state"] for row in stage.final] == ["over", "over"]
    assert not stage.errors


def test_what_the_deployment_refuses_stops_the_start() -> None:
    text = "data: {shop.orders: [{_id: 1}, {_id: 1}]}\n"

    async def main(stage: Play) -> None:
        raise AssertionError(stage)

    with pytest.raises(ScenarioFileError, match=r"^s\.yml:2:21: data\.shop\.orders: .*duplicate key"):
        play(scenario(text), main)


def test_a_background_cluster_plays_a_scenario() -> None:
    with fakeserver.BackgroundCluster(scenario("data: {shop.orders: [{_id: 1}]}\n")) as cluster:
        state = cluster.control.state()
        assert len(state["servers"]) == 3
        assert cluster.spec.members == 3
