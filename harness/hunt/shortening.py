"""The shortest command that finds a bug: fewer files, and then one test, where the runner can be told so.

A runner of tests is known by the words of the command, or by the script that `npm test` stands for. The names
of its tests are read from what it writes. Half of the tests at a time are left out, for as long as the bug
still comes; with other tests before it gone, its place has another number there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.hunt.baseline import Baseline, BaselineError
from harness.hunt.findings import Shorter
from harness.hunt.judging import judge
from harness.hunt.places import Numbers
from harness.hunt.wishes import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.hunt.findings import Bug
    from harness.hunt.hunting import Report
    from harness.hunt.trial import Outcome
    from harness.hunt.wire import Strike

    Run = Callable[[Sequence[str], tuple[Strike, ...], float, Numbers], Outcome]
    """Runs a command once, with strikes, for so many seconds at most."""

SHARE: Final = 0.1
"""The share of a budget that is kept for it, where the runner is known."""
_PLACES_MOST: Final = 3
_NAMES: Final = re.compile(
    r"^\s*(?:[✓✔√]\s+(?P<mark>.+?)(?:\s+\([\d.]+ ?m?s\))?"
    r"|ok \d+ (?:- )?(?P<tap>.+?)(?:\s+#.*)?"
    r"|--- PASS: (?P<go>[^\s/]+) .*"
    r"|(?P<pytest>\S+\.py::.+?) PASSED.*|PASSED (?P<summary>\S+\.py::.+))$",
    re.MULTILINE,
)
_IN_A_PATTERN: Final = re.compile(r"[.*+?^${}()|\[\]\\/]")


def _pattern(names: Sequence[str]) -> str:
    """Return a regular expression for what ends with these names, as Go and JavaScript read it."""
    return f"({'|'.join(_IN_A_PATTERN.sub(_escaped, name) for name in names)})$"


def _escaped(found: re.Match[str]) -> str:
    return "\\" + found[0]


class Runner(NamedTuple):
    """A runner of tests: how it is told to write their names, and to run some of them."""

    name: str
    verbose: tuple[str, ...]
    only: Callable[[Sequence[str]], list[str]]
    is_first: bool = False
    """Its options stand before the files."""


_RUNNERS: Final = (
    Runner("pytest", ("-rp",), list),
    Runner("jest", ("--verbose",), lambda names: ["-t", _pattern(names)]),
    Runner("vitest", ("--reporter=verbose",), lambda names: ["-t", _pattern(names)]),
    Runner("mocha", (), lambda names: ["-g", _pattern(names)]),
    Runner("node", (), lambda names: [f"--test-name-pattern={_pattern(names)}"], is_first=True),
    Runner("go", ("-v",), lambda names: ["-run", f"^{_pattern(names)}"]),
)


@dataclass(frozen=True, slots=True)
class Suite:
    """A command that runs tests. `through` are the words of a package manager before its own arguments."""

    runner: Runner
    words: tuple[str, ...]
    at: int
    """Where the arguments of the runner begin."""
    through: bool = False

    @property
    def files(self) -> list[str]:
        """The files and folders that it is given."""
        given = self.words[self.at :]
        return [word for word in given if not word.startswith("-") and Path(word.partition("::")[0]).exists()]

    def verbose(self) -> list[str]:
        """Return the command that writes the names of its tests."""
        return self._with(self.runner.verbose)

    def of_files(self, files: Sequence[str]) -> Suite:
        """Return the command with these of its files."""
        dropped = set(self.files) - set(files)
        return replace(self, words=tuple(word for word in self.words if word not in dropped))

    def of_names(self, names: Sequence[str]) -> list[str]:
        """Return the command that runs these tests alone."""
        if self.runner.name == "pytest":
            return [*(word for word in self.words if word not in self.files), *names]
        return self._with(self.runner.only(names))

    def _with(self, more: Sequence[str]) -> list[str]:
        if self.runner.is_first and not self.through:
            return [*self.words[: self.at], *more, *self.words[self.at :]]
        dashes = ["--"] if self.through and "--" not in self.words and more else []
        return [*self.words, *dashes, *more]


def suite_of(words: Sequence[str], folder: Path) -> Suite | None:
    """Return what a command runs, None for one that is no runner of tests that is known."""
    names = [Path(word).name for word in words]
    if names[0] in {"npm", "pnpm", "yarn"}:
        return _through_a_package(words, names, folder)
    for runner in _RUNNERS:
        at = _arguments_of(runner, names)
        if at is not None:
            return Suite(runner, tuple(words), at)
    return None


def _arguments_of(runner: Runner, names: Sequence[str]) -> int | None:
    """Return where the arguments of a runner begin among the words of a command."""
    if runner.name == "node":
        return names.index("--test") + 1 if names[0] == "node" and "--test" in names else None
    if runner.name == "go":
        return 2 if list(names[:2]) == ["go", "test"] else None
    own = {runner.name, f"{runner.name}.js", f"{runner.name}.mjs", f"_{runner.name}"}
    before = {"npx", "python", "python3", "node", "-m", "uv", "run", "exec", "poetry", "bunx"}
    for number, name in enumerate(names):
        if name in own:
            return number + 1
        if name not in before and not name.startswith("python"):
            return None
    return None


def _through_a_package(words: Sequence[str], names: Sequence[str], folder: Path) -> Suite | None:
    """Return what the script of a package runs that `npm test`, or `npm run NAME`, stands for."""
    script = next(
        (word for word in names[1:] if word not in {"run", "run-script", "--"} and word[0] != "-"), ""
    )
    script = {"t": "test", "tst": "test"}.get(script, script)
    try:
        line = json.loads((folder / "package.json").read_text(encoding="utf-8"))["scripts"][script]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    inner = suite_of(str(line).split(), folder) if str(line).split() else None
    if inner is None or (inner.runner.is_first and inner.files):
        return None
    return Suite(inner.runner, tuple(words), len(words), through=True)


def names_in(output: str) -> list[str]:
    """Return the names of the tests that passed, as runners write them, each once."""
    found = (each.group(each.lastgroup or 0).strip() for each in _NAMES.finditer(output))
    return list(dict.fromkeys(found))


class Shortening:
    """Looks for the shortest command of a bug; `is_over` says when there is no more time for it."""

    def __init__(self, tests: Suite, report: Report, run: Run, is_over: Callable[[], bool]) -> None:
        self._tests = tests
        self._report = report
        self._run = run
        self._is_over = is_over

    def shorten(self, bug: Bug) -> None:
        """Give a bug the shortest command that finds it, if there is a shorter one."""
        best: tuple[list[str], tuple[Strike, ...]] | None = None
        tests = self._tests
        files = tests.files
        while len(files) > 1 and (
            half := self._half(bug, files, lambda some: list(tests.of_files(some).words))
        ):
            files, best = half[0], (list(tests.of_files(half[0]).words), half[1])
        tests = tests.of_files(files)
        names = names_in(self._clean(tests.verbose()).ended.output) if not self._is_over() else []
        while len(names) > 1 and (half := self._half(bug, names, tests.of_names)):
            names, best = half[0], (tests.of_names(half[0]), half[1])
        if best is not None:
            bug.shorter = Shorter(tuple(best[0]), text_of(best[1]))

    def _half(
        self, bug: Bug, names: Sequence[str], command: Callable[[Sequence[str]], list[str]]
    ) -> tuple[list[str], tuple[Strike, ...]] | None:
        """Return the half of the names that still finds a bug, and the strikes that do."""
        middle = len(names) // 2
        for some in (list(names[:middle]), list(names[middle:])):
            if not self._is_over() and (strikes := self._found(bug, command(some))):
                return some, strikes
        return None

    def _found(self, bug: Bug, words: Sequence[str]) -> tuple[Strike, ...]:
        """Return the strikes by which a shorter command finds a bug; none if it does not."""
        try:
            baseline = Baseline.of([self._clean(words), self._clean(words)], self._ignored)
        except BaselineError:
            return ()
        for strikes in self._moved(bug, baseline):
            outcome = self._run(words, strikes, baseline.limit, baseline.numbers)
            findings = judge(baseline, outcome, self._report.wishes.invariants).findings
            if any(each.kind is bug.cause.kind for each in findings):
                return strikes
        return ()

    @property
    def _ignored(self) -> Sequence[str]:
        invariants = self._report.wishes.invariants
        return () if invariants is None else tuple(invariants.ignore)

    def _clean(self, words: Sequence[str]) -> Outcome:
        return self._run(words, (), self._report.baseline.limit, Numbers())

    def _moved(self, bug: Bug, baseline: Baseline) -> Iterator[tuple[Strike, ...]]:
        """Yield the strikes of a bug at places of their names in a shorter command, the nearest first."""
        strikes = bug.trial.strikes
        same = [
            sorted(
                (place for place in baseline.places if place.kind == strike.place.kind),
                key=lambda place: abs(place.number - strike.place.number),
            )
            for strike in strikes
        ]
        if not all(same):
            return
        for turn in range(min(_PLACES_MOST, *map(len, same))):
            yield tuple(
                replace(strike, place=places[turn]) for strike, places in zip(strikes, same, strict=True)
            )
