"""Two runs with names are compared: what is broken, fixed, new, and still failing; worse ends with 1."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from made_results import REAL, result

from harness.planning.result import ExitCode, ResultStatus
from harness.report import fitting
from harness.report.matrix import Change, RunOutcomes, changes_between, is_worse
from harness.report.results_file import ResultsWriter

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from harness.planning.result import Result

P, F, S = ResultStatus.PASSED, ResultStatus.FAILED, ResultStatus.SKIPPED
K, U, N = ResultStatus.KNOWN_FAILING, ResultStatus.UNEXPECTED_PASS, ResultStatus.NOT_RUN


def outcomes(results: Iterable[Result]) -> RunOutcomes:
    made = RunOutcomes("run", REAL)
    assert all(made.noting(results))
    return made


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (P, P, None),
        (P, F, Change.BROKEN),
        (U, F, Change.BROKEN),
        (S, F, Change.NEW),
        (N, F, Change.NEW),
        (None, F, Change.NEW),
        (None, P, None),
        (S, P, None),
        (F, P, Change.FIXED),
        (K, U, Change.FIXED),
        (F, F, Change.STILL),
        (K, F, Change.STILL),
        (K, K, None),
        (P, K, Change.ACCEPTED),
        (F, K, Change.ACCEPTED),
        (None, K, None),
        (P, S, Change.GONE),
        (F, N, Change.GONE),
        (K, None, Change.GONE),
        (S, S, None),
        (S, None, None),
    ],
)
def test_a_case_changes_by_how_it_ended_in_each_run(
    before: ResultStatus | None, after: ResultStatus | None, change: Change | None
) -> None:
    runs = [outcomes([result("a", status)] if status else []) for status in (before, after)]
    found = changes_between(*runs)
    assert [kind for kind, places in found.items() if places] == ([change] if change else [])
    assert is_worse(found) == (change in (Change.BROKEN, Change.NEW))


def test_cases_of_one_id_and_deployments_of_one_case_are_told_apart() -> None:
    before = outcomes([result("a"), result("a", F), result("a", topology="sharded")])
    after = outcomes([result("a"), result("a"), result("a", F, topology="sharded")])
    found = changes_between(before, after)
    assert [str(place) for place in found[Change.FIXED]] == [f"{result('a').id} (2)  [reference, replicaset]"]
    assert [str(place) for place in found[Change.BROKEN]] == [f"{result('a').id}  [reference, sharded]"]


@pytest.fixture
def report(tmp_path: Path, pushbackd: Any) -> Any:
    """What reports on two runs of these results: versions 7.8.0 and 7.9.0 of a driver."""

    def run(before: Iterable[Result], after: Iterable[Result], names: tuple[str, ...] = ("a=", "b=")) -> Any:
        words = []
        for name, version, results in zip(names, ("7.8.0", "7.9.0"), (before, after), strict=True):
            path = tmp_path / f"{version}.jsonl"
            settings = replace(REAL.settings, drivers=(("node", f"nodejs {version}"),))
            with ResultsWriter(path, replace(REAL, settings=settings)) as writer:
                for each in results:
                    writer.add(replace(each, adapter="node"))
                writer.end()
            words.append(f"{name}{path}")
        return pushbackd("report", *words, "-o", tmp_path / "page.html")

    return run


def test_a_case_that_is_broken_is_told_with_its_reason_and_ends_with_1(report: Any) -> None:
    before = [result("a"), result("b", F), result("c", F)]
    after = [result("a", F, reason="one attempt too few\nand more"), result("b"), result("c", F)]
    done = report(before, after)
    assert done.exit_code == ExitCode.FAILED
    group = result("").id
    assert done.stdout.splitlines()[1:] == [
        "b (nodejs 7.9.0) against a (nodejs 7.8.0)",
        "broken: 1",
        f"  {group}a  [node, replicaset]: one attempt too few",
        "fixed: 1",
        f"  {group}b  [node, replicaset]",
        "still failing: 1",
        f"  {group}c  [node, replicaset]",
        "worse: 1 broken, 1 fixed, 1 still failing",
    ]


def test_a_run_that_is_not_worse_ends_with_0_and_folds_what_is_long(report: Any) -> None:
    failing = [result(f"case {number}", F) for number in range(15)]
    done = report(failing, failing)
    assert done.exit_code == ExitCode.PASSED
    lines = done.stdout.splitlines()
    assert (len(lines), lines[-2:]) == (14, ["  and 6 more", "not worse: 15 still failing"])
    assert report([result("a")], [result("a")]).stdout.splitlines()[-1] == "not worse: nothing has changed"


def test_runs_without_a_case_in_common_cannot_be_compared(report: Any) -> None:
    done = report([result("a")], [result("b")])
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "b (nodejs 7.9.0) have no case in common: name runs of one adapter" in done.stderr


def test_runs_without_names_are_not_compared(report: Any) -> None:
    done = report([result("a")], [result("a", F)], names=("", ""))
    assert (done.exit_code, len(done.stdout.splitlines())) == (ExitCode.PASSED, 1)


LINK = re.compile('<a href="([^"]*)">([^<]*)</a>([^<]*)')


def changes_of(page: Path) -> str:
    """Return the part of a page that lists what has changed, or an empty text."""
    found = re.search('<details id="changes"(.*?)</details>', page.read_text(encoding="utf-8"), re.DOTALL)
    return found[1] if found else ""


def test_the_page_begins_with_what_the_terminal_says(report: Any, tmp_path: Path) -> None:
    twice = [result("a"), result("a <b>", F)]
    done = report(twice, [result("a", F, reason="one < two"), result("a <b>")])
    listed = changes_of(tmp_path / "page.html")
    group = result("").id
    lines = done.stdout.splitlines()
    assert listed.startswith(f" open><summary>{lines[1]}: {lines[-1]}</summary><h2>broken: 1</h2>")
    assert [
        (unquote(address), unescape(case), unescape(told)) for address, case, told in LINK.findall(listed)
    ] == [
        (f"#case={group}a", f"{group}a  [node, replicaset]", ": one < two"),
        (f"#case={group}a <b>", f"{group}a <b>  [node, replicaset]", ""),
    ]
    report(twice, twice)
    assert changes_of(tmp_path / "page.html").startswith("><summary>")
    report([result("a")], [result("a")], names=("", ""))
    assert changes_of(tmp_path / "page.html") == ""


def test_the_list_fits_the_terminal(report: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "columns", lambda **_: 60)
    done = report([result("a")], [result("a", F, reason="one attempt too few, as the server counts them")])
    assert max(map(len, done.stdout.splitlines())) <= 60
