"""Public specification tests against servers of older releases, in virtual time.

A share of them, at full size (`PUSHBACKD_TESTS=public=100`) all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from corpus_runs import complaints, run_folder, share_of

from harness.planning.result import ResultStatus, Tally

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.corpus, pytest.mark.slow]


@pytest.mark.parametrize("profile", ["4.2", "4.4"])
@pytest.mark.parametrize("folder", ["crud", "retryable-writes"])
def test_every_case_that_applies_to_an_older_release_passes(corpus: Path, folder: str, profile: str) -> None:
    results = run_folder(
        corpus / folder,
        adapter="reference",
        time="virtual",
        topology=f"replicaset@{profile}",
        share=share_of(2),
    )
    assert complaints(results, ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS) == []
    assert Tally.of(results)[ResultStatus.PASSED] > Tally.of(results).ran // 2 > 0
