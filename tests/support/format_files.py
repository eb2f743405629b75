"""Cases of formats other than the unified one, from documents that a test writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from harness.formats.case import FormatFile, cases_of, run_alone
from harness.unified.account import Account
from harness.unified.loader import read

if TYPE_CHECKING:
    from pathlib import Path

    from harness.unified.outcome import CaseOutcome

POOL_CASE: dict[str, Any] = {
    "version": 1,
    "style": "unit",
    "description": "a pool",
    "operations": [{"name": "ready"}, {"name": "checkOut", "label": "conn"}],
    "events": [],
}


URI = "mongodb://u:p@a/things?w=2"
VALID = {"description": "", "uri": URI, "valid": True, "warning": False}
HELLO = {"ok": 1, "isWritablePrimary": True, "setName": "rs", "hosts": ["a:1"], "maxWireVersion": 21}
OUTCOME: dict[str, Any] = {
    "topologyType": "ReplicaSetWithPrimary",
    "setName": "rs",
    "servers": {"a:1": {"type": "RSPrimary", "setName": "rs", "pool": {"generation": 0}}},
}
SERVER = {"address": "a:1", "type": "RSPrimary", "avg_rtt_ms": 5}
SELECTION = {
    "topology_description": {"type": "ReplicaSetWithPrimary", "servers": [SERVER]},
    "read_preference": {"mode": "Primary"},
    "suitable_servers": [SERVER],
    "in_latency_window": [SERVER],
}
IN_WINDOW: dict[str, Any] = {
    "topology_description": {"type": "ReplicaSetWithPrimary", "servers": [SERVER]},
    "mocked_topology_state": [{"address": "a:1", "operation_count": 0}],
    "iterations": 10,
    "outcome": {"tolerance": 0.1, "expected_frequencies": {"a:1": 1}},
}
RTT: dict[str, Any] = {"avg_rtt_ms": "NULL", "new_rtt_ms": 11, "new_avg_rtt": 11}
CONCERN: dict[str, Any] = {
    "description": "",
    "valid": True,
    "writeConcern": {"w": 2},
    "writeConcernDocument": {"w": 2},
    "isServerDefault": False,
    "isAcknowledged": True,
}


def listed(*cases: dict[str, Any]) -> dict[str, Any]:
    """Return a file whose cases these are."""
    return {"tests": list(cases)}


def discovery(outcome: dict[str, Any], **phase: Any) -> dict[str, Any]:
    """Return a case in which a primary is seen, and then an outcome expected."""
    phases = [{"responses": [["a:1", HELLO]], "outcome": outcome, **phase}]
    return {"description": "seen", "uri": "mongodb://a:1/?replicaSet=rs", "phases": phases}


def load(folder: Path, document: Any) -> FormatFile:
    """Write a document to a file and read its cases. Raises ScenarioError."""
    path = folder / "file.json"
    path.write_text(json.dumps(document))
    file = cases_of(read(path))
    assert isinstance(file, FormatFile)
    return file


def run(folder: Path, document: Any) -> list[CaseOutcome]:
    """Run all cases of a document without servers, and return how they ended."""
    cases = load(folder, document).cases
    assert cases
    return [run_alone(case, Account()) for case in cases]
