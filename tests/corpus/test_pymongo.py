"""PyMongo's two APIs and all public cases, on the four deployments on which each of them applies somewhere.

One API runs every third case and the other every ninth, which shares its code but for the threads; with
CORPUS=full in the environment both run all, as the report does (`tox -e report`).
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING

import pytest
from corpus_runs import complaints, run_folder

from harness.deployments.targets import GROUPS
from harness.running.result import ResultStatus, Tally

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

FULL = os.environ.get("CORPUS") == "full"
PARTS = {"pymongo-async": 1 if FULL else 3, "pymongo": 1 if FULL else 9}
"""Of how many cases one runs."""

AT_LEAST = {"single+auth": 600, "replicaset": 1150, "sharded": 1150, "load-balanced+auth": 1000}
"""How many of all cases pass, at the least."""


@pytest.mark.parametrize("topology", GROUPS["matrix"])
@pytest.mark.parametrize("adapter", PARTS)
def test_every_case_passes_or_is_known_to_fail(corpus: Path, adapter: str, topology: str) -> None:
    parts = PARTS[adapter]
    results = run_folder(
        corpus,
        adapter=adapter,
        time="real",
        topology=topology,
        wanted=lambda case_id: zlib.crc32(case_id.encode()) % parts == 0,
    )
    assert complaints(results, ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS) == []
    assert Tally.of(results)[ResultStatus.PASSED] >= AT_LEAST[topology] / parts * 0.8
    assert [each.id for each in results if "server does not support" in each.reason] == []
