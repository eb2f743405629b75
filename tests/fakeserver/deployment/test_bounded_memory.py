"""What a deployment remembers does not grow with the number of commands: counted in records, not in bytes."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import talking
from bson import Binary, Int64
from talking import REPLICA_SET, Deployment, Talker, lsid, play

from fakeserver import ClusterSpec
from fakeserver.request.context import RequestContext

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.deployment.cluster import Cluster

_HALF_AN_HOUR = 1800.0


def _census(cluster: Cluster) -> dict[str, Any]:
    """Count what a deployment holds."""
    sessions = list(cluster.sessions.live())
    return {
        "journal": len(cluster.journal),
        "sessions": len(sessions),
        "statements": sum(len(session.statements) for session in sessions),
        "cursors": sum(len(node.cursors.cursors) for node in cluster.nodes),
        "connections": sum(len(node.connections) for node in cluster.nodes),
        "kinds of command": sum(len(node.counters.commands) for node in cluster.nodes),
        "listeners": len(cluster.replication.listeners) + len(cluster.oplog.grown.listeners),
    }


async def _round(deployment: Deployment, talker: Talker, number: int) -> None:
    """Run some of everything: a retryable write, reads with and without a cursor left, errors, a fault."""
    update = {"q": {"_id": 1}, "u": {"$set": {"n": number}}, "upsert": True}
    txn = {"lsid": lsid(), "txnNumber": Int64(number)}
    await talker.ok({"update": "c", "updates": [update], "$db": "db", **txn})
    opened = await talker.ok({"find": "many", "batchSize": 1, "$db": "db", "lsid": lsid()})
    await talker.ok({"killCursors": "many", "cursors": [opened["cursor"]["id"]], "$db": "db"})
    await talker.ok({"ping": 1, "lsid": lsid(number % 5)})
    await talker.fails({"bogus": 1})
    await talker.fails({"find": "c", "limit": "x", "$db": "db"})
    await deployment.configure("failCommand", {"times": 1}, failCommands=["ping"], errorCode=91)
    await talker.fails({"ping": 1})
    await deployment.talkers.pop().aclose()


def test_a_deployment_holds_as_much_after_many_commands_as_after_a_few() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "many", "documents": [{"_id": n} for n in range(3)], "$db": "db"})
        counted = []
        for number in range(60):
            await _round(deployment, talker, number)
            await deployment.sleep(1.0)
            counted.append(_census(deployment.cluster))
        assert counted[20] == counted[-1]
        assert counted[-1]["journal"] == 100
        assert counted[-1]["statements"] == 1
        assert counted[-1]["cursors"] == 0
        assert deployment.cluster.journal.dropped > 0

    play(scenario, ClusterSpec.replica_set(3, journal_records=100))


def test_what_a_client_left_behind_is_forgotten_with_its_session() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "many", "documents": [{"_id": n} for n in range(3)], "$db": "db"})
        for number in range(20):
            session = {"id": Binary(number.to_bytes(16, "big"), 4)}
            await talker.ok({"find": "many", "batchSize": 1, "$db": "db", "lsid": session})
        held = _census(deployment.cluster)
        assert (held["sessions"], held["cursors"]) == (20, 20)
        await deployment.sleep(_HALF_AN_HOUR + 1)
        await talker.ok({"ping": 1, "lsid": lsid(99)})
        held = _census(deployment.cluster)
        assert (held["sessions"], held["cursors"]) == (1, 0)

    play(scenario, REPLICA_SET)


@pytest.fixture
def _no_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_garbage_collection")
def test_a_request_that_was_answered_is_gone_without_the_garbage_collector() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command("alwaysOn", "count", errorCode=91)
        for _ in range(20):
            await talker.ok({"ping": 1})
            await talker.fails({"bogus": 1})
            await talker.fails({"find": "c", "limit": "x", "$db": "db"})
            await talker.fails({"getMore": Int64(1), "collection": "c", "$db": "db"})
            await talker.fails({"count": "c", "$db": "db"})
        # The last one may still be a variable of the call that answered it.
        assert sum(type(each) is RequestContext for each in gc.get_objects()) <= 1

    play(scenario)


async def _traffic(talker: Talker, number: int) -> None:
    """Run a retryable write, reads with and without a cursor left, and errors, on one connection."""
    update = {"q": {"_id": 1}, "u": {"$set": {"n": number, "list": [number]}}, "upsert": True}
    txn = {"lsid": lsid(), "txnNumber": Int64(number)}
    await talker.ok({"update": "c", "updates": [update], "$db": "db", **txn})
    await talker.ok({"insert": "c", "documents": [{"_id": 2, "list": [1]}], "$db": "db"})
    await talker.ok({"find": "c", "filter": {"_id": 2}, "$db": "db", "lsid": lsid()})
    await talker.ok({"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}], "$db": "db"})
    opened = await talker.ok({"find": "many", "batchSize": 1, "$db": "db", "lsid": lsid()})
    await talker.ok({"killCursors": "many", "cursors": [opened["cursor"]["id"]], "$db": "db"})
    await talker.fails({"bogus": 1})
    await talker.fails({"find": "c", "limit": "x", "$db": "db"})


def _objects() -> Counter[str]:
    gc.collect()
    return Counter(type(each).__name__ for each in gc.get_objects())


def _grown() -> Counter[str]:
    """Return the kinds of objects that there are more of after 400 commands."""
    kinds: list[Counter[str]] = []

    async def scenario(deployment: Deployment) -> None:
        deployment.cluster.oplog._entries = deque(maxlen=20)
        talker = await deployment.connect()
        await talker.ok({"insert": "many", "documents": [{"_id": n} for n in range(3)], "$db": "db"})
        for number in range(30):
            await _traffic(talker, number)
        before = _objects()
        for number in range(30, 80):
            await _traffic(talker, number)
        kinds.append(_objects() - before)

    play(scenario, ClusterSpec.replica_set(3, journal_records=100))
    return kinds[0]


def test_no_object_is_left_over_from_a_command_once_records_make_room() -> None:
    # In a process of its own: the libraries of other tests make objects meanwhile.
    path = os.pathsep.join([str(Path(talking.__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    grown = Counter(json.loads(done.stdout))
    # A few are those of the measuring itself; of the 400 commands each would leave one or more.
    assert grown.total() < 100, grown


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_grown()))
