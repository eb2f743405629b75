"""find, getMore, killCursors, aggregate, count and distinct answer as a server does."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Decimal128, Int64
from data_commands import Server

from fakeserver.errors import CommandError
from fakeserver.profile import Profile
from fakeserver.waiting.pause import Park

UNKNOWN_OPERATOR = (
    "unknown top level operator: $foo. If you have a field name that starts with a '$' symbol, "
    "consider using $getField or $setField."
)
ONE, TWO = b"1" * 16, b"2" * 16


def failure(server: Server, command: dict[str, Any], **where: Any) -> CommandError:
    with pytest.raises(CommandError) as caught:
        server.run(command, **where)
    return caught.value


def holding(count: int) -> Server:
    server = Server()
    server.fill("c", *({"_id": number, "x": number % 3} for number in range(count)))
    return server


def drain(server: Server, command: dict[str, Any], **more: Any) -> list[int]:
    """Return the sizes of a cursor's batches."""
    cursor = server.run(command)["cursor"]
    sizes = [len(cursor["firstBatch"])]
    while cursor["id"]:
        cursor = server.run({"getMore": cursor["id"], "collection": "c", **more})["cursor"]
        sizes.append(len(cursor["nextBatch"]))
    return sizes


@pytest.mark.parametrize(
    ("options", "more", "sizes"),
    [
        ({}, {}, [101, 149]),
        ({"batchSize": 0}, {}, [0, 250]),
        ({"batchSize": 100}, {"batchSize": 100}, [100, 100, 50]),
        ({"batchSize": 250}, {}, [250, 0]),
        ({"batchSize": 249}, {}, [249, 1]),
        ({"batchSize": 3, "singleBatch": True}, {}, [3]),
        ({"limit": 5, "batchSize": 3}, {"batchSize": 2}, [3, 2]),
        ({"limit": 5, "batchSize": 5}, {}, [5]),
    ],
)
def test_results_come_in_batches(options: dict[str, Any], more: dict[str, Any], sizes: list[int]) -> None:
    assert drain(holding(250), {"find": "c", **options}, **more) == sizes


def test_a_reply_of_find_has_its_fields_in_order() -> None:
    cursor = holding(1).run({"find": "c"})["cursor"]
    assert list(cursor) == ["firstBatch", "id", "ns"]
    assert isinstance(cursor["id"], Int64)
    assert cursor["ns"] == "db.c"


def test_a_batch_holds_no_more_than_a_message_can() -> None:
    server = Server()
    for number in range(3):
        server.fill("c", {"_id": number, "x": "x" * 7_000_000})
    assert drain(server, {"find": "c"}) == [2, 1]
    assert drain(server, {"aggregate": "c", "pipeline": [], "cursor": {}}) == [2, 1]


def test_an_exhausted_cursor_is_gone() -> None:
    server = holding(3)
    cursor_id = server.run({"find": "c", "batchSize": 1})["cursor"]["id"]
    assert server.run({"getMore": cursor_id, "collection": "c"})["cursor"]["id"] == 0
    error = failure(server, {"getMore": cursor_id, "collection": "c"})
    assert (error.code, error.message) == (43, f"cursor id {cursor_id} not found")


def test_a_cursor_shows_the_documents_as_they_were() -> None:
    server = holding(3)
    cursor_id = server.run({"find": "c", "batchSize": 1})["cursor"]["id"]
    server.run({"update": "c", "updates": [{"q": {}, "u": {"$set": {"x": "new"}}, "multi": True}]})
    batch = server.run({"getMore": cursor_id, "collection": "c"})["cursor"]["nextBatch"]
    assert [document["x"] for document in batch] == [1, 2]


def test_a_cursor_belongs_to_its_namespace_and_session() -> None:
    server = holding(3)
    command = {"find": "c", "batchSize": 1}
    plain = server.run(command)["cursor"]["id"]
    owned = server.run(command, session=ONE)["cursor"]["id"]
    error = failure(server, {"getMore": plain, "collection": "other"})
    assert (error.code, error.message) == (
        13,
        "Requested getMore on namespace 'db.other', but cursor belongs to a different namespace db.c",
    )
    assert failure(server, {"getMore": plain, "collection": "c"}, session=ONE).code == 50736
    assert failure(server, {"getMore": owned, "collection": "c"}).code == 50737
    other = failure(server, {"getMore": owned, "collection": "c"}, session=TWO)
    assert other.code == 50738
    assert other.message.startswith(
        f"Cannot run getMore on cursor {owned}, which was created in session "
        "31313131-3131-3131-3131-313131313131 - "
    )
    assert len(server.run({"getMore": owned, "collection": "c"}, session=ONE)["cursor"]["nextBatch"]) == 2


def test_kill_cursors_tells_which_were_there() -> None:
    server = holding(3)
    cursor_id = server.run({"find": "c", "batchSize": 1})["cursor"]["id"]
    reply = server.run({"killCursors": "c", "cursors": [Int64(cursor_id), Int64(5)]})
    assert reply == {
        "cursorsKilled": [cursor_id],
        "cursorsNotFound": [5],
        "cursorsAlive": [],
        "cursorsUnknown": [],
    }
    assert failure(server, {"getMore": cursor_id, "collection": "c"}).code == 43


def test_an_idle_cursor_times_out_unless_it_must_not() -> None:
    server = holding(3)
    idle = server.run({"find": "c", "batchSize": 1})["cursor"]["id"]
    kept = server.run({"find": "c", "batchSize": 1, "noCursorTimeout": True})["cursor"]["id"]
    server.clock.instant = 600.0
    server.run({"getMore": idle, "collection": "c", "batchSize": 1})
    server.clock.instant = 1200.1
    assert failure(server, {"getMore": idle, "collection": "c"}).code == 43
    assert server.run({"getMore": kept, "collection": "c"})["cursor"]["id"] == 0


def test_a_dropped_collections_cursors_die() -> None:
    server = holding(3)
    cursor_id = server.run({"find": "c", "batchSize": 1})["cursor"]["id"]
    server.run({"drop": "c"})
    assert failure(server, {"getMore": cursor_id, "collection": "c"}).code == 175
    assert failure(server, {"getMore": cursor_id, "collection": "c"}).code == 43


def test_max_time_is_for_cursors_that_await_data() -> None:
    server = holding(3)
    cursor_id = server.run({"find": "c", "batchSize": 1})["cursor"]["id"]
    error = failure(server, {"getMore": cursor_id, "collection": "c", "maxTimeMS": 100})
    assert error.message == "cannot set maxTimeMS on getMore command for a non-awaitData cursor"


def test_a_tailable_cursor_follows_a_capped_collection() -> None:
    server = Server()
    server.run({"create": "c", "capped": True, "size": 10_000})
    server.fill("c", {"_id": 1})
    opened = server.run({"find": "c", "tailable": True, "awaitData": True})["cursor"]
    assert (opened["firstBatch"], opened["id"] != 0) == ([{"_id": 1}], True)
    more = {"getMore": opened["id"], "collection": "c", "maxTimeMS": 500}
    with pytest.raises(Park):
        server.run(more)
    server.fill("c", {"_id": 2})
    assert server.run(more)["cursor"]["nextBatch"] == [{"_id": 2}]


def test_a_tailable_cursor_needs_a_document_to_begin_with() -> None:
    server = Server()
    server.run({"create": "c", "capped": True, "size": 10_000})
    opened = server.run({"find": "c", "tailable": True, "awaitData": True})["cursor"]
    assert (opened["firstBatch"], opened["id"]) == ([], 0)


def test_a_tailable_cursor_that_falls_behind_loses_its_position() -> None:
    server = Server()
    server.run({"create": "c", "capped": True, "size": 10_000, "max": 2})
    server.fill("c", {"_id": 1, "x": 1})
    command = {"find": "c", "filter": {"x": 1}, "tailable": True}
    more = {"getMore": server.run(command)["cursor"]["id"], "collection": "c"}
    server.fill("c", {"_id": 2}, {"_id": 3})
    assert failure(server, more).code == 136

    more["getMore"] = server.run({**command, "filter": {"x": 2}})["cursor"]["id"]
    server.fill("c", {"_id": 4, "x": 2})
    assert server.run(more)["cursor"]["nextBatch"] == [{"_id": 4, "x": 2}], "what it passed over counts"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            {"tailable": True},
            2,
            "error processing query: ns=db.c tailable cursor requested on non capped collection",
        ),
        ({"awaitData": True}, 9, "Cannot set 'awaitData' without also setting 'tailable'"),
        ({"filter": {"$or": True}}, 2, "$or must be an array"),
        ({"filter": {"$or": []}}, 2, "$and/$or/$nor must be a nonempty array"),
        (
            {"filter": {"$foo": 1}},
            2,
            UNKNOWN_OPERATOR,
        ),
        ({"filter": {"a": {"$foo": 1}}}, 2, "unknown operator: $foo"),
        ({"filter": {"a": {"$mod": [0, 1]}}}, 2, "divisor cannot be 0"),
        ({"filter": {"a": {"$mod": [1]}}}, 2, "malformed mod, not enough elements"),
        ({"filter": {"a": {"$type": "foo"}}}, 2, "Unknown type name alias: foo"),
        ({"filter": {"a": {"$in": 1}}}, 2, "$in needs an array"),
        (
            {"filter": {"a": {"$size": -1}}},
            2,
            "Failed to parse $size. Expected a non-negative number in: $size: -1",
        ),
        ({"filter": {"$expr": "$$x"}}, 17276, "Use of undefined variable: x"),
        ({"projection": {"a": 1, "b": 0}}, 31254, "Cannot do exclusion on field b in inclusion projection"),
        ({"projection": {"a": 0, "b": 1}}, 31253, "Cannot do inclusion on field b in exclusion projection"),
        ({"projection": {"a": 1, "a.b": 1}}, 31249, "Path collision at a.b remaining portion b"),
        ({"sort": {"a": 2}}, 15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)"),
        ({"limit": -1}, 2, "BSON field 'limit' value must be >= 0, actual value '-1'"),
        ({"min": {"a": 1}}, 51173, "When using min()/max() a hint of which index to use must be provided"),
        (
            {"collation": {"strength": 1}},
            40414,
            "BSON field 'collation.locale' is missing but a required field",
        ),
    ],
)
def test_a_find_that_cannot_be_is_refused(options: dict[str, Any], code: int, message: str) -> None:
    error = failure(holding(1), {"find": "c", **options})
    assert (error.code, error.message) == (code, message)


def test_a_hint_names_an_index_that_is_there() -> None:
    server = holding(3)
    error = failure(server, {"find": "c", "hint": "x_1"})
    assert error.code == 2
    assert error.message.endswith("hint provided does not correspond to an existing index")
    server.run({"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1"}]})
    for hint in ("x_1", {"x": 1}, {"$natural": 1}, "_id_"):
        assert len(server.run({"find": "c", "hint": hint})["cursor"]["firstBatch"]) == 3
    backwards = server.run({"find": "c", "hint": {"$natural": -1}})["cursor"]["firstBatch"]
    assert [document["_id"] for document in backwards] == [2, 1, 0]


def test_min_and_max_bound_the_hinted_index() -> None:
    options = {"hint": {"_id": 1}, "min": {"_id": 1}, "max": {"_id": 4}}
    found = holding(6).run({"find": "c", **options, "returnKey": True})["cursor"]["firstBatch"]
    assert found == [{"_id": 1}, {"_id": 2}, {"_id": 3}]


def test_return_key_shows_the_key_of_the_index_in_use() -> None:
    server = holding(2)
    by_id = server.run({"find": "c", "sort": {"_id": 1}, "returnKey": True})["cursor"]["firstBatch"]
    assert by_id == [{"_id": 0}, {"_id": 1}]
    scan = server.run({"find": "c", "filter": {"x": 0}, "returnKey": True})["cursor"]["firstBatch"]
    assert scan == [{}]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"filter": {"a": 1}}, {"a": 1, "b.c": 2}),
        ({"sort": {"a": 1}}, {"a": 1, "b.c": 2}),
        ({"filter": {"b.c": 2}}, None),
        ({"filter": {"b.c": 2}, "hint": "a_1"}, {"a": 1, "b.c": 2}),
    ],
    ids=str,
)
def test_the_key_of_the_index_in_use_is_metadata(options: dict[str, Any], shown: Any) -> None:
    server = Server()
    server.fill("c", {"_id": 0, "a": 1, "b": {"c": 2}})
    server.run({"createIndexes": "c", "indexes": [{"key": {"a": 1, "b.c": 1}, "name": "a_1"}]})
    found = server.run({"find": "c", **options, "projection": {"_id": 0, "key": {"$meta": "indexKey"}}})
    (document,) = found["cursor"]["firstBatch"]
    assert document.get("key") == shown


def test_record_ids_are_shown_if_asked() -> None:
    found = holding(2).run({"find": "c", "showRecordId": True})["cursor"]["firstBatch"]
    assert [document["$recordId"] for document in found] == [1, 2]


def test_count_counts() -> None:
    server = holding(10)
    cases: list[tuple[dict[str, Any], int]] = [
        ({}, 10),
        ({"query": {"x": 0}}, 4),
        ({"query": {"x": 0}, "skip": 1, "limit": 2}, 2),
        ({"limit": -3}, 3),
        ({"skip": 8}, 2),
        ({"query": {"_id": 3}}, 1),
    ]
    for options, expected in cases:
        assert server.run({"count": "c", **options}) == {"n": expected}, options
    assert server.run({"count": "nothing"}) == {"n": 0}


def test_distinct_looks_into_arrays() -> None:
    server = Server()
    server.fill("c", {"x": [3, 1]}, {"x": 1.0}, {"x": None}, {}, {"x": {"y": 1}})
    assert server.run({"distinct": "c", "key": "x"}) == {"values": [None, 1, 3, {"y": 1}]}
    assert server.run({"distinct": "c", "key": "x", "query": {"x": 3}}) == {"values": [1, 3]}


def test_distinct_values_come_in_the_order_of_their_types() -> None:
    server = Server()
    server.fill("c", {"x": [True, "b", 7]}, {"x": "B"}, {"x": False}, {"x": -1.5}, {"x": None})
    assert server.run({"distinct": "c", "key": "x"}) == {"values": [None, -1.5, 7, "B", "b", False, True]}


def test_distinct_refuses_a_key_with_a_null_byte() -> None:
    assert failure(holding(1), {"distinct": "c", "key": "x\0"}).code == 31032


@pytest.mark.parametrize("options", [{"viewOn": "c"}, {"timeseries": {"timeField": "t"}}], ids=str)
def test_distinct_of_what_a_pipeline_reads_says_ok_as_an_integer(options: dict[str, Any]) -> None:
    server = Server()
    server.run({"create": "v", **options})
    reply = server.run({"distinct": "v", "key": "x"})
    assert reply == {"values": [], "ok": 1}
    assert type(reply["ok"]) is int


def test_collation_decides_what_is_different() -> None:
    server = Server()
    server.fill("c", {"_id": 1, "x": "ping"}, {"_id": 2, "x": "PING"}, {"_id": 3, "x": "pöng"})
    collation = {"locale": "en_US", "strength": 2}
    found = server.run({"find": "c", "filter": {"x": "PING"}, "collation": collation})["cursor"]["firstBatch"]
    assert [document["_id"] for document in found] == [1, 2]
    assert server.run({"distinct": "c", "key": "x", "collation": collation}) == {"values": ["ping", "pöng"]}
    assert server.run(
        {"count": "c", "query": {"x": "PONG"}, "collation": {"locale": "en", "strength": 1}}
    ) == {"n": 1}
    assert server.run(
        {"count": "c", "query": {"x": "PONG"}, "collation": {"locale": "en", "strength": 3}}
    ) == {"n": 0}


def test_let_holds_closed_expressions() -> None:
    let = {"a": {"$literal": "$x"}, "b": {"$add": [1, 2]}, "c": {"$rand": {}}}
    pipeline = [{"$project": {"_id": 0, "a": "$$a", "b": "$$b", "c": {"$type": "$$c"}}}]
    reply = holding(1).run({"aggregate": "c", "pipeline": pipeline, "cursor": {}, "let": let})
    assert reply["cursor"]["firstBatch"] == [{"a": "$x", "b": 3, "c": "double"}]


def test_a_collection_passes_its_collation_on() -> None:
    server = Server()
    server.run({"create": "c", "collation": {"locale": "en", "strength": 2}})
    server.fill("c", {"_id": "a"})
    assert server.run({"count": "c", "query": {"_id": "A"}}) == {"n": 1}
    assert server.run({"count": "c", "query": {"_id": "A"}, "collation": {"locale": "simple"}}) == {"n": 0}


def results(server: Server, pipeline: list[dict[str, Any]], target: Any = "c", **options: Any) -> list[Any]:
    reply = server.run({"aggregate": target, "pipeline": pipeline, "cursor": {}, **options})
    found: list[Any] = reply["cursor"]["firstBatch"]
    return found


def test_let_may_name_what_paths_begin_from() -> None:
    server = holding(1)
    shown = {"$project": {"_id": 0, "path": "$b", "whole": "$$CURRENT", "root": "$$ROOT._id"}}
    found = results(server, [shown], let={"CURRENT": {"b": 7}})
    assert found == [{"path": 7, "whole": {"b": 7}, "root": 0}]


DIVIDED = {"$divide": [1, 0]}


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ({"$project": {"x": DIVIDED}}, 2),
        ({"$set": {"x": {"$add": ["$a", DIVIDED]}}}, 2),
        ({"$addFields": {"x": {"y": [DIVIDED]}}}, 2),
        ({"$replaceWith": {"x": DIVIDED}}, 2),
        ({"$group": {"_id": "$a", "x": {"$sum": DIVIDED}}}, 2),
        ({"$match": {"$expr": {"$gt": ["$a", DIVIDED]}}}, 2),
        ({"$project": {"x": {"$divide": ["$a", 0]}}}, 0),
        ({"$project": {"x": {"$literal": DIVIDED}}}, 0),
        ({"$project": {"x": {"$let": {"vars": {"n": 0}, "in": {"$divide": [1, "$$n"]}}}}}, 2),
        ({"$project": {"x": {"$let": {"vars": {"n": "$a"}, "in": {"$divide": [1, "$$n"]}}}}}, 0),
        ({"$group": {"_id": None, "all": {"$push": 1}}}, 0),
    ],
    ids=str,
)
def test_a_constant_that_fails_is_refused_before_documents_come(stage: dict[str, Any], code: int) -> None:
    server = Server()
    for explain in (True, False):
        command: dict[str, Any] = {"aggregate": "c", "pipeline": [stage], "cursor": {}, "explain": explain}
        if code:
            assert failure(server, command).code == code
        else:
            server.run(command)


def test_an_aggregate_runs_over_a_collection_or_a_database() -> None:
    server = holding(6)
    grouped = results(server, [{"$group": {"_id": "$x", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])
    assert grouped == [{"_id": 0, "n": 2}, {"_id": 1, "n": 2}, {"_id": 2, "n": 2}]
    assert results(server, [{"$documents": [{"a": 1}]}, {"$set": {"b": 2}}], 1) == [{"a": 1, "b": 2}]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"aggregate": "c", "pipeline": []}, 9),
        ({"aggregate": "c", "pipeline": [{"$nonsense": 1}], "cursor": {}}, 40324),
        ({"aggregate": "c", "pipeline": [{}], "cursor": {}}, 40323),
        ({"aggregate": "c", "pipeline": [1], "cursor": {}}, 14),
        ({"aggregate": "c", "pipeline": [{"$limit": 0}], "cursor": {}}, 15958),
        ({"aggregate": "c", "pipeline": [{"$out": "d"}, {"$match": {}}], "cursor": {}}, 40601),
        ({"aggregate": "c", "pipeline": [{"$match": {}}, {"$collStats": {}}], "cursor": {}}, 40602),
        ({"aggregate": 1, "pipeline": [{"$match": {}}], "cursor": {}}, 73),
        ({"aggregate": "c", "pipeline": [{"$group": {"_id": 1, "n": {"$foo": 1}}}], "cursor": {}}, 15952),
        ({"aggregate": "c", "pipeline": [{"$project": {"x": {"$foo": 1}}}], "cursor": {}}, 31325),
        ({"aggregate": "c", "pipeline": [{"$listSearchIndexes": {}}], "cursor": {}}, 31082),
        ({"aggregate": 1, "pipeline": [{"$listLocalSessions": {}}], "cursor": {}, "apiStrict": True}, 323),
        (
            {
                "aggregate": "c",
                "pipeline": [{"$out": "d"}],
                "cursor": {},
                "readConcern": {"level": "linearizable"},
            },
            72,
        ),
    ],
)
def test_an_aggregate_that_cannot_be_is_refused(command: dict[str, Any], code: int) -> None:
    assert failure(holding(1), command).code == code


def test_out_replaces_a_collection() -> None:
    server = holding(4)
    server.fill("d", {"_id": "old"})
    assert results(server, [{"$match": {"x": 0}}, {"$out": "d"}]) == []
    assert server.documents("d") == [{"_id": 0, "x": 0}, {"_id": 3, "x": 0}]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, [{"_id": 1, "x": 1, "y": 9}, {"_id": 2, "x": 2}]),
        ({"whenMatched": "replace"}, [{"_id": 1, "x": 1}, {"_id": 2, "x": 2}]),
        ({"whenMatched": "keepExisting"}, [{"_id": 1, "y": 9}, {"_id": 2, "x": 2}]),
        (
            {"whenMatched": [{"$set": {"z": "$$new.x"}}]},
            [{"_id": 1, "y": 9, "z": 1}, {"_id": 2, "x": 2}],
        ),
        ({"whenNotMatched": "discard"}, [{"_id": 1, "x": 1, "y": 9}]),
    ],
)
def test_merge_changes_what_it_finds_and_inserts_the_rest(
    options: dict[str, Any], left: list[dict[str, Any]]
) -> None:
    server = Server()
    server.fill("d", {"_id": 1, "y": 9})
    source = {"$documents": [{"_id": 1, "x": 1}, {"_id": 2, "x": 2}]}
    pipeline: list[dict[str, Any]] = [source, {"$merge": {"into": "d", **options}}]
    assert results(server, pipeline, 1) == []
    assert server.documents("d") == left


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"whenMatched": "fail"}, 11000),
        ({"whenNotMatched": "fail"}, 13113),
        ({"on": "y"}, 51183),
        ({"whenMatched": "nonsense"}, 2),
    ],
)
def test_merge_fails_where_it_shall(options: dict[str, Any], code: int) -> None:
    server = Server()
    server.fill("d", {"_id": 1, "y": 9})
    pipeline = [{"$documents": [{"_id": 1}, {"_id": 2}]}, {"$merge": {"into": "d", **options}}]
    error = failure(server, {"aggregate": 1, "pipeline": pipeline, "cursor": {}})
    assert error.code == code
    if code == 11000:
        assert error.extra == {"keyPattern": {"_id": 1}, "keyValue": {"_id": 1}}


@pytest.mark.parametrize(
    ("pipeline", "code"),
    [([{"$match": {"x": 1}}], 72), ([{"$nonsense": 1}], 40324), ([{"$set": {"x": "$$unknown"}}], 17276)],
)
def test_merge_refuses_a_pipeline_that_changes_no_match_though_there_is_none(
    pipeline: list[dict[str, Any]], code: int
) -> None:
    merge = {"$merge": {"into": "d", "whenMatched": pipeline}}
    server = Server()
    server.fill("c", {"_id": 1})
    error = failure(server, {"aggregate": "c", "pipeline": [merge], "cursor": {}})
    assert error.code == code


def test_merge_knows_the_names_of_its_let() -> None:
    change = [{"$set": {"x": "$$a", "y": "$$new.x", "z": "$$b"}}]
    merge = {"$merge": {"into": "d", "let": {"a": "$x"}, "whenMatched": change}}
    server = Server()
    server.fill("d", {"_id": 1})
    server.fill("c", {"_id": 1, "x": 5})
    server.run({"aggregate": "c", "pipeline": [merge], "cursor": {}, "let": {"b": 3}})
    assert server.documents("d") == [{"_id": 1, "x": 5, "y": 5, "z": 3}]


def test_a_view_reads_through_its_pipeline() -> None:
    server = holding(6)
    server.run({"create": "v", "viewOn": "c", "pipeline": [{"$match": {"x": 0}}]})
    server.run({"create": "w", "viewOn": "v", "pipeline": [{"$project": {"_id": 1}}]})
    assert server.run({"find": "w"})["cursor"]["firstBatch"] == [{"_id": 0}, {"_id": 3}]
    assert server.run({"count": "w"}) == {"n": 2}
    assert server.run({"distinct": "v", "key": "x"}) == {"values": [0], "ok": 1}
    assert results(server, [{"$count": "n"}], "w") == [{"n": 2}]
    joined = results(server, [{"$limit": 1}, {"$lookup": {"from": "w", "pipeline": [], "as": "all"}}])
    assert joined == [{"_id": 0, "x": 0, "all": [{"_id": 0}, {"_id": 3}]}]


def test_sample_is_drawn_with_the_deployments_rng() -> None:
    pipeline = [{"$sample": {"size": 3}}]
    assert results(holding(10), pipeline) == results(holding(10), pipeline)


def test_sources_that_are_not_collections() -> None:
    server = holding(2)
    server.run({"create": "cap", "capped": True, "size": 1000, "max": 5})
    (stats,) = results(server, [{"$collStats": {"storageStats": {}}}], "cap")
    assert (stats["storageStats"]["capped"], stats["storageStats"]["maxSize"]) == (True, 1000)
    (counted,) = results(server, [{"$collStats": {"count": {}}}])
    assert counted["count"] == 2
    assert results(server, [{"$indexStats": {}}])[0]["name"] == "_id_"
    server.sessions.use(ONE, 0.0)
    (session,) = results(server, [{"$listLocalSessions": {}}, {"$limit": 1}], 1)
    assert bytes(session["_id"]["id"]) == ONE


@pytest.mark.parametrize(
    "stage",
    [
        {"$changeStream": {}},
        {"$lookup": {"from": "c", "pipeline": [{"$changeStream": {}}], "as": "r"}},
        {
            "$lookup": {
                "from": "c",
                "pipeline": [{"$unionWith": {"coll": "c", "pipeline": [{"$changeStream": {}}]}}],
            }
        },
    ],
    ids=str,
)
def test_a_change_stream_needs_a_replica_set(stage: dict[str, Any]) -> None:
    command = {"aggregate": "c", "pipeline": [stage], "cursor": {}}
    error = failure(Server(replica_set=False), command)
    assert (error.code, error.message) == (
        40573,
        "The $changeStream stage is only supported on replica sets",
    )


def test_explain_outlines_a_plan() -> None:
    server = holding(3)
    plan = server.run({"explain": {"find": "c", "filter": {"_id": 1}}})
    assert plan["queryPlanner"]["winningPlan"]["stage"] == "EXPRESS_IXSCAN"
    assert plan["executionStats"]["nReturned"] == 1
    scan = server.run({"aggregate": "c", "pipeline": [{"$match": {"x": 1}}], "explain": True})
    assert scan["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        # count's limit has a reader of its own, and its fields are not read at all.
        ({"count": "c", "limit": "1"}, 2),
        ({"count": "c", "limit": None}, 2),
        ({"count": "c", "limit": True}, 2),
        ({"count": "c", "limit": 1.5}, 9),
        ({"count": "c", "fields": 3}, None),
        # A number under aggregate's name is 1, in whatever type.
        ({"aggregate": Decimal128("1.00"), "pipeline": [{"$documents": []}], "cursor": {}}, None),
        ({"aggregate": 2, "pipeline": [], "cursor": {}}, 2),
        ({"aggregate": float("nan"), "pipeline": [], "cursor": {}}, 2),
        ({"aggregate": None, "pipeline": [], "cursor": {}}, 73),
        # Null is no absence where the field has a reader of its own.
        ({"aggregate": "c", "pipeline": None, "cursor": {}}, 14),
        ({"aggregate": "c", "pipeline": [], "cursor": None}, 14),
        ({"aggregate": "c", "pipeline": [], "cursor": {}, "allowDiskUse": 1}, 14),
        ({"aggregate": "c", "pipeline": [], "cursor": {}, "allowDiskUse": None}, 14),
        ({"aggregate": "c", "pipeline": [], "cursor": {}, "explain": 0}, 14),
        ({"find": "c", "allowDiskUse": 1}, None),
    ],
    ids=str,
)
def test_arguments_of_reads_are_of_their_types(command: dict[str, Any], code: int | None) -> None:
    assert answer(holding(1), command) == code


def answer(server: Server, command: dict[str, Any]) -> int | None:
    """Return the code with which a command fails, None where it does not."""
    try:
        server.run(command)
    except CommandError as error:
        return error.code
    return None


@pytest.mark.parametrize(
    ("let", "code"),
    [
        ({"": 1}, 9),
        ({"Upper": 1}, 9),
        ({"1st": 1}, 9),
        ({"a.b": 1}, 9),
        ({"ROOT": 1}, 9),
        ({"NOW": 1}, 4738901),
        ({"a": "$x"}, 4890500),
        ({"a": {"$add": [1, "$$ROOT.x"]}}, 4890500),
        ({"a": "$$b", "b": 1}, 17276),
        ({"a": "$$NOW"}, 51144),
        ({"a": {"$divide": [1, 0]}}, 2),
    ],
    ids=str,
)
def test_variables_of_a_command_see_no_document(let: dict[str, Any], code: int) -> None:
    assert failure(holding(1), {"aggregate": "c", "pipeline": [], "cursor": {}, "let": let}).code == code


def test_a_variable_of_a_command_sees_those_before_it() -> None:
    let = {"one": 1, "two": {"$add": ["$$one", 1]}, "drawn": {"$rand": {}}}
    pipeline = [
        {"$project": {"_id": 0, "sum": {"$add": ["$$one", "$$two"]}, "same": {"$lt": ["$$drawn", 1]}}}
    ]
    command = {"aggregate": "c", "pipeline": pipeline, "cursor": {}, "let": let}
    assert holding(1).run(command)["cursor"]["firstBatch"] == [{"sum": 3, "same": True}]
    command = {"find": "c", "filter": {"$expr": {"$gt": ["$$late", 0]}}, "let": {"late": "$$NOW"}}
    assert holding(1).run(command)["cursor"]["firstBatch"]


@pytest.mark.parametrize(
    ("hint", "code"),
    [
        ({"$natural": Decimal128("-1")}, None),
        ({"$natural": True}, 2),
        ({"_id": Decimal128("1.0")}, None),
        ({"_id": True}, 2),
        ({"_id": -1}, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("command", [{"find": "c"}, {"count": "c"}, {"distinct": "c", "key": "x"}], ids=str)
def test_a_hint_has_numbers_of_any_type(
    command: dict[str, Any], hint: dict[str, Any], code: int | None
) -> None:
    assert answer(holding(2), {**command, "hint": hint}) == code


@pytest.mark.parametrize(
    ("key", "projection", "query", "held"),
    [
        ({"$**": 1}, None, {"x": 1}, True),
        ({"$**": 1}, None, {"x.y": 1}, True),
        ({"$**": 1}, None, {}, False),
        ({"$**": 1}, None, {"_id": 1}, False),
        ({"$**": 1}, {"_id": 1}, {"_id": 1}, True),
        ({"$**": 1}, {"x": 1}, {"$and": [{"y": 1}, {"x.z": 1}]}, True),
        ({"$**": 1}, {"x": 1}, {"xy": 1}, False),
        ({"$**": 1}, None, {"$or": [{"x": 1}, {"y": 1}]}, True),
        ({"$**": 1}, {"x": 1}, {"$or": [{"x": 1}, {"y": 1}]}, False),
        ({"$**": 1}, {"x": 0}, {"x": 1}, False),
        ({"$**": 1}, {"x": 0}, {"y": 1}, True),
        ({"x.$**": 1}, None, {"x.y": 1}, True),
        ({"x.$**": 1}, None, {"y": 1}, False),
        ({"a": 1, "x.$**": 1}, None, {"a": 1}, True),
    ],
    ids=str,
)
def test_a_wildcard_index_serves_the_paths_that_it_holds(
    key: dict[str, Any], projection: dict[str, Any] | None, query: dict[str, Any], *, held: bool
) -> None:
    server = holding(3)
    options = {} if projection is None else {"wildcardProjection": projection}
    server.run({"createIndexes": "c", "indexes": [{"key": key, "name": "w", **options}]})
    assert answer(server, {"find": "c", "filter": query, "hint": "w"}) == (None if held else 291)


def test_bounds_fit_no_wildcard_index() -> None:
    server = holding(3)
    server.run({"createIndexes": "c", "indexes": [{"key": {"$**": 1}, "name": "w"}]})
    assert failure(server, {"find": "c", "min": {"x": 1}, "hint": "w"}).code == 51174


def test_a_hint_for_a_view_is_for_the_collection_below() -> None:
    server = holding(3)
    server.run({"create": "v", "viewOn": "c"})
    assert server.run({"count": "v", "hint": "_id_"}) == {"n": 3}
    assert failure(server, {"count": "v", "hint": "nope"}).code == 2


@pytest.mark.parametrize(
    "more",
    [
        {"pipeline": [], "explain": True},
        {"aggregate": 1, "pipeline": [{"$listSessions": {}}]},
        {"pipeline": [{"$search": {}}]},
    ],
    ids=str,
)
def test_a_strict_client_has_no_stage_or_field_outside_the_api(more: dict[str, Any]) -> None:
    strict = {"aggregate": "c", "cursor": {}, "apiVersion": "1", "apiStrict": True}
    assert failure(holding(1), {**strict, **more}).code == 323


# What a plan runs into is told with the step that ran: how, depends on the release.

FAILING = {"$expr": {"$eq": [{"$strLenCP": "$x"}, 1]}}
RUNNING: list[tuple[dict[str, Any], str, str]] = [
    ({"find": "c", "filter": FAILING}, "5.0", "Executor error during find command"),
    ({"find": "c", "filter": FAILING}, "8.2", "Executor error during find command: db.c"),
    ({"find": "c", "projection": {"y": {"$strLenCP": "$x"}}}, "8.2",
     "Executor error during find command: db.c"),
    ({"aggregate": "c", "pipeline": [{"$set": {"y": {"$strLenCP": "$x"}}}], "cursor": {}}, "7.0",
     "PlanExecutor error during aggregation"),
    ({"aggregate": "c", "pipeline": [{"$set": {"y": {"$strLenCP": "$x"}}}], "cursor": {}}, "8.0",
     "Executor error during aggregate command on namespace: db.c"),
    ({"findAndModify": "c", "query": {}, "update": [{"$set": {"y": {"$strLenCP": "$x"}}}]}, "8.2",
     "Plan executor error during findAndModify"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "release", "step"), RUNNING, ids=lambda value: str(value)[:40])
def test_an_error_of_a_running_plan_names_the_step(command: dict[str, Any], release: str, step: str) -> None:
    server = Server()
    server.fill("c", {"_id": 1, "x": 7})
    server.node.profile = Profile.named(release)
    with pytest.raises(CommandError) as failed:
        server.run(command)
    message = "$strLenCP requires a string argument, found: int"
    assert (failed.value.code, failed.value.message) == (34471, f"{step} :: caused by :: {message}")


@pytest.mark.parametrize("query", [{"$nonsense": 1}, {"x": {"$nonsense": 1}}])
def test_an_error_of_a_plan_that_is_made_names_no_step(query: dict[str, Any]) -> None:
    server = Server()
    for command in (
        {"find": "c", "filter": query},
        {"aggregate": "c", "pipeline": [{"$match": query}], "cursor": {}},
        {"findAndModify": "c", "query": query, "remove": True},
    ):
        with pytest.raises(CommandError) as failed:
            server.run(command)
        assert failed.value.message.startswith("unknown ")


def test_a_modification_that_meets_a_unique_key_names_the_step() -> None:
    server = Server()
    server.fill("c", {"_id": 1, "x": 1}, {"_id": 2, "x": 2})
    server.run({"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1", "unique": True}]})
    command = {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"x": 2}}}
    with pytest.raises(CommandError) as failed:
        server.run(command)
    assert failed.value.message.startswith("Plan executor error during findAndModify :: caused by :: E11000 ")
    assert failed.value.extra["keyPattern"] == {"x": 1}


@pytest.mark.parametrize("documents", [[], [{"_id": 1}]], ids=["no documents", "a document"])
def test_a_constant_that_fails_fails_the_optimizer(documents: list[dict[str, Any]]) -> None:
    server = Server()
    server.run({"create": "c"})
    for document in documents:
        server.fill("c", document)
    stage = {"$set": {"y": {"$toLower": {"$substrBytes": ["abc", 0, "x"]}}}}
    with pytest.raises(CommandError) as failed:
        server.run({"aggregate": "c", "pipeline": [stage], "cursor": {}})
    assert failed.value.message.startswith("Failed to optimize pipeline :: caused by :: ")
