"""Retryable Writes, server side: statements that were executed, and what moves the operation time."""

from __future__ import annotations

from typing import Any

import pytest
from data_commands import Server

from fakeserver.errors import CommandError
from fakeserver.sessions.session import Session

COMMANDS: list[tuple[dict[str, Any], str]] = [
    ({"insert": "c", "documents": [{"_id": 5}, {"_id": 6}]}, "db"),
    ({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"x": 1}}}]}, "db"),
    ({"update": "c", "updates": [{"q": {"_id": 9}, "u": {"$inc": {"x": 1}}, "upsert": True}]}, "db"),
    ({"delete": "c", "deletes": [{"q": {}, "limit": 1}]}, "db"),
    (
        {
            "bulkWrite": 1,
            "ops": [
                {"insert": 0, "document": {"_id": 7}},
                {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"x": 1}}},
                {"delete": 0, "filter": {"_id": 2}},
            ],
            "nsInfo": [{"ns": "db.c"}],
        },
        "admin",
    ),
]


def holding_two() -> tuple[Server, Session]:
    server = Server()
    server.fill("c", {"_id": 1, "x": 1}, {"_id": 2, "x": 2})
    return server, Session(b"s" * 16, 0.0)


@pytest.mark.parametrize(
    ("command", "db"), COMMANDS, ids=lambda each: next(iter(each)) if isinstance(each, dict) else ""
)
def test_a_retry_of_applied_statements_answers_the_same_and_applies_nothing(
    command: dict[str, Any], db: str
) -> None:
    server, session = holding_two()
    first = server.run(command, db=db, retry=(session, 1))
    applied, held = server.changes("c"), server.documents("c")
    again = server.run(command, db=db, retry=(session, 1))
    retried = again.pop("retriedStmtIds")
    assert again == first
    assert retried == list(range(len(retried)))
    assert (server.changes("c"), server.documents("c")) == (applied, held)


def test_a_retried_find_and_modify_returns_the_recorded_document() -> None:
    server, session = holding_two()
    command = {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"x": 1}}, "stmtId": 3}
    first = server.run(command, retry=(session, 1))
    assert server.run(command, retry=(session, 1)) == {**first, "retriedStmtId": 3}
    assert server.documents("c", {"_id": 1}) == [{"_id": 1, "x": 2}]


FAILING = {"x": {"$divide": [1, {"$subtract": ["$_id", "$_id"]}]}}
"""A projection that is one, and fails on every document."""


@pytest.mark.parametrize(
    ("change", "image"),
    [
        ({"query": {"_id": 1}, "update": {"$inc": {"x": 1}}}, {"_id": 1, "x": 1}),
        ({"query": {"_id": 1}, "update": {"$inc": {"x": 1}}, "new": True}, {"_id": 1, "x": 2}),
        (
            {"query": {"_id": 9}, "update": {"$inc": {"x": 1}}, "upsert": True, "new": True},
            {"_id": 9, "x": 1},
        ),
        ({"query": {}, "sort": {"x": -1}, "remove": True}, {"_id": 2, "x": 2}),
    ],
)
def test_a_find_and_modify_whose_projection_fails_has_written_once(
    change: dict[str, Any], image: dict[str, Any]
) -> None:
    server, session = holding_two()
    before = server.changes("c")
    command = {"findAndModify": "c", **change, "fields": FAILING}
    with pytest.raises(CommandError, match="divide by zero"):
        server.run(command, retry=(session, 1))
    for _ in range(2):
        again = server.run(command, retry=(session, 1))
        assert (again["value"], again["retriedStmtId"]) == (image, 0)
    assert server.changes("c") == before + 1


def test_a_retry_returns_the_whole_image_whatever_the_projection() -> None:
    server, session = holding_two()
    command = {
        "findAndModify": "c",
        "query": {"_id": 1},
        "update": {"$inc": {"x": 1}},
        "fields": {"x": 1, "_id": 0},
    }
    assert server.run(command, retry=(session, 1))["value"] == {"x": 1}
    assert server.run(command, retry=(session, 1))["value"] == {"_id": 1, "x": 1}


def test_a_projection_that_is_none_is_refused_before_anything_is_written() -> None:
    server, session = holding_two()
    before = server.changes("c")
    command = {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"x": 1}}}
    with pytest.raises(CommandError):
        server.run({**command, "fields": {"x": {"$nonsense": 1}}}, retry=(session, 1))
    assert (server.changes("c"), session.statements) == (before, {})


def test_statements_that_were_not_reached_run_on_the_retry() -> None:
    server, session = holding_two()
    server.run({"insert": "c", "documents": [{"_id": 5}], "stmtId": 0}, retry=(session, 1))
    reply = server.run({"insert": "c", "documents": [{"_id": 5}, {"_id": 6}]}, retry=(session, 1))
    assert reply == {"n": 2, "retriedStmtIds": [0]}
    assert server.documents("c", {"_id": {"$gt": 4}}) == [{"_id": 5}, {"_id": 6}]


def test_statement_ids_name_the_statements() -> None:
    server, session = holding_two()
    command = {"insert": "c", "documents": [{"_id": 5}, {"_id": 6}], "stmtIds": [4, 9]}
    server.run(command, retry=(session, 1))
    assert sorted(session.statements) == [4, 9]


def test_another_transaction_number_is_another_write() -> None:
    server, session = holding_two()
    command = {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"x": 1}}}]}
    server.run(command, retry=(session, 1))
    assert server.run(command, retry=(session, 2)) == {"n": 1, "nModified": 1}
    assert server.documents("c", {"_id": 1}) == [{"_id": 1, "x": 3}]


@pytest.mark.parametrize(
    ("command", "db", "message"),
    [
        (
            {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "multi": True}]},
            "db",
            "Cannot use (or request) retryable writes with multi=true",
        ),
        (
            {"delete": "c", "deletes": [{"q": {}, "limit": 0}]},
            "db",
            "Cannot use (or request) retryable writes with limit=0",
        ),
        (
            {"bulkWrite": 1, "ops": [{"delete": 0, "filter": {}, "multi": True}], "nsInfo": [{"ns": "db.c"}]},
            "admin",
            "Cannot use retryable writes with multi=true",
        ),
    ],
)
def test_a_statement_on_many_documents_is_not_retryable(
    command: dict[str, Any], db: str, message: str
) -> None:
    server, session = holding_two()
    reply = server.run(command, db=db, retry=(session, 1))
    errors = reply["cursor"]["firstBatch"] if db == "admin" else reply["writeErrors"]
    assert (errors[0]["code"], errors[0]["errmsg"]) == (72, message)
    assert len(server.documents("c")) == 2


def test_what_the_hook_raises_is_a_write_error_and_nothing_is_written() -> None:
    server, session = holding_two()
    server.failure = CommandError(1, "Failing write")
    command = {"insert": "c", "documents": [{"_id": 5}]}
    reply = server.run(command, retry=(session, 1))
    assert reply == {"n": 0, "writeErrors": [{"index": 0, "code": 1, "errmsg": "Failing write"}]}
    assert server.documents("c", {"_id": 5}) == []
    server.failure = None
    assert server.run(command, retry=(session, 1)) == {"n": 1}


def test_an_interruption_ends_the_command() -> None:
    server, session = holding_two()
    server.failure = CommandError(11602, "operation was interrupted")
    with pytest.raises(CommandError, match="interrupted"):
        server.run({"insert": "c", "documents": [{"_id": 5}]}, retry=(session, 1))


def test_the_operation_time_moves_with_changes_only() -> None:
    server, _session = holding_two()
    before = server.oplog.last
    for command in (
        {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}}]},
        {"update": "c", "updates": [{"q": {"_id": 77}, "u": {"$set": {"x": 1}}}]},
        {"delete": "c", "deletes": [{"q": {"_id": 77}, "limit": 0}]},
        {"insert": "c", "documents": [{"_id": 1}]},
    ):
        server.run(command)
        assert server.oplog.last == before
    server.run({"update": "c", "updates": [{"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}]})
    assert server.oplog.last > before


def test_what_a_failing_statement_had_changed_stands_in_the_oplog() -> None:
    server = Server()
    server.fill("c", {"_id": 1, "x": 1}, {"_id": 2, "x": "text"})
    before = server.changes("c")
    reply = server.run({"update": "c", "updates": [{"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}]})
    assert reply["writeErrors"][0]["code"] == 14
    assert server.changes("c") == before + 1
    assert server.documents("c", {"_id": 1}) == [{"_id": 1, "x": 2}]
