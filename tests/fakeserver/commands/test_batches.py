"""Cursors end where a server notices the end, and a batch holds what a reply can."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Any

import bson
import pytest
from data_commands import Server
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeserver.errors import CommandError
from fakeserver.sessions.cursors import Cursor
from fakeserver.storage.port.engine import Namespace
from fakeserver.storage.values.limits import MAX_INTERNAL_BYTES, MAX_USER_BYTES, Room, fit_one_reply

MEBIBYTE = 1024 * 1024


def holding(documents: int) -> Server:
    server = Server()
    server.run({"create": "c"})
    server.run({"createIndexes": "c", "indexes": [{"key": {"y": 1, "z": -1}, "name": "y_1_z_-1"}]})
    if documents:
        server.fill("c", *({"_id": number, "x": -number, "y": number, "z": 0} for number in range(documents)))
    return server


def sizes(server: Server, command: dict[str, Any], **more: Any) -> list[int]:
    """Return the sizes of a cursor's batches, the last one that of the batch that closed it."""
    cursor = server.run(command)["cursor"]
    found = [len(cursor["firstBatch"])]
    collection = cursor["ns"].partition(".")[2]
    while cursor["id"]:
        cursor = server.run({"getMore": cursor["id"], "collection": collection, **more})["cursor"]
        found.append(len(cursor["nextBatch"]))
    return found


PIPELINE = {"aggregate": "c", "pipeline": [{"$match": {}}]}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param({"find": "c", "batchSize": 2}, [2, 2, 2, 0], id="a scan looks for one more"),
        pytest.param({"find": "c", "batchSize": 5}, [5, 1], id="a batch that is not full has looked"),
        pytest.param(
            {"find": "c", "batchSize": 0}, [0, 2, 2, 2, 0], id="an empty first batch looks at nothing"
        ),
        pytest.param({"find": "c", "batchSize": 6, "singleBatch": True}, [6], id="a single batch"),
        pytest.param({"find": "c", "batchSize": 2, "limit": 4}, [2, 2], id="a limit that is reached"),
        pytest.param({"find": "c", "batchSize": 2, "limit": 9}, [2, 2, 2, 0], id="a limit out of reach"),
        pytest.param(
            {"find": "c", "batchSize": 2, "limit": 6, "skip": 2}, [2, 2, 0], id="skip before a limit"
        ),
        pytest.param({"find": "c", "batchSize": 2, "limit": 4, "sort": {"_id": -1}}, [2, 2], id="by _id"),
        pytest.param(
            {"find": "c", "batchSize": 2, "limit": 4, "sort": {"y": -1, "z": 1}},
            [2, 2],
            id="an index backwards",
        ),
        pytest.param(
            {"find": "c", "batchSize": 2, "limit": 4, "sort": {"y": 1, "z": 1}},
            [2, 2, 0],
            id="no index's order",
        ),
        pytest.param(
            {"find": "c", "batchSize": 2, "limit": 4, "sort": {"x": 1}},
            [2, 2, 0],
            id="a sort holds the limit",
        ),
        pytest.param({"find": "c", "batchSize": 1, "filter": {"_id": 3}}, [1], id="one _id is looked up"),
        pytest.param({"find": "c", "batchSize": 1, "filter": {"_id": {"$eq": 3}}}, [1], id="by $eq"),
        pytest.param(
            {"find": "c", "batchSize": 1, "filter": {"_id": {"$gt": 4}}}, [1, 0], id="a range of _id"
        ),
        pytest.param({"find": "c", "batchSize": 1, "filter": {"_id": 3, "x": -3}}, [1, 0], id="_id and more"),
        pytest.param({"find": "c", "batchSize": 1, "filter": {"_id": 7}}, [0], id="an _id that is not there"),
        pytest.param({"find": "none", "batchSize": 0}, [0], id="no collection to scan"),
        pytest.param({**PIPELINE, "cursor": {"batchSize": 3}}, [3, 2, 1], id="a pipeline"),
        pytest.param({**PIPELINE, "cursor": {"batchSize": 2}}, [2, 2, 2, 0], id="a pipeline looks"),
        pytest.param({**PIPELINE, "cursor": {"batchSize": 6}}, [6, 0], id="a pipeline in one batch"),
        pytest.param(
            {"aggregate": "none", "pipeline": [], "cursor": {"batchSize": 0}}, [0, 0], id="of nothing"
        ),
        pytest.param({"listIndexes": "c", "cursor": {"batchSize": 1}}, [1, 1], id="a list is counted"),
        pytest.param(
            {"listIndexes": "c", "cursor": {"batchSize": 0}}, [0, 2], id="a list from its beginning"
        ),
        pytest.param({"listCollections": 1, "cursor": {"batchSize": 1}}, [1], id="a list of one collection"),
    ],
)
def test_a_cursor_ends_where_a_server_notices_it(command: dict[str, Any], expected: list[int]) -> None:
    assert sizes(holding(6), command, batchSize=2) == expected


@pytest.mark.parametrize("documents", [100, 101, 102])
def test_the_default_first_batch_does_not_look_for_a_hundred_and_second(documents: int) -> None:
    expected = {100: [100], 101: [101, 0], 102: [101, 1]}
    assert sizes(holding(documents), {"find": "c"}) == expected[documents]


def test_the_results_of_a_bulk_write_are_counted() -> None:
    operations = [{"insert": 0, "document": {"_id": number}} for number in range(4)]
    command = {"bulkWrite": 1, "ops": operations, "nsInfo": [{"ns": "db.c"}], "cursor": {"batchSize": 2}}
    server = Server()
    cursor = server.run(command, db="admin")["cursor"]
    more = {"getMore": cursor["id"], "collection": "$cmd.bulkWrite", "batchSize": 2}
    assert server.run(more, db="admin")["cursor"]["id"] == 0


def test_each_update_of_a_bulk_write_has_a_cluster_time_of_its_own() -> None:
    stamp = [{"$set": {"t": "$$CLUSTER_TIME"}}]
    operations = [{"update": 0, "filter": {"_id": number}, "updateMods": stamp} for number in range(3)]
    server = holding(3)
    server.run({"bulkWrite": 1, "ops": operations, "nsInfo": [{"ns": "db.c"}]}, db="admin")
    times = [document["t"] for document in server.documents("c")]
    assert times == sorted(set(times))
    updates = [{"q": {"_id": number}, "u": stamp} for number in range(3)]
    server.run({"update": "c", "updates": updates})
    assert len({document["t"] for document in server.documents("c")}) == 1


# What a reply holds.


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 9_000_000), min_size=1, max_size=5))
def test_a_room_admits_the_first_document_and_no_more_than_a_reply_holds(lengths: list[int]) -> None:
    room, taken = Room(), []
    for length in lengths:
        document = {"_id": 1, "x": "x" * length}
        if not room.admits(document):
            break
        taken.append(document)
    assert taken
    assert len(bson.encode({"a": taken})) < MAX_INTERNAL_BYTES


@pytest.mark.parametrize(
    ("documents", "size", "fits"),
    [(0, 0, True), (1, MAX_USER_BYTES - 10, True), (1, MAX_USER_BYTES - 9, False), (1000, 16_770_000, False)],
)
def test_small_results_leave_room_for_the_array_around_them(*, documents: int, size: int, fits: bool) -> None:
    assert fit_one_reply(documents, size) is fits


DOCUMENT = {"_id": 1, "x": "x" * 1000}


@pytest.mark.parametrize("document", [DOCUMENT, {"_id": 1, "x": "x" * 200}], ids=["1 KB", "200 B"])
def test_more_small_documents_than_a_reply_holds_come_in_several(document: dict[str, Any]) -> None:
    total = 20 * MEBIBYTE // len(bson.encode(document))
    cursor = Cursor(Namespace("db", "c"), deque([document] * total), {})
    batches = []
    while not cursor.exhausted:
        batches.append(cursor.take(None))
        assert len(bson.encode({"cursor": {"nextBatch": batches[-1]}})) <= MAX_INTERNAL_BYTES
    assert sum(map(len, batches)) == total
    assert len(batches) == 2


def test_a_collection_that_nearly_fills_a_reply_is_not_taken_for_small() -> None:
    server = Server()
    total = (MAX_USER_BYTES - 1000) // len(bson.encode(DOCUMENT))
    server.fill("c", *({**DOCUMENT, "_id": number} for number in range(total)))
    first = server.run({"find": "c", "batchSize": 100_000})["cursor"]
    rest = server.run({"getMore": first["id"], "collection": "c"})["cursor"]
    assert len(first["firstBatch"]) + len(rest["nextBatch"]) == total
    assert len(rest["nextBatch"]) > 0


def test_the_errors_of_a_bulk_write_come_in_several_batches() -> None:
    server = Server()
    long = "x" * 1_000_000
    server.run({"insert": "c", "documents": [{"_id": long}]})
    operations = [{"insert": 0, "document": {"_id": long}} for _ in range(12)]
    command = {"bulkWrite": 1, "ops": operations, "nsInfo": [{"ns": "db.c"}], "ordered": False}
    cursor = server.run(command, db="admin")["cursor"]
    first = len(cursor["firstBatch"])
    assert 0 < first < 12
    more = {"getMore": cursor["id"], "collection": "$cmd.bulkWrite"}
    rest = server.run(more, db="admin")["cursor"]
    assert first + len(rest["nextBatch"]) == 12
    assert rest["id"] == 0


def test_many_long_write_errors_lose_their_texts() -> None:
    server = Server()
    long = "x" * 300_000
    server.run({"insert": "c", "documents": [{"_id": long}]})
    errors = server.run({"insert": "c", "documents": [{"_id": long}] * 6, "ordered": False})["writeErrors"]
    assert [bool(error["errmsg"]) for error in errors] == [True] * 4 + [False] * 2
    assert all(error["code"] == 11000 and error["keyValue"] for error in errors)


@pytest.mark.parametrize(
    ("documents", "values", "length", "code"),
    [(16, 1, 1_000_000, None), (17, 1, 1_000_000, 17217), (20, 5_000, 94, None), (29, 5_000, 99, 31299)],
)
def test_distinct_values_fit_into_one_reply_or_are_refused(
    *, documents: int, values: int, length: int, code: int | None
) -> None:
    server, numbers = Server(), count()
    for _ in range(documents):
        server.fill("c", {"a": [f"{next(numbers):06}" + "x" * length for _ in range(values)]})
    command = {"distinct": "c", "key": "a"}
    if code is None:
        assert len(server.run(command)["values"]) == documents * values
    else:
        assert refused(server, command).code == code


# What is too large to be stored.


def refused(server: Server, command: dict[str, Any], **where: Any) -> CommandError:
    with pytest.raises(CommandError) as caught:
        server.run(command, **where)
    return caught.value


def write_error(server: Server, command: dict[str, Any]) -> tuple[int, str]:
    (error,) = server.run(command)["writeErrors"]
    return error["code"], error["errmsg"]


OVER = "x" * (MAX_USER_BYTES + 100)
FAR_OVER = "x" * (MAX_INTERNAL_BYTES + 100)
UPSERTED = "Document to upsert is larger than 16777216"
TOO_LONG = "Invalid $addFields :: caused by :: Tried to create string longer than 16MB"
UPDATED = "Resulting document after update is larger than 16777216"
INVALID = "BSONObj size: 16793722 (0x100407A) is invalid. Size must be between 0 and 16793600(16MB)"


WHILE_MODIFYING = "Plan executor error during findAndModify :: caused by :: "


@pytest.mark.parametrize(
    ("change", "over", "far_over"),
    [
        (lambda text: {"x": text}, (17420, UPSERTED), (10334, INVALID)),
        (lambda text: {"$set": {"x": text}}, (17420, UPSERTED), (10334, INVALID)),
        (lambda text: [{"$set": {"x": text}}], (16493, TOO_LONG), (16493, TOO_LONG)),
    ],
    ids=["replacement", "operators", "pipeline"],
)
def test_an_upsert_of_too_large_a_document_is_refused(
    change: Any, over: tuple[int, str], far_over: tuple[int, str]
) -> None:
    server = Server()
    for text, expected in ((OVER, over), (FAR_OVER, far_over)):
        statement = {"q": {"_id": 10}, "u": change(text), "upsert": True}
        assert write_error(server, {"update": "c", "updates": [statement]}) == expected
        found = refused(
            server, {"findAndModify": "c", "query": {"_id": 10}, "update": change(text), "upsert": True}
        )
        code, message = expected
        # A constant fails when the plan is made.
        step = "" if message == TOO_LONG else WHILE_MODIFYING
        assert (found.code, found.message) == (code, f"{step}{message}")
        operation = {"update": 0, "filter": {"_id": 10}, "updateMods": change(text), "upsert": True}
        reply = server.run({"bulkWrite": 1, "ops": [operation], "nsInfo": [{"ns": "db.c"}]}, db="admin")
        (result,) = reply["cursor"]["firstBatch"]
        assert (result["code"], result["errmsg"]) == expected
    assert server.documents("c") == []


def test_an_update_that_grows_a_document_too_large_is_refused() -> None:
    server = Server()
    server.fill("c", {"_id": 10})
    for text, expected in ((OVER, (17419, UPDATED)), (FAR_OVER, (10334, INVALID))):
        statement = {"q": {"_id": 10}, "u": {"$set": {"x": text}}}
        assert write_error(server, {"update": "c", "updates": [statement]}) == expected
    assert server.documents("c") == [{"_id": 10}]


def test_a_document_of_the_largest_size_is_upserted_and_read() -> None:
    server = Server()
    text = "x" * (MAX_USER_BYTES - len(bson.encode({"_id": 1, "x": ""})))
    update = {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"x": text}, "upsert": True}]}
    assert server.run(update)["n"] == 1
    assert server.documents("c") == [{"_id": 1, "x": text}]


GROWN: list[dict[str, Any]] = [{"$set": {"y": "$x"}}]


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ({"$out": "d"}, 10334),
        ({"$merge": {"into": "d"}}, 17420),
        ({"$merge": {"into": "d", "whenMatched": "fail"}}, 10334),
    ],
)
def test_a_pipeline_writes_no_document_that_is_too_large(stage: dict[str, Any], code: int) -> None:
    server = Server()
    server.fill("c", {"_id": 1, "x": "x" * (MAX_USER_BYTES // 2)})
    error = refused(server, {"aggregate": "c", "pipeline": [*GROWN, stage], "cursor": {}})
    assert error.code == code
    assert server.documents("d") == []
