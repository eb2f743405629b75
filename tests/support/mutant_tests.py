"""Tries mutants against our unit tests, which are collected once.

A pytest session is stopped before its first test. It runs every test once, to see which lines each
reaches; then there is a fork for each mutant, in which the tests that reach what it has changed run until one
fails. A mutant that works at import needs a pytest of its own, since test modules hold what they imported.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from multiprocessing import connection as connections
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from mutant_record import SURVIVED, TESTS, MutantRecord

from harness.authoring.mutants.mutant import path_of
from harness.authoring.mutants.overlay import record_reach
from harness.authoring.mutants.survey import functions_of, marks_of
from harness.authoring.mutants.trial import Trial, run_trials
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection

    from harness.authoring.mutants.mutant import Mutant
    from harness.authoring.mutants.overlay import LineMark

SECONDS: Final = 600.0
"""Seconds of the wall clock for all tests of a mutant that has a pytest of its own."""

HANGS: Final = "hangs"
FOLDERS: Final = {"driver": "tests/driver", "server": "tests/fakeserver"}
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", re.MULTILINE)
_PYTEST: Final = ("-P", str(Path(__file__).with_name("mutated_pytest.py")))
"""Without the current folder on the path: the packages that are tested are those that are installed."""

_OPTIONS: Final = ("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")


def run_tests(
    mutants: Sequence[Mutant], record: MutantRecord, *, root: Path, jobs: int, known: bool
) -> Iterator[tuple[Mutant, str]]:
    """Run the tests of the checkout at `root` with each mutant, and yield it with the first that fails."""
    swapped = [mutant for mutant in mutants if functions_of(mutant) is not None]
    for kind, folder in FOLDERS.items():
        if chosen := [mutant for mutant in swapped if mutant.kind == kind]:
            session = MutantSession(chosen, record, jobs=jobs, known=known)
            session.run(root, folder)
            for mutant in chosen:
                record.note(mutant.name, TESTS, session.killers.get(mutant.name, SURVIVED))
                yield mutant, session.killers.get(mutant.name, SURVIVED)
    for mutant in mutants:
        if mutant not in swapped:
            killer = _of_its_own(mutant, record, root, known_only=known)
            record.note(mutant.name, TESTS, killer)
            yield mutant, killer


@dataclass(slots=True, eq=False)  # pytest keeps its plugins in sets
class MutantSession:
    """A pytest plugin that tries mutants instead of running the tests once."""

    mutants: Sequence[Mutant]
    record: MutantRecord
    jobs: int
    known: bool
    killers: dict[str, str] = field(default_factory=dict)
    _items: dict[str, pytest.Item] = field(default_factory=dict)
    _failed: str = ""
    """What the test under way failed with."""

    def run(self, root: Path, *places: str) -> None:
        """Collect the tests of folders or files, and try all mutants.

        Raises RuntimeError if that is not possible.
        """
        before, said = Path.cwd(), io.StringIO()
        os.chdir(root)
        try:
            with redirect_stdout(said), redirect_stderr(said):
                code = pytest.main([*places, "-s", *_OPTIONS], plugins=[self])
        finally:
            os.chdir(before)
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            raise RuntimeError(f"pytest ended with {code}:\n{said.getvalue()}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try the mutants with the tests that were collected."""
        self._items = {item.nodeid: item for item in session.items}
        known = [
            Trial(mutant, [killer], self._judge([killer]))
            for mutant in self.mutants
            if (killer := self.record.killer(mutant.name, TESTS)) in self._items and killer is not None
        ]
        run_trials(known, jobs=self.jobs, on_end=self._note)
        left = [mutant for mutant in self.mutants if mutant.name not in self.killers]
        if left and not self.known:
            reach = self._survey(left)
            run_trials([self._trial(mutant, reach) for mutant in left], jobs=self.jobs, on_end=self._note)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a failure."""
        if report.failed:
            self._failed = str(report.longreprtext).strip().rpartition("\n")[2] or "failed"

    def _note(self, trial: Trial) -> None:
        if killer := next(iter(trial.verdict.killed_by), ""):
            self.killers[trial.mutant.name] = killer

    def _trial(self, mutant: Mutant, reach: dict[str, frozenset[str]]) -> Trial:
        keys = [key for key, names in reach.items() if mutant.name in names]
        return Trial(mutant, keys, self._judge(keys))

    def _judge(self, keys: Sequence[str]) -> Callable[..., None]:
        def judge(report: Callable[[tuple[Any, ...]], None], *, stops: bool) -> None:
            _be_silent()
            for index, key in enumerate(keys):
                report(("begins", index))
                if reason := self._run(key):
                    report(("killed", index, reason))
                    if stops:
                        break
            report(("ended",))

        return judge

    def _run(self, key: str) -> str:
        """Run a test with its fixtures, and return what it failed with."""
        self._failed = ""
        item = self._items[key]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return self._failed

    def _survey(self, mutants: Sequence[Mutant]) -> dict[str, frozenset[str]]:
        """Return the tests that pass without a mutant, with the names of the mutants that each reaches."""
        marks = marks_of(mutants)
        ends: list[Any] = []
        for first in range(self.jobs):
            ours, theirs = connections.Pipe(duplex=False)
            keys = list(self._items)[first :: self.jobs]
            get_context("fork").Process(target=self._watch, args=(keys, marks, theirs), daemon=True).start()
            theirs.close()
            ends.append(ours)
        reach: dict[str, frozenset[str]] = {}
        while ends:
            for end in cast("list[Connection]", connections.wait(ends)):
                try:
                    key, names = end.recv()
                    reach[key] = names
                except EOFError:
                    ends.remove(end)
        return {key: reach[key] for key in self._items if key in reach}

    def _watch(self, keys: Sequence[str], marks: Sequence[LineMark], reports: Connection) -> None:
        _be_silent()
        reached, unknown = record_reach(marks)
        for key in keys:
            reached.clear()
            if not self._run(key):
                reports.send((key, frozenset(reached) | unknown))


def _be_silent() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _of_its_own(mutant: Mutant, record: MutantRecord, root: Path, *, known_only: bool) -> str:
    known = record.killer(mutant.name, TESTS)
    if known and known != HANGS and (killer := _killer(mutant, [known], root)):
        return killer
    return SURVIVED if known_only else _killer(mutant, [FOLDERS[mutant.kind]], root)


def _killer(mutant: Mutant, tests: Sequence[str], root: Path) -> str:
    """Return the id of the first test that fails with a mutant, or `SURVIVED`."""
    ended = _pytest(mutant, ["-x", *tests], root)
    if ended is None:
        return HANGS
    if ended.returncode == 0:
        return SURVIVED
    found = _FAILED.search(ended.stdout)
    return found.group(1) if found else f"pytest ended with {ended.returncode}"


def _failures_of_its_own(mutant: Mutant, tests: Sequence[str], root: Path) -> Sequence[str]:
    """Run tests with a mutant that has a pytest of its own, and return the ids of those that fail."""
    ended = _pytest(mutant, tests, root)
    return [] if ended is None else _FAILED.findall(ended.stdout)


def _pytest(
    mutant: Mutant, arguments_of_pytest: Sequence[str], root: Path
) -> subprocess.CompletedProcess[str] | None:
    """Run pytest with a mutant; return None if it does not end."""
    with tempfile.TemporaryDirectory() as folder:
        arguments: list[str] = []
        for number, (file, text) in enumerate(mutant.sources().items()):
            changed = Path(folder) / f"{number}.py"
            write_whole(changed, text)
            arguments.append(f"{path_of(file)}={changed}")
        command = [sys.executable, *_PYTEST, *arguments, "--", *_OPTIONS, *arguments_of_pytest]
        try:
            return subprocess.run(
                command, cwd=root, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return None


# All tests that fail with a mutant, of those that are named for it: whether the tests of a rule hold it.

PATIENCE: Final = 40.0
"""Seconds of the wall clock for a test that fails by no end: a busy machine is not taken for one."""


def failing(
    named: Mapping[str, Sequence[str]], mutants: Sequence[Mutant], *, root: Path, jobs: int
) -> Mapping[str, frozenset[str]]:
    """Run with each mutant the tests that are `named` under its name, and return those that fail.

    A test is `file::name`, with whatever parameters it has. One that hangs has not failed, and those after it
    are run in another process.
    """
    tests = sorted({test for mutant in mutants for test in named[mutant.name]})
    swapped = [mutant for mutant in mutants if functions_of(mutant) is not None]
    found: dict[str, frozenset[str]] = {}
    if swapped:
        session = Holding(swapped, MutantRecord(), jobs=jobs, known=True, named=named)
        session.run(root, *dict.fromkeys(test.partition("::")[0] for test in tests))
        found |= session.failed
    for mutant in mutants:
        if mutant not in swapped:
            keys = _failures_of_its_own(mutant, named[mutant.name], root)
            found[mutant.name] = belonging(keys, named[mutant.name])
    return found


@dataclass(slots=True, eq=False)
class Holding(MutantSession):
    """A pytest plugin that runs the tests that are named for each mutant, all of them."""

    named: Mapping[str, Sequence[str]] = field(default_factory=dict)
    failed: dict[str, frozenset[str]] = field(default_factory=dict)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests of each mutant, in a fork of its own."""
        wanted = {test for tests in self.named.values() for test in tests}
        self._items = {item.nodeid: item for item in session.items if _test_of(item.nodeid, wanted)}
        passing = self._survey(())  # whatever they reach: those that are named are few
        if not passing:
            raise RuntimeError("none of the tests passes without a mutant")
        trials = []
        for mutant in self.mutants:
            own = frozenset(self.named[mutant.name])
            keys = [key for key in passing if _test_of(key, own)]
            trials.append(Trial(mutant, keys, self._judge(keys)))
        while trials:
            run_trials(trials, jobs=self.jobs, on_end=self._take, stops=False, patience=PATIENCE)
            trials = [
                Trial(trial.mutant, rest, self._judge(rest)) for trial in trials if (rest := trial.untried())
            ]
        return True

    def _take(self, trial: Trial) -> None:
        if trial.verdict.broken:
            raise RuntimeError(f"'{trial.mutant.name}' cannot be loaded: {trial.verdict.broken}")
        failures = [key for key, reason in trial.verdict.killed_by.items() if not reason.startswith("hangs")]
        before = self.failed.get(trial.mutant.name, frozenset())
        self.failed[trial.mutant.name] = before | belonging(failures, self.named[trial.mutant.name])


def belonging(keys: Iterable[str], tests: Iterable[str]) -> frozenset[str]:
    """Return which of some tests, `file::name`, node ids of pytest belong to."""
    wanted = frozenset(tests)
    return frozenset(test for key in keys if (test := _test_of(key, wanted)))


def _test_of(key: str, tests: frozenset[str] | set[str]) -> str:
    """Return which of some tests a node id is of: itself, one of its parameters, or a method of its class."""
    name = key.partition("[")[0]
    return name if name in tests else name.rpartition("::")[0] if name.rpartition("::")[0] in tests else ""
