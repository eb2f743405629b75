"""Folders of public specification tests of which every case that applies passes.

On a replica set of today the newest edition runs all of Client Backpressure and a share of the others, what
else there is a smaller one: at full size (`PUSHBACKD_TESTS="public=100 reference=100"`) all.
"""

from __future__ import annotations

from itertools import cycle, product
from typing import TYPE_CHECKING

import pytest
from corpus_runs import complaints, run_folder, share_of, share_of_reference
from sizes import is_full

from harness.adapters.registry import EDITIONS
from harness.planning.result import ResultStatus, Tally

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

EDITIONS_DIFFER = ("causal-consistency", "client-backpressure")
IN_VIRTUAL_TIME = (
    *((folder, edition) for folder in EDITIONS_DIFFER for edition in EDITIONS),
    *((folder, "") for folder in ("collection-management", "crud", "gridfs", "index-management")),
    *((folder, "") for folder in ("read-write-concern", "retryable-reads")),
)
NOTHING_APPLIES = {("causal-consistency", "single")}

FOLDERS = sorted({folder for folder, _ in IN_VIRTUAL_TIME})
RELEASES = ("8.0", "9.0")
OTHER_RELEASES = (
    [*product(FOLDERS, RELEASES)] if is_full("public") else [*zip(FOLDERS, cycle(RELEASES), strict=False)]
)
"""Each folder meets one of the releases, at full size each of them."""

TOPOLOGIES = pytest.mark.parametrize("topology", ["single", "replicaset"])


@TOPOLOGIES
@pytest.mark.parametrize(("folder", "edition"), IN_VIRTUAL_TIME)
def test_the_reference_driver_fails_nothing_but_what_its_edition_explains(
    corpus: Path, folder: str, edition: str, topology: str
) -> None:
    share = share_of()
    if topology == "replicaset" and edition in {"", EDITIONS[-1]}:
        share = 1.0 if edition else share_of_reference()
    results = run_folder(
        corpus / folder, adapter="reference", time="virtual", topology=topology, edition=edition, share=share
    )
    assert complaints(results, ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS) == []
    assert (Tally.of(results).ran == 0) is ((folder, topology) in NOTHING_APPLIES) or share < 1


@pytest.mark.parametrize(("folder", "release"), OTHER_RELEASES)
def test_other_releases_get_the_same_runs(corpus: Path, folder: str, release: str) -> None:
    topology = f"replicaset@{release}"
    results = run_folder(
        corpus / folder, adapter="reference", time="virtual", topology=topology, share=share_of()
    )
    assert complaints(results, ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS) == []
    assert Tally.of(results).ran > 0 or not is_full("public")
