"""The public tests in other formats than the unified one: each case is an item of `pushbackd conform`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from corpus_checkout import find_corpus

from harness.adapters.registry import EDITIONS
from harness.formats import FORMATS, UNIFIED, format_of
from harness.planning import expectations
from harness.planning.discovery import discover
from harness.planning.plan import Settings, load_all, plan
from harness.planning.result import ResultStatus
from harness.running.executor import ItemExecutor
from harness.unified.loader import read
from harness.unified.model import Case

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.planning.plan import Item

pytestmark = pytest.mark.corpus

FOLDERS = {
    "auth/tests/legacy": {"connection-string": 1},
    "connection-monitoring-and-pooling/tests/cmap-format": {"cmap": 21},
    "connection-string/tests": {"connection-string": 8},
    "max-staleness/tests": {"server-selection": 20},
    "read-write-concern/tests/connection-string": {"connection-string": 1},
    "read-write-concern/tests/document": {"concern": 2},
    "server-discovery-and-monitoring/tests": {"sdam": 127},
    "server-selection/tests/in_window": {"in-window": 6},
    "server-selection/tests/rtt": {"rtt": 6},
    "server-selection/tests/server_selection": {"server-selection": 57},
    "uri-options/tests": {"connection-string": 12},
}
"""Of how many files each format has to be at least, folder by folder: a newer corpus has more."""

CORPUS = find_corpus()
FILES = discover([CORPUS / folder for folder in FOLDERS]) if CORPUS else ()
CASES = [case for case in load_all(FILES).cases if not isinstance(case, Case)]
ITEMS = plan(CASES, drivers={"reference": EDITIONS[-1]}, topologies=["single"])
IN_REAL_TIME = [
    item for item in ITEMS if not isinstance(case := item.case(), Case) and case.runs.alone is None
]
"""Those that cannot do without a server: integration tests of pools."""


def name_of(item: Item) -> str:
    return f"{item.id}[{item.topology}]"


def executor(time: str) -> Iterator[ItemExecutor]:
    with ItemExecutor(Settings(time="real" if time == "real" else "virtual")) as made:
        yield made


@pytest.fixture(scope="module")
def in_virtual_time() -> Iterator[ItemExecutor]:
    yield from executor("virtual")


@pytest.fixture(scope="module")
def in_real_time() -> Iterator[ItemExecutor]:
    yield from executor("real")


def why_not(executor: ItemExecutor, item: Item) -> str:
    """Return why an item neither passes nor fails as expected."""
    result = expectations.of_adapter(item.adapter).judge(executor.run(item))
    fine = (ResultStatus.PASSED, ResultStatus.KNOWN_FAILING)
    return "" if result.status in fine else f"{result.location}: {result.reason}"


@pytest.mark.parametrize("item", ITEMS, ids=name_of)
def test_the_reference_driver_passes_the_case(in_virtual_time: ItemExecutor, item: Item) -> None:
    assert why_not(in_virtual_time, item) == ""


@pytest.mark.slow
@pytest.mark.parametrize("item", IN_REAL_TIME, ids=name_of)
def test_the_pool_passes_the_integration_case_in_real_time(in_real_time: ItemExecutor, item: Item) -> None:
    assert why_not(in_real_time, item) == ""


PYMONGO = {"pymongo": EDITIONS[-1], "pymongo-async": EDITIONS[-1]}
POOLS = plan(CASES, drivers=PYMONGO, topologies=["single"])
"""The cases of pools, which judge other drivers too."""


@pytest.mark.slow
@pytest.mark.parametrize("item", POOLS, ids=lambda item: f"{item.adapter}-{name_of(item)}")
def test_the_pools_of_pymongo_pass_the_case_or_are_known_not_to(
    in_real_time: ItemExecutor, item: Item
) -> None:
    assert why_not(in_real_time, item) == ""


def test_no_two_cases_have_one_name() -> None:
    assert [name for name, count in Counter(case.id for case in CASES).items() if count > 1] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_of_a_folder_is_recognised(corpus: Path, folder: str) -> None:
    found = discover([corpus / folder])
    counts = Counter(format_of(read(path).value).name for path in found)
    assert set(counts) - {UNIFIED.name} == FOLDERS[folder].keys()
    assert all(counts[name] >= least for name, least in FOLDERS[folder].items())
    assert len(found) == len({path.with_suffix("") for path in (corpus / folder).rglob("*.yml")})


def test_each_format_has_a_folder_here() -> None:
    assert {name for counts in FOLDERS.values() for name in counts} == {each.name for each in FORMATS[1:]}
