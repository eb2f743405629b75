"""Operations told and ended, and the switches of a server's upkeep."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Int64
from data_commands import Server
from talking import REPLICA_SET, Deployment, play

from fakeserver.deployment.counters import Counters
from fakeserver.errors import CommandError

SESSION = Binary(bytes(16), 4)
STRICT = {"apiVersion": "1", "apiStrict": True}


def failure(server: Server, command: dict[str, Any], **where: Any) -> CommandError:
    with pytest.raises(CommandError) as caught:
        server.run(command, **where)
    return caught.value


def filled() -> Server:
    server = Server()
    server.run({"insert": "c", "documents": [{"_id": number, "x": number} for number in range(3)]})
    return server


def test_top_counts_the_commands_that_name_a_collection_until_it_is_dropped() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for command in (
            {"insert": "c", "documents": [{"_id": number} for number in range(3)]},
            {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]},
            {"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}]},
            {"insert": "c", "documents": [{"_id": 5}], "lsid": {"id": SESSION}, "txnNumber": Int64(1)},
            {"create": "v", "viewOn": "c"},
            {"count": "c"},
            {"find": "v"},
        ):
            await talker.ok({**command, "$db": "db"})
        cursor = (await talker.ok({"find": "c", "batchSize": 1, "$db": "db"}))["cursor"]["id"]
        await talker.ok({"getMore": cursor, "collection": "c", "$db": "db"})
        totals = (await talker.ok({"top": 1, "$db": "admin"}))["totals"]
        counts = {kind: used["count"] for kind, used in totals["db.c"].items() if used["count"]}
        reads = {"readLock": 3, "queries": 1, "getmore": 1, "commands": 1}
        writes = {"writeLock": 4, "insert": 2, "update": 1, "remove": 1}
        assert counts == {"total": 7, **reads, **writes}
        assert totals["db.v"]["queries"] == {"time": 1, "count": 1}
        await talker.ok({"drop": "c", "$db": "db"})
        await talker.ok({"create": "c", "$db": "db"})
        totals = (await talker.ok({"top": 1, "$db": "admin"}))["totals"]
        assert totals["db.c"]["total"]["count"] == 2, "the drop and the making"

    play(scenario, REPLICA_SET)


def test_the_use_of_any_number_of_collections_is_bounded() -> None:
    counters = Counters()
    use = counters.user("find", "read")
    assert use is not None
    for number in range(10_001):
        use("db", {"find": f"c{number}"}, 0.5)
    use("db", {"find": 1}, 0.5)
    assert len(counters.usage) == 10_000
    assert counters.by_collection("db", "c0")["total"]["count"] == 0
    assert counters.by_collection("db", "c10000")["queries"] == {"time": 500_000, "count": 1}
    assert counters.user("ping", "internal") is None


def server_says(command: dict[str, Any]) -> dict[str, Any]:
    return Server().run(command, db="admin")


def test_members_have_no_connections_to_each_other() -> None:
    assert server_says({"connPoolStats": 1})["totalCreated"] == 0


@pytest.mark.parametrize(
    ("stage", "allowed"),
    [
        ({"$collStats": {"count": {}}}, True),
        ({"$collStats": {"latencyStats": {}}}, False),
        ({"$collStats": {"count": {}, "storageStats": {}}}, False),
        ({"$indexStats": {}}, False),
        ({"$match": {}}, True),
    ],
)
def test_of_the_stages_that_tell_of_a_collection_the_stable_api_has_the_count(
    stage: dict[str, Any], *, allowed: bool
) -> None:
    command = {"aggregate": "c", "pipeline": [stage], "cursor": {}, **STRICT}
    if allowed:
        assert filled().run(command)["cursor"]["firstBatch"]
    else:
        assert failure(filled(), command).code == 323


@pytest.mark.parametrize("value", [True, False])
def test_the_stable_api_has_change_streams_without_expanded_events(*, value: bool) -> None:
    stream = {"aggregate": "c", "pipeline": [{"$changeStream": {"showExpandedEvents": value}}], "cursor": {}}
    assert failure(filled(), {**stream, **STRICT}).code == 323
    assert filled().run(stream)["cursor"]["id"]
