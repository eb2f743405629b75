"""The build of an index lets others write and knows it (fakeserver/storage/store/collection_state.py)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from talking import Deployment, play

from fakeserver import ClusterSpec
from fakeserver.deployment.records.events import CommandFinished

GIVING_WAY = ClusterSpec.standalone(parameters={"internalQueryExecYieldPeriodMS": 0})
KINDS: dict[str, dict[str, Any]] = {
    "ascending": {"key": {"n": 1}},
    "unique": {"key": {"n": 1}, "unique": True},
    "unique compound": {"key": {"n": 1, "s": 1}, "unique": True},
    "text": {"key": {"s": "text"}},
    "hashed": {"key": {"s": "hashed"}},
    "2dsphere": {"key": {"p": "2dsphere"}},
}


async def built(deployment: Deployment, spec: dict[str, Any], *meanwhile: dict[str, Any]) -> dict[str, Any]:
    """Build an index of fifty documents, and send other commands at once; return the build's reply."""
    building, *others = [await deployment.connect() for _ in (None, *meanwhile)]
    documents = [{"_id": n, "n": n, "s": f"word {n}", "p": [n, n]} for n in range(50)]
    await building.ok({"insert": "c", "documents": documents, "$db": "db"})
    create = {"createIndexes": "c", "indexes": [{**spec, "name": "made"}], "$db": "db"}
    writes = [other.ok({**each, "$db": "db"}) for other, each in zip(others, meanwhile, strict=True)]
    reply, *_ = await asyncio.gather(building.command(create), *writes)
    records = deployment.cluster.journal.records
    ended = [record.event.name for record in records if isinstance(record.event, CommandFinished)]
    assert ended[-1] == "createIndexes", "others had their turns"
    return dict(reply)


@pytest.mark.parametrize("spec", KINDS.values(), ids=KINDS)
def test_an_index_holds_what_others_wrote_while_it_was_built(spec: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await built(
            deployment,
            spec,
            {"delete": "c", "deletes": [{"q": {"_id": 3}, "limit": 1}]},
            {"insert": "c", "documents": [{"_id": 100, "n": 3, "s": "new", "p": [1, 2]}]},
            {"update": "c", "updates": [{"q": {"_id": 5}, "u": {"$set": {"n": -5}}}]},
        )
        assert reply["ok"], reply
        talker = await deployment.connect()
        find = {"find": "c", "filter": {"n": {"$in": [3, 5, -5]}}, "$db": "db"}
        hint = {"hint": "made"} if spec["key"].get("n") else {}
        found = await talker.ok({**find, **hint, "projection": {"_id": 1}})
        assert sorted(each["_id"] for each in found["cursor"]["firstBatch"]) == [5, 100]

    play(scenario, GIVING_WAY)


def test_a_key_that_others_made_a_second_time_fails_the_build() -> None:
    async def scenario(deployment: Deployment) -> None:
        twice = {"insert": "c", "documents": [{"_id": 100, "n": 3}]}
        reply = await built(deployment, KINDS["unique"], twice)
        assert reply["code"] == 11000
        talker = await deployment.connect()
        indexes = await talker.ok({"listIndexes": "c", "$db": "db"})
        assert [each["name"] for each in indexes["cursor"]["firstBatch"]] == ["_id_"]

    play(scenario, GIVING_WAY)


def test_a_collection_that_is_dropped_ends_the_build() -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await built(deployment, KINDS["unique"], {"drop": "c"})
        assert reply["code"] == 276

    play(scenario, GIVING_WAY)
