"""The numbered prose tests of Retryable Reads. Where editions differ, each runs in both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from against_the_fake import Scene, act, elapsed

from driver import EDITION_2026_02_20, EDITION_2026_07_08
from driver.errors import ServerError
from driver.events import CommandFailedEvent
from fakeserver import ClusterSpec
from mongowire.codes import Label

if TYPE_CHECKING:
    from driver import Edition
    from driver.events import DriverEvent

ONE = ClusterSpec.replica_set(1)
TWO = ClusterSpec.replica_set(2)
MONGOS = ClusterSpec.sharded(mongos=2)
ONCE = {"times": 1}
SHUTDOWN, HOST_UNREACHABLE = 91, 6
OVERLOAD = (Label.RETRYABLE, Label.SYSTEM_OVERLOADED)
PREFERRED = "readPreference=primaryPreferred"
SEEDS = range(8)

BOTH = pytest.mark.parametrize("edition", [EDITION_2026_02_20, EDITION_2026_07_08], ids=lambda e: e.name)


async def find(scene: Scene) -> Any:
    return await scene.collection.find_one({})


async def refused(scene: Scene) -> ServerError:
    with pytest.raises(ServerError) as info:
        await find(scene)
    return info.value


def afterwards(scene: Scene, *labels: str, code: int) -> None:
    """Let every find fail after the first has."""
    done: list[DriverEvent] = []

    def hook(event: DriverEvent) -> None:
        if isinstance(event, CommandFailedEvent) and event.command_name == "find" and not done:
            done.append(event)
            scene.fail("find", "alwaysOn", *labels, errorCode=code)

    scene.hooks.append(hook)


def ends(scene: Scene) -> tuple[str, str]:
    """Return where the one find that failed went to, and where the one that succeeded did."""
    (failed,) = scene.of_kind("commandFailedEvent", "find")
    (succeeded,) = scene.of_kind("commandSucceededEvent", "find")
    return failed.connection_id, succeeded.connection_id


@BOTH
def test_retryable_reads_prose_1_a_pool_cleared_error_is_retried(edition: Edition) -> None:
    async def scenario(scene: Scene) -> None:
        scene.fail("find", ONCE, errorCode=SHUTDOWN, blockConnection=True, blockTimeMS=1000)
        await asyncio.gather(find(scene), find(scene))
        kinds = ("connectionCheckedOut", "connectionCheckOutFailed", "poolCleared")
        assert scene.kinds(*kinds)[:3] == [f"{kind}Event" for kind in (kinds[0], kinds[2], kinds[1])]
        assert scene.of_kind("connectionCheckOutFailedEvent")[0].reason == "connectionError"
        assert len(scene.of_kind("commandStartedEvent", "find")) == 3

    act(ONE, scenario, "maxPoolSize=1", edition=edition)


@pytest.mark.parametrize("seed", SEEDS)
def test_retryable_reads_prose_2_1_another_mongos_is_asked_when_there_is_one(seed: int) -> None:
    async def scenario(scene: Scene) -> None:
        scene.fail("find", ONCE, errorCode=HOST_UNREACHABLE)
        await refused(scene)
        first, second = scene.of_kind("commandFailedEvent", "find")
        assert first.connection_id != second.connection_id

    act(MONGOS, scenario, seed=seed)


def test_retryable_reads_prose_2_2_the_same_mongos_is_asked_when_there_is_no_other() -> None:
    async def scenario(scene: Scene) -> None:
        scene.fail("find", ONCE, on=0, errorCode=HOST_UNREACHABLE)
        await find(scene)
        failed, succeeded = ends(scene)
        assert failed == succeeded

    act(MONGOS, scenario, "directConnection=false", uri=lambda cluster: cluster.uri_single)


@pytest.mark.parametrize(
    ("edition", "options"),
    [(EDITION_2026_02_20, PREFERRED), (EDITION_2026_07_08, f"{PREFERRED}&enableOverloadRetargeting=true")],
    ids=["2026-02-20", "2026-07-08"],
)
def test_retryable_reads_prose_3_1_after_an_overload_another_member_is_asked(
    edition: Edition, options: str
) -> None:
    async def scenario(scene: Scene) -> None:
        scene.fail("find", ONCE, *OVERLOAD, on=0, errorCode=HOST_UNREACHABLE)
        await find(scene)
        failed, succeeded = ends(scene)
        assert failed != succeeded

    act(TWO, scenario, options, edition=edition)


@BOTH
def test_retryable_reads_prose_3_2_after_another_error_the_same_member_is_asked(edition: Edition) -> None:
    async def scenario(scene: Scene) -> None:
        scene.fail("find", ONCE, Label.RETRYABLE, on=0, errorCode=HOST_UNREACHABLE)
        await find(scene)
        failed, succeeded = ends(scene)
        assert failed == succeeded

    act(TWO, scenario, PREFERRED, edition=edition)


def test_retryable_reads_prose_3_3_without_retargeting_the_same_member_is_asked_after_an_overload() -> None:
    async def scenario(scene: Scene) -> None:
        scene.fail("find", ONCE, *OVERLOAD, on=0, errorCode=HOST_UNREACHABLE)
        await find(scene)
        failed, succeeded = ends(scene)
        assert failed == succeeded

    act(TWO, scenario, PREFERRED, edition=EDITION_2026_07_08)


@BOTH
def test_retryable_reads_prose_4_after_an_overload_its_limit_holds_for_every_retryable_error(
    edition: Edition,
) -> None:
    async def scenario(scene: Scene) -> None:
        scene.fail("find", ONCE, *OVERLOAD, errorCode=SHUTDOWN)
        afterwards(scene, Label.RETRYABLE, code=SHUTDOWN)
        await refused(scene)
        assert len(scene.of_kind("commandStartedEvent", "find")) == edition.max_adaptive_retries + 1

    act(ONE, scenario, edition=edition)


@BOTH
def test_retryable_reads_prose_5_only_overload_errors_are_waited_for(edition: Edition) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.client.command("admin", {"ping": 1})
        scene.fail("find", ONCE, *OVERLOAD, errorCode=HOST_UNREACHABLE)
        afterwards(scene, Label.RETRYABLE, code=HOST_UNREACHABLE)
        took, _ = await elapsed(scene, find(scene))
        one_backoff = 0.1 * 2**edition.first_backoff_exponent
        assert took == pytest.approx(one_backoff, abs=0.05)
        assert len(scene.of_kind("commandStartedEvent", "find")) == edition.max_adaptive_retries + 1

    act(ONE, scenario, edition=edition, jitter=1.0)
