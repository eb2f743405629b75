"""PyMongo's asynchronous API behind the runner's contract."""

from __future__ import annotations

import asyncio
import gc

import pytest
from check_adapter import CHECKS, Check
from scripted import ScriptedDeployment

from harness.adapters import make_adapter
from harness.adapters.base import ClientSpec, UnsupportedOperation
from harness.deployment import embedded
from harness.unified.deployment import Topology
from mongowire.system import SeededRng, SystemClock, TcpNetwork


def run(check: Check) -> None:
    """Run a check against a replica set on loopback. Whatever is left open is an error."""

    async def scenario() -> None:
        clock, network, rng = SystemClock(), TcpNetwork(), SeededRng(0)
        async with embedded(
            Topology.REPLICA_SET, clock=clock, network=network, rng=rng, virtual=False
        ) as deployment:
            adapter = make_adapter("pymongo-async", deployment)
            try:
                await check(adapter, deployment)
            finally:
                await adapter.aclose()

    asyncio.run(scenario())
    gc.collect()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract_of_adapters(check: Check) -> None:
    run(check)


@pytest.mark.parametrize("options", ["?noSuchOption=1", "?maxPoolSize=x"])
def test_a_uri_option_that_pymongo_only_warns_of_is_unsupported(options: str) -> None:
    async def scenario() -> None:
        adapter = make_adapter("pymongo-async", ScriptedDeployment())
        with pytest.raises(UnsupportedOperation, match="PyMongo warns"):
            await adapter.create_client(ClientSpec(uri=f"mongodb://localhost:1/{options}"))

    asyncio.run(scenario())
