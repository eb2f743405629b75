"""A cluster gives what this machine gives, also when it loses a worker on the way."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest

from harness.planning.discovery import bundled_root, discover
from harness.planning.plan import Settings, load_all, plan
from harness.running.cluster import INSTALL, ClusterError, ClusterPool, on_cluster
from harness.running.run import run_items
from harness.sim.fleet.scenario import Scenario
from harness.sim.sweep.grid import read_grid
from harness.sim.sweep.results import Results, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from dask_cluster import DaskCluster

    from harness.planning.plan import Item
    from harness.planning.result import Result
    from harness.sim.sweep.grid import GridPoint

CASES = 12
GRID = """\
scenario:
  clients: 100
  seconds: 20
  arrivals: {closed: {gap: 1}}
  fleet: fixed
  timeout: 2
seeds: 12
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A scheduler and two workers on loopback, for all tests here: it takes seconds to start."""
    pytest.importorskip("distributed", reason="a cluster needs the extra cluster")
    from dask_cluster import dask_cluster  # noqa: PLC0415 - an extra

    level = logging.getLogger("distributed").level
    with dask_cluster(tmp_path_factory.mktemp("cluster"), workers=2) as running:
        yield running
    logging.getLogger("distributed").setLevel(level)


@pytest.fixture(scope="module")
def items() -> Mapping[int, Item]:
    """Some bundled cases with the reference driver."""
    cases = [
        case
        for file in load_all(discover([bundled_root() / "retryable-writes"])).files
        for case in file.cases
    ]
    chosen = plan(cases, drivers={"reference": "2026-07-08"}, topologies=["replicaset"])[:CASES]
    return dict(enumerate(chosen))


@pytest.fixture(scope="module")
def local(items: Mapping[int, Item]) -> Mapping[int, Result]:
    """The results of these cases on this machine."""
    results: dict[int, Result] = {}
    run_items(items, Settings(time="virtual"), jobs=1, on_result=results.__setitem__)
    return results


@pytest.mark.slow
def test_cases_on_a_cluster_have_the_results_that_they_have_here_in_the_same_order(
    cluster: DaskCluster, pushbackd: Any
) -> None:
    folder = bundled_root() / "handshake"
    arguments = ("conform", folder, "--time", "virtual", "--json")
    here, there = pushbackd(*arguments), pushbackd(*arguments, "--scheduler", cluster.address)
    assert there.exit_code == here.exit_code
    assert len(here.stdout.splitlines()) > 2
    assert _without_clock(there.stdout) == _without_clock(here.stdout)


def _without_clock(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) | {"seconds": 0} for line in output.splitlines()]


@pytest.mark.slow
def test_cases_of_a_worker_that_dies_run_elsewhere_and_each_once(
    cluster: DaskCluster, items: Mapping[int, Item], local: Mapping[int, Result]
) -> None:
    results: dict[int, Result] = {}

    def on_result(index: int, result: Result) -> None:
        if not results:
            cluster.lose_one()
        assert index not in results
        results[index] = result

    pool = ClusterPool(Settings(time="virtual"), address=cluster.address, on_result=on_result, batch=4)
    pool.run(items, items)
    assert results == local


@pytest.mark.slow
def test_a_sweep_that_loses_a_worker_has_the_points_that_it_has_here_and_each_once(
    cluster: DaskCluster,
    pushbackd: Any,
    write: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster.grow(1)
    add = Results.add

    def add_and_kill(self: Results, point: GridPoint, measures: Mapping[str, Any]) -> None:
        if not self.rows:
            cluster.lose_one()
        add(self, point, measures)

    monkeypatch.setattr(Results, "add", add_and_kill)
    grid, path = write(GRID, "grid.yml"), tmp_path / "there.jsonl"
    result = pushbackd("simulate", "sweep", "--grid", grid, "--results", path, "--scheduler", cluster.address)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    expected = {point.key: measure(point.scenario) for point in read_grid(grid, Scenario)}
    assert {row["point"]: row["measures"] for row in rows} == expected
    assert len(rows) == len(expected)


def test_a_scheduler_that_does_not_answer_is_one_line(
    monkeypatch: pytest.MonkeyPatch, pushbackd: Any, write: Callable[..., Path]
) -> None:
    pytest.importorskip("distributed", reason="a cluster needs the extra cluster")
    monkeypatch.setattr("harness.running.cluster.CONNECT_SECONDS", 0.1)
    result = pushbackd("simulate", "sweep", "--grid", write(GRID), "--scheduler", "tcp://127.0.0.1:1")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: no scheduler answers at tcp://127.0.0.1:1 (start one with `dask scheduler`)\n"
    )


def test_without_dask_the_cure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterError) as raised, on_cluster("tcp://127.0.0.1:1"):
        pass
    assert str(raised.value).endswith(INSTALL)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        pytest.param(("--jobs", "2"), "--jobs: not with --scheduler", id="jobs"),
        pytest.param(("--uri", "mongodb://h"), "--uri: not with --scheduler", id="servers"),
        pytest.param(("--journal", "x"), "--journal: not with --scheduler", id="journals"),
        pytest.param(("--interrupt-ends-loops",), "--interrupt-ends-loops: not with", id="loops"),
        pytest.param(("--repeat", "3"), "--repeat: not with --scheduler", id="repeats"),
    ],
)
def test_what_a_cluster_cannot_take_is_refused(pushbackd: Any, arguments: tuple[str, ...], why: str) -> None:
    result = pushbackd("conform", "--scheduler", "tcp://127.0.0.1:1", *arguments)
    assert why in result.stderr
