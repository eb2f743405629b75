"""Cases of query operators and of update operators."""

from __future__ import annotations

from typing import Any, Final

from bson import Decimal128, Int64, Regex

from operator_examples import Refused

STORED: Final[list[dict[str, Any]]] = [
    {"_id": 1, "n": 5, "tags": ["a", "b"], "text": "One line", "rows": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]},
    {"_id": 2, "n": 10, "tags": ["b"], "text": "two lines", "rows": [{"x": 1, "y": 4}]},
    {"_id": 3, "n": None, "tags": "a", "text": "", "rows": []},
    {"_id": 4, "tags": [["a", "b"], "c"], "n": "5"},
]

QUERIES: Final[dict[str, list[tuple[dict[str, Any], Any]]]] = {
    "$eq": [
        ({"n": {"$eq": 5}}, [1]),
        ({"n": {"$eq": None}}, [3]),
        ({"tags": {"$eq": ["a", "b"]}}, [1, 4]),
        ({"tags": {"$eq": Regex("a")}}, []),
    ],
    "$ne": [
        ({"n": {"$ne": 5}}, [2, 3, 4]),
        ({"x": {"$ne": None}}, []),
        ({"n": {"$ne": Regex("a")}}, Refused(2)),
    ],
    "$gt": [({"n": {"$gt": 5}}, [2]), ({"n": {"$gt": None}}, [])],
    "$gte": [({"n": {"$gte": 5}}, [1, 2]), ({"n": {"$gte": None}}, [3])],
    "$lt": [({"n": {"$lt": 10}}, [1]), ({"text": {"$lt": "a"}}, [1, 3])],
    "$lte": [({"n": {"$lte": 10}}, [1, 2]), ({"x": {"$lte": None}}, [1, 2, 3, 4])],
    "$in": [
        ({"n": {"$in": [5, None]}}, [1, 3]),
        ({"tags": {"$in": [Regex("^c")]}}, [4]),
        ({"n": {"$in": 5}}, Refused(2)),
        ({"n": {"$in": [{"$gt": 1}]}}, Refused(2)),
    ],
    "$nin": [({"n": {"$nin": [5, "5"]}}, [2, 3]), ({"x": {"$nin": [None]}}, [])],
    "$and": [({"$and": [{"n": {"$gt": 1}}, {"tags": "a"}]}, [1]), ({"$and": []}, Refused(2))],
    "$or": [({"$or": [{"n": 5}, {"tags": "c"}]}, [1, 4]), ({"$or": 1}, Refused(2))],
    "$nor": [({"$nor": [{"n": 5}, {"n": {"$exists": False}}]}, [2, 3, 4])],
    "$not": [
        ({"n": {"$not": {"$gt": 5}}}, [1, 3, 4]),
        ({"text": {"$not": Regex("^t")}}, [1, 3, 4]),
        ({"n": {"$not": 5}}, Refused(2)),
    ],
    "$exists": [
        ({"text": {"$exists": True}}, [1, 2, 3]),
        ({"text": {"$exists": False}}, [4]),
        ({"n": {"$exists": 1}}, [1, 2, 3, 4]),
    ],
    "$type": [
        ({"n": {"$type": "number"}}, [1, 2]),
        ({"tags": {"$type": "array"}}, [1, 2, 4]),
        ({"tags": {"$type": "string"}}, [1, 2, 3, 4]),
        ({"n": {"$type": [10, "string"]}}, [3, 4]),
        ({"n": {"$type": "nonsense"}}, Refused(2)),
    ],
    "$all": [
        ({"tags": {"$all": ["a", "b"]}}, [1]),
        ({"tags": {"$all": [["a", "b"]]}}, [1, 4]),
        ({"tags": {"$all": []}}, []),
        ({"rows": {"$all": [{"$elemMatch": {"x": 1}}, {"$elemMatch": {"y": 4}}]}}, [1, 2]),
    ],
    "$elemMatch": [
        ({"rows": {"$elemMatch": {"x": 1, "y": 4}}}, [2]),
        ({"tags": {"$elemMatch": {"$gte": "c"}}}, [4]),
        ({"rows": {"$elemMatch": 1}}, Refused(2)),
    ],
    "$size": [
        ({"tags": {"$size": 2}}, [1, 4]),
        ({"rows": {"$size": 0}}, [3]),
        ({"tags": {"$size": -1}}, Refused(2)),
    ],
    "$mod": [
        ({"n": {"$mod": [5, 0]}}, [1, 2]),
        ({"n": {"$mod": [4, 1]}}, [1]),
        ({"n": {"$mod": [4]}}, Refused(2)),
        ({"n": {"$mod": [0, 0]}}, Refused(2)),
        ({"n": {"$mod": [4.5, 1]}}, [1]),
    ],
    "$regex": [
        ({"text": {"$regex": "^ONE", "$options": "i"}}, [1]),
        ({"text": Regex("lines?$")}, [1, 2]),
        ({"text": {"$regex": "("}}, Refused(51091)),
    ],
    "$options": [({"text": {"$options": "i"}}, Refused(2))],
    "$bitsAllSet": [({"n": {"$bitsAllSet": 0b101}}, [1]), ({"n": {"$bitsAllSet": [1, 3]}}, [2])],
    "$bitsAnySet": [({"n": {"$bitsAnySet": 0b1001}}, [1, 2])],
    "$bitsAllClear": [({"n": {"$bitsAllClear": [1]}}, [1])],
    "$bitsAnyClear": [({"n": {"$bitsAnyClear": [0, 2]}}, [2]), ({"n": {"$bitsAnyClear": -1}}, Refused(9))],
    "$expr": [
        ({"$expr": {"$gt": ["$n", 5]}}, [2, 4]),
        ({"$expr": {"$eq": ["$x", None]}}, []),
        ({"$expr": "$n"}, [1, 2, 4]),
    ],
    "$jsonSchema": [
        ({"$jsonSchema": {"required": ["text"], "properties": {"n": {"bsonType": "int"}}}}, [1, 2]),
        ({"$jsonSchema": 1}, Refused(14)),
    ],
    "$alwaysTrue": [({"$alwaysTrue": 1}, [1, 2, 3, 4])],
    "$alwaysFalse": [({"$alwaysFalse": 1}, [])],
    "$comment": [({"n": 5, "$comment": "why"}, [1])],
    "$sampleRate": [
        ({"$sampleRate": 0.0}, []),
        ({"$sampleRate": 1.0}, [1, 2, 3, 4]),
        ({"$sampleRate": 2}, Refused(2)),
    ],
    "$where": [],
    "$text": [({"$text": {"$search": "line"}}, Refused(27))],
    "$ref": [({"$ref": "c"}, [])],
    "$id": [({"$id": 1}, [])],
    "$db": [({"$db": "d"}, [])],
    "$near": [({"n": {"$near": [0, 0]}}, Refused(291))],
    "$nearSphere": [({"n": {"$nearSphere": [0, 0]}}, Refused(291))],
    "$geoNear": [({"n": {"$geoNear": [0, 0]}}, Refused(291))],
    "$geoWithin": [({"tags": {"$geoWithin": {"$box": [[0, 0], [1, 1]]}}}, [])],
    "$within": [({"tags": {"$within": {"$center": [[0, 0], 1]}}}, [])],
    "$geoIntersects": [
        ({"n": {"$geoIntersects": {"$geometry": {"type": "Point", "coordinates": [0, 0]}}}}, [])
    ],
}
"""By operator: a filter, and the `_id`s of the stored documents that it matches."""

UPDATES: Final[dict[str, list[tuple[dict[str, Any], Any, Any]]]] = {
    "$set": [
        ({"a": 1}, {"$set": {"b.c": 2, "a": "x"}}, {"a": "x", "b": {"c": 2}}),
        ({"a": [1]}, {"$set": {"a.2": 9}}, {"a": [1, None, 9]}),
        ({"a": 1}, {"$set": {"a.b": 1}}, Refused(28)),
        ({}, {"$set": {"_id": 9}}, Refused(66)),
        ({}, {"$set": {"a": 1, "a.b": 2}}, Refused(40)),
    ],
    "$setOnInsert": [({"a": 1}, {"$setOnInsert": {"b": 1}}, {"a": 1})],
    "$unset": [({"a": 1, "b": [1, 2]}, {"$unset": {"a": "", "b.0": 1, "x": 1}}, {"b": [None, 2]})],
    "$rename": [
        ({"a": {"b": 1}, "c": 2}, {"$rename": {"a.b": "d", "x": "y"}}, {"a": {}, "c": 2, "d": 1}),
        ({"a": [1]}, {"$rename": {"a.0": "c"}}, Refused(2)),
        ({"a": [{"b": 1}]}, {"$rename": {"a.b": "c"}}, Refused(28)),
        ({"a": 1}, {"$rename": {"a": "a"}}, Refused(2)),
    ],
    "$inc": [
        ({"a": 1}, {"$inc": {"a": 2, "b": 1.5}}, {"a": 3, "b": 1.5}),
        ({"a": 2**31 - 1}, {"$inc": {"a": 1}}, {"a": Int64(2**31)}),
        ({"a": "x"}, {"$inc": {"a": 1}}, Refused(14)),
        ({"a": None}, {"$inc": {"a": 1}}, Refused(14)),
        ({"a": 1}, {"$inc": {"a": "1"}}, Refused(14)),
        ({"a": 0.1}, {"$inc": {"a": Decimal128("1")}}, {"a": Decimal128("1.100000000000000")}),
    ],
    "$mul": [
        ({"a": 3}, {"$mul": {"a": 1.5, "b": Int64(7)}}, {"a": 4.5, "b": Int64(0)}),
        ({"a": "x"}, {"$mul": {"a": 1}}, Refused(14)),
    ],
    "$min": [
        ({"a": 5}, {"$min": {"a": 3, "b": 1}}, {"a": 3, "b": 1}),
        ({"a": 5}, {"$min": {"a": "x"}}, {"a": 5}),
    ],
    "$max": [({"a": 5}, {"$max": {"a": 9}}, {"a": 9}), ({"a": 5}, {"$max": {"a": None}}, {"a": 5})],
    "$currentDate": [
        ({}, {"$currentDate": {"a": {"$type": "nonsense"}}}, Refused(2)),
        ({}, {"$currentDate": {"a": 1}}, Refused(2)),
    ],
    "$push": [
        ({"a": [1]}, {"$push": {"a": [2, 3]}}, {"a": [1, [2, 3]]}),
        ({}, {"$push": {"a": {"$each": [3, 1, 2], "$sort": 1, "$slice": -2}}}, {"a": [2, 3]}),
        ({"a": [1, 2]}, {"$push": {"a": {"$each": [9], "$position": -1}}}, {"a": [1, 9, 2]}),
        ({"a": 1}, {"$push": {"a": 1}}, Refused(2)),
        (
            {"a": [{"x": 2}]},
            {"$push": {"a": {"$each": [{"x": 1}], "$sort": {"x": 1}}}},
            {"a": [{"x": 1}, {"x": 2}]},
        ),
        ({}, {"$push": {"a": {"$each": 1}}}, Refused(2)),
    ],
    "$addToSet": [
        ({"a": [1]}, {"$addToSet": {"a": 1.0, "b": [1]}}, {"a": [1], "b": [[1]]}),
        ({"a": [1]}, {"$addToSet": {"a": {"$each": [1, 2, 2]}}}, {"a": [1, 2]}),
        ({"a": 1}, {"$addToSet": {"a": 1}}, Refused(2)),
    ],
    "$pop": [
        ({"a": [1, 2, 3]}, {"$pop": {"a": 1}}, {"a": [1, 2]}),
        ({"a": [1, 2, 3]}, {"$pop": {"a": -1}}, {"a": [2, 3]}),
        ({"a": []}, {"$pop": {"a": 1}}, {"a": []}),
        ({"a": 1}, {"$pop": {"a": 1}}, Refused(14)),
        ({"a": [1]}, {"$pop": {"a": 2}}, Refused(9)),
    ],
    "$pull": [
        ({"a": [1, 5, 8]}, {"$pull": {"a": {"$gte": 5}}}, {"a": [1]}),
        ({"a": [{"x": 1, "y": 1}, {"x": 2}]}, {"$pull": {"a": {"x": 1}}}, {"a": [{"x": 2}]}),
        ({"a": [[1], 1]}, {"$pull": {"a": [1]}}, {"a": [1]}),
        ({"a": 1}, {"$pull": {"a": 1}}, Refused(2)),
    ],
    "$pullAll": [
        ({"a": [0, 2, 5, 5, 1, 0]}, {"$pullAll": {"a": [0, 5]}}, {"a": [2, 1]}),
        ({"a": [1]}, {"$pullAll": {"a": 1}}, Refused(2)),
    ],
    "$bit": [
        ({"a": 13}, {"$bit": {"a": {"and": 10}}}, {"a": 8}),
        ({"a": 3}, {"$bit": {"a": {"or": 5}}}, {"a": 7}),
        ({"a": 1}, {"$bit": {"a": {"xor": Int64(5)}}}, {"a": Int64(4)}),
        ({}, {"$bit": {"a": {"or": 5}}}, {"a": 5}),
        ({"a": 1.5}, {"$bit": {"a": {"or": 1}}}, Refused(2)),
    ],
}
"""By operator: a document without its `_id`, a change, and the document after it."""
