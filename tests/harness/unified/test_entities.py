"""Unified Test Format: Entity Map."""

from __future__ import annotations

import asyncio

import pytest
from bson import ObjectId

from harness.adapters.base import EntityKind
from harness.unified.entities import EntityMap, ThreadEntity
from harness.unified.errors import EntityError


def test_a_name_is_written_once() -> None:
    entities = EntityMap()
    entities.add_document("saved", 1)
    with pytest.raises(EntityError, match=r"'saved' already exists \(document\)"):
        entities.add(EntityKind.THREAD, "saved", ThreadEntity())


def test_a_name_that_leads_nowhere_is_an_error_that_proposes_another() -> None:
    entities = EntityMap()
    entities.add(EntityKind.THREAD, "thread0", ThreadEntity())
    with pytest.raises(EntityError, match=r"no entity 'thread1' .*did you mean 'thread0'"):
        entities.thread("thread1")
    with pytest.raises(EntityError, match="entities so far: thread0"):
        entities.client("x")


def test_a_name_of_another_kind_is_an_error() -> None:
    entities = EntityMap()
    entities.add_document("saved", 1)
    with pytest.raises(EntityError, match="'saved' is a document, not a session"):
        entities.session("saved")


@pytest.mark.parametrize("value", [None, 1, "a", {"x": []}, [1], ObjectId(b"0" * 12), b"a", 1.5, True])
def test_bson_values_can_be_saved(value: object) -> None:
    entities = EntityMap()
    entities.add_document("saved", value)
    assert entities.document("saved") == value


def test_a_drivers_object_cannot_be_saved_as_a_document() -> None:
    with pytest.raises(EntityError, match="not a BSON value"):
        EntityMap().add_document("saved", object())


def test_entities_are_iterated_by_kind_in_order_of_creation() -> None:
    entities = EntityMap()
    for name in ("b", "a"):
        entities.add(EntityKind.THREAD, name, ThreadEntity())
    entities.add_document("c", 1)
    assert [entity.id for entity in entities.of(EntityKind.THREAD)] == ["b", "a"]


def test_a_thread_runs_its_operations_one_after_the_other() -> None:
    async def scenario() -> list[str]:
        done: list[str] = []
        gate = asyncio.Event()
        thread = ThreadEntity()

        async def first() -> None:
            await gate.wait()
            done.append("first")

        async def second() -> None:
            done.append("second")

        thread.run(first)
        thread.run(second)
        idle = [thread.idle]
        gate.set()
        await thread.join()
        assert [*idle, thread.idle] == [False, True]
        return done

    assert asyncio.run(scenario()) == ["first", "second"]


def test_a_failure_on_a_thread_is_kept_for_whoever_waits_and_stops_what_follows() -> None:
    async def scenario() -> None:
        thread, done = ThreadEntity(), []

        async def broken() -> None:
            raise ValueError("broken")

        async def after() -> None:
            done.append("after")

        thread.run(broken)
        thread.run(after)
        with pytest.raises(ValueError, match="broken"):
            await thread.join()
        assert not done

    asyncio.run(scenario())


def test_a_thread_that_still_runs_can_be_cancelled() -> None:
    async def scenario() -> None:
        thread = ThreadEntity()
        thread.run(asyncio.Event().wait)  # type: ignore[arg-type]  # never returns
        await thread.cancel()
        assert thread.idle

    asyncio.run(scenario())
