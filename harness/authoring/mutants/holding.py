"""Tests that fail when a rule is broken: mutants, each with the tests that are said to hold its rule.

A test that passes with every mutant of a rule does not hold it, whatever it is marked with. Unlike
`unit_tests`, which looks for one test that fails, this runs all that are named.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from harness.authoring.mutants.matrix import KillerSearch
from harness.authoring.mutants.record import MutantRecord
from harness.authoring.mutants.survey import functions_of
from harness.authoring.mutants.trial import Trial, run_trials
from harness.authoring.mutants.unit_tests import MutantSession, failures_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.authoring.mutants.mutant import Mutant


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
        session = Holding(swapped, MutantRecord(), jobs=jobs, search=KillerSearch.KNOWN, named=named)
        session.run(root, *dict.fromkeys(test.partition("::")[0] for test in tests))
        found |= session.failed
    for mutant in mutants:
        if mutant not in swapped:
            keys = failures_of_its_own(mutant, named[mutant.name], root)
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
