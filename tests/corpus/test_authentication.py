"""Public cases that need access control: failures of the handshake, told apart and retried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from corpus_runs import complaints, run_folder

from harness.planning.result import ResultStatus, Tally

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

CASES = {
    "retryable-reads/tests/unified/handshakeError.yml": {"replicaset": 20},
    "server-discovery-and-monitoring/tests/unified/auth-error.yml": {"single": 1, "replicaset": 1},
    "server-discovery-and-monitoring/tests/unified/auth-network-error.yml": {"single": 1, "replicaset": 1},
    "server-discovery-and-monitoring/tests/unified/auth-network-timeout-error.yml": {
        "single": 1,
        "replicaset": 1,
    },
}


@pytest.mark.parametrize("adapter", ["reference", "pymongo-async"])
@pytest.mark.parametrize(
    ("path", "topology", "least"),
    [(path, topology, least) for path, counts in CASES.items() for topology, least in counts.items()],
    ids=lambda value: value.rpartition("/")[2] if isinstance(value, str) else None,
)
def test_what_goes_wrong_while_a_connection_is_authenticated_is_dealt_with(
    corpus: Path, path: str, topology: str, least: int, adapter: str
) -> None:
    results = run_folder(corpus / path, adapter=adapter, time="real", topology=f"{topology}+auth")
    wrong = complaints(results, ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS)
    assert [each for each in wrong if "createChangeStream" not in each] == []
    assert Tally.of(results)[ResultStatus.PASSED] >= least


def test_access_control_works_in_virtual_time_too(corpus: Path) -> None:
    path = corpus / "retryable-reads/tests/unified/handshakeError.yml"
    results = run_folder(path, adapter="reference", time="virtual", topology="replicaset+auth")
    assert complaints(results, ResultStatus.FAILED) == []
    assert Tally.of(results)[ResultStatus.PASSED] >= 10
