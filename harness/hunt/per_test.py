"""A pytest plugin that hunts in each test: `--fakeserver-hunt 3m`.

A test with the fixture `fakeserver` is run as often as its share of the time allows, in this process: as it
is, and then with one fault at one request of its body each time. At last it runs as always, and fails if a
bug was found. Tests that set up faults of their own are aimed already, and are left alone.

It stands on the plugin of `fakeserver`: that offers the network of each deployment
(`pytest_fakeserver_network`), where a `HuntRecord` is put, and keeps what each test uses (`USES`).
`UNCHECKED` has it pass over its own checks while a test is hunted, for a fault may leave what they look for.
"""

from __future__ import annotations

import copy
import math
import signal
import threading
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import pytest
from _pytest.runner import runtestprotocol

from fakeserver.pytest_plugin import UNCHECKED, USES
from harness.hunt.baseline import BaselineError
from harness.hunt.hunting import Hunt, statuses
from harness.hunt.planning import Facts
from harness.hunt.program import Ended, now
from harness.hunt.terminal import told
from harness.hunt.trial import outcome_of, recording
from harness.hunt.wishes import Wishes, text_of, trial_written
from mongowire.documents import arguments
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from fakeserver.assembly.background import BackgroundCluster
    from harness.hunt.findings import Bug
    from harness.hunt.hunting import Report
    from harness.hunt.places import Numbers
    from harness.hunt.trial import Outcome
    from harness.hunt.wire import HuntRecord, Strike
    from mongowire.ports import Network

_FIXTURES: Final = frozenset({"fakeserver", "fakeserver_session", "fakeserver_factory"})
_ONLY_BUDGET: Final = 60.0
_AGAIN_SECONDS: Final = 1.0
_CHEAP: Final = "native"
"""The form of a trial's traceback: it costs a thousandth of the usual one; its last line is what counts."""
_BUGS: Final = pytest.StashKey["list[Bug]"]()
_COUNTS: Final = "hunt"
"""The property of a test's report that has the counts of its trials, also for xdist's controller."""


class _NotHuntedError(Exception):
    """A test that cannot be hunted, and why."""


class _TooLong(BaseException):
    """Raised in a test that has taken longer than a trial may."""


def pytest_configure(config: pytest.Config) -> None:
    """Hunt as the options ask. Raises `UsageError`."""
    written, only = config.getoption("--fakeserver-hunt"), config.getoption("--fakeserver-hunt-only")
    try:
        budget = arguments.duration(written) if written else math.inf
        trials = (trial_written(only),) if only else ()
    except (ControlError, ValueError) as error:
        raise pytest.UsageError(f"--fakeserver-hunt: {error}") from None
    config.pluginmanager.register(_Hunts(budget, trials), "fakeserver-hunts")


class _Hunts:
    """The hunts of a session, one test after the other."""

    def __init__(self, budget: float, only: tuple[tuple[Strike, ...], ...]) -> None:
        self._budget = budget
        self._only = only
        self._end = math.inf
        self._left = 0
        """The tests that are still to be hunted."""
        self._records: WeakKeyDictionary[BackgroundCluster, HuntRecord] = WeakKeyDictionary()
        """The record of each deployment that runs."""
        self._newest: HuntRecord | None = None
        self._trial: _Trial | None = None
        self._tried: dict[str, str] = {}
        """The ends of trials of earlier tests: tests that ask the same try something new first."""
        self._totals: dict[str, int] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Share the time among the tests; workers of xdist share the tests."""
        workers = getattr(session.config, "workerinput", {}).get("workercount", 1)
        self._left = math.ceil(sum(map(_has_deployment, session.items)) / workers)
        self._end = now() + self._budget

    def pytest_fakeserver_network(self) -> Network:
        """Record every deployment."""
        self._newest = recording()
        return self._newest

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Hunt in a test, before it is run as always."""
        if not _has_deployment(item):
            return
        began = now()
        share = _ONLY_BUDGET if self._only else (self._end - began) / max(1, self._left)
        self._left -= 1
        item.stash[UNCHECKED] = True
        try:
            report = self._hunt(item, share)
        except (BaselineError, _NotHuntedError):
            # A hunt keeps a fifth of its share for confirmation: clean runs that leave no more were too long.
            is_over = share <= 0 or now() - began > share / 2
            counts = {"tests had no time" if is_over else "tests left alone": 1}
        else:
            counts = {"tests": 1, "bugs": len(report.confirmed), "trials": len(report.trials)}
            counts |= statuses([trial.judgement for trial in report.trials])
            item.stash[_BUGS] = report.confirmed
        finally:
            item.stash[UNCHECKED] = False
        item.user_properties.append((_COUNTS, counts))

    def _hunt(self, item: pytest.Item, share: float) -> Report:
        if share <= 0:
            raise _NotHuntedError("the time is over")

        def run(strikes: tuple[Strike, ...], limit: float, _: int, known: Numbers) -> Outcome:
            return self._run(item, strikes, limit, known)

        facts = Facts(is_replica_set=True, reads_secondaries=False)
        wishes = Wishes(share, only=self._only, remembered=self._tried, goes_on=False)
        report = Hunt(run, facts, wishes, lambda _: None).run()
        self._tried |= {text_of(trial.strikes): trial.judgement.status for trial in report.trials}
        return report

    def _run(self, item: pytest.Item, strikes: Sequence[Strike], limit: float, known: Numbers) -> Outcome:
        """Run a test once, with its fixtures anew. Raises `_NotHuntedError`."""
        self._trial = trial = _Trial(tuple(strikes), limit, known)
        shown, item.config.option.tbstyle = item.config.option.tbstyle, _CHEAP
        try:
            # What the next test shares with this one stays: a copy of it shares everything but its own.
            reports = runtestprotocol(item, log=False, nextitem=copy.copy(item))
        finally:
            self._trial, item.config.option.tbstyle = None, shown
        if trial.is_aimed:
            raise _NotHuntedError("it has faults of its own")
        call = next((each for each in reports if each.when == "call"), None)
        if call is None or trial.outcome is None:
            raise _NotHuntedError("its fixtures fail, it is skipped, or it stops its deployment")
        code = None if trial.is_late else 0 if call.passed else 1
        trial.outcome.ended = Ended(code, call.duration, call.capstdout, call.longreprtext)
        return trial.outcome

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Strike what the body of a test does, and look at what came of it while its deployment runs."""
        self._known(item)
        trial = self._trial
        if trial is None:
            return (yield)
        uses = list(item.stash.get(USES, {}).values())
        if len(uses) != 1:
            raise _NotHuntedError("it has several deployments, or none")
        cluster: BackgroundCluster = uses[0][0].cluster
        record = self._records[cluster]
        trial.begin(cluster, record)
        try:
            with trial.limited():
                return (yield)
        finally:
            trial.end(cluster, record)

    def _known(self, item: pytest.Item) -> None:
        """Remember which record belongs to the deployment of a test: the newest one, if it is new."""
        for use, _ in item.stash.get(USES, {}).values():
            if use.cluster not in self._records and self._newest is not None:
                self._records[use.cluster] = self._newest

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Fail a test in which a bug was found."""
        report = yield
        bugs = item.stash.get(_BUGS, [])
        if self._trial is None and bugs and report.when == "call" and report.passed:
            report.outcome, report.longrepr = "failed", "\n\n".join(_said(item, bug) for bug in bugs)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up what was tried."""
        if report.when == "teardown":
            for name, counts in report.user_properties:
                for word, count in counts.items() if name == _COUNTS and isinstance(counts, dict) else ():
                    self._totals[word] = self._totals.get(word, 0) + count

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how much was tried, and what was found."""
        totals = dict(self._totals)
        first = [f"{totals.pop(word, 0)} {word}" for word in ("tests", "trials", "bugs")]
        rest = [f"{count} {word}" for word, count in sorted(totals.items())]
        terminalreporter.write_sep("=", f"hunt: {', '.join([*first, *rest])}")


class _Trial:
    """One run of a test: its faults, its limit, and what came of it."""

    def __init__(self, strikes: tuple[Strike, ...], limit: float, known: Numbers) -> None:
        self._strikes = strikes
        self._known = known
        self._limit = limit
        self.outcome: Outcome | None = None
        self.is_late = False
        self.is_aimed = False
        """The test has set up faults itself."""

    def begin(self, cluster: BackgroundCluster, record: HuntRecord) -> None:
        """Strike from now on."""

        def aim() -> None:
            record.cluster = cluster.cluster
            record.aim(self._strikes, self._known)

        cluster.call(aim)

    def end(self, cluster: BackgroundCluster, record: HuntRecord) -> None:
        """Keep the outcome; a test that has stopped its deployment has none."""
        try:
            if not self._strikes:
                verdict = cluster.control.perform("verdict")
                self.is_aimed = bool(verdict["met"] or verdict["neverMet"] or verdict["steps"]["of"])
            nobody = Ended(0, 0.0, "", "")
            self.outcome = cluster.call(lambda: outcome_of(record, cluster.cluster, self._strikes, nobody))
            cluster.call(lambda: record.aim(()))
        except RuntimeError:
            self.outcome = None

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Interrupt a test that takes too long, where a signal can: in the main thread of a POSIX system."""
        if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(*_: object) -> None:
            self.is_late = True
            raise _TooLong("the trial has taken too long")

        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, self._limit, _AGAIN_SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _has_deployment(item: pytest.Item) -> bool:
    return not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def _said(item: pytest.Item, bug: Bug) -> str:
    """Return a bug in words, under the name of its test."""
    again = f"pytest {quote(item.nodeid)} --fakeserver-hunt-only {quote(bug.only)}"
    head, *lines = told(bug, again, "hunt: ")
    return "\n".join([head.replace("the command", "the test"), *lines])
