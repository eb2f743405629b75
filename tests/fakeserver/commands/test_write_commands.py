"""insert, update, delete, findAndModify and bulkWrite answer as a server does."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Int64, ObjectId, Timestamp
from data_commands import Server

from fakeserver.errors import CommandError

UNKNOWN_MODIFIER = (
    "Unknown modifier: $foo. Expected a valid update modifier or pipeline-style update specified as an array"
)
NOT_A_NUMBER = (
    "Cannot apply $inc to a value of non-numeric type. {_id: 1} has the field 's' of non-numeric type string"
)
DUPLICATE = "E11000 duplicate key error collection: db.c index: _id_ dup key: { _id: 1 }"
DUPLICATE_ID = {"code": 11000, "errmsg": DUPLICATE, "keyPattern": {"_id": 1}, "keyValue": {"_id": 1}}


def failure(server: Server, command: dict[str, Any], **where: Any) -> CommandError:
    with pytest.raises(CommandError) as caught:
        server.run(command, **where)
    return caught.value


def holding(*documents: dict[str, Any]) -> Server:
    server = Server()
    server.fill("c", *documents)
    return server


def test_insert_counts_what_it_inserted() -> None:
    assert Server().run({"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]}) == {"n": 2}


def test_insert_makes_an_id_and_puts_the_id_first() -> None:
    server = Server()
    server.run({"insert": "c", "documents": [{"x": 1}, {"x": 2, "_id": 2}]})
    made, moved = server.documents("c")
    assert list(made) == list(moved) == ["_id", "x"]
    assert isinstance(made["_id"], ObjectId)


def test_the_ids_that_insert_makes_come_from_the_nodes_clock_and_rng() -> None:
    def made() -> Any:
        server = Server()
        server.run({"insert": "c", "documents": [{"x": 1}]})
        return server.documents("c")[0]["_id"]

    assert made() == made()
    assert made().generation_time.timestamp() == 1_700_000_000


def test_an_ordered_insert_stops_at_the_first_error() -> None:
    reply = holding({"_id": 1}).run({"insert": "c", "documents": [{"_id": 2}, {"_id": 1}, {"_id": 3}]})
    assert reply == {"n": 1, "writeErrors": [{"index": 1, **DUPLICATE_ID}]}
    assert list(reply["writeErrors"][0]) == ["index", "code", "errmsg", "keyPattern", "keyValue"]


def test_an_unordered_insert_goes_on() -> None:
    server = holding({"_id": 1})
    reply = server.run({"insert": "c", "documents": [{"_id": 1}, {"_id": 3}], "ordered": False})
    assert reply == {"n": 1, "writeErrors": [{"index": 0, **DUPLICATE_ID}]}


@pytest.mark.parametrize(
    ("document", "code", "message"),
    [
        (
            {"_id": {"$a": 1}},
            52,
            "_id fields may not contain '$'-prefixed fields: $a is not valid for storage.",
        ),
        *(
            (
                {"_id": id_},
                52,
                f"_id fields may not contain '$'-prefixed fields: {name} is not valid for storage.",
            )
            for id_, name in [
                ({"$ref": "c"}, "$ref"),
                ({"$id": 1}, "$id"),
                ({"$ref": 7, "$id": 1}, "$ref"),
                ({"$ref": "c", "$id": 1, "$db": 7}, "$db"),
                ({"$ref": "c", "$id": 1, "$db": "d", "$more": 1}, "$more"),
            ]
        ),
        ({"_id": [1]}, 53, "The '_id' value cannot be of type array"),
        (
            {"_id": 1, "x": "x" * 2**24},
            10334,
            "object to insert too large. size in bytes: 16777238, max size: 16777216",
        ),
    ],
)
def test_insert_refuses_what_cannot_be_stored(document: dict[str, Any], code: int, message: str) -> None:
    (error,) = Server().run({"insert": "c", "documents": [document]})["writeErrors"]
    assert (error["code"], error["errmsg"]) == (code, message)


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ([{"a": 1}, {"a": 2}], "path 'a' is matched twice"),
        ([{"a": 1}, {"a.b": 2}], "both paths 'a.b' and 'a' are matched"),
        ([{"a.b.c": 1}, {"a": {}}], "both paths 'a.b.c' and 'a' are matched"),
    ],
)
def test_an_upsert_cannot_begin_with_fields_that_exclude_each_other(
    pins: list[dict[str, Any]], message: str
) -> None:
    update = {"q": {"$and": pins}, "u": {"$set": {"x": 1}}, "upsert": True}
    (error,) = Server().run({"update": "c", "updates": [update]})["writeErrors"]
    assert (error["code"], error["errmsg"]) == (54, f"cannot infer query fields to set, {message}")


@pytest.mark.parametrize("first", ["$set", "$unset"])
def test_of_two_paths_in_conflict_the_later_one_is_named(first: str) -> None:
    longer, shorter = {"$set": {"a.b.c": 1}}, {"$unset": {"a.b": 1}}
    change = {**longer, **shorter} if first == "$set" else {**shorter, **longer}
    (error,) = Server().run({"update": "c", "updates": [{"q": {}, "u": change}]})["writeErrors"]
    named = "a.b" if first == "$set" else "a.b.c"
    assert error["errmsg"] == f"Updating the path '{named}' would create a conflict at 'a.b'"


def test_no_document_of_a_system_collection_is_deleted() -> None:
    with pytest.raises(CommandError) as refused:
        Server().run({"delete": "system.none", "deletes": [{"q": {}, "limit": 0}]})
    assert (refused.value.code, refused.value.message) == (73, "Invalid system namespace: db.system.none")


def test_an_id_may_be_a_reference() -> None:
    ids = [{"$ref": "c", "$id": 1}, {"$ref": "c", "$id": 1, "$db": "d"}, {"$ref": "c", "$id": 1, "more": 2}]
    assert Server().run({"insert": "c", "documents": [{"_id": id_} for id_ in ids]}) == {"n": 3}


def test_insert_refuses_what_is_nested_too_deep() -> None:
    def nested(levels: int) -> dict[str, Any]:
        inner: dict[str, Any] = {"a": 1}
        for _ in range(levels - 1):
            inner = {"nested-under-here": inner}
        return inner

    assert Server().run({"insert": "c", "documents": [nested(180)]}) == {"n": 1}
    (error,) = Server().run({"insert": "c", "documents": [nested(181)]})["writeErrors"]
    assert error["code"] == 15
    assert error["errmsg"] == "cannot insert document because it exceeds 180 levels of nesting"


def test_insert_fills_in_empty_timestamps() -> None:
    server = holding({"_id": 1, "at": Timestamp(0, 0), "in": {"at": Timestamp(0, 0)}})
    (document,) = server.documents("c")
    assert document["at"].time == 1_700_000_000
    assert document["in"]["at"] == Timestamp(0, 0)


EMPTY = Timestamp(0, 0)


def writes(_id: int, change: Any, **more: Any) -> list[dict[str, Any]]:
    """Return the commands that apply a change to a document, each to one with an `_id` of its own."""
    statement = {"q": {"_id": _id}, "u": change, "upsert": True}
    operation = {"update": 0, "filter": {"_id": _id + 2}, "updateMods": change, "upsert": True}
    return [
        {"update": "c", "updates": [statement], **more},
        {"findAndModify": "c", "query": {"_id": _id + 1}, "update": change, "upsert": True, **more},
        {"bulkWrite": 1, "ops": [operation], "nsInfo": [{"ns": "db.c"}], **more},
    ]


@pytest.mark.parametrize("known", [(), (10, 11, 12)], ids=["upserted", "updated"])
@pytest.mark.parametrize(
    ("change", "more", "filled"),
    [
        ({"at": EMPTY}, {}, True),
        ({"at": EMPTY}, {"bypassEmptyTsReplacement": False}, True),
        ({"at": EMPTY}, {"bypassEmptyTsReplacement": True}, False),
        ({"$set": {"at": EMPTY}}, {}, False),
        ([{"$set": {"at": EMPTY}}], {}, False),
    ],
)
def test_replacements_fill_in_empty_timestamps_and_other_updates_do_not(
    *, change: Any, more: dict[str, Any], filled: bool, known: tuple[int, ...]
) -> None:
    server = Server()
    for number in known:
        server.fill("c", {"_id": number})
    for command in writes(10, change, **more):
        server.run(command, db="admin" if "bulkWrite" in command else "db")
    documents = server.documents("c")
    assert [document["_id"] for document in documents] == [10, 11, 12]
    assert [document["at"] != EMPTY for document in documents] == [filled] * 3


def test_an_insert_keeps_empty_timestamps_on_request() -> None:
    server = Server()
    server.run({"insert": "c", "documents": [{"_id": 1, "at": EMPTY}], "bypassEmptyTsReplacement": True})
    assert server.documents("c") == [{"_id": 1, "at": EMPTY}]


def test_a_replacement_keeps_an_id_that_is_an_empty_timestamp() -> None:
    server = holding({"_id": EMPTY})
    replacement = {"q": {"_id": EMPTY}, "u": {"_id": EMPTY, "at": EMPTY}}
    assert server.run({"update": "c", "updates": [replacement]})["nModified"] == 1
    (document,) = server.documents("c")
    assert document["_id"] == EMPTY
    assert document["at"] != EMPTY


@pytest.mark.parametrize("command", ["insert", "update", "delete"])
def test_an_empty_batch_is_refused(command: str) -> None:
    statements = {"insert": "documents", "update": "updates", "delete": "deletes"}[command]
    error = failure(Server(), {command: "c", statements: []})
    assert error.code == 16
    assert error.message == "Write batch sizes must be between 1 and 100000. Got 0 operations."


def test_as_many_statement_ids_as_statements_are_needed() -> None:
    error = failure(Server(), {"insert": "c", "documents": [{}, {}], "stmtIds": [1]})
    assert (error.code, error.message) == (
        16,
        "Number of statement ids must match the number of batch entries",
    )


def test_update_tells_matched_modified_and_upserted() -> None:
    updates = [
        {"q": {"_id": 1}, "u": {"$set": {"x": 1}}},
        {"q": {"_id": 7}, "u": {"$set": {"x": 1}}, "upsert": True},
        {"q": {}, "u": {"$set": {"x": 1}}, "multi": True},
    ]
    reply = holding({"_id": 1}, {"_id": 2}).run({"update": "c", "updates": updates})
    assert reply == {"n": 5, "upserted": [{"index": 1, "_id": 7}], "nModified": 2}
    assert list(reply) == ["n", "upserted", "nModified"]


@pytest.mark.parametrize(
    ("statement", "code", "message"),
    [
        (
            {"q": {}, "u": {"$foo": {"a": 1}}},
            9,
            UNKNOWN_MODIFIER,
        ),
        ({"q": {"$foo": 1}, "u": {"$set": {"a": 1}}}, 2, None),
        (
            {"q": {}, "u": {"$set": {"_id": 9}}},
            66,
            "Performing an update on the path '_id' would modify the immutable field '_id'",
        ),
        (
            {"q": {}, "u": {"_id": 9}},
            66,
            "After applying the update, the (immutable) field '_id' was found to have been altered to _id: 9",
        ),
        (
            {"q": {}, "u": {"a": 1}, "multi": True},
            9,
            "multi update is not supported for replacement-style update",
        ),
        ({"q": {}, "u": {"$inc": {"x": "a"}}}, 14, 'Cannot increment with non-numeric argument: {x: "a"}'),
        (
            {"q": {}, "u": {"$inc": {"s": 1}}},
            14,
            NOT_A_NUMBER,
        ),
        ({"q": {}, "u": {"$set": {"s.a": 1}}}, 28, "Cannot create field 'a' in element {s: \"text\"}"),
        (
            {"q": {}, "u": {"$push": {"s": 1}}},
            2,
            "The field 's' must be an array but is of type string in document {_id: 1}",
        ),
        (
            {"q": {}, "u": {"$set": {"a": 1}, "$unset": {"a.b": 1}}},
            40,
            "Updating the path 'a.b' would create a conflict at 'a'",
        ),
        ({"q": {}, "u": {"$set": {"": 1}}}, 56, "An empty update path is not valid."),
        (
            {"q": {}, "u": {"$set": {"a.$": 1}}},
            2,
            "The positional operator did not find the match needed from the query.",
        ),
        ({"q": {}, "u": {"$set": {"a": 1}}, "hint": "no_1"}, 2, None),
        (
            {"q": {}, "u": {"$set": {"a": 1}}, "sort": {"a": 1}, "multi": True},
            9,
            "Cannot specify sort with multi=true",
        ),
    ],
)
def test_an_update_that_cannot_be_is_a_write_error(
    statement: dict[str, Any], code: int, message: str | None
) -> None:
    server = holding({"_id": 1, "s": "text"})
    reply = server.run({"update": "c", "updates": [statement]})
    (error,) = reply["writeErrors"]
    assert (reply["n"], error["index"], error["code"]) == (0, 0, code)
    assert message is None or error["errmsg"] == message
    assert server.documents("c") == [{"_id": 1, "s": "text"}]


def test_an_update_sorts_before_it_chooses_one() -> None:
    server = holding({"_id": 1, "x": 1}, {"_id": 2, "x": 2})
    server.run({"update": "c", "updates": [{"q": {}, "u": {"$set": {"chosen": 1}}, "sort": {"x": -1}}]})
    assert server.documents("c", {"chosen": 1}) == [{"_id": 2, "x": 2, "chosen": 1}]


def test_let_and_constants_are_variables() -> None:
    server = holding({"_id": 1, "x": 1})
    statement = {"q": {"$expr": {"$eq": ["$_id", "$$id"]}}, "u": [{"$set": {"x": "$$c"}}], "c": {"c": 5}}
    assert server.run({"update": "c", "updates": [statement], "let": {"id": 1}}) == {"n": 1, "nModified": 1}
    assert server.documents("c") == [{"_id": 1, "x": 5}]


def test_delete_takes_one_or_all() -> None:
    server = holding({"_id": 1}, {"_id": 2}, {"_id": 3})
    assert server.run({"delete": "c", "deletes": [{"q": {}, "limit": 1}]}) == {"n": 1}
    assert server.run({"delete": "c", "deletes": [{"q": {}, "limit": 0}]}) == {"n": 2}


def test_delete_knows_no_other_limit() -> None:
    error = failure(Server(), {"delete": "c", "deletes": [{"q": {}, "limit": 2}]})
    assert error.message == "The limit field in delete objects must be 0 or 1. Got 2"


def test_find_and_modify_returns_the_document_before_or_after() -> None:
    server = holding({"_id": 1, "x": 1})
    command = {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"x": 1}}}
    done = {"n": 1, "updatedExisting": True}
    assert server.run(command) == {"lastErrorObject": done, "value": {"_id": 1, "x": 1}}
    assert server.run({**command, "new": True, "fields": {"_id": 0}}) == {
        "lastErrorObject": done,
        "value": {"x": 3},
    }


def test_find_and_modify_upserts_and_removes() -> None:
    server = Server()
    made = server.run(
        {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"x": 1}}, "upsert": True}
    )
    assert made == {"lastErrorObject": {"n": 1, "updatedExisting": False, "upserted": 1}, "value": None}
    removed = server.run({"findandmodify": "c", "query": {}, "remove": True})
    assert removed == {"lastErrorObject": {"n": 1}, "value": {"_id": 1, "x": 1}}
    nothing = server.run({"findAndModify": "c", "query": {}, "remove": True})
    assert nothing == {"lastErrorObject": {"n": 0}, "value": None}
    nothing = server.run({"findAndModify": "c", "query": {}, "update": {"$set": {"x": 1}}})
    assert nothing == {"lastErrorObject": {"n": 0, "updatedExisting": False}, "value": None}


def test_find_and_modify_fails_as_a_command() -> None:
    server = holding({"_id": 1}, {"_id": 2, "x": 1})
    server.run({"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1", "unique": True}]})
    error = failure(server, {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"x": 1}}})
    assert error.code == 11000
    assert error.extra == {"keyPattern": {"x": 1}, "keyValue": {"x": 1}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Either an update or remove=true must be specified"),
        ({"remove": True, "update": {}}, "Cannot specify both an update and remove=true"),
        ({"remove": True, "upsert": True}, "Cannot specify both upsert=true and remove=true"),
    ],
)
def test_find_and_modify_is_an_update_or_a_removal(options: dict[str, Any], message: str) -> None:
    error = failure(Server(), {"findAndModify": "c", **options})
    assert (error.code, error.message) == (9, message)


def test_bulk_write_counts_and_hands_out_results() -> None:
    operations = [
        {"insert": 0, "document": {"_id": 1}},
        {"update": 1, "filter": {"_id": 5}, "updateMods": {"$set": {"x": 1}}, "upsert": True},
        {"update": 0, "filter": {}, "updateMods": {"$set": {"x": 1}}, "multi": True},
        {"delete": 0, "filter": {"x": 1}},
    ]
    info = [{"ns": "db.c"}, {"ns": "other.d"}]
    reply = Server().run({"bulkWrite": 1, "ops": operations, "nsInfo": info}, db="admin")
    assert reply == {
        "cursor": {
            "id": 0,
            "firstBatch": [
                {"ok": 1.0, "idx": 0, "n": 1},
                {"ok": 1.0, "idx": 1, "n": 1, "nModified": 0, "upserted": {"_id": 5}},
                {"ok": 1.0, "idx": 2, "n": 1, "nModified": 1},
                {"ok": 1.0, "idx": 3, "n": 1},
            ],
            "ns": "admin.$cmd.bulkWrite",
        },
        "nErrors": 0,
        "nInserted": 1,
        "nMatched": 1,
        "nModified": 1,
        "nUpserted": 1,
        "nDeleted": 1,
    }


def test_bulk_write_results_come_in_batches() -> None:
    server = Server()
    operations = [{"insert": 0, "document": {"_id": number}} for number in range(3)]
    command = {"bulkWrite": 1, "ops": operations, "nsInfo": [{"ns": "db.c"}], "cursor": {"batchSize": 1}}
    opened = server.run(command, db="admin")["cursor"]
    assert [result["idx"] for result in opened["firstBatch"]] == [0]
    more = server.run({"getMore": opened["id"], "collection": "$cmd.bulkWrite"}, db="admin")["cursor"]
    assert [result["idx"] for result in more["nextBatch"]] == [1, 2]
    assert more["id"] == 0


@pytest.mark.parametrize("ordered", [True, False])
def test_bulk_write_tells_errors_only_if_asked(ordered: bool) -> None:  # noqa: FBT001 -- a case of the table
    undefined = {"$expr": {"$eq": ["$_id", "$$id2"]}}
    operations = [
        {"insert": 0, "document": {"_id": 1}},
        {"update": 0, "filter": undefined, "updateMods": {"$inc": {"x": 1}}},
        {"delete": 0, "filter": undefined},
    ]
    command = {"bulkWrite": 1, "ops": operations, "nsInfo": [{"ns": "db.c"}], "errorsOnly": True}
    reply = Server().run({**command, "ordered": ordered}, db="admin")
    update_error = {
        "ok": 0.0,
        "idx": 1,
        "code": 17276,
        "errmsg": "Use of undefined variable: id2",
        "n": 0,
        "nModified": 0,
    }
    results = reply["cursor"]["firstBatch"]
    assert results[0] == update_error
    assert reply["nErrors"] == len(results) == (1 if ordered else 2)


def test_bulk_write_refuses_a_namespace_that_is_not_there() -> None:
    command = {"bulkWrite": 1, "ops": [{"insert": 1, "document": {}}], "nsInfo": [{"ns": "db.c"}]}
    error = failure(Server(), command, db="admin")
    assert error.code == 2
    assert error.message.endswith("has an invalid nsInfo index.")


def test_a_view_is_not_written_to() -> None:
    server = Server()
    server.run({"create": "v", "viewOn": "c", "pipeline": []})
    for command in (
        {"insert": "v", "documents": [{}]},
        {"update": "v", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]},
        {"delete": "v", "deletes": [{"q": {}, "limit": 1}]},
    ):
        (error,) = server.run(command)["writeErrors"]
        assert (error["code"], error["errmsg"]) == (166, "Namespace db.v is a view, not a collection")


def test_a_validator_tells_what_it_missed() -> None:
    server = Server()
    server.run({"create": "c", "validator": {"x": {"$type": "string"}}})
    (error,) = server.run({"insert": "c", "documents": [{"_id": 1, "x": 1}]})["writeErrors"]
    assert (error["code"], error["errmsg"]) == (121, "Document failed validation")
    assert error["errInfo"]["failingDocumentId"] == 1
    assert error["errInfo"]["details"]["operatorName"] == "$type"
    bypassing = {"insert": "c", "documents": [{"_id": 1, "x": 1}], "bypassDocumentValidation": True}
    assert server.run(bypassing) == {"n": 1}
    error_of_command = failure(
        server, {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"x": 2}}}
    )
    assert error_of_command.code == 121


def test_counts_are_32_bits_wide() -> None:
    reply = holding({"_id": 1}).run({"delete": "c", "deletes": [{"q": {}, "limit": 1}]})
    assert not isinstance(reply["n"], Int64)


def test_a_moderate_validator_leaves_documents_alone_that_never_passed() -> None:
    server = holding({"_id": 1, "x": 1}, {"_id": 2, "x": "text"})
    server.run({"collMod": "c", "validator": {"x": {"$type": "string"}}, "validationLevel": "moderate"})
    change = {"q": {}, "u": {"$set": {"x": 5}}, "multi": True}
    reply = server.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"y": 1}}}, change]})
    assert (reply["n"], reply["nModified"]) == (1, 1)
    assert [(error["index"], error["code"]) for error in reply["writeErrors"]] == [(1, 121)]
    reply = server.run({"insert": "c", "documents": [{"_id": 3, "x": 1}]})
    assert reply["writeErrors"][0]["code"] == 121
    server.run({"collMod": "c", "validationLevel": "strict"})
    reply = server.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"y": 2}}}]})
    assert reply["writeErrors"][0]["code"] == 121


@pytest.mark.parametrize("fields", [{}, {"t": None}, {"t": 1}, {"t": "2020-01-01"}, {"t": Timestamp(1, 1)}])
def test_a_measurement_has_a_time(fields: dict[str, Any]) -> None:
    server = Server()
    server.run({"create": "c", "timeseries": {"timeField": "t"}})
    reply = server.run({"insert": "c", "documents": [{"_id": 1, **fields}], "bypassDocumentValidation": True})
    message = "'t' must be present and contain a valid BSON UTC datetime value"
    assert reply == {"n": 0, "writeErrors": [{"index": 0, "code": 2, "errmsg": message}]}


@pytest.mark.parametrize(
    ("stage", "code", "message"),
    [
        ({"$nonsense": 1}, 40324, "Unrecognized pipeline stage name: '$nonsense'"),
        ({}, 40323, "A pipeline stage specification object must contain exactly one field."),
    ],
)
def test_an_unknown_stage_fails_the_update_command_once_its_statements_ran(
    stage: dict[str, Any], code: int, message: str
) -> None:
    server = holding({"_id": 1}, {"_id": 2})
    statements = [
        {"q": {"_id": 1}, "u": {"$set": {"x": 1}}},
        {"q": {"_id": 2}, "u": [stage]},
        {"q": {"_id": 2}, "u": {"$set": {"x": 1}}},
    ]
    error = failure(server, {"update": "c", "updates": statements})
    assert (error.code, error.message) == (code, message)
    assert server.documents("c") == [{"_id": 1, "x": 1}, {"_id": 2}]


def test_a_stage_that_no_update_may_have_fails_its_statement() -> None:
    reply = holding({"_id": 1}).run({"update": "c", "updates": [{"q": {}, "u": [{"$match": {}}]}]})
    message = "$match is not allowed to be used within an update"
    assert reply["writeErrors"] == [{"index": 0, "code": 72, "errmsg": message}]


def test_an_unknown_stage_fails_one_operation_of_a_bulk_write_and_all_of_a_find_and_modify() -> None:
    server = holding({"_id": 1})
    operation = {"update": 0, "filter": {}, "updateMods": [{"$nonsense": 1}]}
    reply = server.run({"bulkWrite": 1, "ops": [operation], "nsInfo": [{"ns": "db.c"}]}, db="admin")
    assert [each["code"] for each in reply["cursor"]["firstBatch"]] == [40324]
    error = failure(server, {"findAndModify": "c", "query": {}, "update": [{"$nonsense": 1}]})
    assert error.code == 40324


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (1, 9, "Update argument must be either an object or an array"),
        ([1], 14, "Each element of the 'pipeline' array must be an object"),
    ],
)
def test_what_is_no_update_fails_the_command_before_any_statement_runs(
    change: Any, code: int, message: str
) -> None:
    server = holding({"_id": 1})
    statements = [{"q": {}, "u": {"$set": {"x": 1}}}, {"q": {}, "u": change}]
    operations = [{"update": 0, "filter": each["q"], "updateMods": each["u"]} for each in statements]
    for command, db in (
        ({"update": "c", "updates": statements}, "db"),
        ({"bulkWrite": 1, "ops": operations, "nsInfo": [{"ns": "db.c"}]}, "admin"),
        ({"findAndModify": "c", "update": change}, "db"),
    ):
        error = failure(server, command, db=db)
        assert (error.code, error.message) == (code, message)
    assert server.documents("c") == [{"_id": 1}]


def test_a_replacement_without_the_id_is_a_change_even_if_it_is_the_same() -> None:
    server = Server()
    server.fill("c", {"_id": 1, "a": 1})
    for replacement, modified in (({"a": 1}, 1), ({"_id": 1, "a": 1}, 0)):
        reply = server.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": replacement}]})
        assert (reply["n"], reply["nModified"]) == (1, modified)


def test_each_operation_of_a_bulk_write_looks_at_the_uuid_of_its_collection() -> None:
    server = Server()
    server.fill("c", {"_id": 1})
    namespaces = [{"ns": "db.c", "collectionUUID": Binary(bytes(16), 4)}, {"ns": "db.d"}]
    operations = [{"insert": number, "document": {"_id": 2}} for number in (0, 1)]
    command = {"bulkWrite": 1, "ops": operations, "nsInfo": namespaces, "ordered": False}
    reply = server.run(command, db="admin")
    first, second = reply["cursor"]["firstBatch"]
    assert (first["code"], second["ok"], reply["nInserted"]) == (361, 1.0, 1)


def test_null_among_the_elements_of_an_array_is_left_out() -> None:
    server = Server()
    assert server.run({"killCursors": "c", "cursors": [None, Int64(1)]})["cursorsNotFound"] == [1]
