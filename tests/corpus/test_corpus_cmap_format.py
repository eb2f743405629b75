"""The public tests of connection pools: on the state machine, and on the pool over a network."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from corpus_checkout import corpus_files

import fakeserver
from driver import AsyncClient
from fakeserver import ClusterSpec
from harness.cmap_format import load, run_on_pool, run_on_state
from harness.sim import run_virtual
from mongowire.system import SystemClock, TcpNetwork, fresh_rng

if TYPE_CHECKING:
    from pathlib import Path

    from harness.cmap_format import CmapCase
    from harness.sim import World
    from mongowire.ports import Clock, Network, Rng

pytestmark = pytest.mark.corpus

FILES = corpus_files("connection-monitoring-and-pooling/tests/cmap-format")
UNIT = [path for path in FILES if load(path).style == "unit"]
INTEGRATION = [path for path in FILES if load(path).style == "integration"]
IN_BACKGROUND = [path for path in FILES if load(path).in_background]
"""The pool's background runs cannot be switched off, but for those on the state machine."""


def by_name(path: Path) -> str:
    return path.stem


async def _against_the_fake(case: CmapCase, *, network: Network, clock: Clock, rng: Rng) -> None:
    ports: dict[str, Any] = {"network": network, "clock": clock}
    async with (
        fakeserver.start(ClusterSpec.standalone(), rng=rng.spawn("server"), **ports) as cluster,
        AsyncClient(cluster.uri, rng=rng.spawn("client"), **ports) as client,
    ):
        if case.fail_point is not None:
            await client.command("admin", case.fail_point)
        await run_on_pool(case, client.options.seeds[0], network=network, clock=clock)


@pytest.mark.parametrize("path", UNIT, ids=by_name)
def test_the_state_machine_passes_the_unit_case(path: Path) -> None:
    run_on_state(load(path))


@pytest.mark.parametrize("path", IN_BACKGROUND, ids=by_name)
def test_the_pool_passes_the_case_in_virtual_time(path: Path) -> None:
    async def run(world: World) -> None:
        await _against_the_fake(load(path), network=world.network, clock=world.clock, rng=world.rng)

    run_virtual(run)


@pytest.mark.slow
@pytest.mark.parametrize("path", INTEGRATION, ids=by_name)
def test_the_pool_passes_the_integration_case_in_real_time(path: Path) -> None:
    asyncio.run(
        _against_the_fake(load(path), network=TcpNetwork(), clock=SystemClock(), rng=fresh_rng("cmap"))
    )
