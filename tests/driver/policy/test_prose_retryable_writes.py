"""The numbered prose tests of Retryable Writes. Where editions differ, each runs in both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from against_the_fake import Scene, act, elapsed
from driven_client import Stage, play
from scripted_mongod import ScriptedMongod, error, member_hello

from driver import EDITION_2026_02_20, EDITION_2026_07_08
from driver.errors import ServerError, WriteConcernError
from driver.events import CommandFailedEvent, CommandSucceededEvent
from fakeserver import ClusterSpec
from mongowire.codes import ErrorCode, Label

if TYPE_CHECKING:
    from driver import Edition
    from driver.events import DriverEvent

ONE = ClusterSpec.replica_set(1)
MONGOS = ClusterSpec.sharded(mongos=2)
ONCE = {"times": 1}
SHUTDOWN, NOT_PRIMARY, HOST_UNREACHABLE = 91, 10107, 6
RETRYABLE_WRITE, NO_WRITES = Label.RETRYABLE_WRITE, Label.NO_WRITES_PERFORMED
OVERLOAD = (Label.RETRYABLE, Label.SYSTEM_OVERLOADED)
SEEDS = range(8)

BOTH = pytest.mark.parametrize("edition", [EDITION_2026_02_20, EDITION_2026_07_08], ids=lambda e: e.name)


async def insert(scene: Scene) -> Any:
    return await scene.collection.insert_one({"x": 1})


async def refused(scene: Scene) -> ServerError:
    with pytest.raises(ServerError) as info:
        await insert(scene)
    return info.value


def afterwards(scene: Scene, kind: type[DriverEvent], mode: Any, *labels: str, **data: Any) -> None:
    """Configure a fail point when the first insert has ended with an event of a kind."""
    done: list[DriverEvent] = []

    def hook(event: DriverEvent) -> None:
        if isinstance(event, kind) and event.command_name == "insert" and not done:  # type: ignore[attr-defined]
            done.append(event)
            scene.fail("insert", mode, *labels, **data)

    scene.hooks.append(hook)


def test_retryable_writes_prose_1_an_old_storage_engine_is_named_in_the_error() -> None:
    members = [ScriptedMongod(1, member_hello([1], 1, primary=1))]
    original = "Transaction numbers are only allowed on a replica set member or mongos"
    members[0].will("insert", error(ErrorCode.ILLEGAL_OPERATION, original))

    async def scenario(stage: Stage) -> None:
        with pytest.raises(ServerError) as info:
            await stage.collection.insert_one({"x": 1})
        assert info.value.code == 20
        assert str(info.value.message) == (
            "This MongoDB deployment does not support retryable writes. "
            "Please add retryWrites=false to your connection string."
        )

    play(scenario, members=members)


@BOTH
def test_retryable_writes_prose_2_a_pool_cleared_error_is_retried(edition: Edition) -> None:
    async def scenario(scene: Scene) -> None:
        data = {"errorCode": SHUTDOWN, "blockConnection": True, "blockTimeMS": 1000}
        scene.fail("insert", ONCE, RETRYABLE_WRITE, **data)
        await asyncio.gather(insert(scene), insert(scene))
        ends = ("connectionCheckedOut", "connectionCheckOutFailed", "poolCleared")
        assert scene.kinds(*ends)[:3] == [f"{kind}Event" for kind in (ends[0], ends[2], ends[1])]
        assert scene.of_kind("connectionCheckOutFailedEvent")[0].reason == "connectionError"
        assert len(scene.of_kind("commandStartedEvent", "insert")) == 3

    act(ONE, scenario, "maxPoolSize=1", edition=edition)


@BOTH
def test_retryable_writes_prose_3_the_write_concern_error_stands_when_the_retry_wrote_nothing(
    edition: Edition,
) -> None:
    async def scenario(scene: Scene) -> None:
        scene.fail("insert", ONCE, RETRYABLE_WRITE, writeConcernError={"code": SHUTDOWN, "errmsg": ""})
        labels = (RETRYABLE_WRITE, NO_WRITES)
        afterwards(scene, CommandSucceededEvent, ONCE, *labels, errorCode=NOT_PRIMARY)
        with pytest.raises(WriteConcernError) as info:
            await insert(scene)
        assert info.value.code == SHUTDOWN
        assert len(scene.of_kind("commandStartedEvent", "insert")) == 2

    act(ONE, scenario, edition=edition)


@pytest.mark.parametrize("seed", SEEDS)
def test_retryable_writes_prose_4_another_mongos_is_asked_when_there_is_one(seed: int) -> None:
    async def scenario(scene: Scene) -> None:
        scene.fail("insert", ONCE, RETRYABLE_WRITE, errorCode=HOST_UNREACHABLE)
        await refused(scene)
        first, second = scene.of_kind("commandFailedEvent", "insert")
        assert first.connection_id != second.connection_id

    act(MONGOS, scenario, seed=seed)


def test_retryable_writes_prose_5_the_same_mongos_is_asked_when_there_is_no_other() -> None:
    async def scenario(scene: Scene) -> None:
        data = {"errorCode": HOST_UNREACHABLE, "closeConnection": True}
        scene.fail("insert", ONCE, RETRYABLE_WRITE, on=0, **data)
        await insert(scene)
        (failed,) = scene.of_kind("commandFailedEvent", "insert")
        (succeeded,) = scene.of_kind("commandSucceededEvent", "insert")
        assert failed.connection_id == succeeded.connection_id

    act(MONGOS, scenario, "directConnection=false", uri=lambda cluster: cluster.uri_single)


@BOTH
def test_retryable_writes_prose_6_1_without_no_writes_performed_the_last_error_is_raised(
    edition: Edition,
) -> None:
    async def scenario(scene: Scene) -> None:
        scene.fail("insert", ONCE, *OVERLOAD, errorCode=SHUTDOWN)
        afterwards(scene, CommandFailedEvent, "alwaysOn", *OVERLOAD, errorCode=NOT_PRIMARY)
        assert (await refused(scene)).code == NOT_PRIMARY

    act(ONE, scenario, edition=edition)


@pytest.mark.spec("RW-62")
@BOTH
def test_retryable_writes_prose_6_2_with_nothing_but_no_writes_performed_the_first_error_is_raised(
    edition: Edition,
) -> None:
    async def scenario(scene: Scene) -> None:
        scene.fail("insert", ONCE, *OVERLOAD, NO_WRITES, errorCode=SHUTDOWN)
        afterwards(scene, CommandFailedEvent, "alwaysOn", *OVERLOAD, NO_WRITES, errorCode=NOT_PRIMARY)
        assert (await refused(scene)).code == SHUTDOWN

    act(ONE, scenario, edition=edition)


@pytest.mark.spec("RW-61")
@BOTH
def test_retryable_writes_prose_6_3_of_both_kinds_the_error_that_may_have_written_is_raised(
    edition: Edition,
) -> None:
    async def scenario(scene: Scene) -> None:
        scene.fail("insert", ONCE, *OVERLOAD, errorCode=SHUTDOWN)
        afterwards(scene, CommandFailedEvent, "alwaysOn", *OVERLOAD, NO_WRITES, errorCode=SHUTDOWN)
        raised = await refused(scene)
        assert raised.code == SHUTDOWN
        assert not raised.has_label(NO_WRITES)

    act(ONE, scenario, edition=edition)


@BOTH
def test_retryable_writes_prose_6_4_after_an_overload_its_limit_holds_for_every_retryable_error(
    edition: Edition,
) -> None:
    async def scenario(scene: Scene) -> None:
        scene.fail("insert", ONCE, *OVERLOAD, errorCode=SHUTDOWN)
        labels = (Label.RETRYABLE, RETRYABLE_WRITE)
        afterwards(scene, CommandFailedEvent, "alwaysOn", *labels, errorCode=SHUTDOWN)
        await refused(scene)
        sent = scene.of_kind("commandStartedEvent", "insert")
        assert len(sent) == edition.max_adaptive_retries + 1

    act(ONE, scenario, edition=edition)


@BOTH
def test_retryable_writes_prose_6_5_only_overload_errors_are_waited_for(edition: Edition) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.client.command("admin", {"ping": 1})
        scene.fail("insert", ONCE, *OVERLOAD, errorCode=HOST_UNREACHABLE)
        labels = (Label.RETRYABLE, RETRYABLE_WRITE)
        afterwards(scene, CommandFailedEvent, "alwaysOn", *labels, errorCode=HOST_UNREACHABLE)
        took, _ = await elapsed(scene, insert(scene))
        one_backoff = 0.1 * 2**edition.first_backoff_exponent
        assert took == pytest.approx(one_backoff, abs=0.05)
        assert len(scene.of_kind("commandStartedEvent", "insert")) == edition.max_adaptive_retries + 1

    act(ONE, scenario, edition=edition, jitter=1.0)
