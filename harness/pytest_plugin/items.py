"""Scenario files as collectors, and their cases as items."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.deployments.targets import NO_SERVER
from harness.explaining.failure import explanation
from harness.explaining.journal import two_columns
from harness.pytest_plugin.session import PluginSession
from harness.running.discovery import is_scenario
from harness.running.plan import loaded, plan
from harness.running.result import ResultStatus
from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.pytest_plugin.options import PluginOptions
    from harness.running.plan import Item, Settings
    from harness.running.result import Result

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
