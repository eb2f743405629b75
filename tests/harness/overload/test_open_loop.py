"""Clients that ask when the plan says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from talking import Deployment, play

from fakeserver import ClusterSpec
from harness.overload import Answer, OpenLoop, RequestOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable

_FIND = {"find": "c", "filter": {}, "$db": "db"}


async def _ask(deployment: Deployment, arrivals: Iterable[float], patience: float = 1.0) -> list[Answer]:
    host, _, port = deployment.cluster.nodes[0].address.rpartition(":")
    world = deployment.world
    loop = OpenLoop((host, int(port)), _FIND, patience=patience, network=world.network, clock=world.clock)
    try:
        return sorted(await loop.run(arrivals), key=lambda answer: answer.due)
    finally:
        await loop.aclose()


def _slow(**more: Any) -> ClusterSpec:
    """Describe a server that takes a second for a read, one at a time."""
    return ClusterSpec.standalone(
        parameters={
            "serviceTimeBaseMillis": 1000.0,
            "executionControlConcurrencyAdjustmentAlgorithm": "fixedConcurrentTransactions",
            "executionControlConcurrentReadTransactions": 1,
            **more,
        }
    )


def test_they_do_not_wait_for_each_other() -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _ask(deployment, [0.0, 0.5, 1.0], patience=5.0)
        assert [answer.outcome for answer in answers] == [RequestOutcome.SERVED] * 3
        assert [answer.known for answer in answers] == pytest.approx([1, 2, 3], abs=0.01)

    play(scenario, _slow())


def test_one_who_is_out_of_patience_leaves_the_queue() -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _ask(deployment, [0.0, 0.1, 0.9], patience=1.5)
        assert [answer.outcome for answer in answers] == [
            RequestOutcome.SERVED,
            RequestOutcome.LATE,
            RequestOutcome.LATE,
        ]
        assert answers[1].known == pytest.approx(1.6)
        read = deployment.cluster.nodes[0].admission.execution.read
        assert read.queued == 0
        # The last one was at work: that its client has gone is noticed half a second after it began.
        await deployment.sleep(0.2)
        assert read.out == 0

    play(scenario, _slow())


def test_a_rejection_is_none_of_the_goodput() -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _ask(deployment, [0.0, 0.1])
        assert [answer.outcome for answer in answers] == [RequestOutcome.SERVED, RequestOutcome.REJECTED]

    limited = {
        "ingressRequestRateLimiterEnabled": True,
        "ingressRequestAdmissionRatePerSec": 1,
        "ingressRequestAdmissionBurstCapacitySecs": 1.0,
    }
    play(scenario, ClusterSpec.standalone(parameters=limited))


def test_a_connection_that_is_turned_away_is_a_failure() -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _ask(deployment, [0.0, 0.0])
        assert sorted(answer.outcome.value for answer in answers) == ["failed", "served"]

    limited = {
        "ingressConnectionEstablishmentRateLimiterEnabled": True,
        "ingressConnectionEstablishmentRatePerSec": 1,
        "ingressConnectionEstablishmentBurstCapacitySecs": 1.0,
    }
    play(scenario, ClusterSpec.standalone(parameters=limited))
