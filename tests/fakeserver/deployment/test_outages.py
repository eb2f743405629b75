"""Servers that die, pause, are cut off or slow, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from talking import LATENCY, REPLICA_SET, STANDALONE, Deployment, play, retryable_insert

from fakeserver import ClusterSpec, MemberSpec
from fakeserver.deployment.cluster import CLIENTS

_INSERT = {"insert": "c", "documents": [{"_id": 1}], "$db": "db"}
_FIND = {"find": "c", "$db": "db", "$readPreference": {"mode": "nearest"}}


def _ids(reply: dict[str, Any]) -> list[Any]:
    return [document["_id"] for document in reply["cursor"]["firstBatch"]]


async def _awaited_hello(deployment: Deployment, number: int) -> Any:
    """Return a connection whose hello waits for news."""
    talker = await deployment.connect(deployment.cluster.nodes[number])
    hello = await talker.ok({"hello": 1})
    told = hello["topologyVersion"]
    await talker.send({"hello": 1, "topologyVersion": told, "maxAwaitTimeMS": 10_000})
    return talker


# Names.


def test_a_server_is_found_by_name_address_or_part() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        first, second, _ = cluster.nodes
        assert [cluster.node(which) for which in ("node0", first.address, "primary", first)] == [first] * 4
        assert cluster.node("secondary") is second
        cluster.step_down()
        with pytest.raises(LookupError, match="there is no 'primary' now; there are node0, node1, node2"):
            cluster.node("primary")

    play(scenario)


# The process.


def test_a_killed_primary_resets_its_clients_and_another_is_elected() -> None:
    async def scenario(deployment: Deployment) -> None:
        old = deployment.primary
        talker = await deployment.connect(old)
        await talker.ok(retryable_insert(1, txn_number=1))
        waiting = await _awaited_hello(deployment, 1)
        await old.kill()
        assert await talker.reply() is None
        with pytest.raises(OSError, match="nobody listens"):
            await deployment.connect(old)
        news = await waiting.reply()
        assert (news["isWritablePrimary"], "primary" in news) == (False, False)
        await deployment.sleep(1.0)
        new = deployment.primary
        assert new is deployment.cluster.nodes[1]
        retried = await (await deployment.connect(new)).ok(retryable_insert(1, txn_number=1))
        assert (retried["n"], retried["retriedStmtIds"]) == (1, [0])

    play(scenario)


def test_who_is_started_again_is_another_process_with_the_same_data() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[1]
        before = await (await deployment.connect(node)).ok({"hello": 1})
        await deployment.fail_command("alwaysOn", "find", node=node, errorCode=1)
        await node.kill()
        await (await deployment.connect()).ok(_INSERT)
        await node.start()
        talker = await deployment.connect(node)
        after = await talker.ok({"hello": 1})
        assert after["topologyVersion"]["processId"] != before["topologyVersion"]["processId"]
        assert after["connectionId"] == 1
        assert after["me"] == before["me"]
        assert _ids(await talker.ok(_FIND)) == [1]
        assert (await talker.ok({"serverStatus": 1}))["connections"]["totalCreated"] == 1

    play(scenario)


def test_a_cursor_does_not_outlive_its_process() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{}, {}], "$db": "db"})
        cursor_id = (await talker.ok({"find": "c", "batchSize": 1, "$db": "db"}))["cursor"]["id"]
        node = deployment.cluster.nodes[0]
        await node.kill()
        await node.start()
        reply = await (await deployment.connect(node)).fails(
            {"getMore": cursor_id, "collection": "c", "$db": "db"}
        )
        assert reply["code"] == 43

    play(scenario, STANDALONE)


@pytest.mark.parametrize("topology", [ClusterSpec.sharded(2, 1), ClusterSpec.load_balanced(2, 1)])
def test_a_mongos_dies_and_comes_back(topology: ClusterSpec) -> None:
    async def scenario(deployment: Deployment) -> None:
        router = deployment.cluster.routers[0]
        talker = await deployment.connect(router)
        await router.kill()
        assert await talker.reply() is None
        await router.start()
        await (await deployment.connect(router)).ok(_INSERT)

    play(scenario, topology)


def test_a_set_without_a_majority_has_no_primary_until_it_has_one_again() -> None:
    async def scenario(deployment: Deployment) -> None:
        first, second, third = deployment.cluster.nodes
        await second.kill()
        await deployment.sleep(1.0)
        assert deployment.primary is first
        await third.kill()
        await deployment.sleep(60.0)
        assert deployment.cluster.primary is None
        assert (await (await deployment.connect(first)).fails(_INSERT))["code"] == 10107
        await third.start()
        await deployment.sleep(1.0)
        await (await deployment.connect(deployment.primary)).ok(_INSERT)

    play(scenario)


def test_only_what_runs_can_end_and_only_what_does_not_can_start() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.secondary
        with pytest.raises(ValueError, match="node1 runs already"):
            await node.start()
        with pytest.raises(ValueError, match="node1 is not paused"):
            node.resume()
        await node.kill()
        for verb in (node.kill, node.shut_down):
            with pytest.raises(ValueError, match="node1 does not run"):
                await verb()
        with pytest.raises(ValueError, match="node1 does not run"):
            node.pause()

    play(scenario)


def test_a_paused_server_takes_bytes_and_answers_them_when_it_goes_on() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[0]
        early = await deployment.connect()
        node.pause()
        late = await deployment.connect()
        await early.send({"ping": 1})
        await late.send(_INSERT)
        await deployment.sleep(100.0)
        assert node.counters.requests == 0
        node.resume()
        for talker in (early, late):
            reply = await talker.reply()
            assert reply is not None
            assert reply["ok"] == 1.0

    play(scenario, STANDALONE)


def test_what_waits_in_a_paused_server_goes_on_no_earlier_than_the_server() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[0]
        await deployment.fail_command(
            {"times": 1}, "insert", errorCode=91, blockConnection=True, blockTimeMS=1000
        )
        talker = await deployment.connect()
        await talker.send(_INSERT)
        await deployment.sleep(0.5)
        node.pause()
        await deployment.sleep(10.0)
        resumed = deployment.world.clock.now()
        node.resume()
        reply = await talker.reply()
        assert reply is not None
        assert reply["code"] == 91
        assert deployment.world.clock.now() == pytest.approx(resumed + LATENCY)

    play(scenario, STANDALONE)


def test_a_paused_primary_loses_its_part_and_comes_back_as_a_secondary() -> None:
    async def scenario(deployment: Deployment) -> None:
        old = deployment.primary
        talker = await deployment.connect(old)
        await talker.ok({"hello": 1, "helloOk": True})
        old.pause()
        await talker.send(_INSERT)
        await deployment.sleep(1.0)
        assert deployment.primary is deployment.cluster.nodes[1]
        old.resume()
        refused = await talker.reply()
        assert refused is not None
        assert (refused["code"], refused["errmsg"]) == (10107, "not primary")
        status = await talker.ok({"replSetGetStatus": 1})
        assert [member["stateStr"] for member in status["members"]] == ["SECONDARY", "PRIMARY", "SECONDARY"]

    play(scenario)


def test_a_paused_server_can_be_killed_and_started() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.secondary
        node.pause()
        with pytest.raises(ValueError, match="node1 is paused: it can be killed, or go on"):
            await node.shut_down()
        await node.kill()
        await node.start()
        await (await deployment.connect(node)).ok({"ping": 1})

    play(scenario)


def test_a_server_that_stops_while_one_is_paused_leaves_nothing() -> None:
    async def scenario(deployment: Deployment) -> None:
        deployment.secondary.pause()
        await (await deployment.connect(deployment.secondary)).send({"ping": 1})
        await deployment.sleep(1.0)

    play(scenario)


# The network.


def test_a_primary_cut_off_from_its_set_steps_down_and_the_majority_elects() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        old = deployment.primary
        cluster.partition(["primary"])
        assert (await (await deployment.connect(old)).fails(_INSERT))["code"] == 10107
        await deployment.sleep(1.0)
        new = deployment.primary
        await (await deployment.connect(new)).ok({**_INSERT, "writeConcern": {"w": "majority"}})
        talker = await deployment.connect(old)
        assert _ids(await talker.ok(_FIND)) == []
        hello = await talker.ok({"hello": 1})
        assert "primary" not in hello
        status = await talker.ok({"replSetGetStatus": 1})
        assert [(member["state"], member["health"]) for member in status["members"]] == [
            *((2, 1.0), (8, 0.0), (8, 0.0))
        ]
        cluster.heal()
        assert _ids(await talker.ok(_FIND)) == [1]
        assert (await talker.ok({"hello": 1}))["primary"] == new.address
        assert deployment.primary is new

    play(scenario)


def test_a_write_needs_the_members_that_are_reached() -> None:
    async def scenario(deployment: Deployment) -> None:
        deployment.cluster.partition(["node2"])
        talker = await deployment.connect()
        assert "writeConcernError" not in await talker.ok({**_INSERT, "writeConcern": {"w": "majority"}})
        await talker.send({"insert": "c", "documents": [{"_id": 2}], "writeConcern": {"w": 3}, "$db": "db"})
        await deployment.sleep(60.0)
        deployment.cluster.heal()
        reply = await talker.reply()
        assert reply is not None
        assert "writeConcernError" not in reply

    play(scenario)


def test_clients_hear_nothing_from_a_server_that_they_are_cut_off_from() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        talker = await deployment.connect(cluster.nodes[0])
        cluster.partition(["node0"], ["node1", "node2", CLIENTS])
        await talker.send({"ping": 1})
        await deployment.sleep(1.0)
        assert cluster.nodes[0].counters.requests == 0
        await (await deployment.connect(deployment.primary)).ok(_INSERT)
        cluster.heal()
        reply = await talker.reply()
        assert reply is not None
        assert reply["ok"] == 1.0

    play(scenario)


def test_clients_may_be_reset_instead() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        talker = await deployment.connect(cluster.nodes[0])
        cluster.partition([CLIENTS, "node1", "node2"], reset=True)
        assert await talker.reply() is None
        assert await (await deployment.connect(cluster.nodes[0])).reply() is None
        cluster.heal()
        await (await deployment.connect(cluster.nodes[0])).ok({"ping": 1})

    play(scenario)


def test_a_second_partition_takes_the_place_of_the_first() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        cluster.partition(["node0"], ["node1", "node2", CLIENTS])
        cluster.partition(["node2"], ["node0", "node1", CLIENTS])
        await deployment.sleep(1.0)
        await (await deployment.connect(cluster.nodes[0])).ok({"ping": 1})
        with pytest.raises(ValueError, match="node1 is in two groups"):
            cluster.partition(["node1"], ["node1"])
        with pytest.raises(LookupError, match="there is no 'node7'"):
            cluster.partition(["node7"])

    play(scenario)


def test_an_arbiter_decides_which_half_goes_on() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        cluster.partition(["node0"], ["node1", "node2"])
        await deployment.sleep(1.0)
        assert deployment.primary is cluster.nodes[1]

    play(scenario, ClusterSpec.replica_set([MemberSpec(), MemberSpec(), MemberSpec(arbiter=True)]))


def test_a_slow_server_answers_everything_later() -> None:
    async def scenario(deployment: Deployment) -> None:
        clock, node = deployment.world.clock, deployment.cluster.nodes[0]
        talker = await deployment.connect()
        node.slow(0.25)
        for command in ({"hello": 1}, _FIND):
            begun = clock.now()
            await talker.ok(command)
            assert clock.now() - begun == pytest.approx(0.25 + 2 * LATENCY)
        node.slow(0.1)
        begun = clock.now()
        await talker.ok({"ping": 1})
        assert clock.now() - begun == pytest.approx(0.1 + 2 * LATENCY)
        node.slow(0)
        begun = clock.now()
        await talker.ok({"ping": 1})
        assert clock.now() - begun == pytest.approx(2 * LATENCY)

    play(scenario)


def test_jitter_makes_each_delay_shorter_or_longer_by_so_much_at_most() -> None:
    async def scenario(deployment: Deployment) -> None:
        clock, node = deployment.world.clock, deployment.cluster.nodes[0]
        talker = await deployment.connect()
        node.outages.slow(0.2, jitter=0.15)
        took: list[float] = []
        for _ in range(20):
            begun = clock.now()
            await talker.ok({"ping": 1})
            took.append(clock.now() - begun - 2 * LATENCY)
        assert min(took) >= 0.05 - 1e-9
        assert max(took) <= 0.35 + 1e-9
        assert min(took) < 0.2 < max(took)
        assert len(set(took)) == len(took)

    play(scenario)


# Elections.


def test_a_frozen_server_is_passed_over_and_thaws() -> None:
    async def scenario(deployment: Deployment) -> None:
        first, second, third = deployment.cluster.nodes
        second.freeze(30.0)
        third.freeze(20.0)
        await first.kill()
        await deployment.sleep(19.0)
        assert deployment.cluster.primary is None
        await deployment.sleep(2.0)
        assert deployment.primary is third

    play(scenario)


def test_who_thaws_early_is_elected_early() -> None:
    async def scenario(deployment: Deployment) -> None:
        first, second, third = deployment.cluster.nodes
        second.freeze(30.0)
        third.freeze(30.0)
        await first.kill()
        await deployment.sleep(1.0)
        third.freeze(0)
        await deployment.sleep(1.0)
        assert deployment.primary is third

    play(scenario)


def test_a_member_without_a_majority_cannot_be_elected_by_hand() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        cluster.partition(["node2"])
        with pytest.raises(ValueError, match="node2 does not reach a majority"):
            cluster.elect(cluster.nodes[2])

    play(scenario)


@pytest.mark.parametrize("verb", ["hold", "release", "freeze", "lag"])
def test_a_standalone_has_nothing_to_lag_behind(verb: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[0]
        arguments = (1.0,) if verb in {"freeze", "lag"} else ()
        with pytest.raises(ValueError, match="node0 is no member of a replica set"):
            getattr(node, verb)(*arguments)

    play(scenario, STANDALONE)


def test_each_shard_elects_for_itself() -> None:
    async def scenario(deployment: Deployment) -> None:
        first, second = deployment.cluster.shards
        assert first.primary is not None
        before = second.primary
        await first.primary.kill()
        await deployment.sleep(1.0)
        assert first.primary is first.nodes[1]
        assert second.primary is before
        await (await deployment.connect()).ok(_INSERT)

    play(scenario, ClusterSpec.sharded(1, 2))


def test_the_members_of_shards_are_of_every_kind_too() -> None:
    async def scenario(deployment: Deployment) -> None:
        shard = deployment.cluster.shards[0]
        assert [node.role.name for node in shard.nodes] == ["PRIMARY", "ARBITER", "SECONDARY"]
        listed = (await (await deployment.connect()).ok({"listShards": 1}))["shards"]
        assert listed[0]["host"] == f"shard01/{shard.nodes[0].address}"

    members = [MemberSpec(), MemberSpec(arbiter=True), MemberSpec(hidden=True)]
    play(scenario, ClusterSpec.sharded(1, 1, members=members))


def test_every_outage_is_news_to_waiting_hellos() -> None:
    async def scenario(deployment: Deployment) -> None:
        waiting = await _awaited_hello(deployment, 1)
        deployment.cluster.partition(["node2"])
        news = await waiting.reply()
        assert news["ok"] == 1.0

    play(scenario, REPLICA_SET)
