"""The benchmark of the driver runs, and reports what it says it does."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks import driver


@pytest.mark.slow
def test_both_clients_and_the_pool_are_measured() -> None:
    report = driver.run(rounds=1, operations=32)
    assert list(report["compared"])[:2] == ["ping", "ping, 16 tasks"]
    for row in report["compared"].values():
        assert row["speed"] == row["driver"]["per_second"] / row["pymongo"]["per_second"]
        assert min(row[who]["cpu_us"] for who in ("driver", "pymongo")) > 0
    assert list(report["pool"]) == ["1", "10", "1000"]
    assert list(report["least"]) == ["1", "16"]
    assert len(driver.table(report).splitlines()) == 3 + len(report["compared"]) + 2 + 1 + 3


def test_operations_are_shared_out_among_tasks() -> None:
    called = []

    async def operation() -> None:
        called.append(1)

    asyncio.run(driver.measure(operation, 33, 16))
    assert len(called) == 32
