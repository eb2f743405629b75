"""Nobody who looks on reaches a request: each of them fails here, and clients are answered as ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from talking import Deployment, Talker, World, play

import fakeserver
from fakeserver import ClusterSpec
from fakeserver.network.wire_tap import WireTap
from fakeserver.rules import error
from harness.sim import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

GIVING_WAY: Final = ClusterSpec.replica_set(1, parameters={"internalQueryExecYieldPeriodMS": 0})
PLAIN: Final = ClusterSpec.replica_set(1)


class Failing:
    """Fails whatever is asked of it."""

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("it looked on and fell")

    write = enter = append = __call__

    def close(self) -> None:
        """End."""


FAILING: Final = Failing()


async def administer(deployment: Deployment, command: dict[str, Any]) -> None:
    """Run a command that sets a bystander up."""
    await (await deployment.connect()).ok(command)


async def profile_with_a_failing_filter(deployment: Deployment) -> None:
    await administer(deployment, {"profile": 2, "filter": {"$expr": {"$sin": "$ns"}}, "$db": "db"})


async def profile_into_a_collection_that_refuses(deployment: Deployment) -> None:
    indexes = [{"key": {"protocol": 1}, "name": "one", "unique": True}]
    await administer(deployment, {"createIndexes": "system.profile", "indexes": indexes, "$db": "db"})
    await administer(deployment, {"profile": 2, "$db": "db"})


async def log_slow_queries_nowhere(deployment: Deployment) -> None:
    await administer(deployment, {"profile": 0, "slowms": -1, "$db": "db"})
    for node in deployment.cluster.nodes:
        node.log._sink = FAILING


async def tally_hits_in_no_log(deployment: Deployment) -> None:
    for node in deployment.cluster.nodes:
        node.tally._counts = FAILING  # type: ignore[assignment]
    await deployment.fail_command(
        "alwaysOn", "count", "insert", "find", "update", blockConnection=True, blockTimeMS=1
    )


async def write_the_journal_nowhere(deployment: Deployment) -> None:
    deployment.cluster.journal.sink = FAILING


async def follow_the_journal(deployment: Deployment) -> None:
    for _ in range(100):
        deployment.cluster.journal.changed.listen(FAILING)


async def follow_the_oplog(deployment: Deployment) -> None:
    deployment.cluster.oplog.grown.listen(FAILING)


async def look_before_each_write(deployment: Deployment) -> None:
    deployment.cluster.oplog.on_append = FAILING


async def look_behind_each_write(deployment: Deployment) -> None:
    deployment.cluster.oplog.on_appended = FAILING


async def have_a_rule_with_a_failing_filter(deployment: Deployment) -> None:
    deployment.cluster.control.when(document={"$expr": {"$sin": "$$ROOT"}}).then(error(1))


BYSTANDERS: Final[tuple[Callable[[Deployment], Coroutine[Any, Any, None]], ...]] = (
    profile_with_a_failing_filter,
    profile_into_a_collection_that_refuses,
    log_slow_queries_nowhere,
    tally_hits_in_no_log,
    write_the_journal_nowhere,
    follow_the_journal,
    follow_the_oplog,
    look_before_each_write,
    look_behind_each_write,
    have_a_rule_with_a_failing_filter,
)


async def are_answered(talker: Talker) -> None:
    """Assert that requests of all kinds are answered on one connection."""
    documents = [{"_id": number} for number in range(20)]
    assert (await talker.ok({"insert": "c", "documents": documents, "$db": "db"}))["n"] == 20
    scan = {"find": "c", "filter": {"$expr": {"$gte": ["$_id", 0]}}, "batchSize": 50, "$db": "db"}
    assert len((await talker.ok(scan))["cursor"]["firstBatch"]) == 20
    assert (await talker.fails({"find": "c", "filter": {"$nonsense": 1}, "$db": "db"}))["code"] == 2
    updates = [{"q": {}, "u": {"$set": {"x": 1}}, "multi": True}, {"q": {}, "u": {"$inc": {"_id": 1}}}]
    updated = await talker.ok({"update": "c", "updates": updates, "$db": "db"})
    assert (updated["nModified"], len(updated["writeErrors"])) == (20, 1)
    assert (await talker.ok({"count": "c", "query": {"x": 1}, "$db": "db"}))["n"] == 20


@pytest.mark.parametrize("spec", [PLAIN, GIVING_WAY], ids=["at once", "giving way"])
@pytest.mark.parametrize("fails", BYSTANDERS, ids=lambda each: each.__name__)
def test_a_bystander_that_fails_is_no_matter(
    fails: Callable[[Deployment], Coroutine[Any, Any, None]], spec: ClusterSpec
) -> None:
    async def scenario(deployment: Deployment) -> None:
        await fails(deployment)
        await are_answered(await deployment.connect())

    play(scenario, spec)


def test_a_log_that_cannot_be_written_is_no_matter_from_the_start() -> None:
    async def main(world: Any) -> None:
        ports: Any = {"network": world.network, "clock": world.clock, "rng": world.rng}
        cluster = await fakeserver.start(PLAIN, log_sink=FAILING, **ports)
        deployment = Deployment(world, cluster, [])
        await are_answered(await deployment.connect())
        await deployment.aclose()

    run_virtual(main)


def test_a_tap_that_fails_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WireTap, "enter", FAILING)

    async def main(world: Any) -> None:
        tap = WireTap(world.network, world.clock)
        deployment = await Deployment.start(World(world.clock, world.rng, tap), PLAIN)
        await are_answered(await deployment.connect())
        await deployment.aclose()

    run_virtual(main)


def test_a_full_disk_under_the_journal_is_no_matter() -> None:
    async def scenario(deployment: Deployment) -> None:
        await are_answered(await deployment.connect())

    play(scenario, ClusterSpec.standalone(journal_file="/dev/full"))


def test_a_filter_that_fails_matches_nothing() -> None:
    async def scenario(deployment: Deployment) -> None:
        await profile_with_a_failing_filter(deployment)
        talker = await deployment.connect()
        await are_answered(talker)
        await talker.ok({"profile": 0, "filter": "unset", "$db": "db"})
        assert (await talker.ok({"count": "system.profile", "$db": "db"}))["n"] == 0

    play(scenario, PLAIN)
