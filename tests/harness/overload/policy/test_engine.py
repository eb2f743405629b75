"""The controller on a running server: what it reads, sets, and leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from talking import Deployment, play
from threaded_server import serving

from driver.errors import ServerError
from fakeserver import ClusterSpec
from harness.commands.govern import command
from harness.overload.policy import Decision, Governor, Sample, Settings
from harness.overload.policy.policies import CannotGovernError

if TYPE_CHECKING:
    from collections.abc import Iterator

_RATE = "ingressRequestAdmissionRatePerSec"
_EXEMPTIONS = "ingressRequestRateLimiterApplicationExemptions"


class _Scripted:
    """Sets one rate after the other, the last one for ever."""

    def __init__(self, *rates: int) -> None:
        self._rates: Iterator[int] = iter(rates)
        self._rate = 0
        self.seen: list[Sample] = []

    def decide(self, sample: Sample, now: float) -> Settings:
        self.seen.append(sample)
        self._rate = next(self._rates, self._rate)
        return Settings(self._rate)


def _governor(deployment: Deployment, policy: _Scripted, **more: Any) -> Governor:
    world = deployment.world
    return Governor(
        deployment.cluster.uri, policy, network=world.network, clock=world.clock, rng=world.rng, **more
    )


def test_it_decides_from_the_second_look_on_and_sets_what_changed() -> None:
    async def scenario(deployment: Deployment) -> None:
        decisions: list[Decision] = []
        policy = _Scripted(500, 500, 700)
        parameters = deployment.cluster.nodes[0].parameters
        rates = []
        async with _governor(deployment, policy, on_decision=decisions.append) as governor:
            for _ in range(4):
                await governor.step()
                rates.append(parameters[_RATE])
                await deployment.sleep(0.25)
        assert rates == [2**31 - 1, 500, 500, 700]
        assert [each.settings.request_rate for each in decisions if each.settings] == [500, 500, 700]
        assert [sample.seconds for sample in policy.seen] == pytest.approx([0.25] * 3, abs=0.01)
        commands = [
            record.event._asdict() for record in deployment.cluster.journal.of_kind("commandFinished")
        ]
        # Its exemption, two changes, and everything back at the end.
        assert [each["name"] for each in commands].count("setParameter") == 4

    play(scenario, ClusterSpec.standalone())


def test_it_is_exempt_from_the_limit_that_it_sets() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[0]
        async with _governor(deployment, _Scripted(1)) as governor:
            for _ in range(20):
                await governor.step()
                await deployment.sleep(0.01)
            assert node.parameters[_EXEMPTIONS] == {"appNames": ["monitor", "pushbackd govern"]}
        assert node.admission.requests.rejected == 0
        assert node.parameters[_EXEMPTIONS] == {"appNames": ["monitor"]}

    monitor = {_EXEMPTIONS: {"appNames": ["monitor"]}}
    play(scenario, ClusterSpec.standalone(parameters=monitor))


def test_it_puts_the_limiters_back() -> None:
    async def scenario(deployment: Deployment) -> None:
        parameters = deployment.cluster.nodes[0].parameters
        async with _governor(deployment, _Scripted(7)) as governor:
            await governor.step()
            await deployment.sleep(0.1)
            await governor.step()
            assert parameters[_RATE] == 7
        assert parameters[_RATE] == 12_345

    play(scenario, ClusterSpec.standalone(parameters={_RATE: 12_345}))


def test_a_look_that_fails_is_left_out() -> None:
    async def scenario(deployment: Deployment) -> None:
        async with _governor(deployment, _Scripted(7)) as governor:
            await governor.step()
            await deployment.fail_command({"times": 1}, "serverStatus", errorCode=11600)
            with pytest.raises(ServerError):
                await governor.step()
            await deployment.sleep(0.1)
            await governor.step()
            assert deployment.cluster.nodes[0].parameters[_RATE] == 7

    play(scenario, ClusterSpec.standalone())


def test_of_a_set_the_primary_is_governed_by_the_connection_string_of_the_set() -> None:
    async def scenario(deployment: Deployment) -> None:
        async with _governor(deployment, _Scripted(7, 7)) as governor:
            await governor.step()
            await governor.step()
            limited = [
                node.parameters["ingressRequestRateLimiterEnabled"] for node in deployment.cluster.nodes
            ]
            assert limited == [True, False, False]
            assert not governor.has_restored
        assert governor.has_restored

    play(scenario, ClusterSpec.replica_set(3))


def test_an_older_server_cannot_be_governed() -> None:
    async def scenario(deployment: Deployment) -> None:
        with pytest.raises(CannotGovernError, match="no request rate limiter"):
            await _governor(deployment, _Scripted(7)).__aenter__()

    play(scenario, ClusterSpec.standalone(profile="7.0"))


@pytest.mark.slow
def test_the_command_line_tells_what_it_sees_and_sets() -> None:
    with serving(ClusterSpec.standalone()) as server:
        uri = "mongodb://{}:{}".format(*server.address)
        result = CliRunner().invoke(command, [uri, "--interval", "50ms", "--seconds", "0.5"])
    assert result.exit_code == 0, result.output
    lines = result.output.partition("\n\n")[0].splitlines()
    assert lines
    assert all(line.startswith("admitted ") and line.endswith("-> 20/s") for line in lines)


@pytest.mark.slow
def test_the_command_line_limits_connections_where_it_is_asked_to() -> None:
    with serving(ClusterSpec.standalone()) as server:
        uri = "mongodb://{}:{}".format(*server.address)
        result = CliRunner().invoke(command, [uri, "--connections", "--interval", "50ms", "--seconds", "0.5"])
    assert result.exit_code == 0, result.output
    lines = result.output.partition("\n\n")[0].splitlines()
    assert lines
    assert all(line.endswith("-> 20/s, 20 connections/s") for line in lines)


@pytest.mark.slow
def test_the_command_line_says_when_there_is_nothing_to_govern() -> None:
    with serving(ClusterSpec.standalone(profile="7.0")) as server:
        uri = "mongodb://{}:{}".format(*server.address)
        result = CliRunner().invoke(command, [uri, "--seconds", "5"])
    assert result.exit_code == 1
    assert "the server has no request rate limiter" in result.output
