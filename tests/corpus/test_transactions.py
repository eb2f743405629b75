from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from corpus_runs import complaints, run_folder, share_of, share_of_reference

from harness.planning.result import ResultStatus, Tally

if TYPE_CHECKING:
    from pathlib import Path

    from harness.planning.plan import Time

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

FOLDERS = ("transactions", "transactions-convenient-api", "sessions", "causal-consistency")


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(("adapter", "time"), [("reference", "virtual"), ("pymongo-async", "real")])
def test_every_case_that_applies_to_a_replica_set_passes(
    corpus: Path, folder: str, adapter: str, time: Time
) -> None:
    edition = "2026-07-08" if adapter == "reference" else ""
    # All of them are those of the report, too.
    share = share_of_reference() if adapter == "reference" else share_of(2)
    results = run_folder(corpus / folder, adapter=adapter, time=time, edition=edition, share=share)
    assert complaints(results, ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS) == []
    assert Tally.of(results)[ResultStatus.PASSED] > Tally.of(results)[ResultStatus.SKIPPED] / 2 or share < 1
