"""Starting and stopping, over real sockets: prompt, and nothing is left."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from bson import Int64
from talking import STANDALONE, Deployment, play, play_live

import fakeserver
from fakeserver import ClusterSpec


def test_stopping_ends_connections_waiting_requests_and_tasks_at_once() -> None:
    async def scenario(deployment: Deployment) -> None:
        tasks = asyncio.all_tasks()
        talkers = [await deployment.connect(node) for node in deployment.cluster.nodes for _ in range(2)]
        for talker in talkers:
            hello = await talker.ok({"hello": 1})
            version = hello["topologyVersion"]
            wait = {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": Int64(10_000)}
            await talker.send(wait, exhaust_allowed=True)
        await deployment.fail_command("alwaysOn", "ping", blockConnection=True)
        await (await deployment.connect()).send({"ping": 1})
        begun = deployment.world.clock.now()
        await deployment.cluster.stop()
        assert deployment.world.clock.now() - begun < 0.5
        assert [await talker.receive() for talker in talkers] == [None] * len(talkers)
        assert not any(node.connections for node in deployment.cluster.nodes)
        assert asyncio.all_tasks() == tasks

    play_live(scenario)


def test_stopping_twice_is_allowed() -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.cluster.stop()
        await deployment.cluster.stop()

    play_live(scenario, STANDALONE)


def test_a_connection_that_comes_to_light_after_the_stop_is_closed() -> None:
    async def scenario(deployment: Deployment) -> None:
        host, _, port = deployment.cluster.nodes[0].address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        await deployment.cluster.stop()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()

    play_live(scenario, STANDALONE)


def test_a_deployment_is_started_by_awaiting_or_entering() -> None:
    async def main() -> None:
        cluster = await fakeserver.start(ClusterSpec.standalone())
        await cluster.stop()
        async with fakeserver.start(ClusterSpec.standalone()) as another:
            assert another.nodes[0].ready
        assert not another.nodes[0].ready

    asyncio.run(main())


def test_a_failed_start_needs_no_stop() -> None:
    async def scenario(deployment: Deployment) -> None:
        port = int(deployment.cluster.nodes[0].address.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            async with fakeserver.start(ClusterSpec.standalone(ports=(port,))):
                pass

    play_live(scenario, STANDALONE)


def test_a_log_sink_sees_the_lines_as_they_come() -> None:
    lines: list[str] = []

    async def main() -> None:
        async with fakeserver.start(ClusterSpec.standalone(), log_sink=lines.append):
            pass

    asyncio.run(main())
    assert '"Listening on"' in lines[0]
    assert '"Waiting for connections"' in lines[1]


def test_an_address_of_ipv6_is_written_in_brackets() -> None:
    async def scenario(deployment: Deployment) -> None:
        assert deployment.cluster.nodes[0].address.startswith("[::1]:")

    play(scenario, ClusterSpec.standalone(host="::1"))


def test_a_server_that_runs_no_script_and_no_search_loads_none_of_their_libraries() -> None:
    script = (
        "import sys, fakeserver.deployment.cluster, fakeserver.storage.store.memory_engine;"
        "print([m for m in ('quickjs', '_quickjs', 'shapely', 'snowballstemmer') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_importing_the_package_imports_neither_engine_nor_loop() -> None:
    heavy = ("asyncio", "bson", "mongomock", "ssl")
    script = f"import sys, fakeserver; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
