"""The same run works on servers that a user gives: same verdicts, and nothing left on them."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from sizes import is_full, size
from tls_files import tls

from fakeserver import ClusterSpec, UserSpec
from fakeserver.assembly.background import BackgroundCluster
from harness.adapters.base import AdapterLost
from harness.adapters.registry import DRIVERS
from harness.deployments.external import DeploymentError, ExternalUris, introduce
from harness.planning import expectations
from harness.planning.discovery import bundled_root, discover
from harness.planning.plan import Settings, load_all, plan
from harness.planning.result import ResultStatus
from harness.running.executor import ExecutorParts, ItemExecutor
from harness.running.run import RERUNS
from harness.unified.model import Case
from harness.world import interruption

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scenario_files import WriteScenario

    from harness.planning.expectations import Expectations
    from harness.planning.plan import Item, Time
    from harness.planning.result import Result

EVERY = 72 // size("files")
"""Of so many bundled files, whose cases are in real time, each run takes one, not that of another run."""

BOB = (UserSpec("bob", "pwd123"),)
SPECS = {
    "single+auth": ClusterSpec.standalone(auth=True, users=BOB),
    "replicaset": ClusterSpec.replica_set(3),
    "replicaset+auth": ClusterSpec.replica_set(3, auth=True, users=BOB, tls=tls()),
    "sharded": ClusterSpec.sharded(mongos=2),
    "load-balanced+auth": ClusterSpec.load_balanced(mongos=2, auth=True, users=BOB),
}
"""By the names of their embedded twins; the replica set with access control speaks TLS too."""


@dataclass(frozen=True)
class Served:
    """A deployment that serves over TCP, as a run is uris it."""

    cluster: BackgroundCluster
    settings: Settings
    target: str


@contextmanager
def served(spec: ClusterSpec) -> Iterator[Served]:
    with BackgroundCluster(spec) as cluster:
        balanced = bool(cluster.cluster.balancers)
        uri = cluster.cluster.uri_single if balanced else cluster.uri
        uris = ExternalUris(uri, cluster.uri if balanced else "")
        settings = Settings(uri=uris.uri, uri_multi=uris.uri_multi)
        yield Served(cluster, settings, introduce(uris).target)


def verdicts(
    files: tuple[Path, ...], settings: Settings, target: str, adapter: str = "reference", *, wanted: str = ""
) -> dict[str, tuple[ResultStatus, str]]:
    """Run files, and return how each case ended, with the reason for those that were skipped."""
    edition = DRIVERS[adapter].editions[0]
    items = plan(
        load_all(files).cases,
        drivers={adapter: edition},
        topologies=[target],
        wanted=lambda case_id: wanted in case_id,
    )
    with ItemExecutor(settings) as executor:
        results = [_patiently(executor, item, expectations.of_adapter(adapter)) for item in items]
    return {result.id: (result.status, _skipped(result)) for result in results}


def _patiently(executor: ItemExecutor, item: Item, expected: Expectations) -> Result:
    """Run a case that fails again, as a flaky one is: a busy machine does not keep its time limits."""
    for _ in range(RERUNS):
        if (result := expected.judge(executor.run(item))).status is not ResultStatus.FAILED:
            return result
    return expected.judge(executor.run(item))


def _skipped(result: Result) -> str:
    return result.reason if result.status is ResultStatus.SKIPPED else ""


RUNS = [
    *((target, "reference") for target in SPECS),
    ("load-balanced+auth", "pymongo"),
    ("sharded", "pymongo-async"),
]


def needs_ours(case: Case) -> bool:
    """Say whether a case needs servers that record what they see, or virtual time."""
    own = case.server_side
    return own is not None and (own.is_judged or own.run_on.time == "virtual")


def time_of(adapter: str) -> Time:
    return "virtual" if DRIVERS[adapter].virtual_time else "real"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "adapter"),
    RUNS,
)
def test_our_scenarios_end_as_they_do_on_servers_of_our_own(target: str, adapter: str) -> None:
    files = discover([bundled_root()])[RUNS.index((target, adapter)) :: EVERY]
    with served(SPECS[target]) as there:
        assert there.target == f"{target}+uri"
        on_theirs = verdicts(files, there.settings, there.target, adapter)
    on_ours = verdicts(files, Settings(time=time_of(adapter)), target, adapter)
    ours = {case.id for case in load_all(files).cases if isinstance(case, Case) and needs_ours(case)}
    assert {on_theirs.pop(case)[0] for case in ours} <= {ResultStatus.SKIPPED}
    assert on_theirs == {case: verdict for case, verdict in on_ours.items() if case not in ours}
    assert ResultStatus.FAILED not in {status for status, _ in on_theirs.values()}


def few(wanted: str, *, of: str) -> str:
    """Return a word in the names of few cases, or of all of a kind at full size."""
    return of if is_full("files") else wanted


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize(
    ("target", "folder", "wanted", "adapter"),
    [
        ("single+auth", "crud", "insert", "reference"),
        ("replicaset+auth", "retryable-writes", "delete", "reference"),
        ("replicaset", "transactions", "commit", "reference"),
        ("sharded", "transactions", few("pin-mongos", of="mongos"), "reference"),
        ("load-balanced+auth", "load-balancers", "", "reference"),
        ("load-balanced+auth", "crud", few("bulkWrite-delete", of="bulkWrite"), "reference"),
        ("replicaset+auth", "retryable-writes", "insertOne-serverErrors", "pymongo"),
        ("load-balanced+auth", "load-balancers", "", "pymongo-async"),
    ],
)
def test_public_cases_end_as_they_do_on_servers_of_our_own(
    corpus: Path, target: str, folder: str, wanted: str, adapter: str
) -> None:
    files = discover([corpus / folder])
    if not is_full("files"):
        files = tuple(path for path in files if wanted in path.name)
    with served(SPECS[target]) as there:
        on_theirs = verdicts(files, there.settings, there.target, adapter, wanted=wanted)
    on_ours = verdicts(files, Settings(time=time_of(adapter)), target, adapter, wanted=wanted)
    assert on_theirs == on_ours
    assert ResultStatus.PASSED in {status for status, _ in on_theirs.values()}


NEEDS_FAIL_POINT = (
    "[{name: failPoint, object: testRunner, arguments: {client: client0, failPoint:"
    " {configureFailPoint: failCommand, mode: off}}}]"
)


@pytest.mark.parametrize("operations", ["[]", NEEDS_FAIL_POINT])
def test_without_test_commands_only_cases_with_fail_points_are_skipped(
    write_scenario: WriteScenario, operations: str
) -> None:
    with served(ClusterSpec.standalone(parameters={"enableTestCommands": False})) as there:
        scenario = write_scenario("a", operations=operations)
        [(status, reason)] = verdicts((scenario,), there.settings, there.target).values()
    if operations == "[]":
        assert status is ResultStatus.PASSED
    else:
        assert (status, reason) == (ResultStatus.SKIPPED, "needs fail points, which the servers refuse")


def item(scenario: Path, target: str) -> Item:
    [made] = plan(load_all([scenario]).cases, drivers={"reference": "2026-07-08"}, topologies=[target])
    return made


async def fail_pings(deployment: Any) -> None:
    data = {"failCommands": ["ping"], "errorCode": 8}
    command = {"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data}
    assert (await deployment.admin("admin", command))["ok"] == 1


def is_on(cluster: BackgroundCluster) -> bool:
    return cluster.call(lambda: any(node.fail_points.is_on("failCommand") for node in cluster.nodes))


def test_after_a_failed_case_the_same_servers_are_cleaned_and_used_again(
    write_scenario: WriteScenario,
) -> None:
    seen: list[bool] = []

    async def fails(_case: Any, *, deployment: Any, **_: Any) -> Any:
        seen.append(is_on(there.cluster))
        await fail_pings(deployment)
        raise AdapterLost("the driver has gone")

    with served(ClusterSpec.replica_set(3)) as there:
        case = item(write_scenario("a"), there.target)
        with ItemExecutor(there.settings, ExecutorParts(run_case=fails)) as executor:
            assert [executor.run(case).reason for _ in range(2)] == ["the driver has gone"] * 2
        assert seen == [False, False]
        assert not is_on(there.cluster)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_fail_point_on(
    write_scenario: WriteScenario, number: signal.Signals
) -> None:
    async def is_interrupted(_case: Any, *, deployment: Any, **_: Any) -> Any:
        await fail_pings(deployment)
        signal.raise_signal(number)
        await asyncio.get_running_loop().create_future()

    with served(ClusterSpec.replica_set(3)) as there:
        case = item(write_scenario("a"), there.target)
        with (
            pytest.raises(interruption.Interrupted),
            interruption.listening(),
            ItemExecutor(there.settings, ExecutorParts(run_case=is_interrupted)) as executor,
        ):
            executor.run(case)
        assert not is_on(there.cluster)


def test_a_run_ends_when_its_servers_are_gone_and_not_with_a_failure_for_each_case(
    write_scenario: WriteScenario,
) -> None:
    async def outlives(_case: Any, *, deployment: Any, **_: Any) -> Any:
        del deployment
        there.cluster.stop()
        raise AdapterLost("the driver saw no server")

    with served(ClusterSpec.standalone()) as there:
        settings = replace(there.settings, uri=f"{there.settings.uri}?serverSelectionTimeoutMS=200")
        case = item(write_scenario("a"), there.target)
        with ItemExecutor(settings, ExecutorParts(run_case=outlives)) as executor:
            assert executor.run(case).reason == "the driver saw no server"
            with pytest.raises(DeploymentError, match="Connect call failed"):
                executor.run(case)
