"""Unified Test Format: expectedError."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.adapters.base import ErrorReport
from harness.unified.entities import EntityMap
from harness.unified.matching.error_matcher import match_error
from harness.unified.model import ExpectedError
from mongowire.documents.marks import Location

REPORT = ErrorReport(
    message="E11000 Duplicate key",
    code=11000,
    code_name="DuplicateKey",
    labels=frozenset({"RetryableWriteError"}),
    response={"ok": 0, "code": 11000, "errmsg": "E11000"},
    result={"insertedCount": 1, "more": 1},
    write_errors={1: {"code": 11000, "message": "dup"}},
    write_concern_errors=[{"code": 64, "message": "timeout"}],
)

MATCHING: list[dict[str, Any]] = [
    {},
    {"is_client_error": False},
    {"is_timeout_error": False},
    {"contains": "e11000 duplicate"},
    {"code": 11000},
    {"code_name": "duplicatekey"},
    {"labels_contain": ("RetryableWriteError",), "labels_omit": ("NoWritesPerformed",)},
    {"response": {"code": 11000}},
    {"result": {"insertedCount": 1}},
    {"write_errors": {"1": {"code": 11000}}},
    {"write_concern_errors": ({"code": 64},)},
]

DIFFERING: list[tuple[dict[str, Any], str]] = [
    ({"is_client_error": True}, "isClientError"),
    ({"is_timeout_error": True}, "isTimeoutError"),
    ({"contains": "other"}, "errorContains"),
    ({"code": 1}, "errorCode"),
    ({"code_name": "Other"}, "errorCodeName"),
    ({"labels_contain": ("NoWritesPerformed",)}, "errorLabelsContain"),
    ({"labels_omit": ("RetryableWriteError",)}, "errorLabelsOmit"),
    ({"response": {"code": 1}}, "errorResponse.code"),
    ({"result": {"insertedCount": 2}}, "expectResult.insertedCount"),
    ({"write_errors": {"0": {}, "1": {}}}, "writeErrors"),
    ({"write_errors": {}}, "writeErrors"),
    ({"write_errors": {"1": {"code": 1}}}, "writeErrors.1.code"),
    ({"write_concern_errors": ()}, "writeConcernErrors"),
    ({"write_concern_errors": ({"code": 1},)}, "writeConcernErrors[0].code"),
]


def expectation(**fields: Any) -> ExpectedError:
    return ExpectedError(Location(Path("x.yml"), 1), **fields)


@pytest.mark.parametrize("fields", MATCHING)
def test_assertions_that_hold(fields: dict[str, Any]) -> None:
    assert match_error(expectation(**fields), REPORT, entities=EntityMap()) is None


@pytest.mark.parametrize(("fields", "path"), DIFFERING)
def test_the_assertion_that_does_not_hold_is_named(fields: dict[str, Any], path: str) -> None:
    found = match_error(expectation(**fields), REPORT, entities=EntityMap())
    assert found is not None
    assert found.path == path


def test_a_code_name_is_found_by_the_code_when_the_driver_gives_none() -> None:
    report = ErrorReport(message="", code=11600)
    assert match_error(expectation(code_name="InterruptedAtShutdown"), report, entities=EntityMap()) is None


def test_a_result_that_may_be_unset_matches_an_error_without_one() -> None:
    fields = {"result": {"$$unsetOrMatches": {"insertedCount": 1}}}
    assert match_error(expectation(**fields), ErrorReport(message=""), entities=EntityMap()) is None


@pytest.mark.parametrize(
    "fields", [{"response": {"ok": 0}}, {"result": {"n": 1}}, {"write_errors": {"0": {}}}]
)
def test_what_the_driver_does_not_report_does_not_match(fields: dict[str, Any]) -> None:
    assert match_error(expectation(**fields), ErrorReport(message=""), entities=EntityMap()) is not None
