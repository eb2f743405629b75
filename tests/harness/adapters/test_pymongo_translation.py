"""How the format's arguments become PyMongo's, and PyMongo's errors the format's."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import CursorType, InsertOne, ReadPreference, ReturnDocument, WriteConcern
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    ClientBulkWriteException,
    ExecutionTimeout,
    InvalidOperation,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    WriteConcernError,
    WriteError,
)
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import Secondary

from harness.adapters.base import EntityKind, UnsupportedOperation
from harness.adapters.pymongo.arguments import names, read_preference, snake
from harness.adapters.pymongo.operations import OPERATIONS
from harness.adapters.pymongo.results import report
from harness.unified.operations import OPERATIONS as FORMAT


@pytest.mark.parametrize(
    ("name", "keyword"),
    [
        ("batchSize", "batch_size"),
        ("maxTimeMS", "max_time_ms"),
        ("let", "let"),
        ("maxAwaitTimeMS", "max_await_time_ms"),
    ],
)
def test_names_are_spelled_as_pymongo_does(name: str, keyword: str) -> None:
    assert snake({name: 1}, names(name)) == {keyword: 1}


def test_an_argument_that_a_method_does_not_take_is_unsupported() -> None:
    with pytest.raises(UnsupportedOperation, match="rawData"):
        snake({"rawData": True}, names("filter"))


@pytest.mark.parametrize(
    ("name", "value", "converted"),
    [
        ("returnDocument", "After", ReturnDocument.AFTER),
        ("returnDocument", "before", ReturnDocument.BEFORE),
        ("cursorType", "tailableAwait", CursorType.TAILABLE_AWAIT),
        ("readConcern", {"level": "majority"}, ReadConcern("majority")),
        ("writeConcern", {"w": 2, "journal": True, "wtimeoutMS": 5}, WriteConcern(w=2, j=True, wtimeout=5)),
        ("readPreference", {"mode": "primary"}, ReadPreference.PRIMARY),
        ("requests", [{"insertOne": {"document": {"x": 1}}}], [InsertOne({"x": 1})]),
    ],
)
def test_values_become_pymongos_objects(name: str, value: Any, converted: Any) -> None:
    (result,) = snake({name: value}, names(name)).values()
    assert result == converted


def test_a_read_preference_keeps_its_tags_and_its_staleness() -> None:
    preference = read_preference({"mode": "secondary", "tagSets": [{"dc": "ny"}], "maxStalenessSeconds": 120})
    assert preference == Secondary([{"dc": "ny"}], 120)


def test_every_operation_of_the_format_is_in_the_table() -> None:
    """Or it closes a client, which the runner asks for by itself."""
    missing = [
        (kind, name)
        for kind, name in FORMAT
        if kind not in (EntityKind.TEST_RUNNER, EntityKind.CLIENT_ENCRYPTION)
        and name not in OPERATIONS[kind]
        and (kind, name) != (EntityKind.CLIENT, "close")
    ]
    assert not missing


SERVER = {
    "ok": 0,
    "code": 91,
    "codeName": "ShutdownInProgress",
    "errorLabels": ["RetryableWriteError", "Mine"],
}


def test_a_servers_error_has_its_code_its_labels_and_its_reply() -> None:
    said = report(OperationFailure("shutting down", 91, SERVER))
    assert (said.code, said.code_name, said.is_client_error) == (91, "ShutdownInProgress", False)
    assert said.labels == {"RetryableWriteError", "Mine"}
    assert said.response == SERVER


@pytest.mark.parametrize(
    ("error", "client", "timeout"),
    [
        (AutoReconnect("gone"), True, False),
        (NetworkTimeout("late"), True, True),
        (InvalidOperation("ended"), True, False),
        (TypeError("no document"), True, False),
        (NotPrimaryError("not primary", {"code": 10107}), False, False),
        (ExecutionTimeout("late", 50, {"code": 50}), False, True),
        (WriteConcernError("wce", 64, {"code": 64}), False, False),
        (WriteError("dup", 11000, {"code": 11000}), False, False),
    ],
)
def test_errors_originate_from_the_server_or_from_the_client(
    error: Exception, client: object, timeout: object
) -> None:
    said = report(error)
    assert (said.is_client_error, said.is_timeout_error) == (client, timeout)


def test_a_bulk_writes_error_has_all_messages_and_the_partial_result() -> None:
    counts = {"nInserted": 1, "nMatched": 0, "nModified": 0, "nRemoved": 0, "nUpserted": 0, "upserted": []}
    errors = [
        {"index": 1, "code": 11000, "errmsg": "dup one"},
        {"index": 2, "code": 121, "errmsg": "invalid two"},
    ]
    said = report(BulkWriteError({**counts, "writeErrors": errors, "writeConcernErrors": []}))
    assert "dup one" in said.message
    assert "invalid two" in said.message
    assert (said.code, said.code_name) == (11000, "DuplicateKey")
    assert said.result["insertedCount"] == 1


def client_bulk(**details: Any) -> ClientBulkWriteException:
    counts = dict.fromkeys(("nInserted", "nUpserted", "nMatched", "nModified", "nDeleted"), 0)
    results: dict[str, dict[int, Any]] = {"insertResults": {}, "updateResults": {}, "deleteResults": {}}
    return ClientBulkWriteException({**counts, **results, **details}, verbose=False)


def test_a_client_bulk_write_is_judged_by_its_top_level_error() -> None:
    said = report(client_bulk(error=OperationFailure("interrupted", 11600, {"code": 11600}), writeErrors=[]))
    assert (said.code, said.is_client_error) == (11600, False)
    assert "interrupted" in said.message
    assert report(client_bulk(error=AutoReconnect("gone"))).is_client_error


def test_a_client_bulk_write_names_its_errors_by_index_and_in_order() -> None:
    said = report(
        client_bulk(
            anySuccessful=True,
            writeErrors=[{"idx": 1, "code": 11000, "errmsg": "dup"}],
            writeConcernErrors=[{"code": 64, "errmsg": "late"}],
        )
    )
    assert said.write_errors == {1: {"idx": 1, "code": 11000, "errmsg": "dup", "message": "dup"}}
    assert said.write_concern_errors == [{"code": 64, "errmsg": "late", "message": "late"}]
    assert said.result["insertedCount"] == 0
    assert said.code is None
