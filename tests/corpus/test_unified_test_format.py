from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from corpus_runs import complaints, run_folder, share_of, share_of_reference
from sizes import in_full

from harness.cli import cli
from harness.deployments.targets import GROUPS
from harness.planning.result import ExitCode, ResultStatus
from harness.unified.errors import ScenarioError
from harness.unified.loader import load

if TYPE_CHECKING:
    from pathlib import Path

    from harness.planning.plan import Time
    from harness.planning.result import Result

pytestmark = pytest.mark.corpus

RUNS = pytest.mark.parametrize(
    ("adapter", "time"),
    [
        pytest.param("reference", "virtual", id="reference-virtual"),
        pytest.param("pymongo-async", "real", id="pymongo-async"),
        pytest.param(
            "pymongo", "real", id="pymongo", marks=in_full("public", "shares its code with pymongo-async")
        ),
    ],
)


def folder_of(corpus: Path, kind: str) -> Path:
    return corpus / "unified-test-format" / "tests" / kind


def accepted(path: Path) -> str | None:
    """Return why a file's rejection is not what an author needs, or None when it is."""
    try:
        load(path)
    except ScenarioError as error:
        place = error.location
        if place is None or place.path != path or not place.line or not error.message:
            return f"{path.name}: rejected, but without file and line: {error}"
        return (
            None if place.field or "'" in error.message else f"{path.name}: rejected without a field: {error}"
        )
    return f"{path.name}: accepted"


@pytest.mark.parametrize("suffix", ["yml", "json"])
def test_every_invalid_file_is_rejected_with_file_line_and_field(corpus: Path, suffix: str) -> None:
    files = sorted(folder_of(corpus, "invalid").glob(f"*.{suffix}"))
    assert len(files) > 200
    assert list(filter(None, map(accepted, files))) == []


@RUNS
@pytest.mark.slow
def test_wherever_they_apply_valid_pass_cases_pass_and_valid_fail_cases_fail(
    corpus: Path, adapter: str, time: Time
) -> None:
    # PyMongo's runs are those of the report, too.
    share = share_of_reference() if adapter == "reference" else share_of(3)
    results = everywhere(corpus / "unified-test-format" / "tests", adapter=adapter, time=time, share=share)
    assert complaints(results, ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS) == []
    for folder, status in FOLDERS.items():
        ran = [each for each in results if folder in each.id and each.status is not ResultStatus.SKIPPED]
        assert ran
        assert [each.id for each in ran if each.status is not status] == []
    if share == 1.0:
        assert [reason for reason in never_run(results) if not APPLIES_NOWHERE.search(reason)] == []


FOLDERS = {"/valid-pass/": ResultStatus.PASSED, "/valid-fail/": ResultStatus.KNOWN_FAILING}


def everywhere(folder: Path, *, adapter: str, time: Time, share: float) -> list[Result]:
    """Run a share of the cases on all four deployments."""
    return [
        result
        for topology in GROUPS["matrix"]
        for result in run_folder(folder, adapter=adapter, time=time, topology=topology, share=share)
    ]


APPLIES_NOWHERE = re.compile(r"client-side encryption|^needs server \S+ or older|^DRIVERS-\d+")
"""What no deployment of ours has and no driver of ours can, and what the file itself leaves out."""


def never_run(results: list[Result]) -> list[str]:
    """Return, for each case that ran nowhere, the reason that says most."""
    ran = {result.id for result in results if result.status is not ResultStatus.SKIPPED}
    reasons: dict[str, set[str]] = {}
    for result in results:
        if result.id not in ran:
            reasons.setdefault(result.id, set()).add(result.reason)
    return [
        next(iter(filter(APPLIES_NOWHERE.search, sorted(said))), "; ".join(sorted(said)))
        for said in reasons.values()
    ]


@pytest.mark.slow
def test_a_run_of_the_whole_folder_fails_for_the_invalid_files_only(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = corpus / "unified-test-format"
    arguments = ["conform", str(folder), "--time", "virtual", "--jobs", "1", "--json"]
    assert cli.main(arguments, standalone_mode=False) == ExitCode.BAD_INPUT
    said = capsys.readouterr()
    summary = json.loads(said.out.splitlines()[-1])["summary"]
    # A slow machine is told every ten seconds how far the run is.
    refused = [line for line in said.err.splitlines() if not re.match(r"\d+ of \d+ after ", line)]
    assert (summary["failed"], summary["unexpected-pass"]) == (0, 0)
    assert summary["passed"] > 0
    assert summary["unusable-files"] == len(refused) > 200
    for line in refused:
        assert re.match(rf"{re.escape(str(folder))}/\S+\.yml:\d+", line), line
    others = [line for line in refused if "/invalid/" not in line]
    assert all("schemaVersion-unsupported" in line for line in others)
