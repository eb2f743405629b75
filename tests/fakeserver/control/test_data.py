"""Data that are put in, taken away and kept, past every client."""

from __future__ import annotations

from typing import Any

import pytest
from talking import Deployment, play, retryable_insert

from fakeserver.storage.port.engine import Namespace, Query
from mongowire.documents.errors import ControlError

NS = Namespace("shop", "orders")
CAPPED = {"create": "orders", "capped": True, "size": 4096, "max": 2, "$db": "shop"}


def _ids(deployment: Deployment) -> list[Any]:
    found = deployment.cluster.catalog.engine.find(NS, Query())
    return [document["_id"] for document in found]


def test_documents_keep_their_ids_and_others_get_one() -> None:
    async def scenario(deployment: Deployment) -> None:
        deployment.cluster.control.seed("shop.orders", [{"_id": 0}, {"_id": "a", "x": 1}, {"x": 2}])
        assert _ids(deployment)[:2] == [0, "a"]
        assert len(_ids(deployment)) == 3

    play(scenario)


@pytest.mark.parametrize("there", [[], [{"_id": 1}]], ids=["a new collection", "one that is there"])
def test_a_seed_that_fails_leaves_nothing(there: list[dict[str, Any]]) -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        if there:
            cluster.control.seed("shop.orders", there)
        last = cluster.oplog.last
        twice: list[Any] = [{"_id": 5}, {"_id": 5}]
        nameless: list[Any] = [{"_id": 5}, {"_id": [1]}]
        large: list[Any] = [{"_id": 5}, {"a": "x" * (17 << 20)}]
        for bad in (twice, nameless, large):
            with pytest.raises(ControlError, match="documents: "):
                cluster.control.seed("shop.orders", bad)
        assert _ids(deployment) == [each["_id"] for each in there]
        assert (cluster.oplog.last, cluster.catalog.get(NS) is None) == (last, not there)

    play(scenario)


def test_a_capped_collection_gets_back_what_a_failed_seed_has_pushed_out() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(CAPPED)
        control = deployment.cluster.control
        control.seed("shop.orders", [{"_id": 1}, {"_id": 2}])
        with pytest.raises(ControlError):
            control.seed("shop.orders", [{"_id": 3}, {"_id": 3}])
        assert _ids(deployment) == [1, 2]

    play(scenario)


def test_a_change_stream_sees_what_is_seeded_and_dropped() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, control = await deployment.connect(), deployment.cluster.control
        watch = {"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "shop"}
        cursor = (await talker.ok(watch))["cursor"]["id"]
        control.seed("shop.orders", {"_id": 1})
        control.drop("shop.orders")
        more = {"getMore": cursor, "collection": "$cmd.aggregate", "maxTimeMS": 100, "$db": "shop"}
        batch = (await talker.ok(more))["cursor"]["nextBatch"]
        assert [each["operationType"] for each in batch] == ["insert", "drop"]

    play(scenario)


def test_a_rename_invalidates_the_change_streams_of_the_collection_and_its_documents_stay() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, control = await deployment.connect(), deployment.cluster.control
        control.seed("shop.orders", {"_id": 1})
        watch = {"aggregate": "orders", "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "shop"}
        cursor = (await talker.ok(watch))["cursor"]["id"]
        control.rename("shop.orders", "shop.away")
        more = {"getMore": cursor, "collection": "orders", "$db": "shop"}
        last = (await talker.ok(more))["cursor"]
        assert [each["operationType"] for each in last["nextBatch"]] == ["rename", "invalidate"]
        assert last["id"] == 0
        control.rename("shop.away", "shop.orders")
        assert _ids(deployment) == [1]
        after = {"$changeStream": {"startAfter": last["nextBatch"][-1]["_id"]}}
        again = (await talker.ok(watch | {"pipeline": [after]}))["cursor"]
        assert [each["operationType"] for each in again["firstBatch"]] == ["rename", "invalidate"]

    play(scenario)


def test_a_collection_that_a_transaction_uses_and_a_name_that_is_taken_are_no_renames() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, control = await deployment.connect(), deployment.cluster.control
        control.seed("db.c", {"_id": 1})
        control.seed("db.d", {"_id": 1})
        with pytest.raises(ControlError, match=r"to: there is a collection db\.d already"):
            control.rename("db.c", "db.d")
        await talker.ok(retryable_insert(2, txn_number=1, startTransaction=True, autocommit=False))
        with pytest.raises(ControlError, match=r"to: an open transaction uses db\.c"):
            control.rename("db.c", "db.e")

    play(scenario)


def test_a_document_that_a_transaction_writes_is_not_seeded() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, control = await deployment.connect(), deployment.cluster.control
        control.seed("db.c", {"_id": 1})
        await talker.ok(retryable_insert(2, txn_number=1, startTransaction=True, autocommit=False))
        with pytest.raises(ControlError, match="an open transaction writes to db"):
            control.seed("db.c", {"_id": 2})
        control.seed("db.c", {"_id": 3})

    play(scenario)


def test_a_whole_database_is_dropped_by_its_name() -> None:
    async def scenario(deployment: Deployment) -> None:
        control = deployment.cluster.control
        control.seed("shop.orders", {"_id": 1})
        control.seed("shop.items", {"_id": 1})
        control.seed("other.c", {"_id": 1})
        assert control.drop("shop")["dropped"] == ["shop.orders", "shop.items"]
        assert [str(each.ns) for each in deployment.cluster.catalog] == ["other.c"]

    play(scenario)


def test_members_that_lag_see_a_snapshot_when_they_have_caught_up() -> None:
    async def scenario(deployment: Deployment) -> None:
        control, late = deployment.cluster.control, deployment.cluster.nodes[1]
        control.snapshot("empty")
        control.seed("shop.orders", {"_id": 1})
        control.lag("node1", "10s")
        control.restore("empty")
        assert late.catalog.get(NS) is not None
        control.lag("node1", 0)
        assert late.catalog.get(NS) is None

    play(scenario)
