"""A server's process looks for garbage when nobody waits (fakeserver/deployment/garbage.py)."""

from __future__ import annotations

import gc
import weakref

from talking import STANDALONE, Deployment, play

from fakeserver import ClusterSpec
from fakeserver.deployment.garbage import collect_when_idle, collected_when_idle


class Ring:
    """An object that holds itself, which only the collector can find."""

    def __init__(self) -> None:
        self.itself = self


def ring() -> weakref.ref[Ring]:
    return weakref.ref(Ring())


def test_old_objects_are_left_alone_inside_only() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with collected_when_idle():
        assert gc.get_threshold()[2] > 1000 * before[2]
        assert gc.get_freeze_count() >= max(frozen, 1)
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() >= frozen


def test_garbage_is_found_once_nobody_has_asked_for_anything_for_a_while() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        deployment.cluster.spawn(collect_when_idle(deployment.cluster))
        gc.disable()
        try:
            garbage = ring()
            for _ in range(30):
                await talker.ok({"ping": 1})
                await deployment.sleep(1.0)
            assert garbage() is not None, "somebody asks once a second"
            for _ in range(30):
                await talker.ok({"hello": 1})
                await deployment.sleep(1.0)
            assert garbage() is None, "heartbeats do not count"
        finally:
            gc.enable()

    play(scenario, STANDALONE)


def test_cursors_that_nobody_reads_are_forgotten_without_being_asked_for() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        deployment.cluster.spawn(collect_when_idle(deployment.cluster))
        await talker.ok({"insert": "c", "documents": [{}, {}], "$db": "db"})
        await talker.ok({"find": "c", "batchSize": 1, "$db": "db"})
        await deployment.sleep(30.0)
        assert len(deployment.primary.cursors.cursors) == 1
        await talker.ok({"setParameter": 1, "cursorTimeoutMillis": 1000})
        await deployment.sleep(15.0)
        assert not deployment.primary.cursors.cursors

    play(scenario, ClusterSpec.standalone(parameters={"cursorTimeoutMillis": 40_000}))
