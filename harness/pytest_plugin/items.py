"""Scenario files as collectors, and their cases as items.

A file becomes a `ScenarioFile`, each case with each driver, deployment and kind of time a `ScenarioItem`.
`PluginSession` is shared by all of them and lives as long as the process: it starts deployments when a case
needs one and keeps them for the next. Expectations become pytest's own marks, so that `xfail` and `skip`
count as everywhere else.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fakeserver.profile import PROFILES
from harness.adapters.base import AdapterLost
from harness.adapters.registry import DRIVERS, EDITIONS, drivers, is_driver
from harness.deployments.external import DeploymentError, ExternalUris, introduce
from harness.deployments.targets import NAMES, NO_SERVER, our_spelling, targets
from harness.explaining.explanation import explanation
from harness.explaining.journal import two_columns
from harness.planning import expectations
from harness.planning.discovery import is_scenario
from harness.planning.plan import Settings, loaded, plan
from harness.planning.result import ResultStatus
from harness.running.executor import ItemExecutor
from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.adapters.registry import DriverEntry
    from harness.planning.expectations import Expectations
    from harness.planning.plan import Item, Time
    from harness.planning.result import Result
    from harness.pytest_plugin.options import PluginOptions


# What a run of scenarios as items needs of this harness, made when the first scenario file is met.


class PluginSession:
    """The drivers, topologies and settings of a run, and the deployments that this process started."""

    def __init__(self, options: PluginOptions) -> None:
        self.options = options
        self._executors: dict[Settings, ItemExecutor] = {}
        self._infos: Mapping[str, DriverEntry] | None = None
        self._expectations: dict[str, Expectations] = {}
        self._target = ""

    @property
    def uris(self) -> ExternalUris | None:
        """The connection strings of servers to run on, if any. Raises `UsageError` for a contradiction."""
        try:
            uris = ExternalUris.of(self.options.given("uri"), self.options.given("uri-multi"), os.environ)
        except ValueError as error:
            raise pytest.UsageError(f"pushbackd uri: {error}") from error
        for name in ("topology", "profile"):
            if uris and self.options.config.getoption(f"--pushbackd-{name}"):
                raise pytest.UsageError(f"pushbackd uri: {name} is that of the servers: leave it out")
        if uris and "virtual" in (self.options.config.getoption("--pushbackd-time") or ()):
            raise pytest.UsageError("pushbackd uri: servers by URI run on the wall clock: no virtual time")
        return uris

    @property
    def topologies(self) -> Sequence[str]:
        """The deployments to run on. Raises `UsageError` for one that is not served, or cannot be used."""
        if (uris := self.uris) is not None:
            if not self._target:  # the servers are asked once
                with _ending_without_servers():
                    self._target = introduce(uris).target
            return (self._target,)
        names = _chosen("topology", map(our_spelling, self.options.values("topology")), NAMES)
        return targets(names, profiles=_chosen("profile", self.options.values("profile"), PROFILES))

    def runs(self) -> Iterator[tuple[dict[str, str], Settings]]:
        """Yield the drivers (with their editions) and the settings of each kind of time."""
        # Adapters of the user's introduce themselves once.
        if self._infos is None:
            texts = self.options.values("adapter")
            _chosen("adapter", texts, [*DRIVERS, *filter(is_driver, texts)])
            try:
                self._infos = drivers(texts)
            except AdapterLost as lost:
                raise pytest.UsageError(f"pushbackd adapter: {lost}") from lost
        infos = self._infos
        editions = _chosen("edition", self.options.values("edition"), EDITIONS)
        commands = tuple((name, info.command) for name, info in infos.items() if info.command)
        told = tuple((name, info.version) for name, info in infos.items() if info.version)
        uris = self.uris
        times = ("real",) if uris else _chosen("time", self.options.values("time"), ("real", "virtual"))
        # A driver that cannot run in virtual time runs in real time, also where only virtual time was asked
        # for.
        for time in dict.fromkeys((*times, "real")):
            suited = {
                name: next((edition for edition in editions if edition in info.editions), info.editions[0])
                for name, info in infos.items()
                if (time in times if info.virtual_time else time == "real")
            }
            if suited:
                kind: Time = "virtual" if time == "virtual" else "real"
                seed = self.options.whole("seed")
                settings = Settings(time=kind, seed=seed, commands=commands, drivers=told)
                yield (
                    suited,
                    replace(settings, uri=uris.uri, uri_multi=uris.uri_multi) if uris else settings,
                )

    def expectations(self, adapter: str) -> Expectations:
        """Return what an adapter is known to fail."""
        if adapter not in self._expectations:
            name = self.options.config.getini("pushbackd_expectations")
            path = self.options.config.rootpath / name if name else None
            self._expectations[adapter] = expectations.of_adapter(adapter, path)
        return self._expectations[adapter]

    def executor(self, settings: Settings) -> ItemExecutor:
        """Return this process's executor for some settings, with its running deployments."""
        if settings not in self._executors:
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


@contextmanager
def _ending_without_servers() -> Iterator[None]:
    """End the whole run, once, when servers by URI do not answer."""
    try:
        yield
    except DeploymentError as error:
        reason = f"pushbackd uri: {error}"
        # Otherwise every case that is left would wait for the same servers, and fail by the same sentence.
        raise pytest.exit.Exception(reason, returncode=pytest.ExitCode.INTERRUPTED) from error


def _chosen(name: str, texts: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    allowed, values = tuple(known), tuple(texts)
    for value in values:
        if value not in allowed:
            raise pytest.UsageError(f"pushbackd {name}: '{value}' is none of {', '.join(allowed)}")
    return tuple(dict.fromkeys(values))


_SESSION = pytest.StashKey[PluginSession]()
_WHOLE_VERBOSITY = 2
"""How many `-v` show texts to their ends, and the events before the first operation."""


def collector(path: Path, parent: pytest.Collector, options: PluginOptions) -> ScenarioFile | None:
    """Return the collector of a file, or None when it holds no scenario."""
    if not is_scenario(path):
        return None
    stash = parent.config.stash
    if _SESSION not in stash:
        stash[_SESSION] = PluginSession(options)
        parent.config.add_cleanup(stash[_SESSION].close)
    return ScenarioFile.from_parent(parent, path=path)


class ScenarioFile(pytest.File):
    """A scenario file; its items are its cases: with each driver, on each topology, in each kind of time."""

    def collect(self) -> Iterator[ScenarioItem]:
        try:
            cases = loaded(str(self.path)).cases
        except ScenarioError as error:
            raise self.CollectError(str(error)) from error
        session = self.config.stash[_SESSION]
        once: set[tuple[str, str]] = set()
        for chosen, settings in session.runs():
            for item in plan(cases, drivers=chosen, topologies=session.topologies):
                if item.topology == NO_SERVER:  # a case without servers is the same in any kind of time
                    if (item.id, item.adapter) in once:
                        continue
                    once.add((item.id, item.adapter))
                name = f"{cases[item.index].description}[{item.adapter}-{item.topology}-{settings.time}]"
                # As a text, for --last-failed: pytest reads what is in brackets as parameters.
                text = f"{self.nodeid}::{name}"
                yield ScenarioItem.from_parent(self, name=name, nodeid=text, item=item, settings=settings)


class ScenarioItem(pytest.Item):
    """One case with one driver."""

    def __init__(self, *, item: Item, settings: Settings, **facts: Any) -> None:
        super().__init__(**facts)
        self.item = item
        self.settings = settings
        self.add_marker("pushbackd")
        entry = self._session.expectations(item.adapter).find(item.id, item.topology, item.edition)
        # In virtual time another run is the same run, and a case that is known to fail is expected to.
        is_late = settings.time == "real" and (entry is None or entry.kind == "flaky")
        self._reruns = self._session.options.whole("reruns") if is_late else 0
        if entry is not None and entry.kind != "flaky":
            self.add_marker(
                pytest.mark.skip(reason=entry.reason)
                if entry.kind == "skip"
                else pytest.mark.xfail(reason=entry.reason, strict=True)
            )

    @property
    def _session(self) -> PluginSession:
        return self.config.stash[_SESSION]

    def runtest(self) -> None:
        """Run the case; raise what pytest understands."""
        result = self._session.run(self.settings, self.item)
        for _ in range(self._reruns):
            # A defect of the harness or of an adapter is no lateness: it is told at once.
            if result.status is ResultStatus.FAILED and not result.is_error:
                result = replace(self._session.run(self.settings, self.item), runs=result.runs + 1)
        self.user_properties += [
            ("adapter", result.adapter),
            ("driver", self.settings.driver(result.adapter)),
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
        super().__init__("\n".join(explanation(result)))
        self.result = result
