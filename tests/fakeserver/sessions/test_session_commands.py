"""Session and transaction fields, retryable writes, and the commands of sessions."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Int64
from talking import STANDALONE, Deployment, lsid, play, retryable_insert

from fakeserver import ClusterSpec

_LSID = lsid()
_ONE = Int64(1)


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"lsid": 5}, 14, "BSON field 'lsid' is the wrong type 'int', expected type 'object'"),
        ({"lsid": {}}, 40414, "BSON field 'lsid.id' is missing but a required field"),
        (
            {"lsid": {"id": "x"}},
            14,
            "BSON field 'lsid.id' is the wrong type 'string', expected type 'binData'",
        ),
        (
            {"lsid": {"id": Binary(bytes(15), 4)}},
            207,
            "uuid must be a 16-byte binary field with UUID (4) subtype",
        ),
        ({"lsid": {"id": bytes(16)}}, 207, "uuid must be a 16-byte binary field with UUID (4) subtype"),
        ({"txnNumber": _ONE}, 72, "Transaction number requires a session ID to also be specified"),
        ({"lsid": _LSID, "txnNumber": Int64(-1)}, 72, "Transaction number cannot be negative"),
        (
            {"lsid": _LSID, "txnNumber": 1},
            14,
            "BSON field 'insert.txnNumber' is the wrong type 'int', expected type 'long'",
        ),
        (
            {"lsid": _LSID, "autocommit": False},
            72,
            "'autocommit' field requires a transaction number to also be specified",
        ),
        (
            {"lsid": _LSID, "txnNumber": _ONE, "autocommit": True},
            72,
            "Specifying autocommit=true is not allowed.",
        ),
        (
            {"lsid": _LSID, "txnNumber": _ONE, "startTransaction": True},
            72,
            "'startTransaction' field requires 'autocommit' field to also be specified",
        ),
        (
            {"lsid": _LSID, "txnNumber": _ONE, "autocommit": False, "startTransaction": False},
            72,
            "Specifying startTransaction=false is not allowed.",
        ),
    ],
)
def test_fields_that_do_not_go_together_are_refused(fields: dict[str, Any], code: int, message: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        reply = await talker.fails({"insert": "c", "documents": [{}], "$db": "db", **fields})
        assert (reply["code"], reply["errmsg"]) == (code, message)

    play(scenario)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ({"ping": 1, "txnNumber": _ONE}, 50889, "It is illegal to provide a txnNumber for this command"),
        (
            {"ping": 1, "autocommit": False},
            263,
            "This command is not supported in transactions",
        ),
        (
            {"find": "c", "txnNumber": _ONE, "$db": "db"},
            50768,
            (
                "txnNumber may only be provided for multi-document transactions and retryable write commands."
                " autocommit:false was not provided, and find is not a retryable write command."
            ),
        ),
        (
            {"count": "c", "txnNumber": _ONE, "autocommit": False, "startTransaction": True, "$db": "db"},
            263,
            (
                "Cannot run 'count' in a multi-document transaction. Please see"
                " http://dochub.mongodb.org/core/transaction-count for a recommended alternative."
            ),
        ),
        (
            {
                "killCursors": "c",
                "cursors": [],
                "txnNumber": _ONE,
                "autocommit": False,
                "startTransaction": True,
            },
            263,
            "Cannot run killCursors as the first operation in a multi-document transaction.",
        ),
    ],
)
def test_commands_that_take_no_transaction_number_say_so(
    command: dict[str, Any], code: int, message: str
) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).fails({**command, "lsid": _LSID})
        assert (reply["code"], reply["errmsg"]) == (code, message)

    play(scenario)


def test_a_standalone_has_no_transaction_numbers() -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).fails(retryable_insert(1, txn_number=1))
        assert reply["code"] == 20
        assert reply["errmsg"] == "Transaction numbers are only allowed on a replica set member or mongos"

    play(scenario, STANDALONE)


def test_a_retried_write_is_answered_as_the_first_time_and_not_applied_again() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        update = {"update": "c", "updates": [{"q": {}, "u": {"$inc": {"n": 1}}}], "lsid": _LSID, "$db": "db"}
        await talker.ok(retryable_insert(1, txn_number=1))
        first = await talker.ok({**update, "txnNumber": Int64(2)})
        again = await talker.ok({**update, "txnNumber": Int64(2)})
        assert (first["n"], first["nModified"]) == (again["n"], again["nModified"]) == (1, 1)
        assert again["retriedStmtIds"] == [0]
        assert first["operationTime"] == again["operationTime"]
        found = await talker.ok({"find": "c", "$db": "db"})
        assert found["cursor"]["firstBatch"] == [{"_id": 1, "n": 1}]

    play(scenario)


INSERT = {"insert": "c", "documents": [{"_id": 2}]}
UPDATE = {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]}
DELETE = {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]}
MODIFY = {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}}
UPSERT = {"findAndModify": "c", "query": {"_id": 3}, "update": {"$inc": {"n": 1}}, "upsert": True}
REMOVE = {"findAndModify": "c", "query": {"_id": 1}, "remove": True}
NEW = {"new": True}


def upserted(_id: int, document: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what a findAndModify answers that upserted."""
    last_error = {"n": 1, "updatedExisting": False, "upserted": _id}
    return {"lastErrorObject": last_error, "value": document}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (INSERT, UPDATE, {"n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": 2}]}),
        (DELETE, UPDATE, {"n": 1, "nModified": 1}),
        (REMOVE, UPDATE, {"n": 1, "nModified": 1}),
        (MODIFY, UPDATE, {"n": 1, "nModified": 1}),
        (UPDATE, INSERT, {"n": 1}),
        (UPDATE, DELETE, {"n": 1}),
        (MODIFY, DELETE, {"n": 1}),
        (MODIFY, MODIFY, {"lastErrorObject": {"n": 1, "updatedExisting": True}, "value": {"_id": 1, "n": 1}}),
        (UPSERT, UPSERT, upserted(3)),
        (UPSERT | NEW, UPSERT | NEW, upserted(3, {"_id": 3, "n": 1})),
        (INSERT, UPSERT, upserted(2)),
        (INSERT, UPSERT | NEW, 217),
        (INSERT, MODIFY, 40608),
        (INSERT, REMOVE, 40608),
        (DELETE, MODIFY, 40606),
        (DELETE, REMOVE, 217),
        (UPDATE, MODIFY, 217),
        (MODIFY, MODIFY | NEW, 40611),
        (MODIFY | NEW, MODIFY, 40612),
    ],
    ids=str,
)
def test_a_number_used_again_by_another_write_is_answered_by_what_was_done(
    first: dict[str, Any], second: dict[str, Any], expected: Any
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1, "n": 1}], "$db": "db"})
        session = {"lsid": lsid(), "txnNumber": Int64(1), "$db": "db"}
        await talker.ok({**first, **session})
        reply = await talker.command({**second, **session})
        assert reply is not None
        found = reply.get("code") or {name: reply[name] for name in expected}
        assert found == expected
        assert ("retriedStmtIds" in reply or "retriedStmtId" in reply) == (reply["ok"] == 1.0)

    play(scenario)


def test_the_session_of_another_client_is_another_session() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(retryable_insert(1, txn_number=1, session=1))
        assert "retriedStmtIds" not in await talker.ok(retryable_insert(2, txn_number=1, session=2))

    play(scenario)


def test_an_older_number_is_refused() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(retryable_insert(1, txn_number=5))
        reply = await talker.fails(retryable_insert(2, txn_number=4))
        assert (reply["code"], reply["codeName"]) == (225, "TransactionTooOld")
        assert "because a newer retryable write with txnNumber 5" in reply["errmsg"]

    play(scenario)


def test_a_session_is_begun_refreshed_and_ended_by_command() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        begun = await talker.ok({"startSession": 1})
        assert begun["timeoutMinutes"] == 30
        assert begun["id"]["id"].subtype == 4
        await talker.ok({"refreshSessions": [begun["id"], lsid(9)]})
        assert len(deployment.cluster.sessions) == 2
        await talker.ok({"endSessions": [begun["id"]]})
        assert [session.id for session in deployment.cluster.sessions.live()] == [bytes([9]) * 16]
        assert (await talker.fails({"endSessions": [{"id": 5}]}))["code"] == 14
        assert (await talker.fails({"endSessions": 5}))["code"] == 14

    play(scenario)


@pytest.mark.parametrize(
    ("kill", "survives"),
    [
        ({"killSessions": [lsid(1)]}, False),
        ({"killSessions": [lsid(2)]}, True),
        ({"killSessions": []}, False),
        ({"killAllSessions": []}, False),
        ({"endSessions": [lsid(2)]}, True),
    ],
)
def test_killing_a_session_kills_its_cursors(*, kill: dict[str, Any], survives: bool) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        documents = [{"_id": number} for number in range(5)]
        await talker.ok({"insert": "c", "documents": documents, "$db": "db"})
        found = await talker.ok({"find": "c", "batchSize": 1, "lsid": lsid(1), "$db": "db"})
        await talker.ok(kill)
        more = {"getMore": found["cursor"]["id"], "collection": "c", "lsid": lsid(1), "$db": "db"}
        reply = await talker.command(more)
        assert reply is not None
        assert reply["ok"] == float(survives)

    play(scenario, ClusterSpec.replica_set(1))


def test_killing_a_session_does_not_make_its_writes_repeatable() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(retryable_insert(1, txn_number=1))
        await talker.ok({"killAllSessions": []})
        assert (await talker.ok(retryable_insert(1, txn_number=1)))["retriedStmtIds"] == [0]

    play(scenario)


@pytest.mark.parametrize("name", ["killSessions", "endSessions", "refreshSessions"])
@pytest.mark.parametrize(
    ("named", "code"),
    [
        (None, None),
        (lsid(), None),
        ({**lsid(), "more": 1}, 40415),
        ({"more": 1}, 40415),
        ({}, 40414),
        ({"id": b"0123456789abcdef"}, 14),
        ({"id": Binary(b"0123456789abcdef", 3)}, 14),
        ({"id": Binary(b"0123", 4)}, 207),
        (1, 14),
    ],
    ids=str,
)
def test_sessions_are_named_by_their_ids_and_by_nothing_else(name: str, named: Any, code: int | None) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        command = {name: [lsid(), named], "$db": "admin"}
        reply = await (talker.ok(command) if code is None else talker.fails(command))
        assert reply.get("code") == code

    play(scenario)
