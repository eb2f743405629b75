"""The network of the swarm: latencies have the mean that they are asked for, and what is lost comes later."""

from __future__ import annotations

from statistics import fmean

import pytest

from harness.sim.swarm.network import LONGEST_DELAY, DisturbedMemory, PacketDisturbance, SkewedClock, delay_of
from harness.sim.swarm.schedule import SHAPES
from harness.world.virtual import World, run_virtual
from mongowire.system import SeededRng

SERVER = ("localhost", 40001)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_latency_has_its_mean(shape: str) -> None:
    draw = SeededRng(1).random
    delays = [delay_of(shape, 0.02, draw) for _ in range(20_000)]
    assert fmean(delays) == pytest.approx(0.02, rel=0.1)
    assert min(delays) >= 0


def test_a_packet_that_is_lost_is_late_by_retransmissions_that_double() -> None:
    draws = iter([0.0, 0.0, 0.9])
    assert PacketDisturbance(lost=0.5).delay(lambda: next(draws)) == pytest.approx(0.2 + 0.4)


def test_no_packet_is_lost_for_ever() -> None:
    assert 2 * PacketDisturbance("heavy", 9.0, lost=1.0).delay(lambda: 0.999) <= LONGEST_DELAY


def test_a_server_is_disturbed_while_the_block_runs_and_others_are_not() -> None:
    async def main(world: World) -> list[float]:
        network = DisturbedMemory(world.clock, world.rng)
        with network.disturbed(SERVER, PacketDisturbance(mean=0.5)):
            during = [network.arrival(SERVER), network.arrival(("localhost", 40002))]
        return [*during, network.arrival(SERVER)]

    assert run_virtual(main) == [0.5005, 0.0005, 0.0005]


def test_a_skewed_clock_has_another_date_and_the_same_time() -> None:
    async def main(world: World) -> tuple[float, float]:
        clock = SkewedClock()
        clock.skew = -60.0
        return clock.utc() - world.clock.utc(), clock.now() - world.clock.now()

    assert run_virtual(main) == (-60.0, 0.0)
