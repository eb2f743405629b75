"""A primary that is cut off goes on for a while; what it wrote alone is rolled back when it returns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson import Int64, Timestamp
from talking import Deployment, Talker, lsid, play, retryable_insert

from fakeserver import ClusterSpec, MemberSpec
from fakeserver.deployment.replication.state import Role

_NEAREST = {"$readPreference": {"mode": "nearest"}, "$db": "db"}
AS_A_SERVER = ClusterSpec.replica_set(3, election_timeout=10.0)
MAJORITY = {"writeConcern": {"w": "majority"}}


async def _insert(talker: Talker, _id: int, **more: Any) -> dict[str, Any]:
    return await talker.ok({"insert": "c", "documents": [{"_id": _id}], "$db": "db", **more})


async def _ids(talker: Talker, **more: Any) -> list[Any]:
    reply = await talker.ok({"find": "c", **_NEAREST, **more})
    return [document["_id"] for document in reply["cursor"]["firstBatch"]]


async def _apart(deployment: Deployment) -> tuple[Talker, Talker]:
    """Cut the primary off from the others, which elect another; return connections to both primaries."""
    nodes = deployment.cluster.nodes
    old = await deployment.connect(nodes[0])
    await _insert(old, 1)
    deployment.cluster.partition(["node0"], ["node1", "node2"])
    await deployment.sleep(0.1)
    assert nodes[1].is_primary
    return old, await deployment.connect(nodes[1])


async def _return(deployment: Deployment) -> Talker:
    """Heal the partition, wait for the old primary's rollback, and return a connection to it."""
    deployment.cluster.heal()
    await deployment.sleep(1.0)
    return await deployment.connect(deployment.cluster.nodes[0])


# Two primaries.


def test_a_primary_that_is_cut_off_goes_on_until_its_election_timeout() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, new = await _apart(deployment)
        await _insert(old, 2)
        assert await _ids(old) == [1, 2]
        assert await _ids(new) == [1]
        await deployment.sleep(9.8)
        await _insert(old, 3)
        await deployment.sleep(0.2)
        refused = await old.fails({"insert": "c", "documents": [{"_id": 4}], "$db": "db"})
        assert (refused["code"], refused["codeName"]) == (10107, "NotWritablePrimary")
        assert await _ids(old) == [1, 2, 3]

    play(scenario, AS_A_SERVER)


def test_each_of_two_primaries_tells_its_own_term_and_election() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, new = await _apart(deployment)
        first, second = await old.ok({"hello": 1}), await new.ok({"hello": 1})
        assert first["isWritablePrimary"]
        assert second["isWritablePrimary"]
        assert first["electionId"] < second["electionId"]
        assert (first["primary"], second["primary"]) == (first["me"], second["me"])
        terms = [(await each.ok({"replSetGetStatus": 1}))["term"] for each in (old, new)]
        assert terms == [1, 2]

    play(scenario, AS_A_SERVER)


def test_a_primary_that_reaches_its_set_again_before_another_was_elected_loses_nothing() -> None:
    async def scenario(deployment: Deployment) -> None:
        old = await deployment.connect(deployment.cluster.nodes[0])
        deployment.cluster.partition(["node0"], ["node1", "node2"])
        await _insert(old, 1)
        deployment.cluster.heal()
        await deployment.sleep(20.0)
        assert deployment.primary is deployment.cluster.nodes[0]
        assert await _ids(old) == [1]
        assert await _ids(await deployment.connect(deployment.cluster.nodes[1])) == [1]

    play(scenario, ClusterSpec.replica_set(3, election_timeout=10.0, election_delay=5.0))


def test_a_primary_that_nobody_replaces_is_elected_again_with_all_that_it_has() -> None:
    async def scenario(deployment: Deployment) -> None:
        old = await deployment.connect(deployment.cluster.nodes[0])
        deployment.cluster.partition(["node0"], ["node1"], ["node2"])
        await _insert(old, 1)
        await deployment.sleep(11.0)
        assert deployment.cluster.primary is None
        deployment.cluster.heal()
        await deployment.sleep(1.0)
        assert deployment.primary is deployment.cluster.nodes[0]
        assert await _ids(await deployment.connect(deployment.cluster.nodes[2])) == [1]

    play(scenario, AS_A_SERVER)


def test_without_an_election_timeout_a_primary_that_is_cut_off_steps_down_at_once() -> None:
    async def scenario(deployment: Deployment) -> None:
        old = await deployment.connect(deployment.cluster.nodes[0])
        deployment.cluster.partition(["node0"], ["node1", "node2"])
        assert (await old.fails({"insert": "c", "documents": [{}], "$db": "db"}))["code"] == 10107

    play(scenario)


# The return.


def test_what_the_old_primary_wrote_alone_is_rolled_back_when_it_returns() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, new = await _apart(deployment)
        await _insert(old, 2)
        await old.ok({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}}], "$db": "db"})
        await old.ok({"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1"}], "$db": "db"})
        await old.ok({"create": "d", "$db": "db"})
        await _insert(new, 3)
        returned = await _return(deployment)
        for talker in (returned, new):
            found = await talker.ok({"find": "c", **_NEAREST})
            assert found["cursor"]["firstBatch"] == [{"_id": 1}, {"_id": 3}]
            names = (await talker.ok({"listCollections": 1, **_NEAREST}))["cursor"]["firstBatch"]
            assert [each["name"] for each in names] == ["c"]
            indexes = (await talker.ok({"listIndexes": "c", **_NEAREST}))["cursor"]["firstBatch"]
            assert [each["name"] for each in indexes] == ["_id_"]

    play(scenario, AS_A_SERVER)


def test_a_drop_is_rolled_back_as_well() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, _ = await _apart(deployment)
        await old.ok({"drop": "c", "$db": "db"})
        assert await _ids(old) == []
        assert await _ids(await _return(deployment)) == [1]

    play(scenario, AS_A_SERVER)


def test_a_member_in_rollback_says_so_and_closes_the_connections_of_its_clients() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, new = await _apart(deployment)
        await _insert(old, 2)
        deployment.cluster.heal()
        await deployment.sleep(0.3)
        assert await old.reply() is None
        back = await deployment.connect(deployment.cluster.nodes[0])
        hello = await back.ok({"hello": 1})
        assert (hello["isWritablePrimary"], hello["secondary"]) == (False, False)
        assert (await back.fails({"find": "c", **_NEAREST}))["code"] == 13436
        status = await new.ok({"replSetGetStatus": 1})
        assert next((each["state"], each["stateStr"]) for each in status["members"]) == (9, "ROLLBACK")
        await deployment.sleep(0.5)
        assert deployment.cluster.nodes[0].role is Role.SECONDARY
        assert (await back.ok({"hello": 1}))["secondary"]

    play(scenario, AS_A_SERVER)


def test_a_request_that_waits_on_a_slow_member_ends_with_its_rollback() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, _ = await _apart(deployment)
        await _insert(old, 2)
        deployment.cluster.nodes[0].slow(5.0)
        await old.send({"find": "c", **_NEAREST})
        deployment.cluster.heal()
        assert await old.reply() is None
        await deployment.sleep(1.0)
        assert deployment.cluster.nodes[0].role is Role.SECONDARY

    play(scenario, AS_A_SERVER)


def test_a_causal_majority_read_on_the_old_primary_waits_for_what_the_new_one_wrote() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, new = await _apart(deployment)
        written = (await _insert(new, 2))["operationTime"]
        after = {"afterClusterTime": written}
        assert await _ids(old, readConcern=after) == [1]
        reply = await old.fails(
            {"find": "c", **_NEAREST, "readConcern": {**after, "level": "majority"}, "maxTimeMS": 100}
        )
        assert reply["code"] == 50

    play(scenario, AS_A_SERVER)


def test_a_member_that_has_nothing_alone_returns_without_a_rollback() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, new = await _apart(deployment)
        await _insert(new, 2)
        deployment.cluster.heal()
        assert await _ids(old) == [1, 2]
        assert deployment.cluster.nodes[0].role is Role.SECONDARY
        assert (await old.ok({"replSetGetRBID": 1}))["rbid"] == 1

    play(scenario, AS_A_SERVER)


def test_what_was_rolled_back_can_be_read_on_the_member_and_stands_in_its_log() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, _ = await _apart(deployment)
        await _insert(old, 2)
        await old.ok({"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}], "$db": "db"})
        returned = await _return(deployment)
        kept = await returned.ok({"find": "pushbackd.rollback", "$db": "local"})
        shown = [(each["entry"]["op"], each["documents"]) for each in kept["cursor"]["firstBatch"]]
        assert shown == [
            ("i", [{"ns": "db.c", "document": {"_id": 2}}]),
            ("d", [{"ns": "db.c", "document": None}]),
        ]
        assert (await returned.ok({"replSetGetRBID": 1}))["rbid"] == 2
        lines = deployment.cluster.nodes[0].log.lines
        (summary,) = [line for line in lines if "Rollback summary" in line]
        assert '"totalEntriesRolledBackIncludingNoops": 2' in summary
        assert '"db.c": 2' in summary

    play(scenario, AS_A_SERVER)


def test_a_secondary_of_the_old_primary_rolls_back_with_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        nodes = deployment.cluster.nodes
        old = await deployment.connect(nodes[0])
        deployment.cluster.partition(["node0", "node1"])
        await deployment.sleep(0.1)
        await _insert(old, 1, writeConcern={"w": 2})
        assert await _ids(await deployment.connect(nodes[1])) == [1]
        deployment.cluster.heal()
        await deployment.sleep(1.0)
        assert await _ids(await deployment.connect(nodes[1])) == []
        assert [node.role for node in nodes[:2]] == [Role.SECONDARY, Role.SECONDARY]
        assert [node.position.rolled_back for node in nodes] == [1, 1, 0, 0, 0]

    play(scenario, ClusterSpec.replica_set(5, election_timeout=10.0))


def test_operations_that_only_a_dead_primary_has_are_rolled_back_when_it_starts() -> None:
    async def scenario(deployment: Deployment) -> None:
        nodes = deployment.cluster.nodes
        old = await deployment.connect(nodes[0])
        await _insert(old, 1)
        for node in nodes[1:]:
            node.lag(5.0)
        await _insert(old, 2)
        await nodes[0].kill()
        await deployment.sleep(0.1)
        new = await deployment.connect(deployment.primary)
        assert await _ids(new) == [1]
        await nodes[0].start()
        await deployment.sleep(1.0)
        assert await _ids(await deployment.connect(nodes[0])) == [1]
        assert nodes[0].position.rolled_back == 1

    play(scenario, AS_A_SERVER)


def test_an_elected_member_catches_up_with_whomever_it_reaches() -> None:
    async def scenario(deployment: Deployment) -> None:
        nodes = deployment.cluster.nodes
        old = await deployment.connect(nodes[0])
        nodes[1].hold()
        await _insert(old, 1)
        deployment.cluster.elect(nodes[1])
        assert await _ids(await deployment.connect(nodes[1])) == [1]
        assert [node.position.rolled_back for node in nodes] == [0, 0, 0]

    play(scenario, AS_A_SERVER)


def test_a_member_that_has_not_rolled_back_yet_is_not_elected() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, _ = await _apart(deployment)
        await _insert(old, 2)
        deployment.cluster.heal()
        with pytest.raises(ValueError, match="node0 has a history that its set has left"):
            deployment.cluster.elect(deployment.cluster.nodes[0])

    play(scenario, AS_A_SERVER)


def test_a_member_of_higher_priority_takes_over_after_its_rollback() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, _ = await _apart(deployment)
        await _insert(old, 2)
        deployment.cluster.heal()
        await deployment.sleep(1.0)
        assert deployment.primary is deployment.cluster.nodes[0]
        assert await _ids(await deployment.connect(deployment.primary)) == [1]

    members = [MemberSpec(priority=2), MemberSpec(), MemberSpec()]
    play(scenario, ClusterSpec.replica_set(members, election_timeout=10.0))


def test_two_old_primaries_roll_back_one_after_the_other() -> None:
    async def scenario(deployment: Deployment) -> None:
        nodes = deployment.cluster.nodes
        for number, node in enumerate(nodes[:2]):
            talker = await deployment.connect(node)
            others = [each.name for each in nodes[number + 1 :]]
            deployment.cluster.partition(*([each.name] for each in nodes[: number + 1]), others)
            await deployment.sleep(0.1)
            await _insert(talker, number)
        last = await deployment.connect(deployment.primary)
        await _insert(last, 9, **MAJORITY)
        deployment.cluster.heal()
        await deployment.sleep(2.0)
        for node in nodes:
            assert await _ids(await deployment.connect(node)) == [9]
        assert [node.position.rolled_back for node in nodes] == [1, 1, 0, 0, 0]

    play(scenario, ClusterSpec.replica_set(5, election_timeout=10.0))


def test_who_elected_another_does_not_follow_an_old_primary_that_comes_back() -> None:
    async def scenario(deployment: Deployment) -> None:
        nodes = deployment.cluster.nodes
        old, new = await _apart(deployment)
        await _insert(old, 2)
        await _insert(new, 3)
        deployment.cluster.partition(["node0", "node2"], ["node1"])
        await deployment.sleep(0.1)
        assert nodes[2].history is deployment.cluster.history
        deployment.cluster.heal()
        await deployment.sleep(2.0)
        for node in nodes:
            assert await _ids(await deployment.connect(node)) == [1, 3]

    play(scenario, AS_A_SERVER)


def test_a_member_that_waits_to_roll_back_gives_nothing_to_the_next_primary() -> None:
    async def scenario(deployment: Deployment) -> None:
        nodes = deployment.cluster.nodes
        old, _ = await _apart(deployment)
        await _insert(old, 2)
        # It reaches the set again at the moment at which the new primary is left alone.
        deployment.cluster.heal()
        deployment.cluster.partition(["node1"], ["node0", "node2"])
        await deployment.sleep(2.0)
        assert deployment.primary is nodes[2]
        deployment.cluster.heal()
        await deployment.sleep(2.0)
        for node in nodes:
            assert await _ids(await deployment.connect(node)) == [1]
        assert nodes[0].position.rolled_back == 1

    play(scenario, AS_A_SERVER)


# Concerns.


def test_a_majority_write_waits_on_the_old_primary_and_ends_with_its_step_down() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, new = await _apart(deployment)
        await old.send({"insert": "c", "documents": [{"_id": 2}], "$db": "db", **MAJORITY})
        await _insert(new, 3, **MAJORITY)
        deployment.cluster.heal()
        reply = await old.reply()
        assert reply is not None
        assert reply["writeConcernError"]["codeName"] == "PrimarySteppedDown"
        assert await _ids(await _return(deployment)) == [1, 3]

    play(scenario, AS_A_SERVER)


def test_a_majority_write_on_the_old_primary_ends_when_it_gives_up() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, _ = await _apart(deployment)
        await old.send({"insert": "c", "documents": [{"_id": 2}], "$db": "db", **MAJORITY})
        reply = await asyncio.wait_for(old.reply(), 10.0)
        assert reply is not None
        assert reply["writeConcernError"]["code"] == 189

    play(scenario, AS_A_SERVER)


@pytest.mark.parametrize("level", ["majority", "snapshot"])
def test_a_committed_read_never_shows_what_may_be_rolled_back(level: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        old, new = await _apart(deployment)
        await _insert(old, 2)
        await _insert(new, 3)
        concern = {"readConcern": {"level": level}}
        assert await _ids(old, **concern) == [1]
        assert await _ids(new, **concern) == [1, 3]

    play(scenario, AS_A_SERVER)


def test_a_linearizable_read_on_the_old_primary_gets_no_answer() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, _ = await _apart(deployment)
        await _insert(old, 2)
        linearizable = {"find": "c", "$db": "db", "readConcern": {"level": "linearizable"}}
        assert (await old.fails({**linearizable, "maxTimeMS": 100}))["code"] == 50
        await old.send(linearizable)
        deployment.cluster.heal()
        reply = await old.reply()
        assert reply is not None
        assert reply["code"] == 13435

    play(scenario, AS_A_SERVER)


def test_a_causal_majority_read_waits_until_a_majority_has_what_it_comes_after() -> None:
    async def scenario(deployment: Deployment) -> None:
        old = await deployment.connect(deployment.cluster.nodes[0])
        await _insert(old, 1)
        for node in deployment.cluster.nodes[1:]:
            node.hold()
        written = (await _insert(old, 2))["operationTime"]
        concern = {"readConcern": {"level": "majority", "afterClusterTime": written}}
        failed = await old.fails({"find": "c", "$db": "db", **concern, "maxTimeMS": 100})
        assert failed["code"] == 50
        deployment.cluster.nodes[1].release()
        assert await _ids(old, **concern) == [1, 2]

    play(scenario)


def test_a_causal_read_after_a_write_that_was_rolled_back_is_answered() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, new = await _apart(deployment)
        written = (await _insert(old, 2))["operationTime"]
        assert isinstance(written, Timestamp)
        await _insert(new, 3)
        concern = {"readConcern": {"level": "majority", "afterClusterTime": written}}
        assert await _ids(new, **concern, maxTimeMS=1000) == [1, 3]
        assert await _ids(await _return(deployment), **concern, maxTimeMS=1000) == [1, 3]

    play(scenario, AS_A_SERVER)


def test_operations_of_the_new_primary_are_later_than_those_of_the_old_one() -> None:
    async def scenario(deployment: Deployment) -> None:
        old = await deployment.connect(deployment.cluster.nodes[0])
        deployment.cluster.partition(["node0"], ["node1", "node2"])
        times = [(await _insert(old, number))["operationTime"] for number in range(5)]
        await deployment.sleep(0.1)
        new = await deployment.connect(deployment.primary)
        assert (await _insert(new, 5))["operationTime"] > times[-1]

    play(scenario, AS_A_SERVER)


# Sessions, transactions, change streams.


def test_a_retry_of_a_write_that_was_rolled_back_is_executed() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, new = await _apart(deployment)
        kept = retryable_insert(5, txn_number=1, session=2)
        reply = await old.ok(retryable_insert(2, txn_number=1))
        assert reply == {**reply, "n": 1}
        again = await new.ok(retryable_insert(2, txn_number=1))
        assert "retriedStmtIds" not in again
        assert await _ids(new) == [1, 2]
        await new.ok(kept)
        assert (await new.ok(kept))["retriedStmtIds"] == [0]

    play(scenario, AS_A_SERVER)


def test_a_retry_of_a_write_that_both_have_is_not_executed_again() -> None:
    async def scenario(deployment: Deployment) -> None:
        first = await deployment.connect(deployment.cluster.nodes[0])
        await first.ok(retryable_insert(7, txn_number=1))
        _, new = await _apart(deployment)
        assert (await new.ok(retryable_insert(7, txn_number=1)))["retriedStmtIds"] == [0]

    play(scenario, AS_A_SERVER)


def test_a_transaction_goes_on_on_the_old_primary_and_its_commit_is_rolled_back() -> None:
    async def scenario(deployment: Deployment) -> None:
        session = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        first = await deployment.connect(deployment.cluster.nodes[0])
        await first.ok({"create": "c", "$db": "db"})
        insert = {"insert": "c", "documents": [{"_id": 8}], "$db": "db", **session}
        await first.ok({**insert, "startTransaction": True})
        old, new = await _apart(deployment)
        commit = {"commitTransaction": 1, **session}
        assert (await new.fails(commit))["code"] == 251
        await old.ok(commit)
        assert await _ids(old) == [1, 8]
        assert (await new.fails(commit))["code"] == 251
        returned = await _return(deployment)
        assert await _ids(returned) == [1]

    play(scenario, AS_A_SERVER)


def test_a_commit_that_both_have_is_answered_by_both() -> None:
    async def scenario(deployment: Deployment) -> None:
        session = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        first = await deployment.connect(deployment.cluster.nodes[0])
        await first.ok({"create": "c", "$db": "db"})
        insert = {"insert": "c", "documents": [{"_id": 8}], "$db": "db", **session}
        await first.ok({**insert, "startTransaction": True})
        await first.ok({"commitTransaction": 1, **session})
        _, new = await _apart(deployment)
        await new.ok({"commitTransaction": 1, **session})
        assert await _ids(new) == [8, 1]

    play(scenario, AS_A_SERVER)


def test_an_open_transaction_of_the_old_primary_is_aborted_when_it_hears_of_the_new_one() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, _ = await _apart(deployment)
        session = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        insert = {"insert": "c", "documents": [{"_id": 8}], "$db": "db", **session}
        await old.ok({**insert, "startTransaction": True})
        held = deployment.cluster.nodes[0].transactions
        assert len(held.open) == 1
        deployment.cluster.heal()
        assert not held.open
        assert not held.holders

    play(scenario, AS_A_SERVER)


def test_a_change_stream_never_shows_what_is_rolled_back() -> None:
    async def scenario(deployment: Deployment) -> None:
        stream = {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}, **_NEAREST}
        first = await deployment.connect(deployment.cluster.nodes[0])
        opened = (await first.ok(stream))["cursor"]
        old, new = await _apart(deployment)
        await _insert(old, 2)
        more = {"getMore": opened["id"], "collection": "c", "maxTimeMS": 100, "$db": "db"}
        events = (await first.ok(more))["cursor"]["nextBatch"]
        assert [event["documentKey"]["_id"] for event in events] == [1]
        token = events[-1]["_id"]
        await _insert(new, 3)
        resumed = {**stream, "pipeline": [{"$changeStream": {"resumeAfter": token}}]}
        for talker in (new, await _return(deployment)):
            batch = (await talker.ok(resumed))["cursor"]["firstBatch"]
            assert [event["documentKey"]["_id"] for event in batch] == [3]

    play(scenario, AS_A_SERVER)


def test_a_stream_on_a_member_that_stays_goes_on_in_the_new_history() -> None:
    async def scenario(deployment: Deployment) -> None:
        secondary = await deployment.connect(deployment.cluster.nodes[2])
        first = await deployment.connect(deployment.cluster.nodes[0])
        await _insert(first, 0)
        stream = {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}, **_NEAREST}
        opened = (await secondary.ok(stream))["cursor"]
        await secondary.send({"getMore": opened["id"], "collection": "c", "maxTimeMS": 60_000, "$db": "db"})
        deployment.cluster.partition(["node0"], ["node1", "node2"])
        await _insert(first, 2)
        await deployment.sleep(0.1)
        await _insert(await deployment.connect(deployment.primary), 3)
        reply = await secondary.reply()
        assert reply is not None
        assert [event["documentKey"]["_id"] for event in reply["cursor"]["nextBatch"]] == [3]

    play(scenario, AS_A_SERVER)


# The verb, and the others.


def test_the_verb_has_a_write_acknowledged_and_rolled_back() -> None:
    async def scenario(deployment: Deployment) -> None:
        nodes = deployment.cluster.nodes
        old = await deployment.connect(nodes[0])
        await _insert(old, 1, **MAJORITY)
        await old.ok({"pushbackd": "rollBack", "seconds": 2})
        await _insert(old, 2)
        await deployment.sleep(1.9)
        assert deployment.primary is nodes[0]
        await _insert(old, 3)
        await deployment.sleep(2.0)
        assert deployment.primary is not nodes[0]
        for node in nodes:
            assert await _ids(await deployment.connect(node)) == [1]
        assert [node.position.rolled_back for node in nodes] == [1, 0, 0]

    play(scenario)


def test_the_verb_rolls_back_at_once_what_only_the_primary_has() -> None:
    async def scenario(deployment: Deployment) -> None:
        nodes = deployment.cluster.nodes
        old = await deployment.connect(nodes[0])
        await _insert(old, 1)
        for node in nodes[1:]:
            node.hold()
        await _insert(old, 2)
        await old.ok({"pushbackd": "rollBack", "seconds": 0})
        await deployment.sleep(1.0)
        assert await _ids(await deployment.connect(nodes[0])) == [1]

    play(scenario)


def test_a_primary_that_dies_while_it_is_alone_loses_its_writes_as_well() -> None:
    async def scenario(deployment: Deployment) -> None:
        nodes = deployment.cluster.nodes
        old = await deployment.connect(nodes[0])
        await old.ok({"pushbackd": "rollBack", "seconds": 2})
        await _insert(old, 1)
        await nodes[0].kill()
        await deployment.sleep(3.0)
        assert await _ids(await deployment.connect(deployment.primary)) == []
        await nodes[0].start()
        await deployment.sleep(1.0)
        assert nodes[0].position.rolled_back == 1

    play(scenario)


def test_a_partition_that_heals_before_the_time_of_the_verb_keeps_everything() -> None:
    async def scenario(deployment: Deployment) -> None:
        old = await deployment.connect(deployment.cluster.nodes[0])
        await old.ok({"pushbackd": "rollBack", "seconds": 2})
        await _insert(old, 1)
        await old.ok({"pushbackd": "heal"})
        await deployment.sleep(3.0)
        assert deployment.primary is deployment.cluster.nodes[0]
        assert await _ids(await deployment.connect(deployment.cluster.nodes[1])) == [1]

    play(scenario)


@pytest.mark.parametrize(
    ("spec", "verb", "reason"),
    [
        (ClusterSpec.replica_set(3), {"node": "node1"}, "node1 is SECONDARY"),
        (ClusterSpec.replica_set(2), {}, "without node0 no member could be elected"),
        (ClusterSpec.standalone(), {}, "replica set"),
    ],
    ids=["a secondary", "too few", "standalone"],
)
def test_the_verb_refuses_where_nothing_would_be_rolled_back(
    spec: ClusterSpec, verb: dict[str, Any], reason: str
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.cluster.nodes[0])
        refused = await talker.fails({"pushbackd": "rollBack", **verb})
        assert reason in refused["errmsg"]

    play(scenario, spec)


def test_a_reset_ends_a_history_that_the_set_has_left() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, _ = await _apart(deployment)
        await _insert(old, 2)
        nodes = deployment.cluster.nodes
        await deployment.cluster.control.perform("reset", {})
        assert deployment.primary is nodes[0]
        assert all(node.history is deployment.cluster.history for node in nodes)
        await deployment.sleep(2.0)
        assert await _ids(old) == []
        await _insert(old, 3)
        assert await _ids(await deployment.connect(nodes[2])) == [3]

    play(scenario, AS_A_SERVER)


def test_histories_that_nobody_follows_are_forgotten() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, new = await _apart(deployment)
        await _insert(old, 2)
        await _insert(new, 3)
        left = deployment.cluster.nodes[0].history
        await _return(deployment)
        with pytest.raises(KeyError):
            deployment.cluster.history.common(left)

    play(scenario, AS_A_SERVER)


def test_an_election_timeout_is_for_replica_sets_and_not_negative() -> None:
    with pytest.raises(ValueError, match="election_timeout is for a replica set"):
        ClusterSpec.sharded(election_timeout=10.0)
    with pytest.raises(ValueError, match="election_timeout is a number of seconds"):
        ClusterSpec.replica_set(3, election_timeout=-1.0)
