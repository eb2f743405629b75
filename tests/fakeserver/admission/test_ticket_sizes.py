"""Sizes of ticket pools that are set by hand end throughput probing, as each release has it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from talking import Deployment, Talker, play

from fakeserver import ClusterSpec

_ALGORITHM = "storageEngineConcurrencyAdjustmentAlgorithm"
_FIXED, _PROBING = "fixedConcurrentTransactions", "throughputProbing"
_NAMES = ("executionControl", "storageEngine", "wiredTiger")
_PROBES_FOR_LONG = 30.0
_ENDS_PROBING, _SET_WHILE_PROBING = 11039601, 11280900


def _size(pool: str, name: str = "storageEngine") -> str:
    return f"{name}Concurrent{pool}Transactions"


async def _sizes(talker: Talker) -> tuple[int, int]:
    """Return the tickets of the pool for reads and of the one for writes, as the server shows them."""
    status = await talker.ok({"serverStatus": 1})
    pools = (
        status["queues"]["execution"]
        if "queues" in status
        else status["wiredTiger"]["concurrentTransactions"]
    )
    return pools["read"]["totalTickets"], pools["write"]["totalTickets"]


async def _algorithm(talker: Talker) -> Any:
    return (await talker.ok({"getParameter": 1, _ALGORITHM: 1}))[_ALGORITHM]


async def _warnings(talker: Talker, number: int) -> list[Any]:
    lines = map(json.loads, (await talker.ok({"getLog": "global"}))["log"])
    return [line.get("attr", {}).get("serverParameter") for line in lines if line["id"] == number]


def _spec(profile: str, **parameters: Any) -> ClusterSpec:
    return ClusterSpec.standalone(profile=profile, parameters=parameters)


@pytest.mark.spec("SAC-8")
@pytest.mark.parametrize("profile", ["7.0", "8.0", "8.2", "9.0"])
@pytest.mark.parametrize(
    ("pools", "sizes"), [(["Read"], (7, 128)), (["Write"], (128, 7)), (["Read", "Write"], (7, 7))]
)
@pytest.mark.parametrize("name", _NAMES)
def test_a_size_that_is_set_at_start_holds_for_ever(
    profile: str, pools: list[str], sizes: tuple[int, int], name: str
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.sleep(_PROBES_FOR_LONG)
        assert await _sizes(talker) == sizes
        assert await _algorithm(talker) == _FIXED

    play(scenario, _spec(profile, **{_size(pool, name): 7 for pool in pools}))


@pytest.mark.parametrize(
    ("profile", "parameters", "algorithm"),
    [
        ("8.2", {}, _PROBING),
        ("8.2", {_size("Read"): 128}, _FIXED),
        ("8.2", {_size("Read"): 7, _ALGORITHM: _PROBING}, _FIXED),
        ("9.0", {}, _PROBING),
        ("9.0", {_size("Read"): 128}, _PROBING),
        ("9.0", {_size("Write"): 7, _ALGORITHM: _PROBING}, _FIXED),
        ("9.0", {"storageEngineReadMaxQueueDepth": 7}, _PROBING),
    ],
)
def test_what_counts_as_a_size_that_is_set_depends_on_the_release(
    profile: str, parameters: dict[str, Any], algorithm: str
) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert await _algorithm(await deployment.connect()) == algorithm

    play(scenario, _spec(profile, **parameters))


@pytest.mark.parametrize(
    ("profile", "parameters", "count"),
    [
        ("8.2", {_size("Read"): 7}, 0),
        ("9.0", {_size("Read"): 7, _size("Write"): 7}, 1),
        ("9.0", {_size("Read"): 7, _ALGORITHM: _FIXED}, 0),
        ("9.0", {}, 0),
    ],
)
def test_the_newest_release_warns_at_start(profile: str, parameters: dict[str, Any], count: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert len(await _warnings(await deployment.connect(), _ENDS_PROBING)) == count

    play(scenario, _spec(profile, **parameters))


@pytest.mark.parametrize("profile", ["7.0", "8.0", "8.2"])
@pytest.mark.parametrize("pool", ["Read", "Write"])
@pytest.mark.parametrize("name", _NAMES)
def test_a_pool_that_is_probed_for_cannot_be_resized_at_runtime(profile: str, pool: str, name: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        refused = await talker.fails({"setParameter": 1, _size(pool, name): 7})
        limit = f"concurrent {pool.lower()} transactions limit"
        assert refused["errmsg"] == f"Cannot modify {limit} when it is being dynamically adjusted"
        assert (refused["code"], refused["codeName"]) == (20, "IllegalOperation")
        assert (await talker.ok({"getParameter": 1, _size(pool, name): 1}))[_size(pool, name)] == 128

    play(scenario, _spec(profile))


def test_a_pool_that_was_given_a_size_at_start_can_be_resized_at_runtime() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"setParameter": 1, _size("Write", "wiredTiger"): 9})
        assert await _sizes(talker) == (7, 9)

    play(scenario, _spec("8.2", **{_size("Read"): 7}))


@pytest.mark.spec("SAC-8")
def test_the_newest_release_takes_a_size_at_runtime_with_a_warning_for_each_pool() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        probed = await _sizes(talker)
        await talker.ok({"setParameter": 1, _size("Read"): 7})
        assert await _sizes(talker) == (7, 128) != probed
        await talker.ok({"setParameter": 1, _size("Write", "wiredTiger"): 9})
        assert await _warnings(talker, _SET_WHILE_PROBING) == [
            "concurrent read transactions limit",
            "concurrent write transactions limit",
        ]
        await deployment.sleep(_PROBES_FOR_LONG)
        assert await _sizes(talker) == (7, 9)
        assert (await talker.ok({"getParameter": 1, _size("Read"): 1}))[_size("Read")] == 7
        assert await _algorithm(talker) == _PROBING

    play(scenario, _spec("9.0"))


@pytest.mark.parametrize(
    "resumes", [{_ALGORITHM: _PROBING}, {_size("Read"): 128, _size("Write"): 128}], ids=["algorithm", "sizes"]
)
def test_probing_goes_on_when_the_algorithm_is_set_or_the_sizes_are_given_back(
    resumes: dict[str, Any],
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"setParameter": 1, _size("Read"): 50, _size("Write"): 50})
        await talker.ok({"setParameter": 1, **resumes})
        await deployment.sleep(1.0)
        assert max(await _sizes(talker)) <= 16

    play(scenario, _spec("9.0"))


def test_the_statistics_tell_the_algorithm_that_is_in_force() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        shown = []
        for algorithm in (_PROBING, _FIXED, _PROBING):
            await talker.ok({"setParameter": 1, _ALGORITHM: algorithm})
            execution = (await talker.ok({"serverStatus": 1}))["queues"]["execution"]
            shown.append(execution["usesThroughputProbing"])
        assert shown == [True, False, True]

    play(scenario, _spec("9.0"))


def test_a_reset_of_the_deployment_gives_the_sizes_back() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"setParameter": 1, _size("Read"): 50})
        deployment.cluster.control.reset()
        await deployment.sleep(1.0)
        assert max(await _sizes(await deployment.connect())) <= 16

    play(scenario, _spec("9.0"))


@pytest.mark.spec("SAC-7")
def test_a_release_without_probing_has_the_sizes_that_are_set() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.sleep(_PROBES_FOR_LONG)
        assert await _sizes(talker) == (128, 128)
        await talker.ok({"setParameter": 1, _size("Read"): 7})
        deployment.cluster.control.tickets(write=9)
        assert await _sizes(talker) == (7, 9)

    play(scenario, _spec("6.0"))


@pytest.mark.parametrize("pool", ["Read", "Write"])
def test_outside_of_tests_a_pool_has_five_tickets_at_least(pool: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        refused = await talker.fails({"setParameter": 1, _size(pool): 4})
        assert (refused["code"], refused["errmsg"]) == (
            2,
            f"Concurrent {pool.lower()} transactions limit must be greater than or equal to 5.",
        )
        await talker.ok({"setParameter": 1, _size(pool): 5})

    play(scenario, _spec("9.0", enableTestCommands=False))
