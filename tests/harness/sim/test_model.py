"""The model without bytes gives the answers of a server that has them, at the same instants."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from talking import LATENCY, Deployment, Talker, play

from fakeserver import ClusterSpec
from fakeserver.admission.controls import AdmissionControl
from fakeserver.profile import Profile
from fakeserver.settings.server_parameters import ServerParameters
from harness.sim.model import SimulatedServer, Simulation

_FIND = {"find": "c", "$db": "db"}
_SERVICE = {"serviceTimeBaseMillis": 20, "serviceTimeConcurrencyLimit": 3, "serviceTimeK": 2}
_LIMITED = {"ingressRequestRateLimiterEnabled": True, "ingressRequestAdmissionBurstCapacitySecs": 0.1}
_SETTINGS: tuple[dict[str, Any], ...] = (
    {"ingressRequestAdmissionRatePerSec": 50, **_LIMITED},
    {
        "ingressRequestAdmissionRatePerSec": 50,
        **_LIMITED,
        "ingressRequestAdmissionMaxQueueDepth": 3,
    },
    {"ingressAdmissionControllerTicketPoolSize": 4},
    {"ingressAdmissionControllerTicketPoolSize": 2, "ingressAdmissionControllerMaxQueueDepth": 2},
    {
        "executionControlConcurrencyAdjustmentAlgorithm": "fixedConcurrentTransactions",
        "executionControlConcurrentReadTransactions": 3,
    },
    {"throughputProbingInitialConcurrency": 8},
    {"serviceTimeWorkers": 2},
    {"serviceTimeRecomputeMillis": 7},
    {},
)

Answers = list[tuple[float, int | None]]


def _in_the_model(parameters: dict[str, Any], arrivals: list[float], began: float) -> Answers:
    profile = Profile.named("9.0")
    admission = AdmissionControl(ServerParameters(profile, parameters), profile, cores=8, now=0.0)
    model = Simulation()
    server = SimulatedServer(model, admission)
    answers: dict[int, tuple[float, int | None]] = {}

    def arrive(number: int) -> None:
        def answer(code: int | None) -> None:
            answers[number] = (round(model.now - began, 6), code)

        server.request("find", "read", answer)

    for number, when in enumerate(arrivals):
        model.at(began + when, lambda number=number: arrive(number))  # type: ignore[misc]
    model.run()
    return [answers[number] for number in range(len(arrivals))]


def _on_a_server(parameters: dict[str, Any], arrivals: list[float]) -> tuple[Answers, float]:
    """Return the answers, and how long the server had run when the first instant of `arrivals` was."""
    answers: Answers = []
    offsets: list[float] = []

    async def scenario(deployment: Deployment) -> None:
        clock = deployment.world.clock
        talkers = [await deployment.connect() for _ in arrivals]
        began = clock.now() + 1.0
        offsets.append(began - deployment.cluster.nodes[0].started_at)

        async def one(talker: Talker, when: float) -> tuple[float, int | None]:
            # So that it arrives when it is to.
            await clock.sleep_until(began + when - LATENCY)
            reply = await talker.command(_FIND)
            assert reply is not None
            return round(clock.now() - began - LATENCY, 6), reply.get("code")

        pairs = zip(talkers, arrivals, strict=True)
        answers.extend(await asyncio.gather(*(one(talker, when) for talker, when in pairs)))

    play(scenario, ClusterSpec.standalone(profile="9.0", parameters=parameters))
    (offset,) = offsets
    return answers, offset


@pytest.mark.parametrize("setting", _SETTINGS, ids=lambda setting: next(iter(setting), "nothing"))
@example(gaps=[0, 10, 0, 1, 15, 0, 0, 0, 0, 0, 0, 0, 0])  # the last one waits for a probe
@given(gaps=st.lists(st.integers(0, 15), min_size=1, max_size=25))
def test_model_and_server_answer_alike(setting: dict[str, Any], gaps: list[int]) -> None:
    parameters, now, arrivals = {**_SERVICE, **setting}, 0, []
    for gap in gaps:
        # Milliseconds apart and never at one instant, where the order is nobody's promise.
        now += gap + 1
        arrivals.append(now / 1000 + now / 1e7)
    real, began = _on_a_server(parameters, arrivals)
    # Probes come at fixed times after a start, so the model starts as long before.
    modelled = _in_the_model(parameters, arrivals, began)
    assert [code for _, code in modelled] == [code for _, code in real]
    assert [when for when, _ in modelled] == pytest.approx([when for when, _ in real], abs=2e-6)


def test_events_of_one_instant_happen_in_the_order_they_were_made() -> None:
    model, seen = Simulation(), []
    for number in range(5):
        model.at(1.0, lambda number=number: seen.append(number))  # type: ignore[misc]
    model.at(0.5, lambda: seen.append("first"))
    model.run()
    assert seen == ["first", 0, 1, 2, 3, 4]
    assert model.now == 1.0


def test_a_run_that_ends_early_goes_on_later() -> None:
    model, seen = Simulation(), []
    model.at(1.0, lambda: seen.append(1))
    model.at(3.0, lambda: seen.append(3))
    model.run(until=2.0)
    assert (seen, model.now) == ([1], 2.0)
    model.run()
    assert seen == [1, 3]
