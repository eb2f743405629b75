"""Whatever happens to its servers, a deployment keeps what it acknowledged, and applies nothing twice.

One that rolls back as a server does keeps what a majority has acknowledged.

`PUSHBACKD_TESTS=chaos=60` is a minute under fifty clients (tests/support/sizes.py); without it the test is
some seconds under eight.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from disturbing import Application, Disturber
from pymongo import AsyncMongoClient
from sizes import is_full, size

from fakeserver import ClusterSpec
from fakeserver.assembly.background import BackgroundCluster
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Size:
    """How long a run takes, in seconds, and how many clients write meanwhile."""

    seconds: float
    clients: int


SIZE = Size(float(size("chaos")), 50 if is_full("chaos") else 8)
SEED = 1


async def _all_at_work(
    server: BackgroundCluster, applications: list[Application], disturber: Disturber
) -> None:
    """Let all of them write, disturb them when each has begun, and check what is left."""
    stop = asyncio.Event()
    at_work = [asyncio.create_task(each.work(server.uri, stop)) for each in applications]
    await asyncio.gather(*(each.begun.wait() for each in applications))
    await asyncio.to_thread(server.run, lambda: disturber.disturb(SIZE.seconds))
    stop.set()
    await asyncio.gather(*at_work)
    async with AsyncMongoClient[Any](server.uri) as client:
        for each in applications:
            await each.check(client)


async def _tasks_left(server: BackgroundCluster) -> set[str]:
    """Stop the servers and return the tasks of their loop besides the one that keeps it running."""
    await server.cluster.stop()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    return {repr(task) for task in tasks if "_serve" not in repr(task)}


@pytest.fixture
def quick_turns() -> Iterator[None]:
    """Two busy threads: by default each would keep the other waiting for 5 ms at every turn."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_turns")
@pytest.mark.parametrize("election_timeout", [None, 1.0], ids=["nothing is lost", "as a server"])
def test_no_acknowledged_write_is_missing_or_applied_twice(election_timeout: float | None) -> None:
    reports: list[dict[str, Any]] = []

    def watch() -> None:
        loop = asyncio.get_running_loop()
        loop.set_debug(True)
        loop.slow_callback_duration = 5.0
        loop.set_exception_handler(lambda _, context: reports.append(context))

    loses = election_timeout is not None
    applications = [Application(number, loses) for number in range(SIZE.clients)]
    with BackgroundCluster(ClusterSpec.replica_set(3, election_timeout=election_timeout)) as server:
        server.call(watch)
        cluster = server.cluster
        disturber = Disturber(cluster, cluster.clock, SeededRng(SEED, "disturber"), applications)
        asyncio.run(_all_at_work(server, applications, disturber))
        rolled_back = sum(node.position.rolled_back for node in cluster.servers)
        left = server.run(lambda: _tasks_left(server))
    acknowledged = [len(each.acknowledged) for each in applications]
    failed = sum((each.failed for each in applications), start=Counter[str]())
    counts = f"{sum(acknowledged)} writes acknowledged, failed: {failed}, {rolled_back} rollbacks"
    sys.stdout.write(f"\n{counts}, done: {disturber.done}\n")
    assert (left, reports) == (set(), [])
    assert min(acknowledged) > 1
    assert disturber.done.total() > 3
    assert loses or not rolled_back
