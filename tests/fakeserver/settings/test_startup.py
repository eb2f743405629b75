"""Settings at start: documents in a server's relaxed JSON, fail points, and a rate that does nothing."""

from __future__ import annotations

from typing import Any

import pytest
from talking import Deployment, play

from fakeserver import ClusterSpec
from fakeserver.cli.command import options_of
from fakeserver.cli.description import spec_of
from fakeserver.errors import CommandError

_FIND = {"find": "c", "$db": "db"}


def _spec(*settings: str) -> ClusterSpec:
    """Describe a server as the command line does."""
    flags = [flag for setting in settings for flag in ("--setParameter", setting)]
    return spec_of(options_of(flags), {})


@pytest.mark.parametrize(
    "text",
    [
        "{mode: 'alwaysOn', data: {failCommands: ['find'], errorCode: 8000}}",
        '{"mode": "alwaysOn", "data": {"failCommands": ["find"], "errorCode": 8000}}',
        "{'mode': 'alwaysOn', data: {failCommands: ['find',], errorCode: 8000,}} // for now",
    ],
)
def test_a_fail_point_is_given_in_relaxed_json(text: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert (await (await deployment.connect()).fails(_FIND))["code"] == 8000

    play(scenario, _spec(f"failpoint.failCommand={text}"))


def test_ranges_are_given_in_relaxed_json() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        name = "ingressRequestRateLimiterExemptions"
        assert (await talker.ok({"getParameter": 1, name: 1}))[name] == {"ranges": ["127.0.0.1"]}

    play(scenario, _spec("ingressRequestRateLimiterExemptions={ranges: ['127.0.0.1']}"))


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("failpoint.failCommand={mode: alwaysOn}", "parameter failpoint.failCommand .* line 1 .* column 8"),
        ("failpoint.failCommand={mode: 'alwaysOn'", "parameter failpoint.failCommand as a document: line 1"),
        ("failpoint.failCommand={mode: 'sometimes'}", "parameter failpoint.failCommand: unknown mode"),
        ("failpoint.nope={mode: 'off'}", "parameter failpoint.nope: nope not found"),
        (
            "ingressRequestRateLimiterExemptions={ranges: [}",
            "ingressRequestRateLimiterExemptions .*column 11",
        ),
        ("ingressRequestRateLimiterExemptions=[1]", "parameter ingressRequestRateLimiterExemptions"),
        ("ingressRequestRateLimiterExemptions=" + "[" * 5000, "ingressRequestRateLimiterExemptions"),
    ],
)
def test_an_error_names_the_parameter_and_the_place(setting: str, told: str) -> None:
    async def scenario(_deployment: Deployment) -> None:
        """Never run: the server does not start."""

    with pytest.raises(CommandError, match=told):
        play(scenario, _spec(setting))


@pytest.mark.parametrize("setting", [{"mode": "alwaysOn"}, {"mode": {"times": 1}}])
def test_a_fail_point_that_acts_on_others_does_so_from_the_start(setting: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        writer = await deployment.connect()
        await writer.ok({"insert": "c", "documents": [{}], "$db": "db"})
        assert deployment.secondary.applied < deployment.primary.applied
        assert deployment.primary.admission.requests.hangs

    points = {"failpoint.stopReplProducer": setting, "failpoint.hangInRateLimiter": setting}
    play(scenario, ClusterSpec.replica_set(3, parameters=points))


def test_the_rate_of_a_fail_point_holds_from_the_start() -> None:
    async def scenario(deployment: Deployment) -> None:
        assert deployment.cluster.nodes[0].admission.fractional_rate == 0.5

    point = {"mode": "alwaysOn", "data": {"rate": 0.5}}
    name = "failpoint.ingressRequestRateLimiterFractionalRateOverride"
    play(scenario, ClusterSpec.standalone(parameters={name: point}))


def test_a_rate_without_the_switch_is_warned_of_at_start_and_at_runtime() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for command in (
            {"ingressRequestRateLimiterEnabled": True},
            {"ingressRequestRateLimiterEnabled": False},
        ):
            await talker.ok({"setParameter": 1, **command})
        lines = (await talker.ok({"getLog": "global"}))["log"]
        assert sum("has no effect while ingressRequestRateLimiterEnabled" in line for line in lines) == 2

    play(scenario, ClusterSpec.standalone(parameters={"ingressRequestAdmissionRatePerSec": 1_000_000}))
