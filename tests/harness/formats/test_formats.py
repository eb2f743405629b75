"""The runners of formats without servers say what a driver does not know."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.formats import MismatchError, cases_of
from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from pathlib import Path

URI = "mongodb://u:p@a/things?w=2"
VALID = {"description": "", "uri": URI, "valid": True, "warning": False}
HELLO = {"ok": 1, "isWritablePrimary": True, "setName": "rs", "hosts": ["a:1"], "maxWireVersion": 21}
OUTCOME: dict[str, Any] = {
    "topologyType": "ReplicaSetWithPrimary",
    "setName": "rs",
    "servers": {"a:1": {"type": "RSPrimary", "setName": "rs", "pool": {"generation": 0}}},
}
SERVER = {"address": "a:1", "type": "RSPrimary", "avg_rtt_ms": 5}


def run(tmp_path: Path, folder: str, document: Any) -> None:
    path = tmp_path / folder / "file.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document))
    cases = cases_of(path)
    assert cases
    for case in cases:
        case.run()


STRINGS: list[dict[str, Any]] = [
    {},
    {"hosts": [{"type": "hostname", "host": "A", "port": None}]},
    {"auth": {"username": "u", "password": "p", "db": "things"}},
    {"options": {"W": 2}},
]
WRONG_STRINGS: list[tuple[dict[str, Any], str]] = [
    ({"valid": False}, "expected an error"),
    ({"warning": True}, "warnings"),
    ({"uri": "http://a"}, "expected no error"),
    ({"hosts": [{"type": "hostname", "host": "b", "port": 1}]}, "hosts"),
    ({"auth": {"username": "u", "password": "q", "db": "things"}}, "password"),
    ({"auth": {"username": "u", "password": "p", "db": None}}, "db"),
    ({"options": {"w": 3}}, "w: expected 3, got 2"),
]


@pytest.mark.parametrize("fields", STRINGS)
def test_a_string_that_is_understood_passes(tmp_path: Path, fields: dict[str, Any]) -> None:
    run(tmp_path, "uri-options/tests", {"tests": [{**VALID, **fields}]})


@pytest.mark.parametrize(("fields", "complaint"), WRONG_STRINGS)
def test_a_string_that_is_understood_otherwise_fails(
    tmp_path: Path, fields: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(MismatchError, match=complaint):
        run(tmp_path, "connection-string/tests", {"tests": [{**VALID, **fields}]})


@pytest.mark.parametrize(
    "credential", [None, {"username": "u", "password": "p", "source": "b", "mechanism": None}]
)
def test_another_credential_fails(tmp_path: Path, credential: dict[str, Any] | None) -> None:
    with pytest.raises(MismatchError):
        run(tmp_path, "auth/tests/legacy", {"tests": [{**VALID, "credential": credential}]})


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"writeConcernDocument": {"w": 1}}, "document"),
        ({"isServerDefault": True}, "isServerDefault"),
        ({"isAcknowledged": False}, "isAcknowledged"),
        ({"valid": False}, "expected an error"),
        ({"writeConcern": {"w": -1}}, "expected no error"),
    ],
)
def test_another_concern_fails(tmp_path: Path, fields: dict[str, Any], complaint: str) -> None:
    concern = {"writeConcern": {"w": 2}, "writeConcernDocument": {"w": 2}}
    case = {**VALID, **concern, "isServerDefault": False, "isAcknowledged": True, **fields}
    with pytest.raises(MismatchError, match=complaint):
        run(tmp_path, "read-write-concern/tests/document", {"tests": [case]})


def discovery(outcome: dict[str, Any]) -> dict[str, Any]:
    phase = {"responses": [["a:1", HELLO]], "outcome": outcome}
    return {"uri": "mongodb://a:1/?replicaSet=rs", "phases": [phase]}


def test_an_outcome_that_is_reached_passes(tmp_path: Path) -> None:
    run(tmp_path, "server-discovery-and-monitoring/tests/rs", discovery(OUTCOME))


@pytest.mark.parametrize(
    ("outcome", "complaint"),
    [
        ({**OUTCOME, "topologyType": "Single"}, "topologyType"),
        ({**OUTCOME, "setName": "other"}, "setName"),
        ({**OUTCOME, "servers": {}}, "servers"),
        ({**OUTCOME, "compatible": False}, "compatible"),
        ({**OUTCOME, "servers": {"a:1": {"type": "RSPrimary", "pool": {"generation": 1}}}}, "generation"),
        ({**OUTCOME, "servers": {"a:1": {"type": "RSSecondary"}}}, "type"),
        ({**OUTCOME, "servers": {"a:1": {"type": "RSPrimary", "error": "lost"}}}, "error"),
        ({"events": [{"topology_opening_event": {}}]}, "events"),
    ],
)
def test_an_outcome_that_is_not_reached_fails(
    tmp_path: Path, outcome: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(MismatchError, match=complaint):
        run(tmp_path, "server-discovery-and-monitoring/tests/rs", discovery(outcome))


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"suitable_servers": []}, "suitable servers"),
        ({"in_latency_window": []}, "in the window"),
        ({"error": True}, "expected an error"),
        ({"read_preference": {"mode": "Secondary", "maxStalenessSeconds": 1}}, "expected no error"),
    ],
)
def test_another_selection_fails(tmp_path: Path, fields: dict[str, Any], complaint: str) -> None:
    topology = {"type": "ReplicaSetWithPrimary", "servers": [SERVER]}
    case = {"topology_description": topology, "suitable_servers": [SERVER], "in_latency_window": [SERVER]}
    with pytest.raises(MismatchError, match=complaint):
        run(tmp_path, "max-staleness/tests/x", {**case, **fields})


def test_another_average_and_another_share_fail(tmp_path: Path) -> None:
    with pytest.raises(MismatchError, match="average"):
        run(tmp_path, "server-selection/tests/rtt", {"avg_rtt_ms": 1, "new_rtt_ms": 11, "new_avg_rtt": 2})
    case = {
        "topology_description": {"type": "ReplicaSetWithPrimary", "servers": [SERVER]},
        "mocked_topology_state": [{"address": "a:1", "operation_count": 0}],
        "iterations": 10,
        "outcome": {"tolerance": 0.1, "expected_frequencies": {"a:1": 0.5}},
    }
    with pytest.raises(MismatchError, match="share"):
        run(tmp_path, "server-selection/tests/in_window", case)


def test_a_file_of_no_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no folder of a format"):
        run(tmp_path, "crud/tests", {})
