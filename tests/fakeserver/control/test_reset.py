"""`reset` brings the beginning back, and clients do not notice but by what is gone."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.errors import AutoReconnect
from talking import REPLICA_SET, Deployment, lsid, play, retryable_insert

from fakeserver import ClusterSpec, UserSpec
from fakeserver.assembly.background import BackgroundCluster
from fakeserver.storage.port.engine import Namespace
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from pymongo.collection import Collection

    from fakeserver.control.methods import Methods
    from fakeserver.deployment.cluster import Cluster

ORDERS = "shop.orders"
NS = Namespace.parse(ORDERS)
FIND_FAILS = {"failCommands": ["find"], "errorCode": 91}


def _count(cluster: Cluster) -> int:
    return cluster.catalog.engine.stats(NS).count


def _with_orders(deployment: Deployment) -> Methods:
    control = deployment.cluster.control
    control.seed(ORDERS, [{"_id": 1}, {"_id": 2}])
    _begin(deployment)
    return control


def _begin(deployment: Deployment) -> None:
    deployment.cluster.control.begin()


def _state(control: Methods) -> dict[str, Any]:
    state = dict(control.state())
    servers = [{**each, "connections": 0} for each in state["servers"]]
    return state | {"servers": servers}


# Data.


def test_documents_collections_and_indexes_are_those_of_the_beginning() -> None:
    async def scenario(deployment: Deployment) -> None:
        control, catalog = _with_orders(deployment), deployment.cluster.catalog
        talker = await deployment.connect()
        await talker.ok({"delete": "orders", "deletes": [{"q": {"_id": 1}, "limit": 1}], "$db": "shop"})
        index = {"key": {"n": 1}, "name": "n", "unique": True}
        await talker.ok({"createIndexes": "orders", "indexes": [index], "$db": "shop"})
        await talker.ok({"collMod": "orders", "validator": {"n": {"$exists": True}}, "$db": "shop"})
        await talker.ok({"renameCollection": "shop.orders", "to": "shop.old"})
        await talker.ok({"insert": "c", "documents": [{}], "$db": "other"})
        for _again in range(2):
            control.reset()
            (orders,) = catalog
            assert (orders.ns, list(orders.indexes), orders.options) == (NS, ["_id_"], {})
            await talker.ok(
                retryable_insert(1, txn_number=1)
                | {"insert": "orders", "$db": "shop"}
                | {"documents": [{"_id": 3}]}
            )
            reply = await talker.ok({"find": "orders", "$db": "shop"})
            assert [each["_id"] for each in reply["cursor"]["firstBatch"]] == [1, 2, 3]

    play(scenario)


def test_nothing_of_a_snapshot_changes_with_the_data_that_were_made_of_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        control, cluster = _with_orders(deployment), deployment.cluster
        control.snapshot("two")
        control.seed(ORDERS, {"_id": 3})
        control.snapshot("three")
        for name, count in (("two", 2), ("three", 3), ("two", 2)):
            control.restore(name)
            assert _count(cluster) == count
            control.seed(ORDERS, {"_id": 9})
        control.reset()
        assert _count(cluster) == 2
        control.restore("three")
        assert _count(cluster) == 3

    play(scenario)


def test_a_change_stream_learns_that_history_has_ended() -> None:
    async def scenario(deployment: Deployment) -> None:
        control = _with_orders(deployment)
        talker = await deployment.connect()
        watch = {"aggregate": "orders", "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "shop"}
        reply = await talker.ok(watch)
        token = reply["cursor"]["postBatchResumeToken"]
        control.seed(ORDERS, {"_id": 3})
        control.reset()
        resumed = {"aggregate": "orders", "pipeline": [{"$changeStream": {"resumeAfter": token}}]}
        failure = await talker.fails({**resumed, "cursor": {}, "$db": "shop"})
        assert failure["code"] == 286

    play(scenario)


# What clients hold.


def test_cursors_sessions_and_transactions_are_gone_and_connections_stay() -> None:
    async def scenario(deployment: Deployment) -> None:
        control, cluster = _with_orders(deployment), deployment.cluster
        talker = await deployment.connect()
        find = await talker.ok({"find": "orders", "batchSize": 1, "$db": "shop"})
        insert = retryable_insert(7, txn_number=1, startTransaction=True, autocommit=False)
        await talker.ok(insert)
        control.reset()
        more = await talker.fails({"getMore": find["cursor"]["id"], "collection": "orders", "$db": "shop"})
        assert more["code"] == 43
        commit = {
            "commitTransaction": 1,
            "lsid": lsid(),
            "txnNumber": insert["txnNumber"],
            "autocommit": False,
        }
        assert (await talker.fails(commit))["code"] == 251
        assert (len(cluster.sessions), len(cluster.transactions.open)) == (1, 0)
        assert len(cluster.nodes[0].connections) == 1

    play(scenario)


def test_requests_that_wait_are_interrupted_and_hellos_are_not() -> None:
    async def scenario(deployment: Deployment) -> None:
        control = _with_orders(deployment)
        blocked, waiting = await deployment.connect(), await deployment.connect()
        data = {"failCommands": ["find"], "blockConnection": True, "blockTimeMS": 60_000}
        control.set_fail_point("failCommand", "alwaysOn", data)
        version = (await waiting.ok({"hello": 1}))["topologyVersion"]
        await blocked.send({"find": "orders", "$db": "shop"})
        await waiting.send({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 10_000})
        await deployment.sleep(1.0)
        now = deployment.world.clock.now()
        control.reset()
        reply = await blocked.reply()
        assert reply is not None
        assert (reply["code"], deployment.world.clock.now() - now < 1) == (11601, True)
        hello = await waiting.reply()
        assert hello is not None
        assert hello["ok"] == 1.0
        assert deployment.world.clock.now() - now > 8

    play(scenario)


def test_connections_are_closed_where_that_is_asked() -> None:
    async def scenario(deployment: Deployment) -> None:
        control = _with_orders(deployment)
        talker = await deployment.connect()
        await control.reset(connections="close")
        assert await talker.reply() is None

    play(scenario)


# Settings and faults.


def test_settings_of_the_servers_are_those_of_the_beginning() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster, node = deployment.cluster, deployment.cluster.nodes[0]
        cluster.control.set_fail_point("failCommand", 3, FIND_FAILS, "node0")
        talker = await deployment.connect()
        await talker.ok({"setParameter": 1, "logLevel": 2})
        control = _with_orders(deployment)
        await talker.fails({"find": "c", "$db": "db"})
        await talker.ok({"setParameter": 1, "logLevel": 5, "ttlMonitorSleepSecs": 1})
        await talker.ok({"profile": 2, "slowms": 1, "$db": "db"})
        await talker.ok({"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "majority"}})
        await talker.ok({"createUser": "ann", "pwd": "x", "roles": ["root"]})
        await talker.ok({"fsync": 1, "lock": True})
        control.limits(requests="1/s")
        control.reset()
        assert node.parameters["logLevel"] == 2
        assert node.parameters["ttlMonitorSleepSecs"] == 60
        assert node.fail_points.get("failCommand").setting == {"times": 3}
        assert node.fail_points.get("failCommand").times_entered == 0
        assert (node.profiler.profiling.levels, node.profiler.profiling.slow_ms) == ({}, 100)
        assert node.write_lock.count == 0
        assert cluster.default_concerns.read is None
        assert len(cluster.users) == 0
        assert len(cluster.journal) == 0
        for _each in range(5):
            await talker.ok({"ping": 1})

    play(scenario)


def test_users_of_the_beginning_are_back_with_their_passwords() -> None:
    spec = ClusterSpec.standalone(auth=True, users=(UserSpec("root", "secret"),))
    with BackgroundCluster(spec) as server, MongoClient[Any](server.uri) as client:
        client.admin.command("updateUser", "root", pwd="other")
        client.admin.command("createUser", "ann", pwd="x", roles=["root"])
        server.control.reset()
        assert [each["user"] for each in client.admin.command("usersInfo", 1)["users"]] == ["root"]
        with MongoClient[Any](server.uri) as again:
            again.admin.command("ping")


def test_a_limiter_of_the_beginning_has_all_of_its_tokens_again() -> None:
    async def scenario(deployment: Deployment) -> None:
        control = deployment.cluster.control
        control.limits(requests="2/s")
        _begin(deployment)
        talker = await deployment.connect()
        for _round in range(2):
            replies = [await talker.command({"ping": 1}) for _ in range(3)]
            assert [reply and reply["ok"] for reply in replies] == [1.0, 1.0, 0.0]
            control.reset()

    play(scenario)


# Servers and elections.

CHANGES: dict[str, dict[str, Any]] = {
    "kill": {"node": "node0"},
    "restart": {"node": "node1", "down": "100s"},
    "pause": {"node": "node2"},
    "slow": {"node": "node1", "seconds": 1},
    "lag": {"node": "node1", "seconds": 30},
    "freeze": {"node": "node2"},
    "stepDown": {},
    "elect": {"node": "node2"},
    "rollBack": {"seconds": 0},
    "addMember": {},
    "removeMember": {"node": "node1"},
    "partition": {"groups": [["node0"], ["node1", "clients"]], "reset": True},
    "limits": {"requests": "1/s", "connections": "1/s"},
    "tickets": {"read": 1},
    "serviceTime": {"seconds": 1},
    "shed": {"share": 1},
    "setFailPoint": {"name": "failCommand", "data": FIND_FAILS},
    "seed": {"namespace": ORDERS, "documents": [{"_id": 8}]},
    "drop": {"namespace": ORDERS},
    "rename": {"namespace": ORDERS, "to": "shop.old"},
}


@pytest.mark.parametrize("verb", CHANGES)
def test_reset_undoes_a_verb(verb: str) -> None:
    _undone([verb])


@pytest.mark.slow
@given(st.lists(st.sampled_from(sorted(CHANGES)), max_size=8))
def test_reset_undoes_any_verbs(verbs: list[str]) -> None:
    _undone(verbs)


def _undone(verbs: list[str]) -> None:
    async def scenario(deployment: Deployment) -> None:
        control = _with_orders(deployment)
        before, primary = _state(control), deployment.primary
        for verb in verbs:
            # What does not fit after the others is refused, and has changed nothing.
            with suppress(ControlError):
                outcome = control.perform(verb, CHANGES[verb])
                if verb != "restart":  # that one is under way for longer
                    await outcome
        await control.reset()
        assert _state(control) == before
        assert (deployment.primary, _count(deployment.cluster)) == (primary, 2)
        # Nothing that was under way comes to an end later.
        await deployment.sleep(200.0)
        assert _state(control) == before

    play(scenario)


def test_terms_and_topology_versions_go_on() -> None:
    async def scenario(deployment: Deployment) -> None:
        control = _with_orders(deployment)
        talker = await deployment.connect()
        before = await talker.ok({"hello": 1})
        control.elect("node1")
        control.reset()
        after = await talker.ok({"hello": 1})
        assert after["isWritablePrimary"] is True
        assert after["electionId"] > before["electionId"]
        assert after["topologyVersion"]["counter"] > before["topologyVersion"]["counter"]
        assert after["$clusterTime"]["clusterTime"] > before["$clusterTime"]["clusterTime"]

    play(scenario)


@pytest.mark.slow
def test_pymongo_goes_on_after_each_reset() -> None:
    with BackgroundCluster(REPLICA_SET) as server, MongoClient[Any](server.uri) as client:
        orders = client.shop.orders
        for verb in ("stepDown", "kill", "elect", "removeMember", "addMember"):
            server.control.perform(verb, CHANGES[verb])
            server.control.reset()
            assert _inserted(orders) <= 2, verb
            assert orders.count_documents({}) == 1, verb


def _inserted(orders: Collection[Any]) -> int:
    """Insert a document; return the attempts. The client may just have heard of the primary before."""
    for attempt in range(1, 10):
        with suppress(AutoReconnect):
            orders.insert_one({"_id": attempt})
            return attempt
    return 10


def test_a_sharded_cluster_forgets_what_was_sharded() -> None:
    async def scenario(deployment: Deployment) -> None:
        control, cluster = deployment.cluster.control, deployment.cluster
        talker = await deployment.connect()
        for _round in range(2):
            await talker.ok({"shardCollection": "shop.orders", "key": {"_id": 1}})
            assert cluster.config is not None
            assert cluster.config.key_of(NS) == {"_id": 1}
            control.reset()
            assert cluster.config.key_of(NS) is None
            assert [each.ns.db for each in cluster.catalog if each.ns.db != "config"] == []
            assert (await talker.ok({"count": "collections", "$db": "config"}))["n"] == 0

    play(scenario, ClusterSpec.sharded(mongos=1))


SHARDED: dict[str, dict[str, Any]] = {
    "kill": {"node": "mongos0"},
    "restart": {"node": "shard01/node1"},
    "pause": {"node": "shard02/node2"},
    "lag": {"node": "shard01/node2", "seconds": 5},
    "stepDown": {"node": "shard02/node0"},
    "elect": {"node": "shard01/node1"},
    "removeMember": {"node": "shard01/node2"},
    "partition": {"groups": [["shard01/node0"], ["mongos1", "clients"]]},
    "limits": {"requests": "1/s"},
    "seed": {"namespace": ORDERS, "documents": [{"_id": 8}]},
}


@pytest.mark.parametrize("verbs", [*([verb] for verb in SHARDED), list(SHARDED)], ids=" ".join)
def test_reset_undoes_verbs_on_a_sharded_cluster(verbs: list[str]) -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster, control = deployment.cluster, _with_orders(deployment)
        before, primaries = _state(control), [shard.primary for shard in cluster.shards]
        for verb in verbs:
            with suppress(ControlError):
                await control.perform(verb, SHARDED[verb])
        await control.reset()
        assert _state(control) == before
        assert ([shard.primary for shard in cluster.shards], _count(cluster)) == (primaries, 2)

    play(scenario, ClusterSpec.sharded(mongos=2, shards=2, members=3))
