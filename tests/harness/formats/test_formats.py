"""The runners of formats without servers say what a driver does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from format_files import CONCERN, IN_WINDOW, OUTCOME, RTT, SELECTION, VALID, discovery, listed, run

from harness.unified.outcome import CaseOutcome, Status

if TYPE_CHECKING:
    from pathlib import Path


def passes(folder: Path, document: Any) -> bool:
    return [outcome.status for outcome in run(folder, document)] == [Status.PASSED]


def complaint(folder: Path, document: Any) -> CaseOutcome:
    (outcome,) = run(folder, document)
    assert outcome.status is Status.FAILED
    return outcome


STRINGS: list[dict[str, Any]] = [
    {},
    {"hosts": [{"type": "hostname", "host": "A", "port": None}]},
    {"auth": {"username": "u", "password": "p", "db": "things"}},
    {"options": {"W": 2}},
    {"readConcern": {}, "writeConcern": {"w": 2}},
    {"uri": "mongodb://a", "credential": None},
]
WRONG_STRINGS: list[tuple[dict[str, Any], str]] = [
    ({"valid": False}, "tests[0].valid: expected an error"),
    ({"warning": True}, "tests[0].warning: warnings"),
    ({"uri": "http://a"}, "tests[0].uri: expected no error"),
    ({"hosts": [{"type": "hostname", "host": "b", "port": 1}]}, "tests[0].hosts: expected ['b:1']"),
    ({"auth": {"username": "u", "password": "q", "db": "things"}}, "tests[0].auth.password: expected 'q'"),
    ({"auth": {"username": "u", "password": "p", "db": None}}, "tests[0].auth.db: expected None"),
    ({"options": {"w": 3}}, "tests[0].options.w: expected 3, got 2"),
    ({"readConcern": {"level": "local"}}, "tests[0].readConcern"),
    ({"writeConcern": {"w": 1}}, "tests[0].writeConcern"),
    ({"credential": None}, "tests[0].credential: expected None"),
]


@pytest.mark.parametrize("fields", STRINGS)
def test_a_string_that_is_understood_passes(tmp_path: Path, fields: dict[str, Any]) -> None:
    assert passes(tmp_path, listed({**VALID, **fields}))


@pytest.mark.parametrize(("fields", "says"), WRONG_STRINGS)
def test_a_string_that_is_understood_otherwise_fails(
    tmp_path: Path, fields: dict[str, Any], says: str
) -> None:
    assert complaint(tmp_path, listed({**VALID, **fields})).reason.startswith(says)


def test_an_option_that_the_driver_does_not_know_is_an_error_that_names_it(tmp_path: Path) -> None:
    (outcome,) = run(tmp_path, listed({**VALID, "options": {"nearness": 3}}))
    assert (outcome.status, outcome.reason) == (
        Status.ERROR,
        "the option nearness is unknown to the driver",
    )


@pytest.mark.parametrize("name", ["username", "password", "source", "mechanism", "mechanism_properties"])
def test_another_credential_fails(tmp_path: Path, name: str) -> None:
    credential = {"username": "u", "password": "p", "source": "things", "mechanism": None}
    whole = {**VALID, "credential": {**credential, "mechanism_properties": None}}
    assert passes(tmp_path, listed(whole))
    other = {"A": "b"} if name == "mechanism_properties" else "other"
    wrong = {**whole, "credential": {**credential, "mechanism_properties": None, name: other}}
    assert complaint(tmp_path, listed(wrong)).reason.startswith(f"tests[0].credential.{name}: expected")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"writeConcernDocument": {"w": 1}}, "writeConcernDocument"),
        ({"isServerDefault": True}, "isServerDefault"),
        ({"isAcknowledged": False}, "isAcknowledged"),
        ({"valid": False}, "valid: expected an error"),
        ({"writeConcern": {"w": -1}}, "writeConcern: expected no error"),
    ],
)
def test_another_concern_fails(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    assert passes(tmp_path, listed(CONCERN))
    assert complaint(tmp_path, listed({**CONCERN, **fields})).reason.startswith(f"tests[0].{says}")


def test_an_outcome_that_is_reached_passes(tmp_path: Path) -> None:
    assert passes(tmp_path, discovery(OUTCOME))


@pytest.mark.parametrize(
    ("outcome", "field"),
    [
        ({**OUTCOME, "topologyType": "Single"}, "topologyType"),
        ({**OUTCOME, "setName": "other"}, "setName"),
        ({**OUTCOME, "servers": {}}, "servers"),
        ({**OUTCOME, "compatible": False}, "compatible"),
        (
            {**OUTCOME, "servers": {"a:1": {"type": "RSPrimary", "pool": {"generation": 1}}}},
            "servers.a:1.pool",
        ),
        ({**OUTCOME, "servers": {"a:1": {"type": "RSSecondary"}}}, "servers.a:1.type"),
        ({**OUTCOME, "servers": {"a:1": {"type": "RSPrimary", "error": "lost"}}}, "servers.a:1.error"),
        (
            {**OUTCOME, "servers": {"a:1": {"type": "RSPrimary", "maxWireVersion": 20}}},
            "servers.a:1.maxWireVersion",
        ),
        ({"events": [{"topology_opening_event": {}}]}, "events"),
    ],
)
def test_an_outcome_that_is_not_reached_fails_at_its_place(
    tmp_path: Path, outcome: dict[str, Any], field: str
) -> None:
    failed = complaint(tmp_path, discovery(outcome))
    assert failed.mismatch is not None
    assert failed.mismatch.path == f"phases[0].outcome.{field}"


def test_a_failed_case_of_discovery_shows_what_was_published(tmp_path: Path) -> None:
    failed = complaint(tmp_path, discovery({**OUTCOME, "topologyType": "Single"}))
    assert failed.events is not None
    kinds = [event.kind for event in failed.events["driver"]]
    assert kinds[:2] == ["topologyOpeningEvent", "topologyDescriptionChangedEvent"]


def test_an_error_of_a_server_that_nobody_knows_is_the_file_s_fault(tmp_path: Path) -> None:
    failures = [{"address": "b:1", "when": "afterHandshakeCompletes", "type": "network"}]
    (outcome,) = run(tmp_path, discovery(OUTCOME, applicationErrors=failures))
    assert (outcome.status, outcome.reason) == (Status.ERROR, "no server b:1 is known by now")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"suitable_servers": []}, "suitable_servers: expected []"),
        ({"in_latency_window": []}, "in_latency_window: expected []"),
        ({"error": True}, "error: expected an error"),
        ({"read_preference": {"mode": "Secondary", "maxStalenessSeconds": 1}}, "expected no error"),
    ],
)
def test_another_selection_fails(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    assert passes(tmp_path, SELECTION)
    assert complaint(tmp_path, {**SELECTION, **fields}).reason.startswith(says)


def test_another_average_and_another_share_fail(tmp_path: Path) -> None:
    assert passes(tmp_path, RTT)
    assert complaint(tmp_path, {**RTT, "new_avg_rtt": 2}).reason.startswith("new_avg_rtt: average: expected")
    assert passes(tmp_path, IN_WINDOW)
    other = {**IN_WINDOW, "outcome": {"tolerance": 0.1, "expected_frequencies": {"a:1": 0.5}}}
    assert complaint(tmp_path, other).reason.startswith("outcome.expected_frequencies.a:1: expected a share")
