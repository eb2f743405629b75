"""PyMongo's two APIs behind the runner's contract: one on the runner's loop, one on threads of its own."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest
from scripted import ScriptedDeployment

from harness.adapters import make_adapter
from harness.adapters.base import ClientSpec, EntityKind, Handle, Invocation, UnsupportedOperation
from harness.adapters.deployment import Topology
from harness.deployments.embedded import embedded
from harness.testing.adapter_basics import AdapterEntities, Check, failing
from mongowire.system import SeededRng, SystemClock, TcpNetwork

EITHER_API = pytest.mark.parametrize("name", ["pymongo", "pymongo-async"])


def run(check: Check) -> None:
    """Run a check of the synchronous API against a replica set on loopback. What is left open is an error."""

    async def scenario() -> None:
        clock, network, rng = SystemClock(), TcpNetwork(), SeededRng(0)
        async with embedded(
            Topology.REPLICA_SET, clock=clock, network=network, rng=rng, virtual=False
        ) as deployment:
            adapter = make_adapter("pymongo", deployment)
            try:
                await check(adapter, deployment)
            finally:
                await adapter.aclose()

    asyncio.run(scenario())
    gc.collect()
    assert [thread for thread in threading.enumerate() if thread.name == "driver call"] == []


@EITHER_API
@pytest.mark.parametrize("options", ["?noSuchOption=1", "?maxPoolSize=x"])
def test_a_uri_option_that_pymongo_only_warns_of_is_unsupported(options: str, name: str) -> None:
    async def scenario() -> None:
        adapter = make_adapter(name, ScriptedDeployment())
        with pytest.raises(UnsupportedOperation, match="PyMongo warns"):
            await adapter.create_client(ClientSpec(uri=f"mongodb://localhost:1/{options}"))
        await adapter.aclose()

    asyncio.run(scenario())


@pytest.mark.slow
def test_calls_that_block_do_not_keep_others_from_running() -> None:
    """Eight calls that a server holds for 200 ms take about as long as one."""

    async def check(adapter: Any, deployment: Any) -> None:
        entities = await AdapterEntities.make(adapter, deployment)
        loop = asyncio.get_running_loop()
        async with failing(deployment, "find", blockConnection=True, blockTimeMS=200):
            began = loop.time()
            await asyncio.gather(*(entities.call("find", filter={}) for _ in range(8)))
            assert loop.time() - began < 1.2

    run(check)


@pytest.mark.slow
def test_a_call_that_was_cancelled_does_not_keep_its_client_open() -> None:
    """The server would hold the answer for a minute."""

    async def check(adapter: Any, deployment: Any) -> None:
        entities = await AdapterEntities.make(adapter, deployment)
        loop = asyncio.get_running_loop()
        async with failing(deployment, "find", blockConnection=True, blockTimeMS=60_000):
            call = asyncio.ensure_future(entities.call("find", filter={}))
            await asyncio.sleep(0.05)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            began = loop.time()
            await adapter.aclose()
            assert loop.time() - began < 5

    run(check)


async def in_transaction(adapter: Any, session: Handle, callback: Any) -> None:
    await adapter.call(Invocation(session, EntityKind.SESSION, "withTransaction", {"callback": callback}))


def test_a_callback_runs_operations_while_its_transaction_waits_for_it() -> None:
    """Its operations take threads of their own: the one of `withTransaction` is blocked."""

    async def check(adapter: Any, deployment: Any) -> None:
        entities = await AdapterEntities.make(adapter, deployment)
        session = await adapter.create(EntityKind.SESSION, entities.client, {"id": "session"})
        seen = []

        async def callback() -> None:
            seen.append(await entities.call("find", filter={}))

        await in_transaction(adapter, session, callback)
        assert seen == [[]]

    run(check)


def test_a_cancelled_transaction_lets_go_of_its_thread() -> None:
    async def check(adapter: Any, deployment: Any) -> None:
        entities = await AdapterEntities.make(adapter, deployment)
        session = await adapter.create(EntityKind.SESSION, entities.client, {"id": "session"})
        begun = asyncio.Event()

        async def callback() -> None:
            begun.set()
            await asyncio.Event().wait()

        call = asyncio.ensure_future(in_transaction(adapter, session, callback))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await adapter.aclose()

    run(check)
