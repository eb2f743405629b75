"""Multi-document transactions as a client of a replica set sees them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson import Int64, Timestamp
from talking import REPLICA_SET, Deployment, Talker, lsid, play
from transacting import Session, plain_find, plain_insert

from fakeserver import ClusterSpec

TRANSIENT = ["TransientTransactionError"]
COUNT_REFUSED = (
    "Cannot run 'count' in a multi-document transaction. Please see"
    " http://dochub.mongodb.org/core/transaction-count for a recommended alternative."
)
LEVEL_REFUSED = (
    "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run in a"
    " transaction"
)
OUT_REFUSED = (
    "Operation not permitted in transaction :: caused by :: Aggregation stage $out cannot run within a"
    " multi-document transaction"
)


async def _sessions(deployment: Deployment, count: int = 2) -> tuple[Talker, list[Session]]:
    talker = await deployment.connect()
    await plain_insert(talker, {"_id": 1, "x": 1}, {"_id": 2, "x": 2})
    return talker, [Session(await deployment.connect(), number + 1) for number in range(count)]


def test_a_transaction_sees_its_own_writes_and_nobody_else_does_before_the_commit() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, _) = await _sessions(deployment)
        one.begin()
        await one.insert({"_id": 3})
        await one.add(1, 10)
        assert await one.find() == [{"_id": 1, "x": 11}, {"_id": 2, "x": 2}, {"_id": 3}]
        assert await plain_find(talker) == [{"_id": 1, "x": 1}, {"_id": 2, "x": 2}]
        assert (await one.end("commit"))["ok"] == 1
        assert await plain_find(talker) == [{"_id": 1, "x": 11}, {"_id": 2, "x": 2}, {"_id": 3}]

    play(scenario)


def test_a_transaction_reads_from_its_snapshot() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, _) = await _sessions(deployment)
        one.begin(readConcern={"level": "snapshot"})
        await one.find(filter={"_id": 1})
        await plain_insert(talker, {"_id": 3})
        await talker.ok({"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}], "$db": "db"})
        assert await one.find() == [{"_id": 1, "x": 1}, {"_id": 2, "x": 2}]
        counted = await one.ok({"aggregate": "c", "pipeline": [{"$count": "n"}], "cursor": {}})
        assert counted["cursor"]["firstBatch"] == [{"n": 2}]
        assert (await one.ok({"distinct": "c", "key": "_id"}))["values"] == [1, 2]

    play(scenario)


def test_a_transaction_that_is_aborted_leaves_nothing() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, _) = await _sessions(deployment)
        one.begin()
        await one.insert({"_id": 3})
        await one.ok({"create": "other"})
        assert (await one.end("abort"))["ok"] == 1
        assert len(await plain_find(talker)) == 2
        listed = await talker.ok({"listCollections": 1, "$db": "db"})
        assert [each["name"] for each in listed["cursor"]["firstBatch"]] == ["c"]

    play(scenario)


def test_a_commit_has_one_operation_time_for_all_its_changes() -> None:
    async def scenario(deployment: Deployment) -> None:
        _, (one, _) = await _sessions(deployment)
        oplog = deployment.cluster.oplog
        one.begin()
        await one.insert({"_id": 3}, {"_id": 4})
        before = oplog.last
        reply = await one.end("commit")
        (entry,) = oplog.after(before.timestamp)
        assert entry.optime.timestamp == reply["operationTime"]
        assert [written.change.after for written in entry.changes] == [{"_id": 3}, {"_id": 4}]
        assert (entry.session_id, entry.txn_number) == (bytes([1]) * 16, 1)

    play(scenario)


def test_the_first_writer_wins_and_the_second_aborts_at_its_write() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, two) = await _sessions(deployment)
        one.begin()
        two.begin()
        await one.add(1, 10)
        conflict = await two.add(1, 100)
        assert (conflict["code"], conflict["codeName"]) == (112, "WriteConflict")
        assert conflict["errorLabels"] == TRANSIENT
        gone = await two.end("commit")
        assert (gone["code"], gone["errorLabels"]) == (251, TRANSIENT)
        assert gone["errmsg"] == "Transaction with { txnNumber: 1, txnRetryCounter: 0 } has been aborted."
        await one.end("commit")
        assert (await plain_find(talker))[0] == {"_id": 1, "x": 11}

    play(scenario)


def test_a_write_to_what_changed_outside_since_the_snapshot_conflicts() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, _) = await _sessions(deployment)
        one.begin()
        await one.find()
        await talker.ok({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 5}}}], "$db": "db"})
        assert (await one.add(2))["ok"] == 1
        assert (await one.add(1))["code"] == 112

    play(scenario)


@pytest.mark.parametrize("key", [{"_id": 7}, {"_id": 8, "u": 1}])
def test_two_transactions_that_take_the_same_unique_key_conflict(key: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, two) = await _sessions(deployment)
        index = {"key": {"u": 1}, "name": "u_1", "unique": True, "sparse": True}
        await talker.ok({"createIndexes": "c", "indexes": [index], "$db": "db"})
        one.begin()
        two.begin()
        await one.insert({"_id": 7, "u": 1})
        assert (await two.fails({"insert": "c", "documents": [key]}))[0] == 112

    play(scenario)


def test_a_plain_write_waits_until_the_transaction_ends_and_then_sees_what_it_did() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, two) = await _sessions(deployment)
        one.begin()
        await one.add(1, 10)
        statements = [{"q": {"_id": key}, "u": {"$inc": {"x": 100}}} for key in (2, 1)]
        update = {"update": "c", "updates": statements, "$db": "db", "lsid": lsid(9), "txnNumber": Int64(1)}
        waiting = asyncio.ensure_future(two.talker.ok(update))
        await deployment.sleep(1)
        assert not waiting.done()
        assert await plain_find(talker) == [{"_id": 1, "x": 1}, {"_id": 2, "x": 102}]
        await one.end("commit")
        reply = await waiting
        assert (reply["n"], "retriedStmtIds" in reply) == (2, False)
        assert await plain_find(talker) == [{"_id": 1, "x": 111}, {"_id": 2, "x": 102}]

    play(scenario)


def test_a_plain_write_of_a_key_that_nobody_claimed_does_not_wait() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, _) = await _sessions(deployment)
        one.begin()
        await one.add(1)
        await plain_insert(talker, {"_id": 5})
        changed = await talker.ok(
            {"findAndModify": "c", "query": {"_id": 2}, "update": {"$set": {"x": 0}}, "$db": "db"}
        )
        assert changed["value"] == {"_id": 2, "x": 2}
        refused = await talker.ok({"insert": "c", "documents": [{"_id": 5}], "$db": "db"})
        assert refused["writeErrors"][0]["code"] == 11000
        await one.end("commit")
        assert await plain_find(talker) == [{"_id": 1, "x": 2}, {"_id": 2, "x": 0}, {"_id": 5}]

    play(scenario)


def test_dropping_a_collection_waits_for_the_transactions_that_use_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, two) = await _sessions(deployment)
        one.begin()
        await one.find()
        await talker.ok({"drop": "elsewhere", "$db": "db"})
        waiting = asyncio.ensure_future(two.talker.ok({"dropDatabase": 1, "$db": "db"}))
        await deployment.sleep(1)
        assert not waiting.done()
        await one.end("abort")
        await waiting
        assert await plain_find(talker) == []

    play(scenario)


def test_an_error_aborts_the_transaction() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, _) = await _sessions(deployment)
        one.begin()
        await one.insert({"_id": 3})
        reply = await one.run({"insert": "c", "documents": [{"_id": 1}, {"_id": 4}], "ordered": False})
        assert (reply["ok"], reply["n"], reply["writeErrors"][0]["code"]) == (1, 0, 11000)
        assert await one.fails({"find": "c"}) == (
            251,
            "Transaction with { txnNumber: 1, txnRetryCounter: 0 } has been aborted.",
            TRANSIENT,
        )
        one.begin()
        assert (await one.fails({"find": "c", "filter": {"$nonsense": 1}}))[0] == 2
        assert (await one.end("abort"))["code"] == 251
        assert len(await plain_find(talker)) == 2

    play(scenario)


def test_a_commit_may_be_repeated_and_nothing_may_follow_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, _) = await _sessions(deployment)
        one.begin()
        await one.insert({"_id": 3})
        for _ in range(2):
            assert (await one.end("commit", writeConcern={"w": "majority"}))["ok"] == 1
        text = "Transaction with { txnNumber: 1, txnRetryCounter: 0 } has been committed."
        assert await one.fails({"find": "c"}) == (256, text, [])
        assert (await one.end("abort"))["code"] == 256
        assert len(await plain_find(talker)) == 3

    play(scenario)


def test_numbers_that_do_not_fit_are_refused() -> None:
    async def scenario(deployment: Deployment) -> None:
        _, (one, _) = await _sessions(deployment)
        one.txn_number = 5
        code, message, labels = await one.fails({"find": "c"})
        assert (code, labels) == (251, TRANSIENT)
        assert message.startswith("Given transaction number 5 on session")
        assert message.endswith("The active transaction number is -1")
        one.begin()
        await one.find()
        one.starting = True
        assert (await one.fails({"find": "c"}))[0] == 117
        one.txn_number = 5
        code, message, _ = await one.fails({"find": "c"})
        assert code == 225
        assert message.startswith("Cannot start transaction with { txnNumber: 5, txnRetryCounter: 0 }")
        one.txn_number = 6
        insert = {"insert": "c", "documents": [{}], "$db": "db", "lsid": lsid(), "txnNumber": Int64(6)}
        assert (await one.talker.fails(insert))["code"] == 217

    play(scenario)


def test_a_higher_number_aborts_the_open_transaction() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, two) = await _sessions(deployment)
        one.begin()
        await one.add(1, 10)
        one.begin()
        await one.find()
        two.begin()
        assert (await two.add(1))["ok"] == 1
        two.txn_number += 1
        insert = {"insert": "c", "documents": [{"_id": 9}], "$db": "db", "lsid": lsid(2)}
        await two.talker.ok({**insert, "txnNumber": Int64(two.txn_number)})
        assert (await plain_find(talker))[0] == {"_id": 1, "x": 1}
        assert deployment.cluster.transactions.status()["totalAborted"] == 2

    play(scenario)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ({"count": "c"}, 263, COUNT_REFUSED),
        ({"drop": "c"}, 263, "Cannot run 'drop' in a multi-document transaction."),
        (
            {"commitTransaction": 1, "$db": "admin"},
            263,
            "Cannot start a transaction with a commit",
        ),
        (
            {"find": "c", "$db": "config"},
            263,
            "Cannot run command against the 'config' database in a transaction.",
        ),
        (
            {"find": "system.profile"},
            263,
            "Cannot run command against the 'db.system.profile' collection in a transaction.",
        ),
        (
            {"insert": "c", "documents": [{}], "writeConcern": {"w": 1}},
            72,
            "writeConcern is not allowed within a multi-statement transaction",
        ),
        ({"find": "c", "readConcern": {"level": "linearizable"}}, 72, LEVEL_REFUSED),
        (
            {"create": "v", "viewOn": "c"},
            263,
            "Cannot create a view in a multi-document transaction.",
        ),
        (
            {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1"}]},
            263,
            "Cannot create new indexes on existing collection db.c in a multi-document transaction.",
        ),
        ({"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}}, 263, OUT_REFUSED),
    ],
)
def test_what_a_transaction_may_not_hold_is_refused(command: dict[str, Any], code: int, message: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        _, (one, _) = await _sessions(deployment)
        one.begin()
        assert (await one.fails(command))[:2] == (code, message)

    play(scenario)


def test_only_the_first_command_may_have_a_read_concern() -> None:
    async def scenario(deployment: Deployment) -> None:
        _, (one, _) = await _sessions(deployment)
        one.begin(readConcern={"level": "majority"})
        await one.insert({"_id": 3})
        message = "Only the first command in a transaction may specify a readConcern"
        refused = await one.fails({"find": "c", "readConcern": {"level": "local"}})
        assert refused[:2] == (72, message)
        assert (await one.end("commit"))["ok"] == 1

    play(scenario)


def test_capped_collections_and_time_series_take_no_writes_in_transactions() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, _) = await _sessions(deployment)
        await talker.ok({"create": "capped", "capped": True, "size": 4096, "$db": "db"})
        await talker.ok({"create": "series", "timeseries": {"timeField": "t"}, "$db": "db"})
        for name, words in (("capped", "is a capped collection"), ("series", "time-series collection")):
            one.begin()
            reply = await one.run({"insert": name, "documents": [{"_id": 1}]})
            error = reply["writeErrors"][0]
            assert (error["code"], words in error["errmsg"]) == (263, True)

    play(scenario)


def test_collections_and_indexes_made_in_a_transaction_come_with_the_commit() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, two) = await _sessions(deployment)
        unique = {"key": {"u": 1}, "name": "u_1", "unique": True}
        one.begin()
        await one.ok({"create": "made", "validator": {"n": {"$exists": True}}})
        await one.ok({"createIndexes": "made", "indexes": [unique]})
        await one.ok({"insert": "made", "documents": [{"_id": 1, "n": 1, "u": 1}]})
        await one.ok({"insert": "implicit", "documents": [{"_id": 1}]})
        two.begin()
        assert (await two.fails({"create": "made"}))[0] == 112
        assert (await talker.fails({"listIndexes": "made", "$db": "db"}))["code"] == 26
        await one.end("commit")
        listed = await talker.ok({"listCollections": 1, "$db": "db"})
        assert [each["name"] for each in listed["cursor"]["firstBatch"]] == ["c", "implicit", "made"]
        for document, code in (({"_id": 2, "n": 1, "u": 1}, 11000), ({"_id": 3, "u": 3}, 121)):
            reply = await talker.ok({"insert": "made", "documents": [document], "$db": "db"})
            assert reply["writeErrors"][0]["code"] == code

    play(scenario)


def test_a_cursor_of_a_transaction_goes_on_within_it_alone() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, _) = await _sessions(deployment)
        one.begin()
        opened = await one.ok({"find": "c", "batchSize": 1})
        more = {"getMore": opened["cursor"]["id"], "collection": "c"}
        await plain_insert(talker, {"_id": 3})
        assert (await talker.fails({**more, "$db": "db", "lsid": lsid()}))["code"] == 50740
        assert (await one.ok(more))["cursor"]["nextBatch"] == [{"_id": 2, "x": 2}]

    play(scenario)


@pytest.mark.parametrize(
    "command",
    [{"killSessions": [lsid(1)]}, {"killAllSessions": []}, {"endSessions": [lsid(1)]}],
    ids=lambda command: str(next(iter(command))),
)
def test_the_end_of_a_session_aborts_its_transaction(command: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, _) = await _sessions(deployment)
        one.begin()
        await one.insert({"_id": 3})
        await talker.ok(command)
        assert (await one.end("commit"))["code"] == 251

    play(scenario)


def test_a_transaction_that_lives_too_long_is_aborted() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, two) = await _sessions(deployment)
        await talker.ok({"setParameter": 1, "transactionLifetimeLimitSeconds": 5})
        one.begin()
        await one.add(1, 10)
        update = {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"x": 1}}}], "$db": "db"}
        started = deployment.world.clock.now()
        await two.talker.ok(update)
        assert 4.9 < deployment.world.clock.now() - started < 5.1
        assert (await one.end("commit"))["code"] == 251
        assert (await plain_find(talker))[0] == {"_id": 1, "x": 2}

    play(scenario)


def test_a_primary_that_steps_down_forgets_its_transactions() -> None:
    async def scenario(deployment: Deployment) -> None:
        _, (one, _) = await _sessions(deployment)
        one.begin()
        await one.insert({"_id": 3})
        old = deployment.cluster.step_down()
        assert (await one.end("commit"))["code"] == 10107
        deployment.cluster.elect(next(node for node in deployment.cluster.nodes if node is not old))
        other = Session(await deployment.connect(deployment.primary), txn_number=1)
        assert (await other.end("commit"))["code"] == 251
        preference = {"$readPreference": {"mode": "secondary"}}
        one.begin()
        refused = await one.fails({"find": "c", **preference})
        assert refused[:2] == (10107, "Not primary so we cannot begin or continue a transaction")

    play(scenario)


def test_a_failed_commit_is_labelled_as_retryable() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, _) = await _sessions(deployment)
        one.begin()
        await one.insert({"_id": 3})
        await deployment.fail_command({"times": 1}, "commitTransaction", errorCode=91)
        failed = await one.end("commit")
        assert (failed["code"], failed["errorLabels"]) == (91, ["RetryableWriteError"])
        error = {"code": 64, "errmsg": "waiting"}
        await deployment.fail_command({"times": 1}, "commitTransaction", writeConcernError=error)
        reply = await one.end("commit")
        assert (reply["ok"], reply["writeConcernError"]) == (1, error)
        assert len(await plain_find(talker)) == 3

    play(scenario)


def test_a_commit_outside_of_a_transaction_is_refused() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        reply = await talker.fails({"commitTransaction": 1, "$db": "admin"})
        assert (reply["code"], reply["errmsg"]) == (
            125,
            "commitTransaction must be run within a transaction",
        )

    play(scenario)


@pytest.mark.parametrize("spec", [REPLICA_SET, ClusterSpec.sharded()], ids=["mongod", "mongos"])
def test_server_status_counts_transactions(spec: ClusterSpec) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, two) = await _sessions(deployment)
        for session, verb in ((one, "commit"), (two, "abort"), (one, None)):
            session.begin()
            await session.find()
            if verb is not None:
                await session.end(verb)
        counted = (await talker.ok({"serverStatus": 1}))["transactions"]
        names = ("totalStarted", "totalCommitted", "totalAborted", "currentOpen")
        assert [counted[name] for name in names] == [3, 1, 1, 1]
        # What a mongos routes is prepared by shards.
        assert ("totalPrepared" in counted) is (spec is REPLICA_SET)

    play(scenario, spec)


def test_a_snapshot_read_outside_of_transactions_keeps_to_its_time() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, _ = await _sessions(deployment)
        first = await talker.ok({"find": "c", "readConcern": {"level": "snapshot"}, "$db": "db"})
        at = first["cursor"]["atClusterTime"]
        await plain_insert(talker, {"_id": 3})
        await talker.ok({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 9}}}], "$db": "db"})
        await talker.ok({"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}], "$db": "db"})
        then = {"readConcern": {"level": "snapshot", "atClusterTime": at}, "$db": "db"}
        found = await talker.ok({"find": "c", "sort": {"_id": 1}, **then})
        assert found["cursor"]["firstBatch"] == [{"_id": 1, "x": 1}, {"_id": 2, "x": 2}]
        assert found["cursor"]["atClusterTime"] == at
        values = await talker.ok({"distinct": "c", "key": "_id", **then})
        assert (sorted(values["values"]), values["atClusterTime"]) == ([1, 2], at)
        assert await plain_find(talker) == [{"_id": 1, "x": 9}, {"_id": 3}]

    play(scenario)


def test_a_snapshot_that_cannot_be_had_is_an_error() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, _) = await _sessions(deployment)
        at = deployment.cluster.oplog.last.timestamp

        async def code(time: Timestamp) -> Any:
            concern = {"level": "snapshot", "atClusterTime": time}
            return (await talker.fails({"find": "c", "readConcern": concern, "$db": "db"}))["code"]

        assert await code(Timestamp(at.time + 100, 1)) == 72
        await talker.ok({"drop": "c", "$db": "db"})
        assert await code(at) == 246
        one.begin(readConcern={"level": "snapshot", "atClusterTime": at})
        assert (await one.fails({"find": "c"}))[2] == TRANSIENT

    play(scenario)
