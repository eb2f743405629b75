"""Processes and threads: what a forked child does with a client, and what threads may share."""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from driver import AsyncClient
from driver.errors import ClientClosedError, InvalidArgumentError
from driver.policy.backpressure import TokenBucket
from fakeserver import ClusterSpec
from fakeserver.assembly.background import BackgroundCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from driver.cursor import Cursor
    from driver.session import ClientSession

PATIENCE = 20  # seconds

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with BackgroundCluster(ClusterSpec.replica_set(1)) as cluster:
        yield cluster.uri


async def in_child(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run work in a forked process, in a loop of its own, and return its result (of JSON's types).

    A child that does not answer shows the stacks of its threads, and ends.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the thread of the server takes no part
        child = os.fork()
    if child == 0:
        faulthandler.register(signal.SIGALRM, 2, chain=True)
        signal.alarm(PATIENCE)
        answer: Any = "the child failed"
        try:
            answer = asyncio.run(work())
        finally:
            os.write(writer, json.dumps(answer).encode())
            os._exit(0)
    os.close(writer)
    text = await asyncio.to_thread(os.read, reader, 1 << 16)
    await asyncio.to_thread(os.waitpid, child, 0)
    os.close(reader)
    assert text, f"the child gave no answer in {PATIENCE} s"
    return json.loads(text)


async def whoami(client: AsyncClient) -> int:
    """Return the server's number of the connection that a command goes over."""
    reply = await client.command("admin", {"hello": 1})
    return int(reply["connectionId"])


def leads_nowhere(file_number: int) -> bool:
    return os.fstat(file_number).st_rdev == Path(os.devnull).stat().st_rdev


def lsids(client: AsyncClient) -> list[str]:
    return [document["id"].hex() for document in client.sessions.drain()]


@forking
@pytest.mark.spec("CMAP-31", "CMAP-98")
def test_a_child_begins_anew_and_the_parent_keeps_its_connections(uri: str) -> None:
    async def main() -> None:
        async with AsyncClient(uri) as client:
            before, session_id = await whoami(client), lsids(client)

            async def in_the_child() -> list[Any]:
                seen = [await whoami(client), lsids(client), str(client.new_id())]
                await client.aclose()
                return seen

            theirs, their_sessions, their_id = await in_child(in_the_child)
            assert theirs != before
            assert their_sessions
            assert set(their_sessions).isdisjoint(session_id)
            assert their_id != str(client.new_id())
            assert await whoami(client) == before

    asyncio.run(main())


@forking
def test_a_child_that_only_closes_its_client_disturbs_nobody(uri: str) -> None:
    async def main() -> None:
        async with AsyncClient(uri) as client:
            before = await whoami(client)
            sessions = len(client.sessions.drain())

            async def close() -> bool:
                await client.aclose()
                return True

            assert sessions == 1
            assert await in_child(close) is True
            assert await whoami(client) == before

    asyncio.run(main())


@forking
def test_sessions_and_cursors_of_the_parent_are_refused_in_the_child(uri: str) -> None:
    async def main() -> None:
        async with AsyncClient(uri) as client:
            things = client.database("forks").collection("things")
            await things.insert_many([{"_id": number} for number in range(5)])
            session: ClientSession = client.start_session()
            cursor: Cursor = await things.find({}, session=session, batchSize=2)

            async def use() -> list[str]:
                with pytest.raises(InvalidArgumentError) as of_session:
                    await things.find_one({}, session=session)
                with pytest.raises(ClientClosedError) as of_cursor:
                    [document async for document in cursor]
                return [str(of_session.value), str(of_cursor.value)]

            assert await in_child(use) == [
                "a session of the parent process cannot be used in its child",
                "what the parent process has opened cannot be used in its child",
            ]
            assert [document["_id"] async for document in cursor] == list(range(5))
            await session.aclose()

    asyncio.run(main())


@forking
@pytest.mark.spec("CMAP-31")
def test_a_child_lets_go_of_the_sockets_that_it_inherited(uri: str) -> None:
    async def main() -> None:
        async with AsyncClient(uri) as client:
            await whoami(client)
            (server,) = (client.topology.server(address) for address in client.topology.description.servers)
            assert server is not None
            (connection,) = server.pool._connections.values()
            number = connection._stream._live().get_extra_info("socket").fileno()  # type: ignore[attr-defined]

            async def kind() -> list[bool]:
                before = leads_nowhere(number)
                client.open()
                return [before, leads_nowhere(number)]

            assert await in_child(kind) == [False, True]

    asyncio.run(main())


# --- threads ---


class TornBucket(TokenBucket):
    """A bucket whose tokens are read and written by functions, between which threads are switched."""

    @property
    def tokens(self) -> float:
        return self._tokens

    @tokens.setter
    def tokens(self, value: float) -> None:
        self._tokens = value


THREADS = 16
ROUNDS = 5_000


@pytest.fixture
def restless() -> Iterator[None]:
    """Switch threads as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def race(work: Callable[[int], None]) -> None:
    start = threading.Barrier(THREADS)

    def run(number: int) -> None:
        start.wait()
        work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.usefixtures("restless")
def test_sixteen_threads_lose_and_invent_no_token() -> None:
    bucket = TornBucket(THREADS * ROUNDS)
    taken = [0] * THREADS

    def spend(number: int) -> None:
        for turn in range(ROUNDS):
            taken[number] += bucket.consume(1.0)
            if turn % 4 == 0:
                bucket.deposit(0.5)
                bucket.consume(0.5)

    race(spend)
    assert sum(taken) + bucket.tokens == THREADS * ROUNDS
    assert sum(taken) == THREADS * ROUNDS


def test_the_client_says_which_of_its_parts_threads_may_share() -> None:
    said = " ".join((AsyncClient.__doc__ or "").split())
    assert "`asyncio.run_coroutine_threadsafe`" in said
    assert "Safe in any thread are the retry budget (`executor.budget`)" in said
    assert "Connections are not fork-safe" in said


def test_another_thread_uses_a_client_through_its_loop(uri: str) -> None:
    async def main() -> None:
        async with AsyncClient(uri) as client:
            loop = asyncio.get_running_loop()

            def elsewhere() -> int:
                return asyncio.run_coroutine_threadsafe(whoami(client), loop).result(PATIENCE)

            assert await asyncio.to_thread(elsewhere) > 0

    asyncio.run(main())
