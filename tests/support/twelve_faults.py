"""A scenario with twelve kinds of faults, begun by numbers of requests, and a client that meets all of them.

As a program it plays the scenario in virtual time and prints the servers' journal.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from played import Play, play

from driver.errors import DriverError
from fakeserver.control.scenario.building import build
from fakeserver.control.scenario.loader import read_text

if TYPE_CHECKING:
    from driver import AsyncClient
    from fakeserver.control.scenario.model import Scenario

TEXT: Final = """\
pushbackd: "1.0"
description: Twelve kinds of faults, one after the other.
seed: 11
deployment: {topology: replicaset, members: 3}
rules:
  - {name: refused, when: {command: insert, nth: 3}, then: [{error: 462, labels: [RetryableError]}]}
  - {name: slow, when: {command: insert, nth: 6}, then: [{delay: 20ms}]}
  - {name: closed, when: {command: insert, nth: 9}, then: [{close: true}]}
  - {name: half, when: {command: insert, nth: 12}, then: [{writeConcernError: {code: 64, errmsg: late}}]}
  - {name: twice, when: {command: insert, namespace: shop.bad}, sequence: [[{error: 91}], [{error: 189}]]}
  - {name: dice, when: {command: insert, probability: "10%"}, then: [{error: 11600}]}
faults:
  - {name: lost, at: beforeReply, command: insert, nth: 15, times: 1, do: {cut: 0}}
  - {name: pieces, at: reply, command: insert, nth: 18, times: 1, do: {split: 7}}
  - {name: torn, at: reply, command: insert, nth: 21, times: 1, do: {cut: 10}}
timeline:
  - after: 24 requests
    stepDown: {seconds: 1}
  - after: 30 requests
    for: 6 requests
    setFailPoint: {name: failCommand, mode: {times: 2}, data: {failCommands: [insert], errorCode: 7}}
  - after: 40 requests
    for: 10 requests
    shed: {share: 30%, seed: 3}
  - after: 60 requests
    kill: {node: node2}
"""
"""Error, delay, closed connection, write concern error, sequence, dice, lost reply, reply in pieces, cut
reply, step-down, fail point, shed load, and a killed server besides."""

OPTIONS: Final = "heartbeatFrequencyMS=500"
"""Servers that a client knows nothing of any more are asked soon."""

COUNT: Final = 60


def scenario() -> Scenario:
    """Return the scenario."""
    return build(read_text(TEXT, "twelve.yml"))


async def use(client: AsyncClient) -> list[str]:
    """Insert one document after the other; return what the application saw."""
    seen = []
    for number in range(COUNT):
        name = "bad" if number % 20 == 7 else "orders"
        try:
            await client.database("shop").collection(name).insert_one({"_id": number})
        except DriverError as error:
            seen.append(f"{number} {type(error).__name__}")
        else:
            seen.append(f"{number} ok")
    return seen


def verdicts(journal: Any) -> list[tuple[str, str, str | int]]:
    """Return namespace, command and outcome of the application's requests, in their order."""
    records = journal.of_kind("commandFinished")
    return [
        (each.event.db, each.event.name, each.event.outcome)
        for each in records
        if each.event.name in {"insert", ""}
    ]


def virtual() -> tuple[Play, list[str]]:
    """Play the scenario in virtual time."""
    seen: list[str] = []

    async def main(stage: Play) -> None:
        seen.extend(await use(stage.client))

    return play(scenario(), main, OPTIONS, seed=11), seen


if __name__ == "__main__":
    sys.stdout.write(virtual()[0].cluster.journal.to_json_lines())
