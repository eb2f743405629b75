"""The document of a fault of bytes: one error for each slip, with its place and its cure."""

from __future__ import annotations

from typing import Any

import pytest
from talking import REPLICA_SET, STANDALONE, Deployment, play

from fakeserver.network.faults import FaultPhase, parse_fault
from mongowire.documents.errors import ControlError

SLIPS: dict[str, tuple[dict[str, Any], str]] = {
    "no phase": ({"do": {"cut": 1}}, "a fault needs at: the phase at which it acts"),
    "no effect": ({"at": "reply"}, "a fault needs do: its effects"),
    "empty effects": ({"at": "reply", "do": {}}, "do: no effect is given; known are bandwidth, checksum, "),
    "a word of fields": (
        {"at": "reply", "do": {"cut": 1}, "time": 1},
        "unknown field 'time'; did you mean 'times'?",
    ),
    "a phase": ({"at": "repply", "do": {"cut": 1}}, "at: unknown phase 'repply'; did you mean 'reply'?"),
    "an effect": ({"at": "reply", "do": {"cutt": 1}}, "do: unknown effect 'cutt'; did you mean 'cut'?"),
    "a delay": ({"at": "reply", "do": {"delay": "2 sec"}}, "do.delay: '2 sec' is no duration; write one"),
    "a bandwidth": (
        {"at": "reply", "do": {"bandwidth": "fast"}},
        "do.bandwidth: 'fast' is no bandwidth; write bytes",
    ),
    "no bandwidth": (
        {"at": "reply", "do": {"bandwidth": 0}},
        "do.bandwidth: 0 is too small; write 1 or more",
    ),
    "a negative cut": ({"at": "reply", "do": {"cut": -1}}, "do.cut: -1 is negative"),
    "reset off": ({"at": "reply", "do": {"reset": False}}, "do.reset: write true, or leave it out"),
    "a checksum": (
        {"at": "reply", "do": {"checksum": "wrong"}},
        "do.checksum: 'wrong' is no checksum; write bad",
    ),
    "a responseTo": ({"at": "reply", "do": {"responseTo": 2**31}}, "do.responseTo: 2147483648 is no int32"),
    "a length": ({"at": "reply", "do": {"length": True}}, "do.length: True is no int32"),
    "two ends": (
        {"at": "reply", "do": {"cut": 1, "reset": True}},
        "do.reset: cut and reset exclude each other",
    ),
    "an edit before replies": (
        {"at": "accept", "do": {"truncate": 1}},
        "do.truncate: truncate changes a reply, and at accept there is none",
    ),
    "a cut at close": (
        {"at": "close", "do": {"cut": 1}},
        "do.cut: cut has no meaning at close; known there are delay",
    ),
    "a byte before bytes": (
        {"at": "beforeReply", "byte": 4, "do": {"cut": 1}},
        "byte: at beforeReply there are no bytes to count; use requestBody or reply",
    ),
    "a byte of a whole": (
        {"at": "reply", "byte": 4, "do": {"length": 1}},
        "byte: length changes the whole reply",
    ),
    "byte 0 of a body": (
        {"at": "requestBody", "byte": 0, "do": {"cut": 1}},
        "byte: the bytes of a body are counted from 1",
    ),
    "a command that is not known yet": (
        {"at": "requestHeader", "command": "find", "do": {"cut": 1}},
        "command: at requestHeader the command is not known; use requestBody, beforeReply or reply",
    ),
    "the 0th": ({"at": "reply", "nth": 0, "do": {"cut": 1}}, "nth: 0 is too small; write 1 or more"),
    "one time and every time": (
        {"at": "reply", "nth": 2, "every": 2, "do": {"cut": 1}},
        "every: nth and every exclude each other",
    ),
    "a time that is over": ({"at": "reply", "for": 0, "do": {"cut": 1}}, "for: it would be over at once"),
    "a share": (
        {"at": "reply", "probability": "200%", "do": {"cut": 1}},
        "probability: '200%' is more than 1",
    ),
    "no document": ({"at": "reply", "do": "cut"}, "do: 'cut' is no JSON"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_in_a_fault_is_one_line_with_its_place(slip: str) -> None:
    document, line = SLIPS[slip]
    with pytest.raises(ControlError) as info:
        parse_fault(document)
    assert str(info.value).startswith(line), str(info.value)
    assert "\n" not in str(info.value)


def test_a_fault_is_read_with_its_units() -> None:
    fault = parse_fault(
        {
            "name": "slow lane",
            "at": "reply",
            "byte": 16,
            "command": "find, insert",
            "node": "node1",
            "for": "1m30s",
            "probability": "2%",
            "do": {"delay": "200ms", "jitter": "50ms", "bandwidth": "10KB/s", "cut": "7"},
        }
    )
    assert (fault.id, fault.phase, fault.byte, fault.node) == ("slow lane", FaultPhase.REPLY, 16, "node1")
    assert fault.commands == {"find", "insert"}
    assert (fault.occurrence.seconds, fault.occurrence.probability) == (90.0, 0.02)
    effects = fault.effects
    assert (effects.delay, effects.jitter, effects.bandwidth, effects.cut) == (0.2, 0.05, 10_000, 7)
    assert fault.effect == "delay+jitter+bandwidth+cut"


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ({"node": "node7"}, r"fault\.node: unknown node 'node7'; did you mean 'node\d'\?"),
        (
            {"node": "mongos"},
            r"fault\.node: unknown node 'mongos'; known are node0, node1, node2, primary, secondary",
        ),
        ({"command": "fnd"}, r"fault\.command: unknown command 'fnd'; did you mean 'find'\?"),
        ({"name": "taken"}, r"fault\.name: there is a fault 'taken'; remove it, or choose another name"),
        ({"nth": "many"}, r"fault\.nth: 'many' is no number"),
    ],
)
def test_a_fault_that_does_not_fit_the_deployment_is_refused_whole(fault: dict[str, Any], line: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        control = deployment.cluster.control
        control.add_fault({"name": "taken", "at": "close", "do": {"reset": True}})
        with pytest.raises(ControlError, match=line):
            control.add_fault({"at": "reply", "do": {"cut": 1}, **fault})
        assert [each["id"] for each in control.list_faults()["faults"]] == ["taken"]

    play(scenario, REPLICA_SET)


def test_a_fault_that_is_removed_must_be_there() -> None:
    async def scenario(deployment: Deployment) -> None:
        control = deployment.cluster.control
        with pytest.raises(ControlError, match="there is no fault 'fault1', and no other"):
            control.remove_fault("fault1")
        control.add_fault({"at": "reply", "do": {"cut": 1}})
        with pytest.raises(ControlError, match=r"id: unknown fault 'fualt1'; did you mean 'fault1'\?"):
            control.remove_fault("fualt1")
        assert control.remove_fault("fault1") == {"id": "fault1"}
        assert control.list_faults() == {"faults": []}

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("script", "line"),
    [
        (7, "proxyTest: it is no document"),
        ({}, "proxyTest: it needs actions: a list of documents"),
        ({"action": []}, "proxyTest: unknown field 'action'; did you mean 'actions'?"),
        (
            {"actions": [{"sendByte": 1}]},
            "proxyTest.actions[0]: unknown action 'sendByte'; did you mean 'sendBytes'?",
        ),
        ({"actions": [{}, {"delayMs": -1}]}, "proxyTest.actions[1].delayMs: -1 is negative"),
        ({"actions": [3]}, "proxyTest.actions[0]: 3 is no document"),
    ],
)
def test_a_slip_in_a_script_of_a_request_is_answered(script: Any, line: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        reply = await talker.fails({"ping": 1, "proxyTest": script})
        assert reply["code"] == 2
        assert reply["errmsg"].startswith(line)

    play(scenario, STANDALONE)
