"""Large inputs for stages, query operators, update operators and indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Timestamp

from benchmarks.large_documents import Case, Document, aggregate
from fakeserver.storage.filters import matching

if TYPE_CHECKING:
    from collections.abc import Iterator


def stage_cases(size: int) -> Iterator[Case]:
    """Yield cases for each stage."""
    for name, (source, arguments) in _stages(size).items():
        for number, argument in enumerate(arguments):
            stages = [argument] if isinstance(argument, list) else [[{name: argument}]]
            if name not in {"$out", "$merge"} and "$changeStream" not in stages[0][0]:
                stages[0] = [*stages[0], {"$count": "n"}]
            command = {**aggregate(source=source, maxTimeMS=5_000), "pipeline": stages[0]}
            database = {"$db": "admin"} if name in _OF_SERVERS else {}
            yield Case("stage", name, f"{source} {number}", {**command, **database})


_OF_SERVERS: Final = frozenset(
    {"$currentOp", "$listSessions", "$listLocalSessions", "$listSampledQueries", "$queryStats"}
)


def _stages(size: int) -> dict[str, tuple[Any, list[Any]]]:
    fields = {f"f{n}": n for n in range(size // 2)}
    paths = {f"f{n}": 1 for n in range(size // 2)}
    join = {"from": "many", "localField": "n", "foreignField": "g", "as": "j"}
    graph = {"from": "many", "startWith": "$g", "connectFromField": "n", "connectToField": "g", "as": "j"}
    return {
        "$match": ("many", [{"g": 5}, {"$or": [{"n": n} for n in range(size // 10)]}, fields]),
        "$project": ("many", [{"n": 1}, {"made": {"$add": ["$n", 1]}}, {"s": 0}, paths]),
        "$redact": ("many", ["$$KEEP", "$$DESCEND"]),
        "$addFields": ("many", [{"y": "$n"}, fields]),
        "$set": ("many", [{"y": "$n"}, {"o.z": 1}]),
        "$unset": ("many", ["n", [f"f{n}" for n in range(size // 2)]]),
        "$group": ("many", [{"_id": "$n"}, {"_id": "$s"}, {"_id": None, **{f: {"$sum": 1} for f in paths}}]),
        "$sort": ("many", [{"n": -1}, {"g": 1, "s": -1}, {"s": 1}, {"o": 1}]),
        "$limit": ("many", [size]),
        "$skip": ("many", [size // 2]),
        "$count": ("many", ["n"]),
        "$replaceRoot": ("many", [{"newRoot": "$$ROOT"}, {"newRoot": {"$mergeObjects": ["$o", "$$ROOT"]}}]),
        "$replaceWith": ("many", ["$$ROOT"]),
        "$unwind": ("one", ["$a", "$objects", {"path": "$strings", "includeArrayIndex": "i"}]),
        "$lookup": ("many", [{**join, "pipeline": [{"$limit": 1}]}, {**join, "foreignField": "_id"}]),
        "$graphLookup": ("hundred", [graph]),
        "$unionWith": ("many", ["many", {"coll": "many", "pipeline": [{"$match": {"g": 1}}]}]),
        "$facet": ("many", [{"a": [{"$count": "n"}], "b": [{"$sort": {"n": -1}}, {"$count": "n"}]}]),
        "$rankFusion": (
            "many",
            [{"input": {"pipelines": {"up": [{"$sort": {"n": 1}}], "down": [{"$sort": {"n": -1}}]}}}],
        ),
        "$sample": ("many", [{"size": size // 2}, {"size": 5}]),
        "$sortByCount": ("many", ["$n", "$s"]),
        "$bucket": (
            "many",
            [
                {"groupBy": "$n", "boundaries": list(range(0, size + 100, 100)), "default": 0},
                {"groupBy": "$n", "boundaries": list(range(size)), "default": "x"},
            ],
        ),
        "$bucketAuto": ("many", [{"groupBy": "$n", "buckets": 10}, {"groupBy": "$s", "buckets": size // 4}]),
        "$setWindowFields": (
            "many",
            [
                {"partitionBy": "$n", "sortBy": {"n": 1}, "output": {"r": {"$rank": {}}}},
                {"sortBy": {"s": 1}, "output": {"r": {"$rank": {}}}},
            ],
        ),
        "$densify": ("many", [{"field": "x", "range": {"step": 0.5, "bounds": [0, size]}}]),
        "$fill": (
            "many",
            [{"sortBy": {"n": 1}, "output": {"missing": {"method": "locf"}, "y": {"value": 1}}}],
        ),
        "$geoNear": ("many", [{"near": [0, 0], "distanceField": "far", "key": "p"}]),
        "$documents": (1, [[{"$documents": [{"n": n} for n in range(size)]}]]),
        "$changeStream": (
            "many",
            [
                [
                    {"$changeStream": {"startAtOperationTime": Timestamp(1, 1)}},
                    {"$match": {"operationType": "none"}},
                    *([{"$changeStreamSplitLargeEvent": {}}] * split),
                ]
                for split in (0, 1)
            ],
        ),
        "$collStats": ("many", [{"storageStats": {}, "count": {}}]),
        "$currentOp": (1, [{}]),
        "$indexStats": ("many", [{}]),
        "$listLocalSessions": (1, [{}]),
        "$listSampledQueries": (1, [{}, {"namespace": "x" * size}]),
        "$queryStats": (1, [{}]),
        "$planCacheStats": ("many", [{}]),
        "$out": ("many", ["made"]),
        "$merge": ("many", [{"into": "made"}, {"into": "made", "whenMatched": "replace"}]),
    }


def query_cases(size: int) -> Iterator[Case]:
    """Yield cases for each query operator: all documents, a long array, and a long argument."""
    for name, arguments in _query_arguments(size).items():
        for number, argument in enumerate(arguments):
            filters = [argument] if name in matching._TOP_LEVEL else [{f: {name: argument}} for f in _FIELDS]  # noqa: SLF001
            for index, each in enumerate(filters):
                filter_ = {name: each} if name in matching._TOP_LEVEL else each  # noqa: SLF001
                for source in ("many", "one"):
                    command = {"count": source, "query": filter_, "maxTimeMS": 5_000}
                    yield Case("query operator", name, f"{number} {index} {source}", command)


_FIELDS: Final = ("n", "a", "objects.f1", "s", "d")


def _query_arguments(size: int) -> dict[str, list[Any]]:
    long, texts = list(range(size)), [f"s{n}" for n in range(size)]
    square = [[-10, -10], [-10, 10], [10, 10], [10, -10], [-10, -10]]
    polygon = {"type": "Polygon", "coordinates": [square]}
    ring = [[n / size * 20 - 10, 10 + n % 2] for n in range(size // 10)]
    around = {"type": "Polygon", "coordinates": [[[-10, 0], *ring, [10, 0], [-10, 0]]]}
    schema = {"properties": {"a": {"uniqueItems": True}, "objects": {"uniqueItems": True}}}
    properties = {"properties": {f"f{n}": {"bsonType": "int"} for n in range(size // 4)}}
    items = {"properties": {"objects": {"items": {"bsonType": "object", "required": ["x"]}}}}
    clauses = [[{"n": n} for n in range(size // 10)], [{"n": 1}, {"a": 2}]]
    lists, bits = [long, texts, [long], [{"f": n} for n in long]], [5, long]
    comparisons = [7, long, {f"f{n}": n for n in range(size)}, "s" * size]
    return {
        **dict.fromkeys(("$eq", "$ne", "$gt", "$gte", "$lt", "$lte"), comparisons),
        **dict.fromkeys(("$in", "$nin"), lists),
        "$all": [long, texts, [{"$elemMatch": {"f1": n}} for n in range(100)]],
        "$size": [size],
        "$mod": [[7, 3]],
        "$type": ["int", ["string"] * size],
        "$regex": ["zz", "[wz]o.*z", "a" * 4000, "(a|b)*c"],
        **dict.fromkeys(("$bitsAllSet", "$bitsAnySet", "$bitsAllClear", "$bitsAnyClear"), bits),
        "$exists": [True, False],
        "$not": [{"$gt": 5}, {"$in": long}],
        "$elemMatch": [{"$gt": size}, {"f1": 5}],
        **dict.fromkeys(("$and", "$or", "$nor"), clauses),
        "$expr": [{"$eq": ["$n", "$g"]}, {"$in": [5, "$a"]}],
        "$jsonSchema": [schema, properties, items],
        "$alwaysTrue": [1],
        "$alwaysFalse": [1],
        "$sampleRate": [0.5],
        "$where": ["this.n == 5"],
        "$comment": ["x" * size],
        "$geoWithin": [
            {"$geometry": polygon},
            {"$geometry": around},
            {"$polygon": ring},
            {"$center": [[0, 0], 9]},
        ],
        "$within": [{"$box": [[-10, -10], [10, 10]]}],
        "$geoIntersects": [{"$geometry": polygon}, {"$geometry": around}],
    }


def special_query_cases(size: int) -> Iterator[Case]:
    """Yield cases of operators that want an index, or that are no filter."""
    text = {"createIndexes": "texts", "indexes": [{"key": {"t": "text"}, "name": "t_text"}]}
    for what, search in (
        ("a rare word", "word5"),
        ("a common one", "common"),
        ("a phrase", '"common word7"'),
        ("many words", " ".join(f"word{n}" for n in range(size // 10))),
    ):
        command = {"count": "texts", "query": {"$text": {"$search": search}}, "maxTimeMS": 10_000}
        yield Case("query operator", "$text", what, command, (text,))
    near = {"$geometry": {"type": "Point", "coordinates": [0, 0]}}
    sphere = {"createIndexes": "places", "indexes": [{"key": {"p": "2dsphere"}, "name": "p"}]}
    for name in ("$near", "$nearSphere", "$geoNear"):
        find = {"find": "places", "filter": {"p": {name: near}}, "limit": 5}
        yield Case("query operator", name, "all", find, (sphere,))


def update_cases(size: int) -> Iterator[Case]:
    """Yield cases for each update operator, of many documents and of one with long arrays."""
    for name, arguments in _update_arguments(size).items():
        for number, argument in enumerate(arguments):
            for source in ("writes", "one"):
                change = {"q": {}, "u": {name: argument}, "multi": True, "upsert": name == "$setOnInsert"}
                if name == "$setOnInsert":
                    change["q"] = {"_id": -1}
                    change["multi"] = False
                yield _write("update operator", name, f"{number} {source}", source, change)
    for number, (more, argument) in enumerate(_updates_of_other_kinds(size)):
        yield _write("update", "other", str(number), "one", {"q": {}, "u": argument, **more})


def _write(kind: str, name: str, what: str, source: str, change: Document) -> Case:
    begin = {"insert": "session", "documents": [{}]}
    return Case(kind, name, what, {"update": source, "updates": [change], "maxTimeMS": 5_000}, (begin,))


def _update_arguments(size: int) -> dict[str, list[Any]]:
    fields = {f"f{n}": n for n in range(size // 2)}
    long, objects = list(range(size)), [{"k": n % 7, "v": n} for n in range(size)]
    sort = {"$each": objects, "$sort": {"k": 1, "v": -1}, "$slice": -size}
    return {
        "$set": [{"y": 1}, {"a.$[]": 1}, fields, {"a.5": 5}, {f"d.f{n}": n for n in range(size // 2)}],
        "$setOnInsert": [{"y": 1}, fields],
        "$unset": [{"s": 1}, fields],
        "$inc": [{"g": 1}, {"a.$[]": 1}, fields],
        "$mul": [{"g": 1}, fields],
        "$min": [{"n": -1}, fields, {"a": long}],
        "$max": [{"n": 1}, fields, {"a": long}],
        "$currentDate": [{"when": True}, dict.fromkeys(fields, True)],
        "$push": [
            {"a": 5},
            {"o2": sort},
            {"a": {"$each": long}},
            {"a": {"$each": [1], "$sort": 1}},
            {"a": {"$each": long, "$position": 0}},
        ],
        "$addToSet": [{"a": -5}, {"a": {"$each": long}}, {"o2": {"$each": objects}}, {"objects": {"x": 1}}],
        "$pop": [{"a": 1}],
        "$pull": [{"a": 5}, {"a": {"$gt": 10}}, {"objects": {"f1": 1}}, {"a": {"$in": long}}],
        "$pullAll": [{"a": long}, {"a": [-1, -2]}],
        "$bit": [{"n": {"or": 5}}],
    }


def _updates_of_other_kinds(size: int) -> list[tuple[Document, Any]]:
    several = [{"e.f1": {"$gte": 5}}]
    return [
        ({}, [{"$set": {"a": {"$map": {"input": "$a", "in": {"$add": ["$$this", 1]}}}}}]),
        ({}, [{"$set": {"y": {"$sum": "$a"}}}]),
        ({}, [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"z": 1}]}}]),
        ({"arrayFilters": [{"e": {"$gt": 5}}]}, {"$set": {"a.$[e]": 1}}),
        ({"arrayFilters": several}, {"$set": {"objects.$[e].f2": 1}}),
        ({"q": {"a": size - 1}}, {"$set": {"a.$": 1}}),
        ({}, {f"f{n}": n for n in range(size)}),
    ]


def index_cases(_size: int) -> Iterator[Case]:
    """Yield cases for each kind of index: of many documents, and of one with long arrays."""
    kinds: dict[str, tuple[str, Document]] = {
        "ascending": ("many", {"key": {"s": 1}}),
        "unique": ("many", {"key": {"n": 1}, "unique": True}),
        "unique compound": ("many", {"key": {"n": 1, "s": 1}, "unique": True}),
        "multikey": ("many", {"key": {"a": 1}}),
        "long multikey": ("one", {"key": {"objects.f1": 1}}),
        "hashed": ("many", {"key": {"s": "hashed"}}),
        "text": ("many", {"key": {"s": "text"}}),
        "text of one document": ("one", {"key": {"words": "text"}}),
        "2d": ("many", {"key": {"p": "2d"}}),
        "2dsphere": ("many", {"key": {"p": "2dsphere"}}),
        "wildcard": ("many", {"key": {"$**": 1}}),
        "sparse": ("many", {"key": {"n": 1}, "sparse": True}),
        "partial": ("many", {"key": {"n": 1}, "partialFilterExpression": {"g": {"$gt": 50}}, "unique": True}),
        "collation": ("many", {"key": {"s": 1}, "collation": {"locale": "en", "strength": 2}}),
        "ttl": ("many", {"key": {"d": 1}, "expireAfterSeconds": 2_000_000_000}),
        "hidden": ("many", {"key": {"x": 1}, "hidden": True}),
    }
    for name, (source, spec) in kinds.items():
        drop = {"dropIndexes": source, "index": "*"}
        create = {"createIndexes": source, "indexes": [{**spec, "name": "made"}], "maxTimeMS": 5_000}
        yield Case("index", name, source, create, (drop,))
