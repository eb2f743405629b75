"""An update of a long document gives way, and what others did to the document meanwhile stays done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from talking import Deployment, play

from fakeserver import ClusterSpec
from fakeserver.deployment.records.events import CommandFinished

GIVING_WAY = ClusterSpec.standalone(parameters={"internalQueryExecYieldPeriodMS": 0})
LONG = list(range(2_000))
OBJECTS = [{"k": number % 7} for number in LONG]
MAPPED = {"$map": {"input": "$a", "in": {"$add": ["$$this", 1]}}}
UPDATES: dict[str, dict[str, Any]] = {
    "a pipeline": {"u": [{"$set": {"a": MAPPED}}]},
    "array filters": {"u": {"$set": {"a.$[e]": -1}}, "arrayFilters": [{"e": {"$gt": 5}}]},
    "$push with a sort": {"u": {"$push": {"o": {"$each": OBJECTS, "$sort": {"k": 1}, "$slice": -1_000}}}},
    "$addToSet": {"u": {"$addToSet": {"a": {"$each": [-number for number in LONG]}}}},
    "$pull": {"u": {"$pull": {"a": {"$gt": 10}}}},
    "$pullAll": {"u": {"$pullAll": {"a": LONG[:1_000]}}},
}


@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_an_update_of_a_long_array_begins_anew_where_another_changed_the_document(
    update: dict[str, Any],
) -> None:
    async def scenario(deployment: Deployment) -> None:
        long, short = [await deployment.connect() for _ in range(2)]
        for name in ("c", "alone"):
            document = {"_id": 1, "n": 0, "a": LONG, "o": []}
            await long.ok({"insert": name, "documents": [document], "$db": "db"})
        statement = {"q": {"_id": 1}, **update}
        increment = {"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}
        await asyncio.gather(
            long.ok({"update": "c", "updates": [statement], "comment": "long", "$db": "db"}),
            short.ok({"update": "c", "updates": [increment], "$db": "db"}),
        )
        records = deployment.cluster.journal.records
        ended = [each.event.connection for each in records if isinstance(each.event, CommandFinished)]
        assert ended[-2:] == [2, 1], "the short one was not kept waiting"
        await long.ok({"update": "alone", "updates": [statement], "$db": "db"})
        found = [
            (await long.ok({"find": name, "$db": "db"}))["cursor"]["firstBatch"][0] for name in ("c", "alone")
        ]
        assert found[0] == {**found[1], "n": 1}

    play(scenario, GIVING_WAY)


def test_a_document_that_is_taken_while_it_is_updated_is_left_to_who_took_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        long, short = [await deployment.connect() for _ in range(2)]
        documents = [{"_id": number, "n": 0, "a": LONG} for number in range(2)]
        await long.ok({"insert": "c", "documents": documents, "$db": "db"})
        change = {"q": {"n": 0}, "u": [{"$set": {"a": MAPPED, "n": 1}}]}
        taking = {"q": {"_id": 0}, "u": {"$set": {"n": 5}}}
        replies = await asyncio.gather(
            long.ok({"update": "c", "updates": [change], "$db": "db"}),
            short.ok({"update": "c", "updates": [taking], "$db": "db"}),
        )
        assert replies[0]["nModified"] == 1
        found = await long.ok({"find": "c", "projection": {"n": 1}, "$db": "db"})
        assert [each["n"] for each in found["cursor"]["firstBatch"]] == [5, 1]

    play(scenario, GIVING_WAY)
