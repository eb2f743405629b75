from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from corpus_runs import complaints, run_folder

from harness.result import ResultStatus, Tally
from harness.unified.errors import ScenarioError
from harness.unified.loader import load

if TYPE_CHECKING:
    from pathlib import Path

    from harness.plan import Time

pytestmark = pytest.mark.corpus

RUNS = pytest.mark.parametrize(
    ("adapter", "time"),
    [("reference", "virtual"), ("pymongo", "real"), ("pymongo-async", "real")],
    ids=["reference-virtual", "pymongo", "pymongo-async"],
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
def test_every_valid_pass_case_passes_or_is_known_to_fail(corpus: Path, adapter: str, time: Time) -> None:
    results = run_folder(folder_of(corpus, "valid-pass"), adapter=adapter, time=time)
    assert complaints(results, ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS) == []
    assert Tally.of(results)[ResultStatus.PASSED] > 0


@RUNS
@pytest.mark.slow
def test_no_valid_fail_case_passes(corpus: Path, adapter: str, time: Time) -> None:
    results = []
    for path in sorted(folder_of(corpus, "valid-fail").glob("*.yml")):
        try:
            load(path)
        except ScenarioError:
            continue
        results += run_folder(path, adapter=adapter, time=time)
    assert complaints(results, ResultStatus.FAILED, ResultStatus.PASSED, ResultStatus.UNEXPECTED_PASS) == []
    tally = Tally.of(results)
    assert tally[ResultStatus.KNOWN_FAILING] > 2 * tally[ResultStatus.SKIPPED]
