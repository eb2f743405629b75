from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from corpus_runs import complaints, run_folder, share_of, share_of_reference

from harness.planning.result import ResultStatus, Tally

if TYPE_CHECKING:
    from pathlib import Path

    from harness.planning.plan import Time

pytestmark = [pytest.mark.corpus, pytest.mark.slow]


@pytest.mark.parametrize(
    ("adapter", "time"),
    [("reference", "virtual"), ("reference", "real"), ("pymongo", "real"), ("pymongo-async", "real")],
    ids=["reference-virtual", "reference-real", "pymongo", "pymongo-async"],
)
def test_every_retryable_writes_case_that_applies_to_a_replica_set_passes(
    corpus: Path, adapter: str, time: Time
) -> None:
    # Real time changes little in the reference driver, and PyMongo's runs are those of the report, too.
    shares = {"virtual": 1.0, "real": share_of_reference() if adapter == "reference" else share_of(3)}
    share = shares[time]
    results = run_folder(corpus / "retryable-writes", adapter=adapter, time=time, share=share)
    tally = Tally.of(results)
    assert complaints(results, ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS) == []
    assert tally[ResultStatus.PASSED] > 3 * tally[ResultStatus.SKIPPED]
    for result in results:
        if result.status is ResultStatus.SKIPPED:
            assert any(word in result.reason for word in ("auth", "server", "topology")), result.reason


def test_in_virtual_time_the_same_seed_gives_the_same_journals_byte_for_byte(
    corpus: Path, tmp_path: Path
) -> None:
    journals = []
    for name in ("first", "second"):
        folder = tmp_path / name
        cases = run_folder(
            corpus / "retryable-writes",
            adapter="reference",
            time="virtual",
            journal_dir=str(folder),
            share=share_of(2),
        )
        journals.append({path.name: path.read_bytes() for path in folder.iterdir()})
        assert len(journals[-1]) == len(cases)
    assert journals[0] == journals[1]
