"""The bundled scenarios, each played to its end: what its description says is what happens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from played import Play, play

import fakeserver
from driver import AsyncClient
from driver.errors import ServerSelectionTimeoutError
from fakeserver.control.scenario.building import bundled
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable

REJECTED = 462
SHED = {462, 463}

CHECKS: dict[str, Callable[[], None]] = {}


def shows(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Enter a check of a bundled scenario."""

    def enter(check: Callable[[], None]) -> Callable[[], None]:
        CHECKS[name] = check
        return check

    return enter


async def offer(stage: Play, rate: float, seconds: float) -> None:
    """Insert at a rate, from now on, whether the inserts before are done or not."""
    began = stage.now

    async def insert(number: int) -> None:
        await stage.until(began + number / rate)
        await stage.tried(stage.collection().insert_one({"number": number}))

    await asyncio.gather(*(insert(number) for number in range(int(rate * seconds))))


def rejections(stage: Play) -> list[float]:
    return [
        each.at
        for each in stage.cluster.journal.of_kind("commandFinished")
        if each.event.outcome == REJECTED  # type: ignore[union-attr]  # of that kind
    ]


def states(stage: Play) -> list[tuple[str, str, int]]:
    return [(row["verb"], row["state"], row["performed"]) for row in stage.final]


@shows("failover-during-a-checkout")
def checkout() -> None:
    async def main(stage: Play) -> None:
        for number in range(8):
            await stage.tried(stage.collection().insert_one({"number": number}))
        assert await stage.collection().count_documents({}) == 8
        assert await stage.collection("shop.items").count_documents({}) == 2
        assert stage.cluster.primary is not stage.cluster.nodes[0]

    stage = play("failover-during-a-checkout", main)
    assert not stage.errors
    assert len(stage.outcomes("insert")) == 10, "two attempts more than orders: a reply lost, a step-down"
    assert states(stage) == [("stepDown", "over", 1)]


@shows("rolling-restart")
def rolling_restart() -> None:
    async def main(stage: Play) -> None:
        started = [node.started_at for node in stage.cluster.nodes]
        inserted = await stage.insert_every(0.25, until=13)
        assert all(
            node.started_at > before for node, before in zip(stage.cluster.nodes, started, strict=True)
        )
        assert await stage.collection().count_documents({}) == inserted

    stage = play("rolling-restart", main)
    assert not stage.errors
    assert {row["state"] for row in stage.final} == {"over"}


@shows("overload-with-recovery")
def overload() -> None:
    async def main(stage: Play) -> None:
        await offer(stage, rate=40, seconds=15)

    stage = play("overload-with-recovery", main)
    refused = rejections(stage)
    assert 2 < refused[0] < 5
    assert 11 < refused[-1] < 12.01
    assert stage.errors, "retrying alone does not double a server's rate"
    assert all(instant < 12.01 for instant, _ in stage.errors)


@shows("retry-storm")
def retry_storm() -> None:
    async def main(stage: Play) -> None:
        await stage.collection().insert_one({"n": -1})  # the pool fills before there is a limit
        await stage.until(2)
        await offer(stage, rate=30, seconds=8)

    stage = play("retry-storm", main, "maxPoolSize=200&minPoolSize=100")
    refused = rejections(stage)
    assert 5 <= refused[0] < 5.1
    assert len(refused) > 100, "more than have piled up: each is retried"
    assert refused[-1] < 10.5


@shows("slow-secondary")
def slow_secondary() -> None:
    took: list[tuple[float, float]] = []

    async def main(stage: Play) -> None:
        await stage.collection().insert_one({"n": 1})
        for number in range(14 * 4):
            await stage.until(number / 4)
            before = stage.now
            await stage.collection().count_documents({})
            took.append((before, stage.now - before))
            if 6 < before < 6.2:
                assert stage.cluster.node("node2").position.delay == 5

    play("slow-secondary", main, "readPreference=secondary")
    slow = [(instant, seconds) for instant, seconds in took if seconds > 0.2]
    assert 5 < len(slow) < 40, "one of the two is slow"
    assert all(2 <= instant < 12 and seconds < 0.4 for instant, seconds in slow)


@shows("split-brain-for-ten-seconds")
def split_brain() -> None:
    async def main(stage: Play) -> None:
        inserted = await stage.insert_every(0.5, until=10)
        assert stage.cluster.primary is not stage.cluster.nodes[0]
        inserted += await stage.insert_every(0.5, until=20)
        assert [node.is_primary for node in stage.cluster.nodes].count(True) == 1
        assert await stage.collection().count_documents({}) == inserted

    stage = play("split-brain-for-ten-seconds", main)
    assert not stage.errors
    assert {node.member.island for node in stage.cluster.servers} == {0}
    assert len(stage.cluster.journal.of_kind("primaryElected")) == 2


@shows("connection-storm-after-a-deploy")
def connection_storm() -> None:
    async def main(stage: Play) -> None:
        insert = stage.collection().insert_one
        await asyncio.gather(*(stage.tried(insert({"n": n})) for n in range(60)))
        assert stage.rows[1]["state"] == "inEffect"

    stage = play("connection-storm-after-a-deploy", main, "maxPoolSize=100&maxConnecting=50")
    closed = [each.event.reason for each in stage.cluster.journal.of_kind("connectionClosed")]  # type: ignore[union-attr]  # of that kind
    assert closed.count("too many connections are being established") > 20
    assert len(stage.outcomes("insert")) == 60
    assert not stage.errors, "those that got in did the work of the others"


@shows("tls-certificate-that-expires")
def expiring_certificate() -> None:
    async def fresh(stage: Play) -> int:
        ports: dict[str, Any] = {"network": stage.world.network, "clock": stage.world.clock}
        uri = f"{stage.cluster.uri}&serverSelectionTimeoutMS=500"
        async with AsyncClient(uri, rng=stage.world.rng.spawn(f"at {stage.now}"), **ports) as client:
            return await client.database("shop").collection("orders").count_documents({})

    async def main(stage: Play) -> None:
        await stage.collection().insert_one({"n": 1})
        assert await stage.tried(fresh(stage)) == 1
        await stage.until(6)
        assert await stage.tried(fresh(stage)) is None
        await stage.collection().insert_one({"n": 2})
        await stage.until(16)
        assert await stage.tried(fresh(stage)) == 2

    stage = play("tls-certificate-that-expires", main)
    ((_, error),) = stage.errors
    assert isinstance(error, ServerSelectionTimeoutError)
    assert "certificate has expired" in str(error)


@shows("one-bad-collection")
def bad_collection() -> None:
    async def main(stage: Play) -> None:
        assert await stage.tried(stage.collection("shop.items").count_documents({})) == 1
        before = stage.now
        assert await stage.tried(stage.collection("shop.reviews").count_documents({})) is None
        assert stage.now - before > 0.2

    stage = play("one-bad-collection", main)
    ((_, error),) = stage.errors
    assert "the index of reviews is damaged" in str(error)


@shows("load-shedding-of-2-percent")
def load_shedding() -> None:
    async def main(stage: Play) -> None:
        for number in range(1000):
            await stage.tried(stage.collection().insert_one({"n": number}))

    stage = play("load-shedding-of-2-percent", main)
    outcomes = [outcome for _, outcome in stage.outcomes("insert")]
    refused = [outcome for outcome in outcomes if outcome in SHED]
    assert 8 <= len(refused) <= 34
    assert set(refused) == SHED
    assert 0 < len(stage.errors) < len(refused), "some of them are retried"


LONG = {
    "overload-with-recovery",
    "connection-storm-after-a-deploy",
    "load-shedding-of-2-percent",
    "retry-storm",
}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] if each in LONG else []) for each in bundled()]
)
def test_a_bundled_scenario_shows_what_its_description_says(name: str) -> None:
    CHECKS[name]()


def test_there_are_ten_and_each_is_described() -> None:
    names = bundled()
    assert len(names) == 10
    assert set(CHECKS) == set(names)
    for name in names:
        description = fakeserver.load_scenario(name).description
        assert description.endswith(".")
        assert len(description) < 250


def test_a_wrong_name_lists_them() -> None:
    with pytest.raises(ControlError) as raised:
        fakeserver.load_scenario("retry-strom")
    assert "did you mean 'retry-storm'? scenarios are connection-storm-after-a-deploy, failover" in str(
        raised.value
    )
