"""A driver behind a pipe is an ordinary adapter: it keeps the runner's contract."""

from __future__ import annotations

import asyncio
import gc
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import adapter_child
import pytest
from check_adapter import CHECKS, Check, Entities

from harness.adapters.base import EntityKind, Handle, OperationFailed
from harness.adapters.command import Children, CommandAdapter
from harness.deployment import embedded
from harness.unified.deployment import Deployment, Topology
from mongowire.system import SeededRng, SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

CHILD = Path(adapter_child.__file__)
COMMAND = shlex.join([sys.executable, str(CHILD), "pymongo-async"])


EXAMPLE = shlex.join([sys.executable, str(Path(__file__).parents[3] / "examples/adapters/python/adapter.py")])


def run(
    check: Callable[[CommandAdapter, Deployment], Coroutine[Any, Any, None]] | Check, command: str = COMMAND
) -> None:
    """Run a check against a replica set on loopback. Whatever is left open is an error."""

    async def scenario() -> None:
        ports: dict[str, Any] = {"clock": SystemClock(), "network": TcpNetwork(), "rng": SeededRng(0)}
        children = Children(call_seconds=30)
        try:
            async with embedded(Topology.REPLICA_SET, virtual=False, **ports) as deployment:
                adapter = await children.adapter(command, deployment.clock)
                await check(adapter, deployment)
                await adapter.aclose()
        finally:
            await children.aclose()

    asyncio.run(scenario())
    gc.collect()


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract_of_adapters(check: Check) -> None:
    run(check)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_example_in_python_keeps_the_contract(check: Check) -> None:
    run(check, EXAMPLE)


async def in_transaction(adapter: CommandAdapter, session: Handle, callback: Any) -> None:
    await adapter.call(session, EntityKind.SESSION, "withTransaction", {"callback": callback})


async def session_of(adapter: CommandAdapter, entities: Entities) -> Handle:
    return await adapter.create(EntityKind.SESSION, entities.client, {"id": "session"})


@pytest.mark.slow
def test_a_callback_runs_here_while_its_transaction_waits_there() -> None:
    async def check(adapter: CommandAdapter, deployment: Deployment) -> None:
        entities = await Entities.make(adapter, deployment)
        session = await session_of(adapter, entities)
        states = []

        async def callback() -> None:
            await entities.call("insertOne", document={"_id": 1}, session=session)
            states.append((await adapter.session_state(session)).transaction)

        await in_transaction(adapter, session, callback)
        assert states == ["in_progress"]
        assert await entities.call("find", filter={}) == [{"_id": 1}]

    run(check)


@pytest.mark.slow
def test_an_error_in_a_callback_is_the_drivers_own_again() -> None:
    async def check(adapter: CommandAdapter, deployment: Deployment) -> None:
        entities = await Entities.make(adapter, deployment)

        async def callback() -> None:
            await entities.run_command(noSuchCommand=1)

        with pytest.raises(OperationFailed) as raised:
            await in_transaction(adapter, await session_of(adapter, entities), callback)
        assert raised.value.report.code == 59

    run(check)


@pytest.mark.slow
def test_a_callback_that_fails_by_itself_aborts_and_says_why() -> None:
    """An assertion of a scenario failed there: no driver's error may stand in for it."""

    async def check(adapter: CommandAdapter, deployment: Deployment) -> None:
        entities = await Entities.make(adapter, deployment)
        session = await session_of(adapter, entities)

        async def callback() -> None:
            await entities.call("insertOne", document={"_id": 1}, session=session)
            raise LookupError("no such entity")

        with pytest.raises(LookupError, match="no such entity"):
            await in_transaction(adapter, session, callback)
        assert await entities.call("find", filter={}) == []

    run(check)


@pytest.mark.slow
def test_a_process_serves_one_case_after_the_other() -> None:
    async def check(adapter: CommandAdapter, deployment: Deployment) -> None:
        first = await Entities.make(adapter, deployment)
        await first.call("insertOne", document={"_id": 1})
        await adapter.aclose()
        again = CommandAdapter(adapter._child, deployment.clock, call_seconds=30)
        entities = await Entities.make(again, deployment)
        assert await entities.call("find", filter={}) == [{"_id": 1}]
        assert len(entities.events("commandStartedEvent")) == 1
        await again.aclose()

    run(check)
