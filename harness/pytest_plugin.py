"""Scenarios as pytest items: each case of a file in the unified test format, or in another one, is a test.

Load the plugin with `pytest_plugins = ["harness.pytest_plugin"]` in the topmost conftest, or with
`-p harness.pytest_plugin`. Collected are files below the folder of that conftest, or those that the ini
option `pushbackd_scenarios` names (folders or globs), and files that are named on the command line. Other
YAML is never touched.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.adapters.registry import DriverEntry
    from harness.deployments.by_uri import ExternalUris
    from harness.running.executor import ItemExecutor
    from harness.running.expectations import Expectations
    from harness.running.plan import Item, Settings, Time
    from harness.running.result import Result

_NAME = "harness.pytest_plugin"
_SUFFIXES = (".yml", ".yaml", ".json")
_WHOLE_VERBOSITY = 2
"""How many `-v` show texts to their ends, and the events before the first operation."""
_OPTIONS = {
    "adapter": (
        "driver to test: reference, pymongo, pymongo-async, or cmd: and a command line",
        ["reference"],
    ),
    "topology": (
        "topology to run on: single, replicaset, sharded, load-balanced (each also with +auth), all, matrix",
        ["replicaset"],
    ),
    "profile": ("MongoDB release that the servers imitate, from 4.2 to 9.0", ["8.2"]),
    "time": (
        "clock of the run: real or virtual; drivers that cannot run in virtual time run in real time",
        ["real"],
    ),
    "edition": ("edition of the specifications, for drivers that follow several", []),
    "seed": ("seed for every random choice", ["0"]),
    "reruns": ("how often a case that failed in real time runs again: a busy machine is late", ["2"]),
}
_DEPLOYMENT = {
    "uri": "connection string of servers to run on instead, or env; collections there are dropped",
    "uri-multi": "connection string of the load balancer of all mongos, where uri is of the balancer of one",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--pushbackd-…` for one run and `pushbackd_…` for the ini file; both take several values."""
    group = parser.getgroup("pushbackd", "pushbackd: scenarios against drivers")
    for name, (help_text, default) in _OPTIONS.items():
        group.addoption(f"--pushbackd-{name}", action="append", help=f"{help_text} (may be repeated)")
        parser.addini(f"pushbackd_{name}", help_text, type="args", default=default)
    for name, help_text in _DEPLOYMENT.items():
        group.addoption(f"--pushbackd-{name}", help=help_text)
        parser.addini(_ini(name), help_text, default="")
    parser.addini(
        "pushbackd_scenarios", "folders or globs of the scenario files to collect", type="args", default=[]
    )
    parser.addini("pushbackd_expectations", "file that lists the cases known to fail", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that every case carries. Raises `UsageError` for workers that share servers."""
    config.addinivalue_line("markers", "pushbackd: a case of a scenario")
    session = config.stash[_SESSION] = _Session(config)
    if session.text("uri") and config.getoption("dist", "no") != "no":
        raise pytest.UsageError("pushbackd uri: cases that run at the same time disturb each other: add -n 0")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop all deployments of this process."""
    session = config.stash.get(_SESSION, None)
    if session is not None:
        session.close()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Print the options of the cases, so that a run can be repeated."""
    session = config.stash[_SESSION]
    words = (f"{name} {' '.join(session.values(name))}" for name in _OPTIONS if session.values(name))
    where: list[str] = []
    for name in _DEPLOYMENT:
        if uri := session.text(name):
            from harness.unified.uri import ConnectionString  # noqa: PLC0415 - see pytest_collect_file

            where.append(f"{name} {ConnectionString.of(uri).redacted() if '://' in uri else uri}")
    return [f"pushbackd: {', '.join((*words, *where))}"]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a scenario file that has opted in."""
    if file_path.suffix not in _SUFFIXES:
        return None
    session = parent.config.stash[_SESSION]
    if not (parent.session.isinitpath(file_path) or session.opted_in(file_path)):
        return None
    from harness.running.discovery import is_scenario  # noqa: PLC0415 - free where it has no files

    return ScenarioFile.from_parent(parent, path=file_path) if is_scenario(file_path) else None


class ScenarioFile(pytest.File):
    """A scenario file; its items are its cases: with each driver, on each topology, in each kind of time."""

    def collect(self) -> Iterator[ScenarioItem]:
        from harness.deployments.targets import NO_SERVER  # noqa: PLC0415 - see pytest_collect_file
        from harness.running.plan import loaded, plan  # noqa: PLC0415 - see pytest_collect_file
        from harness.unified.errors import ScenarioError  # noqa: PLC0415 - see pytest_collect_file

        try:
            cases = loaded(str(self.path)).cases
        except ScenarioError as error:
            raise self.CollectError(str(error)) from error
        session = self.config.stash[_SESSION]
        once: set[tuple[str, str]] = set()
        for drivers, settings in session.runs():
            for item in plan(cases, drivers=drivers, topologies=session.topologies):
                if item.topology == NO_SERVER:  # a case without servers is the same in any kind of time
                    if (item.id, item.adapter) in once:
                        continue
                    once.add((item.id, item.adapter))
                name = f"{cases[item.index].description}[{item.adapter}-{item.topology}-{settings.time}]"
                yield ScenarioItem.from_parent(self, name=name, item=item, settings=settings)


class ScenarioItem(pytest.Item):
    """One case with one driver."""

    def __init__(self, *, item: Item, settings: Settings, **facts: Any) -> None:
        super().__init__(**facts)
        self.item = item
        self.settings = settings
        self.add_marker("pushbackd")
        entry = self._session.expectations(item.adapter).find(item.id, item.topology, item.edition)
        is_late = settings.time == "real" and (entry is None or entry.kind == "flaky")
        self._reruns = self._session.whole("reruns") if is_late else 0
        if entry is not None and entry.kind != "flaky":
            self.add_marker(
                pytest.mark.skip(reason=entry.reason)
                if entry.kind == "skip"
                else pytest.mark.xfail(reason=entry.reason, strict=True)
            )

    @property
    def _session(self) -> _Session:
        return self.config.stash[_SESSION]

    def runtest(self) -> None:
        """Run the case; raise what pytest understands."""
        from harness.running.result import ResultStatus  # noqa: PLC0415 - see pytest_collect_file

        result = self._session.run(self.settings, self.item)
        for _ in range(self._reruns):
            if result.status is ResultStatus.FAILED and not result.is_error:
                result = replace(self._session.run(self.settings, self.item), runs=result.runs + 1)
        self.user_properties += [
            ("adapter", result.adapter),
            ("topology", result.topology),
            ("edition", result.edition),
            ("server_version", result.server_version),
            ("seed", str(self.settings.seed)),
            ("time", self.settings.time),
            ("runs", str(result.runs)),
        ]
        if result.status is ResultStatus.SKIPPED:
            # Without the item's own location, every skip would seem to come from this line.
            raise pytest.skip.Exception(result.reason, _use_item_location=True)
        if result.status is ResultStatus.FAILED:
            from harness.explaining.journal import two_columns  # noqa: PLC0415 - see pytest_collect_file

            lines = two_columns(result.timeline, whole=self.config.option.verbose >= _WHOLE_VERBOSITY)
            self.add_report_section("call", "timeline", "\n".join(lines))
            raise ScenarioFailedError(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the scenario's line and the mismatch, not the runner's stack."""
        if isinstance(excinfo.value, ScenarioFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style=style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the line of the case; pytest counts lines from 0."""
        return self.path, self.item.case().line - 1, self.item.id


class ScenarioFailedError(AssertionError):
    """A case failed; the text is what a reader needs of its result."""

    def __init__(self, result: Result) -> None:
        from harness.explaining.failure import explanation  # noqa: PLC0415 - see pytest_collect_file

        super().__init__("\n".join(explanation(result)))
        self.result = result


class _Session:
    """The options of this process, and the deployments that it has started."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._executors: dict[Settings, ItemExecutor] = {}
        self._infos: Mapping[str, DriverEntry] | None = None
        self._expectations: dict[str, Expectations] = {}
        self._opted_in: frozenset[Path] | None = None
        self._target = ""

    def values(self, name: str) -> Sequence[str]:
        """Return the values of an option: the command line's, or else the ini file's."""
        values: Sequence[str] = self._config.getoption(f"--pushbackd-{name}") or self._config.getini(
            _ini(name)
        )
        return values

    def whole(self, name: str) -> int:
        """Return the value of an option that is a whole number. Raises `UsageError`."""
        text = self.values(name)[-1]
        try:
            return int(text)
        except ValueError as error:
            raise pytest.UsageError(f"pushbackd {name}: '{text}' is not a number") from error

    def text(self, name: str) -> str:
        """Return the value of an option that takes one: the command line's, or else the ini file's."""
        return str(self._config.getoption(f"--pushbackd-{name}") or self._config.getini(_ini(name)))

    def _uri(self, name: str) -> str | None:
        """Return the value of an option, None where neither the command line nor the ini file has it."""
        option = self._config.getoption(f"--pushbackd-{name}")
        return str(option) if option is not None else str(self._config.getini(_ini(name))) or None

    @property
    def uris(self) -> ExternalUris | None:
        """The connection strings of servers to run on, if any. Raises `UsageError` for a contradiction."""
        from harness.deployments.by_uri import ExternalUris  # noqa: PLC0415 - see pytest_collect_file

        try:
            uris = ExternalUris.of(self._uri("uri"), self._uri("uri-multi"), os.environ)
        except ValueError as error:
            raise pytest.UsageError(f"pushbackd uri: {error}") from error
        for name in ("topology", "profile"):
            if uris and self._config.getoption(f"--pushbackd-{name}"):
                raise pytest.UsageError(f"pushbackd uri: {name} is that of the servers: leave it out")
        if uris and "virtual" in (self._config.getoption("--pushbackd-time") or ()):
            raise pytest.UsageError("pushbackd uri: servers by URI run on the wall clock: no virtual time")
        return uris

    @property
    def topologies(self) -> Sequence[str]:
        """The deployments to run on. Raises `UsageError` for one that is not served, or cannot be used."""
        from fakeserver.profile import PROFILES  # noqa: PLC0415 - see pytest_collect_file
        from harness.deployments.targets import NAMES, our_spelling, targets  # noqa: PLC0415 - see pytest_collect_file

        if (uris := self.uris) is not None:
            from harness.deployments.by_uri import introduce  # noqa: PLC0415 - see pytest_collect_file

            if not self._target:  # the servers are asked once
                with _ending_without_servers():
                    self._target = introduce(uris).target
            return (self._target,)
        names = _chosen("topology", map(our_spelling, self.values("topology")), NAMES)
        return targets(names, profiles=_chosen("profile", self.values("profile"), PROFILES))

    def runs(self) -> Iterator[tuple[dict[str, str], Settings]]:
        """Yield the drivers (with their editions) and the settings of each kind of time."""
        from harness.adapters.registry import EDITIONS  # noqa: PLC0415 - see pytest_collect_file
        from harness.running.plan import Settings  # noqa: PLC0415 - see pytest_collect_file

        infos = self._drivers()
        editions = _chosen("edition", self.values("edition"), EDITIONS)
        commands = tuple((name, info.command) for name, info in infos.items() if info.command)
        uris = self.uris
        times = ("real",) if uris else _chosen("time", self.values("time"), ("real", "virtual"))
        for time in dict.fromkeys((*times, "real")):
            drivers = {
                name: next((edition for edition in editions if edition in info.editions), info.editions[0])
                for name, info in infos.items()
                if (time in times if info.virtual_time else time == "real")
            }
            if drivers:
                kind: Time = "virtual" if time == "virtual" else "real"
                settings = Settings(time=kind, seed=self.whole("seed"), commands=commands)
                yield (
                    drivers,
                    replace(settings, uri=uris.uri, uri_multi=uris.uri_multi) if uris else settings,
                )

    def _drivers(self) -> Mapping[str, DriverEntry]:
        """Return the chosen drivers by name; adapters of the user's introduce themselves once."""
        from harness.adapters.base import AdapterLost  # noqa: PLC0415 - see pytest_collect_file
        from harness.adapters.registry import DRIVERS, drivers, is_driver  # noqa: PLC0415 - see pytest_collect_file

        if self._infos is None:
            texts = self.values("adapter")
            _chosen("adapter", texts, [*DRIVERS, *filter(is_driver, texts)])
            try:
                self._infos = drivers(texts)
            except AdapterLost as lost:
                raise pytest.UsageError(f"pushbackd adapter: {lost}") from lost
        return self._infos

    def expectations(self, adapter: str) -> Expectations:
        """Return what an adapter is known to fail."""
        if adapter not in self._expectations:
            from harness.running import expectations  # noqa: PLC0415 - see pytest_collect_file

            name = self._config.getini("pushbackd_expectations")
            path = self._config.rootpath / name if name else None
            self._expectations[adapter] = expectations.of_adapter(adapter, path)
        return self._expectations[adapter]

    def executor(self, settings: Settings) -> ItemExecutor:
        """Return this process's executor for some settings, with its running deployments."""
        if settings not in self._executors:
            from harness.running.executor import ItemExecutor  # noqa: PLC0415 - see pytest_collect_file

            self._executors[settings] = ItemExecutor(settings)
        return self._executors[settings]

    def run(self, settings: Settings, item: Item) -> Result:
        """Run an item. Ends the whole run when servers by URI do not answer."""
        with _ending_without_servers():
            return self.executor(settings).run(item)

    def close(self) -> None:
        """Stop everything."""
        for executor in self._executors.values():
            executor.close()
        self._executors.clear()

    def opted_in(self, path: Path) -> bool:
        """Return whether a file is, or is below, what has opted in."""
        if self._opted_in is None:
            patterns, root = self._config.getini("pushbackd_scenarios"), self._config.rootpath
            named = [found for pattern in patterns for found in root.glob(pattern)]
            self._opted_in = frozenset(named or self._conftest_folders())
        # Of a scenario in both forms, YAML and JSON, the YAML counts.
        is_copy = path.suffix == ".json" and any(
            path.with_suffix(suffix).exists() for suffix in _SUFFIXES[:2]
        )
        return not self._opted_in.isdisjoint((path, *path.parents)) and not is_copy

    def _conftest_folders(self) -> Iterator[Path]:
        for plugin in self._config.pluginmanager.get_plugins():
            loaded = getattr(plugin, "pytest_plugins", ())
            if _NAME in ([loaded] if isinstance(loaded, str) else loaded):
                yield Path(plugin.__file__).parent


def _ini(name: str) -> str:
    return f"pushbackd_{name.replace('-', '_')}"


@contextmanager
def _ending_without_servers() -> Iterator[None]:
    """End the whole run, once, when servers by URI do not answer."""
    from harness.deployments.survey import DeploymentError  # noqa: PLC0415 - see pytest_collect_file

    try:
        yield
    except DeploymentError as error:
        reason = f"pushbackd uri: {error}"
        raise pytest.exit.Exception(reason, returncode=pytest.ExitCode.INTERRUPTED) from error


_SESSION = pytest.StashKey[_Session]()


def _chosen(name: str, texts: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    allowed, values = tuple(known), tuple(texts)
    for value in values:
        if value not in allowed:
            raise pytest.UsageError(f"pushbackd {name}: '{value}' is none of {', '.join(allowed)}")
    return tuple(dict.fromkeys(values))
