"""The pytest fixtures `fakeserver`, `fakeserver_session` and `fakeserver_factory`: fake MongoDB deployments.

They are available as soon as the package is installed, work in synchronous and asynchronous tests (servers
run in a thread with an event loop of their own), and listen on free ports, so tests may run in parallel.

A test has its own deployment, or shares one with the tests of its module or its run that describe theirs
alike (`--fakeserver-scope`). A shared deployment is brought back to its beginning after each test, and is
replaced where that fails. The marker is checked before anything of its test starts: a mistake is the error of
that test, in one line.
"""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from fakeserver.assembly.background import BackgroundCluster
    from fakeserver.assembly.description import Description
    from fakeserver.deployment.spec import ClusterSpec
    from mongowire.ports import Network


_OPTIONS: Final = {
    "topology": ("NAME", "kind of deployment: single, replicaset, sharded or load-balanced", "replicaset"),
    "members": ("N", "number of members of a replica set", "3"),
    "mongos": ("N", "number of mongos of a sharded cluster", "2"),
    "profile": ("RELEASE", "MongoDB release that the servers imitate", "8.2"),
    "seed": ("N", "seed for every random choice of the servers", "0"),
    "unmet": ("fail|ignore", "a test whose fault or expectation was never met: fail or ignore", "fail"),
    "scope": (
        "function|module|session",
        "tests that share a deployment, reset after each: function, module or session",
        "function",
    ),
}
_SCOPES: Final = ("function", "module", "session")
_SESSION: Final = "fakeserver_session"
_JOURNAL_LINES: Final = 60
_HUNT: Final = "harness.hunt.per_test"
"""The plugin that hunts, loaded by its name for those who ask for it."""
_NAME_MAX: Final = 120
"""The longest name of a page without its ending: file systems allow 255 bytes."""


class _Use:
    """A deployment that a test uses."""

    def __init__(self, cluster: BackgroundCluster) -> None:
        self.cluster = cluster

    def timeline(self) -> str:
        """Return the journal in a few lines, verbs, hits and errors first; a reset has cleared it."""
        return self.cluster.journal.to_text(_JOURNAL_LINES, folded=True)

    def verdict(self, trace: Path | None) -> str:
        """Return the verdict on what the test did with it, and write its page; "" if the test stopped it."""
        lines = list(self._verdict("lines"))
        if lines and trace is not None:
            with suppress(OSError, RuntimeError):
                trace.write_text(self.cluster.control.trace_page(trace.stem), encoding="utf-8")
                lines.append(f"  trace: {trace}")
        return "\n".join(lines)

    def complaints(self) -> Sequence[str]:
        """Return a line for each fault and each step of a scenario that is not as it was set up."""
        return self._verdict("complaints")

    def _verdict(self, field: str) -> Sequence[str]:
        try:
            found: Sequence[str] = self.cluster.control.perform("verdict")[field]
        except RuntimeError:  # the test has stopped it
            return ()
        return found


class _Shared:
    """Running deployments that tests share one after the other."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._running: list[tuple[ClusterSpec, _Use]] = []

    def lend(self, described: Description) -> _Use:
        """Return the deployment of this spec, started if there is none."""
        for known, use in self._running:
            if known == described.spec:
                return use
        use = _Use(_started(self._config, described))
        self._running.append((described.spec, use))
        return use

    def reset(self, use: _Use) -> None:
        """Bring a deployment back to its beginning; one that cannot be is stopped, and not lent again."""
        place = next((number for number, (_, each) in enumerate(self._running) if each is use), None)
        if place is None:
            return
        spec, _ = self._running.pop(place)
        cluster = use.cluster
        try:
            cluster.call(cluster.cluster.fail_point_uses.forget)
            cluster.control.reset()
        except (ValueError, RuntimeError):
            cluster.stop()
        else:
            self._running.append((spec, use))

    def stop(self) -> None:
        """Stop all."""
        while self._running:
            self._running.pop()[1].cluster.stop()


USES: Final = pytest.StashKey[dict[str, tuple[_Use, "_Shared | None"]]]()
"""The deployments of a test by a name for a reader, each with those that it is shared among."""
UNCHECKED: Final = pytest.StashKey[bool]()
"""Set for a run of a test whose faults are somebody else's: whether they were met is not looked at."""
_OF_SESSION: Final = pytest.StashKey[tuple["_Shared", "Description"]]()


class _Hooks:
    """The hooks that other plugins may implement."""

    @staticmethod
    @pytest.hookspec(firstresult=True)
    def pytest_fakeserver_network() -> Network | None:
        """Return the network on which the next deployment starts; None for TCP as it is."""


# Options and marker.


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Let other plugins watch what goes to and from a deployment."""
    pluginmanager.add_hookspecs(_Hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--fakeserver-…` for one run and `fakeserver_…` for the ini file."""
    group = parser.getgroup("fakeserver", "fakeserver: fake MongoDB deployments")
    for name, (metavar, help_text, default) in _OPTIONS.items():
        group.addoption(f"--fakeserver-{name}", metavar=metavar, help=f"{help_text} (default: {default})")
        parser.addini(f"fakeserver_{name}", help_text, default=default)
    group.addoption(
        "--fakeserver-hunt",
        metavar="DURATION",
        help="hunt for bugs of retrying in each test, in so much time for all: 90s, 5m",
    )
    group.addoption(
        "--fakeserver-hunt-only",
        metavar="TRIAL",
        help="repeat one trial of a hunt, as it was printed: 'FAULT @ PLACE'",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and check the scope."""
    config.addinivalue_line(
        "markers",
        "fakeserver(topology, members, profile, seed, parameters, scenario, …): the deployment of this test",
    )
    scope = _option(config, "scope")
    if scope not in _SCOPES:
        raise pytest.UsageError(f"fakeserver_scope: {scope!r} is none of {', '.join(_SCOPES)}")
    if config.getoption("--fakeserver-hunt") or config.getoption("--fakeserver-hunt-only"):
        config.pluginmanager.import_plugin(_HUNT)


def _option(config: pytest.Config, name: str) -> str:
    return str(config.getoption(f"--fakeserver-{name}") or config.getini(f"fakeserver_{name}"))


def _described(
    config: pytest.Config, values: Mapping[str, Any], where: str, folder: Path | None = None
) -> Description:
    """Return what the options describe, with `values` over them. Raises `UsageError`."""
    from fakeserver.assembly.description import describe  # noqa: PLC0415 - see `_Use`
    from mongowire.documents.errors import ControlError  # noqa: PLC0415 - see `_Use`

    options = {name: _option(config, name) for name in _OPTIONS if name != "scope"}
    try:
        return describe(values, options, folder=folder)
    except ControlError as error:
        is_option = error.path and error.path[0] in options and error.path[0] not in values
        raise pytest.UsageError(f"fakeserver_{error}" if is_option else f"{where}: {error}") from None


def _described_by_marker(item: pytest.Item) -> Description:
    """Return the deployment of a test: by the nearest marker that says something, else by the options."""
    where = "fakeserver marker"
    values: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("fakeserver"))):
        if marker.args:
            raise pytest.UsageError(
                f"{where}: {marker.args[0]!r} has no name; write every argument as name=value"
            )
        values |= marker.kwargs
    return _described(item.config, values, where, item.path.parent)


# Fixtures.


@pytest.fixture(scope="session")
def _fakeservers_of_session(request: pytest.FixtureRequest) -> Iterator[_Shared]:
    yield from _sharing(request.config)


@pytest.fixture(scope="module")
def _fakeservers_of_module(request: pytest.FixtureRequest) -> Iterator[_Shared]:
    yield from _sharing(request.config)


def _sharing(config: pytest.Config) -> Iterator[_Shared]:
    shared = _Shared(config)
    try:
        yield shared
    finally:
        shared.stop()


@pytest.fixture
def fakeserver(request: pytest.FixtureRequest) -> Iterator[BackgroundCluster]:
    """Return a fake MongoDB deployment for this test; connect to its `uri`."""
    described, scope = _described_by_marker(request.node), _option(request.config, "scope")
    if scope == "function" or described.scenario is not None:  # a timeline begins with its deployment
        with _running(request.config, described) as cluster:
            _note(request.node, "fakeserver", _Use(cluster))
            yield cluster
        return
    shared: _Shared = request.getfixturevalue(f"_fakeservers_of_{scope}")
    use = shared.lend(described)
    _note(request.node, "fakeserver", use, shared)
    yield use.cluster


@pytest.fixture(scope="session")
def fakeserver_session(request: pytest.FixtureRequest, _fakeservers_of_session: _Shared) -> BackgroundCluster:
    """Return the one deployment of the run, as the options describe it; it is reset after each test."""
    described = _described(request.config, {}, _SESSION)
    request.config.stash[_OF_SESSION] = (_fakeservers_of_session, described)
    return _fakeservers_of_session.lend(described).cluster


@pytest.fixture
def fakeserver_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., BackgroundCluster]]:
    """Start deployments: call it with the arguments of the marker; all are stopped after the test."""
    with ExitStack() as stack:

        def make(**values: Any) -> BackgroundCluster:
            folder = request.path.parent
            described = _described(request.config, values, "fakeserver_factory", folder)
            cluster = stack.enter_context(_running(request.config, described))
            uses = request.node.stash.setdefault(USES, {})
            _note(request.node, f"deployment {len(uses) + 1}", _Use(cluster))
            return cluster

        yield make


def _started(config: pytest.Config, described: Description) -> BackgroundCluster:
    from fakeserver.assembly.background import BackgroundCluster  # noqa: PLC0415 - see `_Use`
    from fakeserver.errors import CommandError  # noqa: PLC0415 - see `_Use`

    try:
        network = config.hook.pytest_fakeserver_network()
        return BackgroundCluster(described.started, network=network).start()
    except (CommandError, ValueError, OSError) as error:
        raise pytest.UsageError(f"fakeserver cannot start: {error}") from None


@contextmanager
def _running(config: pytest.Config, described: Description) -> Iterator[BackgroundCluster]:
    cluster = _started(config, described)
    try:
        yield cluster
    finally:
        cluster.stop()


def _note(item: pytest.Item, name: str, use: _Use, shared: _Shared | None = None) -> None:
    item.stash.setdefault(USES, {})[name] = (use, shared)


# What a test did.


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check the marker, in front of every fixture, and of tests without the fixture too."""
    if item.get_closest_marker("fakeserver") is not None:
        _described_by_marker(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that passed although its faults or expectations are not as they were set up."""
    _note_session(item)
    result = yield
    if item.stash.get(UNCHECKED, False):
        return result
    lines = [line for use, _ in item.stash.get(USES, {}).values() for line in use.complaints()]
    if lines and _described_by_marker(item).unmet == "fail":
        listed = "".join(f"\n{line}" for line in lines)
        pytest.fail(
            f"not as expected, so nothing was tested (unmet='ignore' allows it):{listed}", pytrace=False
        )
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Reset the deployments that others use after this test."""
    try:
        return (yield)
    finally:
        for use, shared in item.stash.get(USES, {}).values():
            if shared is not None:
                shared.reset(use)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show verdict and journal of the servers with a test that failed, and a wrong use without traceback."""
    report = yield
    error = None if call.excinfo is None else call.excinfo.value
    if isinstance(error, pytest.UsageError) and str(error).startswith("fakeserver"):
        report.longrepr = str(error)
    elif report.failed and call.when != "teardown":
        _note_session(item)
        for name, (use, _) in item.stash.get(USES, {}).items():
            of_which = "" if name == "fakeserver" else f" of {name}"
            if verdict := use.verdict(_trace_file(item, name)):
                report.sections.append((f"fakeserver verdict{of_which}", verdict))
            report.sections.append((f"fakeserver journal{of_which}", use.timeline() or "nothing happened"))
    return report


def _trace_file(item: pytest.Item, name: str) -> Path | None:
    """Return the file for the page of a test in pytest's cache; None where there is no cache."""
    cache = getattr(item.config, "cache", None)
    if cache is None:
        return None
    folder: Path = cache.mkdir("fakeserver")
    words = item.nodeid if name == "fakeserver" else f"{item.nodeid} {name}"
    return folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', words)[-_NAME_MAX:]}.html"


def _note_session(item: pytest.Item) -> None:
    """Note that a test uses the deployment of the run, which no fixture of the test itself can."""
    if _SESSION in getattr(item, "fixturenames", ()) and _OF_SESSION in item.config.stash:
        shared, described = item.config.stash[_OF_SESSION]
        _note(item, _SESSION, shared.lend(described), shared)
