"""What few programs need is not imported before it is used (fakeserver/waiting/first_use.py)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fakeserver.waiting.first_use import at_first_use

IMPORTED = "import fakeserver"
STARTED = """
import asyncio
from driver import AsyncClient
from fakeserver import ClusterSpec, start

async def main():
    async with start(ClusterSpec.replica_set(1)) as cluster, AsyncClient(cluster.uri) as client:
        collection = client.database("shop").collection("stock")
        await collection.insert_one({"_id": 1, "n": 1})
        await collection.update_one({"_id": 1}, {"$inc": {"n": 1}})
        found = await collection.find({"n": {"$gt": 1}})
        assert [document async for document in found] == [{"_id": 1, "n": 2}]

asyncio.run(main())
"""
LIST = "\nimport sys\nprint(*sys.modules)"

FILTERS = ("geo_operators", "geo_shapes", "schema", "text_search")
STAGES = ("densifying", "geo_near", "window_bounds", "window_fields", "window_functions")
SCRIPTS = ("javascript",)
RARE = {
    *(f"fakeserver.storage.filters.{name}" for name in FILTERS),
    *(f"fakeserver.storage.stages.{name}" for name in STAGES),
    *(f"fakeserver.storage.scripts.{name}" for name in SCRIPTS),
    *("quickjs", "shapely", "snowballstemmer"),
}


def modules_after(program: str) -> set[str]:
    command = [sys.executable, "-c", program + LIST]
    return set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split())


def test_the_package_is_imported_without_storage() -> None:
    assert [name for name in modules_after(IMPORTED) if name.startswith("fakeserver.storage")] == []


def test_a_deployment_runs_without_what_few_programs_need() -> None:
    modules = modules_after(STARTED)
    assert "fakeserver.storage.filters.matching" in modules
    assert modules & RARE == set()


@pytest.mark.parametrize("name", sorted(name for name in RARE if "." in name))
def test_what_is_rare_is_there(name: str) -> None:
    assert at_first_use(name).__name__ == name
