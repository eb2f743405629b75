"""The shortest command: what runners of tests are told, and half of the tests left out at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hunted import CLEAN, INSERT, PAY, baseline, outcome

from harness.hunt.findings import Trial, grouped
from harness.hunt.hunting import Report
from harness.hunt.judging import judge
from harness.hunt.results import repeating
from harness.hunt.shortening import Shortening, names_in, suite_of
from harness.hunt.wishes import Wishes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.hunt.trial import Outcome
    from harness.hunt.wire import Strike


@pytest.mark.parametrize(
    ("line", "verbose", "only"),
    [
        ("pytest -q", "pytest -q -rp", "pytest -q a.py::b c"),
        ("python3.11 -m pytest", "python3.11 -m pytest -rp", "python3.11 -m pytest a.py::b c"),
        ("npx jest", "npx jest --verbose", r"npx jest -t (a\.py::b|c)$"),
        ("npx mocha", "npx mocha", r"npx mocha -g (a\.py::b|c)$"),
        ("node --test x.mjs", "node --test x.mjs", r"node --test --test-name-pattern=(a\.py::b|c)$ x.mjs"),
        ("go test ./...", "go test ./... -v", r"go test ./... -run ^(a\.py::b|c)$"),
    ],
)
def test_a_runner_is_told_by_arguments(line: str, verbose: str, only: str, tmp_path: Path) -> None:
    tests = suite_of(line.split(), tmp_path)
    assert tests is not None
    assert " ".join(tests.verbose()) == verbose
    assert " ".join(tests.of_names(["a.py::b", "c"])) == only


@pytest.mark.parametrize("line", ["python shop.py", "node shop.js", "npm start", "go run .", "sh -c pytest"])
def test_another_command_is_left_as_it_is(line: str, tmp_path: Path) -> None:
    assert suite_of(line.split(), tmp_path) is None


@pytest.mark.parametrize(
    ("script", "line", "only"),
    [
        ("mocha --exit", "npm test", ["npm", "test", "--", "-g", "(pays)$"]),
        ("jest", "npm run unit -- --ci", ["npm", "run", "unit", "--", "--ci", "-t", "(pays)$"]),
        ("node --test", "yarn test", ["yarn", "test", "--", "--test-name-pattern=(pays)$"]),
    ],
)
def test_a_script_of_a_package_stands_for_its_runner(
    script: str, line: str, only: list[str], tmp_path: Path
) -> None:
    (tmp_path / "package.json").write_text(json.dumps({"scripts": {"test": script, "unit": script}}))
    tests = suite_of(line.split(), tmp_path)
    assert tests is not None
    assert tests.of_names(["pays"]) == only


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("  ✓ pays (31 ms)\n  ✕ fails\n  ✔ ships\n", ["pays", "ships"]),
        ("    ✔ pays (31.5ms)\n", ["pays"]),
        ("ok 1 - pays\n  ---\nnot ok 2 - fails\nok 3 - ships # SKIP\n", ["pays", "ships"]),
        ("--- PASS: TestPays (0.02s)\n    --- PASS: TestPays/twice (0.00s)\n", ["TestPays"]),
        ("PASSED test_a.py::test_pays[a b]\n", ["test_a.py::test_pays[a b]"]),
        ("total: 190\n", []),
    ],
)
def test_names_of_tests_are_read_from_what_runners_write(written: str, names: list[str]) -> None:
    assert names_in(written) == names


def shortened(seconds: float = 60.0) -> tuple[Any, list[list[str]]]:
    """Shorten a command of eight tests, of which the sixth forgets a payment; return what was run."""
    trial = outcome("error", PAY, contents={})
    (bug,) = grouped([Trial(1, trial, judge(baseline(), trial))])
    ran: list[list[str]] = []

    def run(words: Sequence[str], strikes: tuple[Strike, ...], *_: object) -> Outcome:
        ran.append(list(words))
        has_it = not any("::" in word for word in words) or any(word.endswith("::t5") for word in words)
        written = "".join(f"PASSED a.py::t{number}\n" for number in range(8))
        if not strikes:
            clean = outcome(output=written)
            clean.requests = clean.requests if has_it else clean.requests[:1]
            return clean
        return outcome("error", strikes[0].place, contents={} if has_it else CLEAN)

    report = Report(baseline(), Wishes(60.0))
    tests = suite_of(["pytest"], Path())
    assert tests is not None
    Shortening(tests, report, run, lambda: seconds <= 0).shorten(bug)
    return (bug, report), ran


def test_half_of_the_tests_are_left_out_for_as_long_as_the_bug_comes() -> None:
    (bug, report), _ = shortened()
    assert bug.shorter.words == ("pytest", "a.py::t5")
    again = repeating(bug, report, "pytest")
    assert again == f"pushbackd hunt --only 'error @ {PAY}' -- pytest a.py::t5"
    assert INSERT.kind != PAY.kind


def test_there_is_no_shorter_command_when_the_time_is_over() -> None:
    (bug, report), ran = shortened(seconds=0)
    assert (bug.shorter, ran) == (None, [])
    assert repeating(bug, report, "pytest").endswith("-- pytest")
