"""A sharded cluster, over the wire: its mongos, what they share, and the load balancers before them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson import Binary, Int64, ObjectId
from talking import Deployment, play

from fakeserver.deployment.spec import ClusterSpec

if TYPE_CHECKING:
    from talking import Talker

SHARDED = ClusterSpec.sharded(2, members=2)
BALANCED = ClusterSpec.load_balanced(2, members=1)
_LSID = {"id": Binary(bytes(16), 4)}


async def _insert(talker: Talker, *ids: int, **fields: Any) -> dict[str, Any]:
    documents = [{"_id": number} for number in ids]
    return await talker.ok({"insert": "c", "documents": documents, "$db": "db", **fields})


def test_a_mongos_says_hello_in_its_own_order() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        reply = await talker.ok({"hello": 1, "helloOk": True})
        assert list(reply) == [
            *("helloOk", "isWritablePrimary", "msg", "topologyVersion", "maxBsonObjectSize"),
            *("maxMessageSizeBytes", "maxWriteBatchSize", "localTime", "logicalSessionTimeoutMinutes"),
            *("connectionId", "maxWireVersion", "minWireVersion", "ok", "$clusterTime", "operationTime"),
        ]
        assert reply["msg"] == "isdbgrid"
        assert (await talker.ok({"isMaster": 1}))["ismaster"] is True

    play(scenario, SHARDED)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"topologyVersion": {"processId": ObjectId(), "counter": Int64(0)}}, 51760),
        ({"maxAwaitTimeMS": 10}, 51761),
        ({"topologyVersion": {"processId": ObjectId(), "counter": Int64(-1)}, "maxAwaitTimeMS": 10}, 51758),
    ],
)
def test_a_mongos_has_codes_of_its_own_for_awaitable_hello(command: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert (await talker.fails({"hello": 1, **command}))["code"] == code

    play(scenario, SHARDED)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ({"nothing": 1}, 59, "no such cmd: nothing"),
        ({"replSetStepDown": 1}, 59, "no such cmd: replSetStepDown"),
        ({"replSetGetStatus": 1}, 125, "replSetGetStatus is not supported through mongos"),
        ({"find": "c", "$db": "local"}, 20, "Can't use 'local' database through mongos"),
        ({"shardCollection": "db.c", "key": {}}, 2, "Unsupported shard key pattern"),
        ({"shardCollection": "db", "key": {"a": 1}}, 73, "Invalid namespace specified 'db'"),
        ({"enableSharding": "a.b"}, 73, "invalid db name"),
    ],
)
def test_a_mongos_refuses_in_its_own_words(command: dict[str, Any], code: int, message: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).fails(command)
        assert (reply["code"], message in reply["errmsg"]) == (code, True)

    play(scenario, SHARDED)


def test_a_mongod_has_no_commands_of_a_mongos() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.cluster.shards[0].nodes[0])
        assert (await talker.fails({"isdbgrid": 1}))["errmsg"] == "no such command: 'isdbgrid'"
        assert (await talker.ok({"hello": 1}))["setName"] == "shard01"
        assert (await talker.ok({"replSetGetStatus": 1}))["set"] == "shard01"

    play(scenario, SHARDED)


def test_all_mongos_and_shards_are_on_record() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        cluster = deployment.cluster
        assert [node.name for node in cluster.nodes] == ["mongos0", "mongos1"]
        shards = (await talker.ok({"listShards": 1}))["shards"]
        hosts = ",".join(node.address for node in cluster.shards[1].nodes)
        assert [(each["_id"], each["host"]) for each in shards][1] == ("shard02", f"shard02/{hosts}")
        found = await talker.ok({"find": "shards", "sort": {"_id": 1}, "$db": "config"})
        assert found["cursor"]["firstBatch"] == shards
        assert (await talker.ok({"getShardMap": 1}))["map"]["shard02"] == f"shard02/{hosts}"
        assert (await talker.ok({"serverStatus": 1}))["process"] == "mongos"
        routers = (await talker.ok({"find": "mongos", "$db": "config"}))["cursor"]["firstBatch"]
        assert [each["_id"] for each in routers] == [node.address for node in cluster.routers]
        now = (await talker.ok({"hello": 1}))["localTime"]
        assert all(each["ping"] <= now for each in routers)
        assert "configDB" in (await talker.ok({"getCmdLineOpts": 1}))["parsed"]["sharding"]
        assert (await talker.ok({"isdbgrid": 1}))["isdbgrid"] == 1
        assert (await talker.ok({"flushRouterConfig": 1}))["flushed"] is True

    play(scenario, ClusterSpec.sharded(2, 2, members=2))


def test_databases_are_spread_over_the_shards_and_forgotten_when_dropped() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for db in ("one", "two"):
            await talker.ok({"insert": "c", "documents": [{}], "$db": db})
            find = {"find": "databases", "$db": "config"}
            found = (await talker.ok(find))["cursor"]["firstBatch"]
        assert [(each["_id"], each["primary"]) for each in found] == [("one", "shard01"), ("two", "shard02")]
        await talker.ok({"dropDatabase": 1, "$db": "one"})
        found = (await talker.ok(find))["cursor"]["firstBatch"]
        assert [each["_id"] for each in found] == ["two"]

    play(scenario, ClusterSpec.sharded(1, 2, members=1))


def test_a_collection_is_sharded_once_and_its_record_goes_with_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        sharded = {"shardCollection": "db.c", "key": {"a": 1}}
        for _ in range(2):
            assert (await talker.ok(sharded))["collectionsharded"] == "db.c"
        indexes = (await talker.ok({"listIndexes": "c", "$db": "db"}))["cursor"]["firstBatch"]
        assert [index["name"] for index in indexes] == ["_id_", "a_1"]
        find = {"find": "collections", "$db": "config"}
        assert (await talker.ok(find))["cursor"]["firstBatch"][0]["key"] == {"a": 1}
        assert (await talker.fails({**sharded, "key": {"b": 1}}))["code"] == 23
        await talker.ok({"drop": "c", "$db": "db"})
        await talker.ok({"create": "c", "$db": "db"})
        await talker.ok({**sharded, "key": {"b": 1}})
        assert [each["key"] for each in (await talker.ok(find))["cursor"]["firstBatch"]] == [{"b": 1}]

    play(scenario, SHARDED)


@pytest.mark.parametrize("expanded", [True, False])
def test_an_expanded_change_stream_tells_that_a_collection_was_sharded(expanded: bool) -> None:  # noqa: FBT001
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"create": "c", "$db": "db"})
        stage = {"$changeStream": {"showExpandedEvents": expanded}}
        opened = await talker.ok({"aggregate": "c", "pipeline": [stage], "cursor": {}, "$db": "db"})
        await talker.ok({"shardCollection": "db.c", "key": {"_id": 1}})
        await _insert(talker, 1)
        more = {"getMore": opened["cursor"]["id"], "collection": "c", "$db": "db"}
        events = (await talker.ok(more))["cursor"]["nextBatch"]
        assert [event["operationType"] for event in events] == ["shardCollection"] * expanded + ["insert"]
        if expanded:
            assert events[0]["operationDescription"] == {"shardKey": {"_id": 1}, "unique": False}
            assert events[0]["ns"] == {"db": "db", "coll": "c"}

    play(scenario, SHARDED)


def test_only_an_empty_collection_may_lack_the_index_of_its_shard_key() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await _insert(talker, 1)
        reply = await talker.fails({"shardCollection": "db.c", "key": {"a": 1}})
        assert "create an index that starts with" in reply["errmsg"]

    play(scenario, SHARDED)


def test_the_balancer_can_be_stopped() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for command, mode in (("balancerStop", "off"), ("balancerStart", "full")):
            await talker.ok({command: 1})
            assert (await talker.ok({"balancerStatus": 1}))["mode"] == mode

    play(scenario, SHARDED)


def test_a_write_that_is_retried_on_another_mongos_is_applied_once() -> None:
    async def scenario(deployment: Deployment) -> None:
        first, second = [await deployment.connect(node) for node in deployment.cluster.nodes]
        write = {"updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}, "upsert": True}], "$db": "db"}
        retryable = {"update": "c", **write, "lsid": _LSID, "txnNumber": Int64(1)}
        await first.ok(retryable)
        assert (await second.ok(retryable))["retriedStmtIds"] == [0]
        found = (await second.ok({"find": "c", "$db": "db"}))["cursor"]["firstBatch"]
        assert found == [{"_id": 1, "n": 1}]

    play(scenario, SHARDED)


def test_a_cursor_belongs_to_the_mongos_that_opened_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        first, second = [await deployment.connect(node) for node in deployment.cluster.nodes]
        await _insert(first, 1, 2)
        cursor = (await first.ok({"find": "c", "batchSize": 1, "$db": "db"}))["cursor"]
        more = {"getMore": cursor["id"], "collection": "c", "$db": "db"}
        assert (await second.fails(more))["code"] == 43
        assert (await first.ok(more))["cursor"]["nextBatch"] == [{"_id": 2}]

    play(scenario, SHARDED)


def test_a_fail_point_belongs_to_one_mongos() -> None:
    async def scenario(deployment: Deployment) -> None:
        first, second = [await deployment.connect(node) for node in deployment.cluster.nodes]
        await deployment.fail_command({"times": 1}, "ping", node=deployment.cluster.nodes[0], errorCode=8)
        await second.ok({"ping": 1})
        assert (await first.fails({"ping": 1}))["code"] == 8

    play(scenario, SHARDED)


def test_on_a_mongos_max_time_cuts_a_block_short() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command({"times": 1}, "find", blockConnection=True, blockTimeMS=5000)
        began = deployment.world.clock.now()
        reply = await talker.fails({"find": "c", "maxTimeMS": 100, "$db": "db"})
        assert reply["code"] == 50
        assert deployment.world.clock.now() - began < 0.2

    play(scenario, SHARDED)


def test_a_mongos_leaves_the_retryable_write_label_to_the_shards() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        insert = {"insert": "c", "documents": [{}], "lsid": _LSID, "txnNumber": Int64(1), "$db": "db"}
        await deployment.fail_command({"times": 1}, "insert", errorCode=10107)
        reply = await talker.fails(insert)
        assert (reply["code"], "errorLabels" in reply, "topologyVersion" in reply) == (10107, False, False)
        await deployment.fail_command({"times": 1}, "insert", errorCode=91, allowRewriteStateChange=True)
        assert (await talker.fails(insert))["codeName"] == "HostUnreachable"

    play(scenario, SHARDED)


@pytest.mark.parametrize("rewrites", [False, True])
def test_a_write_concern_error_of_a_fail_point_comes_with_its_labels_alone(rewrites: bool) -> None:  # noqa: FBT001 - a parameter
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        error = {"code": 91, "errmsg": "down"}
        labels: dict[str, Any] = {"errorLabels": ["A"]} if rewrites else {}
        await deployment.fail_command({"times": 1}, "insert", writeConcernError=error, **labels)
        reply = await _insert(talker, 1, lsid=_LSID, txnNumber=Int64(1))
        assert reply["writeConcernError"] == error
        assert reply.get("errorLabels", []) == labels.get("errorLabels", [])

    play(scenario, SHARDED)


def test_a_mongos_hides_that_a_shard_has_no_primary_for_a_while() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await _insert(talker, 1)
        shard = deployment.cluster.shards[0]
        old = deployment.cluster.step_down()
        assert shard.primary is None
        await _insert(talker, 2)
        assert shard.primary not in {None, old}

    play(scenario, SHARDED)


def test_a_mongos_gives_up_on_a_shard_without_a_primary_after_20_seconds() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        deployment.cluster.step_down(seconds=60)
        assert (await talker.fails({"find": "c", "$db": "db"}))["code"] == 133
        assert (await talker.fails({"find": "c", "maxTimeMS": 10, "$db": "db"}))["code"] == 50
        await talker.ok({"find": "c", "$db": "db", "$readPreference": {"mode": "nearest"}})

    play(scenario, ClusterSpec.sharded(1, members=1))


@pytest.mark.parametrize(
    ("data", "code", "labels"),
    [
        ({"errorCode": 462}, 462, ["SystemOverloadedError"]),
        ({"errorCode": 10107}, 6, None),
        ({"closeConnection": True}, 6, None),
        ({"errorCode": 51}, 51, None),
    ],
)
def test_what_a_shard_answers_reaches_the_client_in_the_words_of_a_mongos(
    data: dict[str, Any], code: int, labels: list[str] | None
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, shard = await deployment.connect(), deployment.cluster.shards[0]
        await deployment.fail_command(
            "alwaysOn", "find", node=shard.nodes[0], failInternalCommands=True, **data
        )
        reply = await talker.fails({"find": "c", "$db": "db"})
        assert (reply["code"], reply.get("errorLabels")) == (code, labels)

    play(scenario, SHARDED)


def test_a_mongos_tries_again_what_a_shard_refused_for_the_moment() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, node = await deployment.connect(), deployment.cluster.shards[0].nodes[0]
        data = {"failInternalCommands": True, "errorCode": 91}
        await deployment.fail_command({"times": 2}, "find", node=node, **data)
        await talker.ok({"find": "c", "$db": "db"})

    play(scenario, SHARDED)


def test_a_fail_point_of_a_shard_spares_what_a_mongos_passes_on_unless_it_is_told_not_to() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, node = await deployment.connect(), deployment.cluster.shards[0].nodes[0]
        await deployment.fail_command("alwaysOn", "find", node=node, errorCode=51)
        await talker.ok({"find": "c", "$db": "db"})

    play(scenario, SHARDED)


# Load balancers.


async def _through(deployment: Deployment, number: int) -> Talker:
    balancer = deployment.cluster.balancers[number]
    return await deployment.connect(balancer)  # type: ignore[arg-type]  # which has an address, as nodes have


def test_a_balancer_hands_connections_to_its_mongos_in_turn() -> None:
    async def scenario(deployment: Deployment) -> None:
        seen = []
        for number in (1, 1, 1, 0, 0):
            talker = await _through(deployment, number)
            seen.append((await talker.ok({"hello": 1, "loadBalanced": True}))["serviceId"])
        first, second = [node.service_id for node in deployment.cluster.nodes]
        assert seen == [first, second, first, first, first]

    play(scenario, BALANCED)


def test_a_service_id_is_for_the_first_hello_through_a_balancer_that_asks_for_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        asking, silent, direct = [await _through(deployment, 0) for _ in range(2)] + [
            await deployment.connect()
        ]
        hello = {"hello": 1, "loadBalanced": True}
        assert isinstance((await asking.ok(hello))["serviceId"], ObjectId)
        assert "serviceId" not in await asking.ok(hello)
        assert "serviceId" not in await silent.ok({"hello": 1})
        assert "serviceId" not in await silent.ok(hello)
        assert "serviceId" not in await direct.ok(hello)

    play(scenario, BALANCED)


def test_a_load_balanced_cluster_has_a_connection_string_for_one_mongos_and_one_for_all() -> None:
    async def scenario(deployment: Deployment) -> None:
        single, multi = deployment.cluster.balancers
        assert deployment.cluster.uri_single == f"mongodb://{single.address}/?loadBalanced=true"
        assert deployment.cluster.uri == f"mongodb://{multi.address}/?loadBalanced=true"
        assert repr(multi) == f"<LoadBalancer of 2 at {multi.address}>"

    play(scenario, BALANCED)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"mongos": 0}, "mongos must be from 1 to 50"),
        ({"shards": 0}, "shards must be from 1 to 50"),
        ({"ports": (1,)}, "ports must name one port for each of the 2 mongos"),
        ({"balancer_ports": (1,)}, "balancer_ports must name one port for each of the 0"),
    ],
)
def test_a_sharded_cluster_that_cannot_be_is_refused(facts: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClusterSpec.sharded(**facts)


def test_a_mongos_tells_where_the_documents_of_sharded_collections_are() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await _insert(talker, 1, 2)
        await talker.ok({"insert": "other", "documents": [{}], "$db": "db"})
        await talker.ok({"shardCollection": "db.c", "key": {"_id": "hashed"}, "$db": "admin"})
        stage: dict[str, Any] = {"$shardedDataDistribution": {}}
        ask = {"aggregate": 1, "pipeline": [stage], "cursor": {}}
        (found,) = (await talker.ok({**ask, "$db": "admin"}))["cursor"]["firstBatch"]
        (here,) = found["shards"]
        assert (found["ns"], here["numOwnedDocuments"], here["numOrphanedDocs"]) == ("db.c", 2, 0)
        assert (await talker.fails({**ask, "$db": "db"}))["code"] == 73
        statistics = {
            "aggregate": "c",
            "pipeline": [{"$collStats": {"count": {}}}],
            "cursor": {},
            "$db": "db",
        }
        (told,) = (await talker.ok(statistics))["cursor"]["firstBatch"]
        assert told["shard"] == here["shardName"]

    play(scenario, SHARDED)


def test_a_data_node_does_not_know_how_documents_are_distributed() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        stage: dict[str, Any] = {"$shardedDataDistribution": {}}
        reply = await talker.fails({"aggregate": 1, "pipeline": [stage], "cursor": {}, "$db": "admin"})
        assert reply["code"] == 6_789_101

    play(scenario, ClusterSpec.replica_set(1))
