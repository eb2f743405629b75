"""Dates before the year 1 and after 9999, which Python does not reach: stored, found, sorted and told."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from bson import DatetimeMS
from talking import STANDALONE, Deployment, play

from fakeserver import ClusterSpec

PAST, TODAY, FUTURE = DatetimeMS(-(2**62)), dt.datetime(2020, 5, 17), DatetimeMS(2**62)  # noqa: DTZ001 -- as decoded
DOCUMENTS = [{"_id": number, "t": date} for number, date in enumerate((TODAY, FUTURE, PAST))]


@pytest.mark.parametrize("spec", [STANDALONE, ClusterSpec.sharded()], ids=lambda spec: spec.topology)
@pytest.mark.parametrize("indexed", [False, True], ids=["scanned", "by an index"])
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [PAST, TODAY, FUTURE]),
        ({"t": FUTURE}, [FUTURE]),
        ({"t": {"$gt": TODAY}}, [FUTURE]),
        ({"t": {"$lte": TODAY}}, [PAST, TODAY]),
        ({"t": {"$in": [PAST, FUTURE]}}, [PAST, FUTURE]),
        ({"t": {"$type": "date"}}, [PAST, TODAY, FUTURE]),
        ({"$expr": {"$gt": [{"$year": "$t"}, 9999]}}, [FUTURE]),
    ],
    ids=str,
)
def test_a_date_of_any_year_is_stored_found_and_sorted(
    spec: ClusterSpec, wanted: dict[str, Any], found: list[Any], *, indexed: bool
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        if indexed:
            index = {"key": {"t": 1}, "name": "t_1", "unique": True}
            await talker.ok({"createIndexes": "c", "indexes": [index], "$db": "db"})
        await talker.ok({"insert": "c", "documents": DOCUMENTS, "$db": "db"})
        reply = await talker.ok({"find": "c", "filter": wanted, "sort": {"t": 1}, "$db": "db"})
        assert [each["t"] for each in reply["cursor"]["firstBatch"]] == found

    play(scenario, spec)


def test_a_change_stream_and_the_oplog_tell_of_dates_of_any_year() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        opened = await talker.ok(
            {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "db"}
        )
        await talker.ok({"insert": "c", "documents": DOCUMENTS, "$db": "db"})
        batch = await talker.ok({"getMore": opened["cursor"]["id"], "collection": "c", "$db": "db"})
        assert [event["fullDocument"] for event in batch["cursor"]["nextBatch"]] == DOCUMENTS
        told = await talker.ok({"find": "oplog.rs", "filter": {"ns": "db.c", "op": "i"}, "$db": "local"})
        assert [entry["o"] for entry in told["cursor"]["firstBatch"]] == DOCUMENTS

    play(scenario)
