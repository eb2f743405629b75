"""PyMongo's two APIs and all public cases, on the four deployments on which each of them applies somewhere.

One API runs a share of the cases, and the other a third of them, as it shares its code but for the threads;
at full size (`PUSHBACKD_TESTS=public=100`) both run all, as the report does (`tox -e report`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from corpus_runs import complaints, run_folder, share_of
from sizes import is_full

from harness.deployments.targets import GROUPS
from harness.planning.result import ResultStatus, Tally

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

SHARES = {
    "pymongo-async": share_of(),
    "pymongo": share_of(1 if is_full("public") else 1 / 3),
}
"""What share of the cases runs."""

AT_LEAST = {"single+auth": 600, "replicaset": 1150, "sharded": 1150, "load-balanced+auth": 1000}
"""How many of all cases pass, at the least."""


@pytest.mark.parametrize("topology", GROUPS["matrix"])
@pytest.mark.parametrize("adapter", SHARES)
def test_every_case_passes_or_is_known_to_fail(corpus: Path, adapter: str, topology: str) -> None:
    share = SHARES[adapter]
    results = run_folder(
        corpus,
        adapter=adapter,
        time="real",
        topology=topology,
        share=share,
    )
    assert complaints(results, ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS) == []
    assert Tally.of(results)[ResultStatus.PASSED] >= AT_LEAST[topology] * share * 0.8
    assert [each.id for each in results if "server does not support" in each.reason] == []
