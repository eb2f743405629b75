"""Cursors of a server: their time limits and read concerns, and the transactions that they belong to."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64, Timestamp
from talking import REPLICA_SET, STANDALONE, Deployment, Talker, lsid, play

from fakeserver import ClusterSpec

SHARDED = ClusterSpec.sharded()
FIND: dict[str, Any] = {"find": "c", "batchSize": 1, "$db": "db"}
AGGREGATE: dict[str, Any] = {"aggregate": "c", "pipeline": [], "cursor": {"batchSize": 1}, "$db": "db"}


async def filled(deployment: Deployment, documents: int = 6) -> Talker:
    talker = await deployment.connect()
    inserted = [{"_id": number} for number in range(documents)]
    await talker.ok({"insert": "c", "documents": inserted, "$db": "db"})
    return talker


async def opened(talker: Talker, command: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Open a cursor and return the getMore that goes on with it."""
    cursor = (await talker.ok({**command, **more}))["cursor"]
    assert cursor["id"]
    db, _, collection = cursor["ns"].partition(".")
    return {"getMore": cursor["id"], "collection": collection, "batchSize": 1, "$db": db}


# maxTimeMS: what is left of it.


@pytest.mark.parametrize("command", [FIND, AGGREGATE], ids=["find", "aggregate"])
def test_what_is_left_of_a_time_limit_goes_with_the_cursor(command: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        more = await opened(talker, command, maxTimeMS=400)  # each read takes 150 ms, so 250 are left
        await talker.ok(more)
        began = deployment.world.clock.now()
        late = await talker.fails(more)
        assert (late["code"], late["errmsg"]) == (50, "operation exceeded time limit")
        assert deployment.world.clock.now() - began == pytest.approx(0.1, abs=0.002)
        assert (await talker.fails(more))["code"] == 43

    weights = {"insert": 0.001}
    play(
        scenario,
        ClusterSpec.replica_set(3, parameters={"serviceTimeBaseMillis": 150, "serviceTimeWeights": weights}),
    )


def test_the_time_between_two_commands_is_not_the_cursors() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        more = await opened(talker, FIND, maxTimeMS=100)
        await deployment.sleep(5)
        await talker.ok(more)

    play(scenario)


def test_a_block_counts_for_the_find_and_not_for_a_getmore() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        await deployment.fail_command("alwaysOn", "find", "getMore", blockConnection=True, blockTimeMS=300)
        more = await opened(talker, FIND, maxTimeMS=400)
        await talker.ok(more)
        await talker.ok(more)

    play(scenario)


@pytest.mark.parametrize("spec", [STANDALONE, REPLICA_SET, SHARDED], ids=["single", "set", "sharded"])
def test_max_time_always_time_out_meets_a_getmore_whose_cursor_has_a_limit(spec: ClusterSpec) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        limited = await opened(talker, FIND, maxTimeMS=10_000)
        free = await opened(talker, FIND)
        await deployment.configure("maxTimeAlwaysTimeOut", "alwaysOn")
        await talker.ok(free)
        assert (await talker.fails(limited))["code"] == 50
        await deployment.configure("maxTimeAlwaysTimeOut", "off")
        assert (await talker.fails(limited))["code"] == 43
        await talker.ok(free)

    play(scenario, spec)


def test_max_time_never_time_out_leaves_a_cursor_the_time_that_it_has() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        more = await opened(talker, FIND, maxTimeMS=10_000)
        await deployment.configure("maxTimeNeverTimeOut", "alwaysOn")
        await talker.ok(more)
        await deployment.configure("maxTimeNeverTimeOut", "off")
        await deployment.configure("maxTimeAlwaysTimeOut", "alwaysOn")
        assert (await talker.fails(more))["code"] == 50

    play(scenario)


def test_a_cursor_of_a_list_has_no_time_limit() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        await talker.ok({"create": "d", "$db": "db"})
        listing = {"listCollections": 1, "cursor": {"batchSize": 1}, "$db": "db"}
        more = await opened(talker, listing, maxTimeMS=10_000)
        await deployment.configure("maxTimeAlwaysTimeOut", "alwaysOn")
        await talker.ok(more)

    play(scenario)


@pytest.mark.parametrize("milliseconds", [0, 1, 1000])
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (REPLICA_SET, "cannot set maxTimeMS on getMore command for a non-awaitData cursor"),
        (SHARDED, "maxTimeMS can only be used with getMore for tailable, awaitData cursors"),
    ],
    ids=["mongod", "mongos"],
)
def test_a_getmore_that_awaits_no_data_has_no_time_of_its_own(
    spec: ClusterSpec, message: str, milliseconds: int
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        more = await opened(talker, FIND)
        reply = await talker.fails({**more, "maxTimeMS": milliseconds})
        assert (reply["code"], reply["errmsg"]) == (2, message)
        await talker.ok(more)

    play(scenario, spec)


def test_a_getmore_that_awaits_data_for_no_time_does_not_wait() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"create": "c", "capped": True, "size": 4096, "$db": "db"})
        await talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        more = await opened(talker, FIND, tailable=True, awaitData=True)
        began = deployment.world.clock.now()
        await talker.ok({**more, "maxTimeMS": 0})
        assert deployment.world.clock.now() - began < 0.1

    play(scenario)


# Read concerns.


CONCERNS: list[dict[str, Any]] = [
    {"level": "local"},
    {"level": "majority"},
    {"level": "snapshot"},
    {"level": "snapshot", "atClusterTime": Timestamp(1, 1)},
    {"afterClusterTime": Timestamp(1, 1)},
]


@pytest.mark.parametrize("concern", CONCERNS)
@pytest.mark.parametrize("spec", [STANDALONE, REPLICA_SET, SHARDED], ids=["single", "set", "sharded"])
def test_a_getmore_may_carry_any_read_concern(spec: ClusterSpec, concern: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        more = await opened(talker, FIND)
        assert (await talker.ok({**more, "readConcern": concern}))["cursor"]["nextBatch"] == [{"_id": 1}]

    play(scenario, spec)


def test_a_getmore_with_a_malformed_read_concern_is_refused() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        more = await opened(talker, FIND)
        assert (await talker.fails({**more, "readConcern": {"level": "none"}}))["code"] == 2
        assert (await talker.fails({**more, "readConcern": 1}))["code"] == 14

    play(scenario)


@pytest.mark.parametrize(("spec", "code"), [(REPLICA_SET, 72), (SHARDED, None)], ids=["mongod", "mongos"])
def test_killcursors_takes_a_read_concern_of_a_mongos_only(spec: ClusterSpec, code: int | None) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        more = await opened(talker, FIND)
        kill = {"killCursors": "c", "cursors": [more["getMore"]], "$db": "db"}
        reply = await talker.command({**kill, "readConcern": {"level": "snapshot"}})
        assert reply is not None
        assert reply.get("code") == code

    play(scenario, spec)


def test_every_batch_of_a_snapshot_tells_its_time() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        first = (await talker.ok({**FIND, "readConcern": {"level": "snapshot"}}))["cursor"]
        more = {"getMore": first["id"], "collection": "c", "$db": "db"}
        rest = (await talker.ok(more))["cursor"]
        assert list(rest) == ["nextBatch", "id", "ns", "atClusterTime"]
        assert rest["atClusterTime"] == first["atClusterTime"]

    play(scenario)


# What a cursor belongs to.


@pytest.mark.parametrize("spec", [REPLICA_SET, SHARDED], ids=["set", "sharded"])
def test_a_cursor_of_a_bulk_write_belongs_to_its_transaction(spec: ClusterSpec) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        within = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        bulk = {
            "bulkWrite": 1,
            "ops": [{"insert": 0, "document": {"_id": number}} for number in range(10, 13)],
            "nsInfo": [{"ns": "db.c"}],
            "cursor": {"batchSize": 1},
            "$db": "admin",
        }
        more = await opened(talker, bulk, **within, startTransaction=True)
        assert (await talker.ok({**more, **within}))["cursor"]["nextBatch"] == [{"ok": 1.0, "idx": 1, "n": 1}]
        assert (await talker.fails({**more, "lsid": lsid()}))["code"] == 50740
        await talker.ok({"commitTransaction": 1, **within})

    play(scenario, spec)


def test_a_getmore_declares_the_api_version_that_its_cursor_was_opened_with() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        more = await opened(talker, FIND, apiVersion="1")
        reply = await talker.fails(more)
        assert (reply["code"], reply["errmsg"]) == (
            347,
            (
                "API parameter mismatch: getMore used params {}, the cursor-creating command used"
                ' { apiVersion: "1" }'
            ),
        )
        await talker.ok({**more, "apiVersion": "1"})

    play(scenario)


@pytest.mark.parametrize("options", [{}, {"capped": True, "size": 4096}])
def test_a_transaction_creates_no_collection_that_is_there(options: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        create = {"create": "c", **options, "$db": "db"}
        await talker.ok(create)
        await talker.ok(create)
        assert (await talker.fails({**create, "validator": {"a": 1}}))["code"] == 48
        begin = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False, "startTransaction": True}
        reply = await talker.fails({**create, **begin})
        assert (reply["code"], reply["errmsg"]) == (48, "Collection db.c already exists.")

    play(scenario)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (
            {"pipeline": [], "explain": True, "writeConcern": {"w": 1}},
            9,
            "Aggregation explain does not support the'writeConcern' option",
        ),
        (
            {"pipeline": [], "explain": True, "readConcern": {"level": "majority"}},
            72,
            "Explain for the aggregate command cannot run with a readConcern other than 'local'.",
        ),
        (
            {"pipeline": [{"$listSearchIndexes": {}}], "cursor": {}, "readConcern": {"level": "snapshot"}},
            72,
            (
                "Aggregation stage $listSearchIndexes cannot run with a readConcern other than 'local'."
                " Current readConcern: snapshot"
            ),
        ),
        ({"pipeline": [{"$listSearchIndexes": {}}], "cursor": {}}, 31082, "Using Atlas Search"),
    ],
)
def test_an_aggregate_says_which_concern_it_cannot_have(
    command: dict[str, Any], code: int, message: str
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        reply = await talker.fails({"aggregate": "c", **command, "$db": "db"})
        assert reply["code"] == code
        assert message in reply["errmsg"]

    play(scenario)
