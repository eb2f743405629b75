"""The reference driver behind the runner's contract, on the wall clock and in virtual time."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from check_adapter import CHECKS, Check
from worlds import Run, run_in_memory, run_in_system

from harness.adapters import make_adapter
from harness.deployment import embedded
from harness.unified.deployment import Topology
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from mongowire.ports import Clock, Network


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("run", [run_in_system, run_in_memory])
def test_the_contract_of_adapters(check: Check, run: Run) -> None:
    async def scenario(clock: Clock, network: Network) -> None:
        virtual = run is run_in_memory
        async with embedded(
            Topology.REPLICA_SET, clock=clock, network=network, rng=SeededRng(0), virtual=virtual
        ) as deployment:
            adapter = make_adapter("reference", deployment)
            try:
                await check(adapter, deployment)
            finally:
                await adapter.aclose()

    run(scenario)
    gc.collect()
