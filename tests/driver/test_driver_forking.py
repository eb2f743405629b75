"""A client in a forked process, over real sockets, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from driven_client import Stage, play

PROGRAM = """
import asyncio, os, sys
from driver import AsyncClient
from fakeserver.background import BackgroundCluster
from fakeserver import ClusterSpec

async def insert(client, number):
    async with client.start_session() as session:
        await client.database("db").collection("things").insert_one({"_id": number}, session=session)
        return session.lsid["id"], os.getpid()

async def main(uri):
    created = []
    def note(event):
        if event.kind == "connectionCreatedEvent":
            created.append(event)

    client = AsyncClient(uri, listeners=[note])
    used = await insert(client, 1)
    before = len(created)
    child = os.fork()
    if child == 0:
        mine = asyncio.new_event_loop().run_until_complete(insert(client, 2))
        os._exit(0 if mine[0] != used[0] and len(created) > before else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, "the child shares what is its parent's"
    again = await insert(client, 3)
    assert again[0] == used[0]
    assert len(created) == before, "the parent lost its connection"
    await client.aclose()

with BackgroundCluster(ClusterSpec.replica_set(1)) as cluster:
    asyncio.run(main(cluster.uri))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.spec("CMAP-31", "CMAP-98")
def test_a_forked_child_has_connections_and_sessions_of_its_own_and_leaves_the_parent_s_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_a_reset_client_discovers_anew_with_other_dice() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})
        topology, rng = stage.client.topology, stage.client.rng
        stage.client.reset_after_fork()
        assert stage.client.topology is not topology
        assert stage.client.rng is not rng
        await stage.client.command("admin", {"ping": 1})
        await topology.aclose()

    assert len(play(scenario).of_kind("topologyOpeningEvent")) == 2


def test_a_closed_client_stays_closed() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.aclose()
        topology = stage.client.topology
        stage.client.reset_after_fork()
        assert stage.client.topology is topology

    play(scenario)
