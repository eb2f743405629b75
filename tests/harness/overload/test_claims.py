"""What the specifications claim of overload comes out on the model, or is said not to."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from sizes import in_full

from harness.overload.claims import CLAIMS, SimulatedGovernor, measure, report
from harness.overload.policy import Settings
from harness.sim.fleet import columns as c
from harness.sim.fleet.running import run

if TYPE_CHECKING:
    from pathlib import Path

    from harness.overload.policy import Sample
    from harness.sim.fleet.columns import FleetWorld

CLIENTS = 200
MANY = 1000
"""Where a server of few operations a second would come back by chance."""


@cache
def sides(name: str, clients: int = CLIENTS) -> dict[str, dict[str, Any]]:
    """Return what came of each side of a claim."""
    claim = CLAIMS[name](clients, 0)
    return {row["side"]: row for row in report(claim, measure(claim, engine="plain"))["sides"]}


@in_full("measurements", "repeats at length what others show in short")
@pytest.mark.slow
def test_a_token_bucket_keeps_goodput_where_rejections_cost_and_saves_attempts_where_they_are_free() -> None:
    having, lacking, free, free_and_lacking = sides("token-bucket", MANY).values()
    limit = 0.6 * CLAIMS["token-bucket"](MANY, 0).capacity
    assert having["goodput"]["overload"] == pytest.approx(limit, rel=0.05)
    assert having["goodput"]["after"] == pytest.approx(having["goodput"]["before"], rel=0.1)
    assert lacking["goodput"]["overload"] < 0.1 * limit
    assert lacking["goodput"]["after"] < 0.1 * lacking["goodput"]["before"]
    assert free["attempts_per_success"] < free_and_lacking["attempts_per_success"] / 2
    assert free["goodput"]["overload"] == pytest.approx(free_and_lacking["goodput"]["overload"], rel=0.02)


@pytest.mark.slow
def test_with_two_retries_a_server_comes_back_that_five_keep_down() -> None:
    five, two = (sides("retries", MANY)[f"{retries} retries"] for retries in ("five", "two"))
    assert two["goodput"]["after"] > 0.8 * two["goodput"]["before"]
    assert five["goodput"]["after"] < 0.1 * five["goodput"]["before"]


@pytest.mark.slow
def test_with_jitter_more_succeeds_at_once_and_less_fails() -> None:
    jittered, bare = sides("jitter")["full jitter"], sides("jitter")["none"]
    assert jittered["goodput"]["first 2 s"] > 1.2 * bare["goodput"]["first 2 s"]
    assert jittered["failed"] / jittered["offered"] < bare["failed"] / bare["offered"]


@pytest.mark.slow
def test_with_retargeting_more_operations_succeed_with_fewer_attempts() -> None:
    aimed, blind = (sides("retargeting")[name] for name in ("retargeting", "none"))
    assert all(aimed["goodput"][phase] > 1.1 * blind["goodput"][phase] for phase in aimed["goodput"])
    assert aimed["attempts_per_success"] < blind["attempts_per_success"]


@pytest.mark.slow
def test_a_limiter_keeps_goodput_where_there_is_next_to_none_without() -> None:
    limited, free = sides("limiter")["limiter at 90 %"], sides("limiter")["none"]
    capacity = CLAIMS["limiter"](CLIENTS, 0).capacity
    assert limited["goodput"]["overload"] > 0.85 * capacity
    assert free["goodput"]["overload"] < 0.3 * capacity


@pytest.mark.slow
def test_a_backoff_told_by_the_server_saves_operations_and_costs_time() -> None:
    honoured, ignored = sides("told-backoff")["honoured"], sides("told-backoff")["ignored"]
    assert honoured["failed"] < ignored["failed"] / 2
    assert honoured["attempts_per_success"] < ignored["attempts_per_success"]
    assert honoured["latency_p99"] > 4 > ignored["latency_p99"]


@pytest.mark.slow
def test_one_impatient_program_in_ten_keeps_a_server_down() -> None:
    after = {name: row["goodput"]["after"] for name, row in sides("mixed-fleet").items()}
    before = sides("mixed-fleet")["0% old"]["goodput"]["before"]
    assert after["0% old"] > 0.4 * before
    assert all(after[name] < 0.2 * before for name in ("10% old", "25% old", "50% old"))


@pytest.mark.slow
def test_a_sound_policy_finds_the_limit_and_a_naive_one_does_not() -> None:
    capacity = CLAIMS["govern"](CLIENTS, 0).capacity
    then = {name: row["goodput"]["then"] for name, row in sides("govern").items()}
    assert then["AIMD"] > 0.85 * capacity
    assert then["AIMD, connections too"] > 0.85 * capacity
    assert then["follow throughput"] < 0.2 * capacity
    assert then["none"] < 0.2 * capacity


def test_a_look_at_the_columns_changes_nothing() -> None:
    scenario = CLAIMS["jitter"](CLIENTS, 0).sides[0].scenario
    seen: list[float] = []
    looked = run(
        scenario,
        engine="plain",
        on_progress=None,
        every=0.33,
        on_pause=lambda world: seen.append(world.numbers[c.NOW]),
    )
    assert looked.trace == run(scenario, engine="plain", on_progress=None).trace
    assert seen == [330 * number for number in range(1, 25)]


class _Scripted:
    """Sets the same limits each time."""

    def __init__(self) -> None:
        self.seen: list[Sample] = []

    def decide(self, sample: Sample, _now: float) -> Settings:
        self.seen.append(sample)
        return Settings(7, connection_rate=3)


def test_a_governor_reads_the_columns_and_sets_both_limits() -> None:
    side = next(side for side in CLAIMS["govern"](CLIENTS, 0).sides if side.connections)
    policy = _Scripted()
    governor = SimulatedGovernor(policy)
    worlds: list[FleetWorld] = []

    def look(world: FleetWorld) -> None:
        worlds.append(world)
        governor.step(world)

    outcome = run(side.scenario, engine="plain", on_progress=None, every=1.0, on_pause=look)
    reals = worlds[-1].reals
    assert (reals[c.REQUEST_RATE], reals[c.CONNECTION_RATE]) == (7.0, 3.0)
    assert reals[c.REQUEST_BURST] == pytest.approx(2.0)
    assert [sample.seconds for sample in policy.seen] == pytest.approx([1.0] * len(policy.seen))
    assert sum(sample.rejected for sample in policy.seen) <= outcome.total("rejected")
    assert max(sample.finished for sample in policy.seen[2:]) <= 9


def test_the_claims_are_listed_by_their_names(pushbackd: Any) -> None:
    result = pushbackd("simulate", "claim")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(CLAIMS)


@pytest.mark.slow
def test_a_claim_is_a_table_with_its_words_and_a_figure_of_the_same_bytes_each_time(
    pushbackd: Any, tmp_path: Path
) -> None:
    arguments = ("simulate", "claim", "jitter", "--clients", CLIENTS)
    figures = [tmp_path / "one.svg", tmp_path / "two.svg"]
    first, _ = (pushbackd(*arguments, "--plot", figure) for figure in figures)
    assert first.exit_code == 0, first.output
    lines = first.stdout.splitlines()
    assert lines[2] == "200 clients, capacity 40/s, seed 0"
    assert [line.split("  ")[0] for line in lines[4:7]] == ["goodput per second", "full jitter", "none"]
    assert lines[8].startswith("Shows: ")
    assert lines[10].startswith("Misleads: ")
    assert figures[0].read_bytes() == figures[1].read_bytes()
    (numbers,) = [json.loads(pushbackd(*arguments, "--json").stdout)]
    assert [row["side"] for row in numbers["sides"]] == ["full jitter", "none"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("jitter", "--all"), "NAME: not with --all, because it is one claim"),
        (("--plot", "x.svg"), "--plot needs a claim to measure: give NAME or --all"),
        (("jitters",), "is not one of 'token-bucket'"),
    ],
)
def test_a_wrong_command_line_is_refused(pushbackd: Any, arguments: tuple[str, ...], why: str) -> None:
    result = pushbackd("simulate", "claim", *arguments)
    assert result.exit_code == 2
    assert why in result.stderr
