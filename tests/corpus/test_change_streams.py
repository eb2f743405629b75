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
    [("reference", "virtual"), ("pymongo-async", "real")],
    ids=["reference-virtual", "pymongo-async"],
)
def test_every_change_streams_case_that_applies_to_a_replica_set_passes(
    corpus: Path, adapter: str, time: Time
) -> None:
    # All of them are those of the report, too.
    share = share_of_reference() if adapter == "reference" else share_of(6)
    results = run_folder(corpus / "change-streams", adapter=adapter, time=time, share=share)
    tally = Tally.of(results)
    assert complaints(results, ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS) == []
    assert tally[ResultStatus.PASSED] > 2 * tally[ResultStatus.SKIPPED]
    for result in results:
        if result.status is ResultStatus.SKIPPED:
            assert any(word in result.reason for word in ("auth", "server", "topology")), result.reason
