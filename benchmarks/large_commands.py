"""Large inputs for commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Code

from benchmarks.large_documents import Case, Document, aggregate, one

if TYPE_CHECKING:
    from collections.abc import Iterator


def command_cases(size: int) -> Iterator[Case]:
    """Yield cases for each command."""
    for name, commands in _commands(size).items():
        for number, each in enumerate(commands):
            before, command = each if isinstance(each, tuple) else ((), each)
            yield Case("command", name, str(number), command, tuple(before))


_FILL: Final[tuple[Document, ...]] = (
    {"drop": "copy"},
    {"aggregate": "many", "pipeline": [{"$out": "copy"}], "cursor": {}},
)
_MAP: Final = {
    "map": Code("function() { emit(this.g, 1); }"),
    "reduce": Code("function(k, v) { return v.length; }"),
}


def _commands(size: int) -> dict[str, list[Any]]:
    find, deletes = (
        {"find": "many", "batchSize": size},
        [{"q": {"n": n}, "limit": 1} for n in range(size // 100)],
    )
    documents = [{"x": n} for n in range(size)]
    chunks = [{"files_id": 1, "n": n, "data": b"x"} for n in range(size)]
    inserts = [{"insert": 0, "document": {"n": n}} for n in range(size // 2)]
    every = {"delete": 0, "filter": {}, "multi": True}
    return {
        "aggregate": [
            aggregate({"$match": {}}),
            aggregate({"$match": {"g": 1}}, collation={"locale": "en"}),
        ],
        "applyOps": [
            (
                ({"drop": "made"}, {"create": "made"}),
                {"applyOps": [{"op": "i", "ns": "db.made", "o": {"_id": n}} for n in range(size // 2)]},
            )
        ],
        "bulkWrite": [
            (
                ({"drop": "made"},),
                {"bulkWrite": 1, "ops": inserts, "nsInfo": [{"ns": "db.made"}], "$db": "admin"},
            ),
            (_FILL, {"bulkWrite": 1, "ops": [every], "nsInfo": [{"ns": "db.copy"}], "$db": "admin"}),
        ],
        "cloneCollectionAsCapped": [
            (
                ({"drop": "copy"},),
                {"cloneCollectionAsCapped": "many", "toCollection": "copy", "size": 1 << 30},
            )
        ],
        "collMod": [
            {"collMod": "many", "validator": {"$or": [{"n": n} for n in range(size // 10)]}},
            {"collMod": "many", "validator": {}},
        ],
        "collStats": [{"collStats": "many"}],
        "compact": [{"compact": "many", "force": True}],
        "convertToCapped": [(_FILL, {"convertToCapped": "copy", "size": 1 << 30})],
        "count": [
            {"count": "many", "query": {"g": 1}},
            {"count": "many", "query": {"$where": "this.g == 1"}},
        ],
        "create": [
            {"create": "view", "viewOn": "many", "pipeline": [{"$match": {"n": n}} for n in range(900)]},
            {"drop": "view"},
        ],
        "createIndexes": [
            (
                _FILL,
                {
                    "createIndexes": "copy",
                    "indexes": [{"key": {f"f{n}": 1}, "name": f"f{n}"} for n in range(60)],
                },
            )
        ],
        "currentOp": [{"currentOp": 1, "$all": True, "$db": "admin"}],
        "dataSize": [{"dataSize": "db.many"}],
        "dbHash": [{"dbHash": 1}],
        "dbStats": [{"dbStats": 1}],
        "delete": [
            (_FILL, {"delete": "copy", "deletes": [{"q": {}, "limit": 0}]}),
            (_FILL, {"delete": "copy", "deletes": deletes}),
        ],
        "distinct": [
            {"distinct": "many", "key": "n"},
            {"distinct": "one", "key": "a"},
            {"distinct": "one", "key": "objects.f1", "query": {"n": 1}},
            {"distinct": "many", "key": "s", "query": {"g": {"$gt": 5}}},
        ],
        "drop": [(_FILL, {"drop": "copy"})],
        "dropDatabase": [
            (
                (*_FILL, {"insert": "c", "documents": documents, "$db": "other"}),
                {"dropDatabase": 1, "$db": "other"},
            )
        ],
        "dropIndexes": [
            (
                (*_FILL, {"createIndexes": "copy", "indexes": [{"key": {"n": 1}, "name": "n"}]}),
                {"dropIndexes": "copy", "index": "*"},
            )
        ],
        "explain": [{"explain": {"find": "many", "filter": {"g": 1}}, "verbosity": "executionStats"}],
        "filemd5": [
            (
                ({"drop": "fs.chunks"}, {"insert": "fs.chunks", "documents": chunks}),
                {"filemd5": 1, "root": "fs"},
            )
        ],
        "find": [
            find,
            {**find, "filter": {"g": {"$gt": 50}}},
            {**find, "projection": {"n": 1}},
            {**find, "sort": {"s": 1}},
            {**find, "sort": {"s": 1}, "limit": 10},
            {"find": "one"},
            {**find, "projection": {"y": {"$concat": ["$s", "!"]}}},
            {**find, "showRecordId": True},
            {"find": "one", "projection": {"a": {"$slice": [5, 10]}}},
            {"find": "one", "projection": {"objects": {"$elemMatch": {"f1": -1}}}},
            {"find": "oplog.rs", "limit": 10, "$db": "local"},
            {"find": "oplog.rs", "filter": {"op": "i"}, "limit": 10, "$db": "local"},
            {**find, "skip": size - 5},
            {**find, "let": {f"v{n}": n for n in range(size // 2)}},
        ],
        "findAndModify": [
            {"findAndModify": "many", "query": {"n": size - 1}, "update": {"$inc": {"g": 0}}},
            {"findAndModify": "many", "query": {"g": 5}, "sort": {"s": -1}, "update": {"$inc": {"g": 0}}},
        ],
        "getLog": [{"getLog": "global", "$db": "admin"}],
        "getMore": [
            (({"find": "many", "batchSize": 0},), {"getMore": None, "collection": "many", "batchSize": size})
        ],
        "insert": [
            (({"drop": "made"},), {"insert": "made", "documents": documents}),
            {"insert": "made", "documents": [one(size)], "ordered": False},
            {"insert": "made", "documents": [{"_id": {"a": list(range(size))}}]},
        ],
        "listCollections": [
            (({"drop": "x"}, *({"create": f"c{n}"} for n in range(300))), {"listCollections": 1})
        ],
        "listCommands": [{"listCommands": 1}],
        "listDatabases": [{"listDatabases": 1, "$db": "admin"}],
        "listIndexes": [{"listIndexes": "many"}],
        "mapReduce": [{"mapReduce": "many", **_MAP, "out": {"inline": 1}, "maxTimeMS": 3_000}],
        "getLastError": [{"getLastError": 1}],
        "reIndex": [
            (
                (*_FILL, {"createIndexes": "copy", "indexes": [{"key": {"n": 1, "s": 1}, "name": "n"}]}),
                {"reIndex": "copy"},
            )
        ],
        "renameCollection": [
            (
                (*_FILL, {"drop": "renamed"}),
                {"renameCollection": "db.copy", "to": "db.renamed", "$db": "admin"},
            )
        ],
        "serverStatus": [{"serverStatus": 1}],
        "top": [{"top": 1, "$db": "admin"}],
        "update": [
            (_FILL, {"update": "copy", "updates": [{"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}]}),
            (_FILL, {"update": "copy", "updates": [{"q": {}, "u": [{"$set": {"z": "$n"}}], "multi": True}]}),
        ],
        "validate": [{"validate": "many"}],
        "validateDBMetadata": [{"validateDBMetadata": 1, "apiParameters": {"version": "1"}}],
    }
