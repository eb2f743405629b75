"""The pytest fixture `fakeserver`: a fake MongoDB deployment for one test.

It is there as soon as the package is installed, works in synchronous and asynchronous tests (the servers run
in a thread with an event loop of their own), and listens on free ports, so tests may run in parallel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from fakeserver.background import BackgroundCluster
    from fakeserver.spec import ClusterSpec

_OPTIONS: Final = {
    "topology": ("the kind of deployment: single, replicaset, sharded or load-balanced", "replicaset"),
    "members": ("how many members a replica set has", "3"),
    "mongos": ("how many mongos a sharded cluster has", "2"),
    "profile": ("the version of MongoDB that the servers speak as", "8.2"),
    "seed": ("the seed of the servers' dice", "0"),
}
_JOURNAL_TAIL: Final = 40


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--fakeserver-…` for one run and `fakeserver_…` for the ini file."""
    group = parser.getgroup("fakeserver", "fakeserver: fake MongoDB deployments")
    for name, (help_text, default) in _OPTIONS.items():
        group.addoption(f"--fakeserver-{name}", help=f"{help_text} (default: {default})")
        parser.addini(f"fakeserver_{name}", help_text, default=default)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "fakeserver(topology, members, mongos, profile, seed, parameters): the deployment of this test",
    )


@pytest.fixture
def fakeserver(request: pytest.FixtureRequest) -> Iterator[BackgroundCluster]:
    """Run a fake MongoDB deployment for this test alone; connect to its `uri`."""
    from fakeserver.background import BackgroundCluster  # noqa: PLC0415 - tests without servers pay nothing

    with BackgroundCluster(_spec(request)) as cluster:
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the servers' journal with a test that failed."""
    report = yield
    cluster: BackgroundCluster | None = getattr(item, "funcargs", {}).get("fakeserver")
    if call.when == "call" and report.failed and cluster is not None and hasattr(cluster, "journal"):
        lines = cluster.journal.to_json_lines().splitlines()
        report.sections.append(("fakeserver journal", "\n".join(lines[-_JOURNAL_TAIL:])))
    return report


def _spec(request: pytest.FixtureRequest) -> ClusterSpec:
    from fakeserver.spec import ClusterSpec  # noqa: PLC0415 - see above

    wishes = _wishes(request)
    topology, members = wishes.pop("topology"), _number("members", wishes.pop("members"))
    mongos = _number("mongos", wishes.pop("mongos"))
    facts = {**wishes, "seed": _number("seed", wishes["seed"])}
    try:
        if topology == "single":
            return ClusterSpec.standalone(**facts)
        if topology == "replicaset":
            return ClusterSpec.replica_set(members, **facts)
        if topology == "sharded":
            return ClusterSpec.sharded(mongos, members=members, **facts)
        if topology == "load-balanced":
            return ClusterSpec.load_balanced(mongos, members=members, **facts)
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"fakeserver: {error}") from error
    raise pytest.UsageError(
        f"fakeserver topology: '{topology}' is none of single, replicaset, sharded and load-balanced"
    )


def _wishes(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the ini file's values, under those of the command line, under those of the test's marker."""
    config = request.config
    wishes: dict[str, Any] = {
        name: config.getoption(f"--fakeserver-{name}") or config.getini(f"fakeserver_{name}")
        for name in _OPTIONS
    }
    marker = request.node.get_closest_marker("fakeserver")
    return wishes | (marker.kwargs if marker else {})


def _number(name: str, value: Any) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise pytest.UsageError(f"fakeserver {name}: '{value}' is not a number") from error
