"""Time series: options and their changes, the order of a measurement's fields, refused writes."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from data_commands import Server

from fakeserver.errors import CommandError
from fakeserver.profile import Profile

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SPEC: dict[str, Any] = {"timeField": "t", "metaField": "m"}


def series(release: str = "8.2", **spec: Any) -> Server:
    """Return a server with a time series of two measurements."""
    server = Server()
    server.node.profile = Profile.named(release)
    server.run({"create": "c", "timeseries": {**SPEC, **spec}})
    rows = [{"_id": 1, "x": 1, "m": {"s": 1}, "t": NOW}, {"_id": 2, "x": 2, "t": NOW}]
    server.run({"insert": "c", "documents": rows})
    return server


def options(server: Server) -> dict[str, Any]:
    """Return the time series as it is listed."""
    (listed, _buckets) = server.run({"listCollections": 1})["cursor"]["firstBatch"]
    return dict(listed)


def refusal(server: Server, command: dict[str, Any]) -> int:
    """Return the code that a command fails with, 0 for none."""
    try:
        reply = server.run(command)
    except CommandError as error:
        return int(error.code)
    return int(reply["writeErrors"][0]["code"]) if "writeErrors" in reply else 0


@pytest.mark.parametrize(
    "other",
    [
        {"capped": True, "size": 4096},
        {"validator": {"x": 1}},
        {"viewOn": "d"},
        {"timeseries": {"timeField": "a.b"}},
        {"timeseries": {"timeField": "t", "metaField": "t"}},
        {"timeseries": {"timeField": "t", "metaField": "_id"}},
        {"timeseries": {**SPEC, "granularity": "minutes", "bucketMaxSpanSeconds": 3600}},
        {"timeseries": {**SPEC, "granularity": "minutes", "bucketRoundingSeconds": 3600}},
        {"timeseries": {**SPEC, "bucketMaxSpanSeconds": 60}},
        {"timeseries": {**SPEC, "bucketMaxSpanSeconds": 60, "bucketRoundingSeconds": 30}},
    ],
    ids=str,
)
def test_options_that_no_time_series_has_are_refused(other: dict[str, Any]) -> None:
    assert refusal(Server(), {"create": "c", "timeseries": SPEC, **other}) == 72


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({}, {**SPEC, "granularity": "seconds", "bucketMaxSpanSeconds": 3600}),
        ({"granularity": "minutes"}, {**SPEC, "granularity": "minutes", "bucketMaxSpanSeconds": 86_400}),
        (
            {"bucketMaxSpanSeconds": 60, "bucketRoundingSeconds": 60},
            {**SPEC, "bucketRoundingSeconds": 60, "bucketMaxSpanSeconds": 60},
        ),
    ],
)
def test_the_span_of_buckets_follows_the_granularity(spec: dict[str, Any], shown: dict[str, Any]) -> None:
    described = options(series(**spec))
    assert list(described["options"]["timeseries"].items()) == list(shown.items())
    assert described["info"] == {"readOnly": False}, "without the uuid of its buckets"


@pytest.mark.parametrize(
    ("begun", "change", "code"),
    [
        ({}, {"granularity": "hours"}, 0),
        ({}, {"granularity": "seconds"}, 0),
        ({"granularity": "hours"}, {"granularity": "minutes"}, 72),
        ({"granularity": "minutes"}, {"granularity": "seconds"}, 72),
        ({}, {"granularity": "minutes", "bucketRoundingSeconds": 60}, 72),
        ({}, {"bucketMaxSpanSeconds": 7200}, 72),
        ({}, {"bucketMaxSpanSeconds": 7200, "bucketRoundingSeconds": 60}, 72),
        ({}, {"bucketMaxSpanSeconds": 7200, "bucketRoundingSeconds": 7200}, 0),
        ({}, {"bucketMaxSpanSeconds": 60, "bucketRoundingSeconds": 60}, 72),
    ],
    ids=str,
)
def test_buckets_only_grow(begun: dict[str, Any], change: dict[str, Any], code: int) -> None:
    server = series(**begun)
    before = options(server)["options"]["timeseries"]
    assert refusal(server, {"collMod": "c", "timeseries": change}) == code
    after = options(server)["options"]["timeseries"]
    assert after["bucketMaxSpanSeconds"] >= before["bucketMaxSpanSeconds"]
    assert (after == before) == (code != 0 or change == {"granularity": "seconds"})


def test_a_collection_that_is_no_time_series_has_no_buckets_to_change() -> None:
    server = Server()
    server.run({"create": "d"})
    assert refusal(server, {"collMod": "d", "timeseries": {"granularity": "hours"}}) == 72


def test_a_measurement_has_its_time_and_its_metadata_first() -> None:
    rows = series().run({"find": "c"})["cursor"]["firstBatch"]
    assert [list(row) for row in rows] == [["t", "m", "_id", "x"], ["t", "_id", "x"]]


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ({"q": {"m.s": 1}, "u": {"$set": {"m.s": 2}}, "multi": True}, 0),
        ({"q": {"m.s": 1}, "u": {"$rename": {"m.s": "m.z"}}, "multi": True}, 0),
        ({"q": {}, "u": {"$set": {"m": 2}}}, 72),
        ({"q": {}, "u": {"$set": {"m": 2}}, "multi": True, "upsert": True}, 72),
        ({"q": {}, "u": {"$set": {"x": 2}}, "multi": True}, 72),
        ({"q": {}, "u": {"$rename": {"m.s": "x"}}, "multi": True}, 72),
        ({"q": {"x": 1}, "u": {"$set": {"m": 2}}, "multi": True}, 72),
        ({"q": {"$or": [{"m": 1}, {"x": 1}]}, "u": {"$set": {"m": 2}}, "multi": True}, 72),
        ({"q": {"$expr": True}, "u": {"$set": {"m": 2}}, "multi": True}, 72),
        ({"q": {}, "u": [{"$set": {"m": 2}}], "multi": True}, 72),
    ],
    ids=str,
)
def test_an_update_is_about_metadata_alone(statement: dict[str, Any], code: int) -> None:
    assert refusal(series(), {"update": "c", "updates": [statement]}) == code


def test_measurements_without_metadata_are_never_updated() -> None:
    server = Server()
    server.run({"create": "c", "timeseries": {"timeField": "t"}})
    statement = {"q": {}, "u": {"$set": {"m": 2}}, "multi": True}
    assert refusal(server, {"update": "c", "updates": [statement]}) == 72
    command = {"findAndModify": "c", "query": {}, "update": {"$set": {"m": 2}}}
    assert refusal(server, command) == 72


@pytest.mark.parametrize(
    ("release", "statement", "code"),
    [
        ("7.0", {"q": {"x": 1}, "limit": 1}, 0),
        ("6.0", {"q": {"m.s": 1}, "limit": 0}, 0),
        ("6.0", {"q": {"m.s": 1}, "limit": 1}, 20),
        ("6.0", {"q": {"x": 1}, "limit": 0}, 72),
    ],
    ids=str,
)
def test_measurements_are_deleted_one_by_one_since_7_0(
    release: str, statement: dict[str, Any], code: int
) -> None:
    assert refusal(series(release), {"delete": "c", "deletes": [statement]}) == code


def test_a_granularity_that_shrinks_is_refused_in_its_own_words() -> None:
    server = series(granularity="hours")
    with pytest.raises(CommandError, match=r"Invalid transition for timeseries\.granularity"):
        server.run({"collMod": "c", "timeseries": {"granularity": "minutes"}})


@pytest.mark.parametrize("wanted", [{"at": {"$near": [0, 0]}}, {"$and": [{"at": {"$nearSphere": [0, 0]}}]}])
def test_a_time_series_is_not_searched_by_distance(wanted: dict[str, Any]) -> None:
    assert refusal(series(), {"find": "c", "filter": wanted}) == 5626500


@pytest.mark.parametrize("direction", [1, -1])
def test_measurements_lie_in_buckets_and_by_time_within(direction: int) -> None:
    server = Server()
    server.run({"create": "t", "timeseries": {"timeField": "t", "metaField": "m"}})
    day = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
    minutes = [(5, "a"), (1, "b"), (3, "a"), (130, "a"), (7, "b"), (8, "a"), (6, "a")]
    server.fill("t", *({"t": day + dt.timedelta(minutes=at), "m": meta, "_id": at} for at, meta in minutes))
    server.run({"delete": "t", "deletes": [{"q": {"m": "none"}, "limit": 0}]})
    # What comes before the beginning of its bucket has one of its own, which begins earlier.
    lying = [1, 7, 3, 6, 8, 5, 130]
    pipeline = {"aggregate": "t", "pipeline": [{"$match": {"_id": {"$gt": 0}}}], "cursor": {}}
    for command in ({"find": "t"}, {"find": "t", "filter": {"_id": {"$gt": 0}}}, pipeline):
        found = server.run({**command, "hint": {"$natural": direction}})["cursor"]["firstBatch"]
        assert [each["_id"] for each in found] == lying[::direction]
    server.fill("t", {"t": day, "m": "b", "_id": 0})
    assert [each["_id"] for each in server.documents("t")] == [0, *lying]


def test_the_buckets_of_a_time_series_are_listed_with_its_indexes_and_hold_nothing() -> None:
    server = series()
    listed = server.run({"listCollections": 1, "filter": {"name": {"$regex": "buckets"}}})
    (buckets,) = listed["cursor"]["firstBatch"]
    assert (buckets["name"], buckets["type"]) == ("system.buckets.c", "collection")
    assert list(buckets["options"]) == ["validator", "clusteredIndex", "timeseries"]
    (index,) = server.run({"listIndexes": "system.buckets.c"})["cursor"]["firstBatch"]
    assert index["key"] == {"meta": 1, "control.min.t": 1, "control.max.t": 1}
    assert set(server.run({"dbHash": 1})["collections"]) == {"system.buckets.c"}
    for command in ("convertToCapped", "cloneCollectionAsCapped"):
        target = {"toCollection": "d"} if command.startswith("clone") else {}
        with pytest.raises(CommandError) as refused:
            server.run({command: "system.buckets.c", **target, "size": 4096})
        assert refused.value.code == 20
    assert server.run({"compact": "system.buckets.c"})["bytesFreed"] == 0
    assert server.run({"dropIndexes": "system.buckets.c", "index": "*"})["nIndexesWas"] == 1
    assert server.run({"listIndexes": "c"})["cursor"]["firstBatch"] == []
    server.run({"create": "system.buckets.d", "timeseries": {"timeField": "t"}})
    names = [each["name"] for each in server.run({"listCollections": 1})["cursor"]["firstBatch"]]
    assert names == ["c", "d", "system.buckets.c", "system.buckets.d"]
