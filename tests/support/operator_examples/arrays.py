"""Cases of expressions on arrays, sets and objects, and of those that choose."""

from __future__ import annotations

from typing import Any, Final

from bson import Binary, Decimal128, Int64

from operator_examples import ABSENT, Refused

D = Decimal128
L = Int64

ARRAYS: Final[dict[str, list[tuple[Any, Any]]]] = {
    "$arrayElemAt": [
        ([[1, 2, 3], 0], 1),
        ([[1, 2, 3], -2], 2),
        ([[1, 2, 3], 15], ABSENT),
        ([None, 0], None),
        ([1, 0], Refused(28689)),
        ([[1], "a"], Refused(28690)),
        ([[1], 0.5], Refused(28691)),
    ],
    "$arrayToObject": [
        ({"$literal": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}, {"a": 1, "b": 2}),
        ({"$literal": [["a", 1], ["b", 2]]}, {"a": 1, "b": 2}),
        (None, None),
        ({"$literal": [["a", 1], ["a", 2]]}, {"a": 2}),
        (1, Refused(40386)),
    ],
    "$concatArrays": [
        ([["a", " "], ["b"]], ["a", " ", "b"]),
        ([["a"], [["b"]]], ["a", ["b"]]),
        ([], []),
        ([["a"], None], None),
        ([["a"], 1], Refused(28664)),
    ],
    "$filter": [
        ({"input": [1, "a", 2, None, 3.1], "as": "num", "cond": {"$isNumber": "$$num"}}, [1, 2, 3.1]),
        ({"input": [1, 2, 3], "cond": {"$gt": ["$$this", 1]}, "limit": 1}, [2]),
        ({"input": None, "cond": True}, None),
        ({"input": 1, "cond": True}, Refused(28651)),
        ({"input": [1], "cond": True, "limit": 0}, Refused(327392)),
        ({"input": [1]}, Refused(28650)),
    ],
    "$first": [("$list", 3), ([[]], ABSENT), (None, None), (1, Refused(28689))],
    "$firstN": [
        ({"n": 2, "input": "$list"}, [3, 1]),
        ({"n": 5, "input": [1]}, [1]),
        ({"n": 0, "input": [1]}, Refused(5787908)),
        ({"n": 1, "input": None}, Refused(5788200)),
    ],
    "$in": [
        ([2, [1, 2, 3]], True),
        (["abc", ["xyz", "abc"]], True),
        (["xy", ["xyz", "abc"]], False),
        ([["a"], ["a"]], False),
        ([["a"], [["a"]]], True),
        ([1, 1], Refused(40081)),
        ([1, None], Refused(40081)),
    ],
    "$indexOfArray": [
        ([["a", "abc"], "a"], 0),
        ([["a", "abc", "de", ["de"]], ["de"]], 3),
        ([[1, 2], 5], -1),
        ([[1, 2, 3], [1, 2]], -1),
        ([[10, 9, 9, 8, 9], 9, 3], 4),
        ([["a", "abc", "b"], "b", 0, 1], -1),
        ([["a", "b"], "b", 20], -1),
        ([[1, None, 3, 4, None], None], 1),
        ([None, 1], None),
        (["$absent", 1], None),
        ([1, 1], Refused(40090)),
    ],
    "$isArray": [
        ("hello", False),
        ([[1, 2]], True),
        ([["hello"]], True),
        ("$list", True),
        ("$absent", False),
    ],
    "$last": [("$list", 2), ([[]], ABSENT), (None, None), (1, Refused(28689))],
    "$lastN": [({"n": 2, "input": "$list"}, [1, 2]), ({"n": 5, "input": [1]}, [1])],
    "$map": [
        ({"input": "$list", "as": "x", "in": {"$add": ["$$x", 1]}}, [4, 2, 3]),
        ({"input": "$list", "in": "$$this"}, [3, 1, 2]),
        ({"input": None, "in": 1}, None),
        ({"input": [1], "in": "$absent"}, [None]),
        ({"input": 1, "in": 1}, Refused(16883)),
    ],
    "$maxN": [({"n": 2, "input": "$list"}, [3, 2]), ({"n": 2, "input": [None, 1]}, [1])],
    "$minN": [({"n": 2, "input": "$list"}, [1, 2]), ({"n": 2, "input": [None, 1]}, [1])],
    "$objectToArray": [
        ({"a": 1, "b": {"c": 2}}, [{"k": "a", "v": 1}, {"k": "b", "v": {"c": 2}}]),
        (None, None),
        (1, Refused(40390)),
    ],
    "$range": [
        ([0, 10, 2], [0, 2, 4, 6, 8]),
        ([10, 0, -2], [10, 8, 6, 4, 2]),
        ([0, 10, -2], []),
        ([0, 5], [0, 1, 2, 3, 4]),
        ([0, 1, 0], Refused(34449)),
        (["a", 1], Refused(34443)),
        ([0, 1.5], Refused(34446)),
    ],
    "$reduce": [
        ({"input": ["a", "b", "c"], "initialValue": "", "in": {"$concat": ["$$value", "$$this"]}}, "abc"),
        (
            {
                "input": [[3, 4], [5, 6]],
                "initialValue": [1, 2],
                "in": {"$concatArrays": ["$$value", "$$this"]},
            },
            [1, 2, 3, 4, 5, 6],
        ),
        ({"input": [], "initialValue": 5, "in": "$$this"}, 5),
        ({"input": None, "initialValue": 1, "in": 1}, None),
        ({"input": 1, "initialValue": 1, "in": 1}, Refused(40080)),
    ],
    "$reverseArray": [
        ({"$literal": [1, 2, 3]}, [3, 2, 1]),
        ({"$slice": [["foo", "bar", "baz"], 2]}, ["bar", "foo"]),
        (None, None),
        ([[]], []),
        ([[[1, 2, 3], [4, 5]]], [[4, 5], [1, 2, 3]]),
        (1, Refused(34435)),
    ],
    "$size": [([["a", "b"]], 2), ("$list", 3), (None, Refused(17124)), (1, Refused(17124))],
    "$slice": [
        ([[1, 2, 3], 1, 1], [2]),
        ([[1, 2, 3], -2], [2, 3]),
        ([[1, 2, 3], 15, 2], []),
        ([[1, 2, 3], -15, 2], [1, 2]),
        ([[1, 2, 3], 2], [1, 2]),
        ([None, 1], None),
        ([1, 1], Refused(28724)),
        ([[1], "a"], Refused(28725)),
        ([[1], 0, 0], Refused(28729)),
    ],
    "$sortArray": [
        ({"input": "$list", "sortBy": 1}, [1, 2, 3]),
        ({"input": "$list", "sortBy": -1}, [3, 2, 1]),
        ({"input": "$many", "sortBy": {"a": -1}}, [{"a": 2, "b": "y"}, {"a": 1, "b": "x"}, {"b": "z"}]),
        ({"input": [20, 4, {"a": "F"}, 6, 21, 5, "G"], "sortBy": 1}, [4, 5, 6, 20, 21, "G", {"a": "F"}]),
        ({"input": None, "sortBy": 1}, None),
        ({"input": 1, "sortBy": 1}, Refused(2942504)),
        ({"input": [1]}, Refused(2942503)),
        ([[3, 1]], Refused(2942500)),
    ],
    "$zip": [
        ({"inputs": [["a"], ["b"], ["c"]]}, [["a", "b", "c"]]),
        ({"inputs": [["a"], ["b", "c"]]}, [["a", "b"]]),
        ({"inputs": [["a"], ["b", "c"]], "useLongestLength": True}, [["a", "b"], [None, "c"]]),
        ({"inputs": [[1], [2, 3]], "useLongestLength": True, "defaults": ["a", "b"]}, [[1, 2], ["a", 3]]),
        ({"inputs": [None, [1]]}, None),
        ({"inputs": [1]}, Refused(34468)),
        ({"inputs": []}, Refused(34465)),
    ],
    "$allElementsTrue": [
        ([[True, 1, "a"]], True),
        ([[[False]]], True),
        ([[]], True),
        ([[None, False, 0]], False),
        (1, Refused(17040)),
    ],
    "$anyElementTrue": [
        ([[True, False]], True),
        ([[[False]]], True),
        ([[None, False, 0]], False),
        ([[]], False),
        (1, Refused(17041)),
    ],
    "$setDifference": [
        ([["a", "b", "a"], ["b"]], ["a"]),
        ([["a", "b"], [["a", "b"]]], ["a", "b"]),
        ([None, [1]], None),
        ([1, [1]], Refused(17048)),
        ([[1], 1], Refused(17049)),
        ([[1, 1.0], [2]], [1]),
    ],
    "$setEquals": [
        ([["a", "b", "a"], ["b", "a"]], True),
        ([["a", "b"], [["a", "b"]]], False),
        ([1, [1]], Refused(5887502)),
        ([[1], [1.0]], True),
    ],
    "$setIntersection": [
        ([["a", "b", "a"], ["b", "a"]], ["a", "b"]),
        ([["a"], [["a"]]], []),
        ([[1], None], None),
        ([[1], 1], Refused(17047)),
        ([], []),
    ],
    "$setIsSubset": [
        ([["a", "b", "a"], ["b", "a"]], True),
        ([["a", "b"], [["a", "b"]]], False),
        ([None, [1]], Refused(17046)),
        ([[1], None], Refused(17042)),
    ],
    "$setUnion": [
        ([["a", "b", "a"], ["b", "a"]], ["a", "b"]),
        ([["a", "b"], [["a", "b"]]], ["a", "b", ["a", "b"]]),
        ([[1], None], None),
        ([[1], 1], Refused(17043)),
        ([[1], [1.0]], [1]),
    ],
}

OBJECTS: Final[dict[str, list[tuple[Any, Any]]]] = {
    "$getField": [
        ("n", 7),
        ({"field": "b.c", "input": "$sub"}, 2),
        ({"field": {"$literal": "$d"}, "input": "$sub"}, 3),
        ({"field": "x", "input": "$sub"}, ABSENT),
        ({"field": "x", "input": None}, None),
        ({"field": 1, "input": "$sub"}, Refused(3041704)),
    ],
    "$setField": [
        ({"field": "a", "input": "$sub", "value": 9}, {"a": 9, "b.c": 2, "$d": 3}),
        ({"field": "b.c", "input": "$sub", "value": "$$REMOVE"}, {"a": 1, "$d": 3}),
        ({"field": "a", "input": None, "value": 1}, None),
        ({"field": "$n", "input": "$sub", "value": 1}, Refused(4161108)),
        ({"field": "a", "input": 1, "value": 1}, Refused(4161105)),
    ],
    "$unsetField": [
        ({"field": "b.c", "input": "$sub"}, {"a": 1, "$d": 3}),
        ({"field": "a", "input": None}, None),
    ],
    "$mergeObjects": [
        ([{"a": 1}, {"a": 2, "b": 2}], {"a": 2, "b": 2}),
        ([{"a": 1}, None], {"a": 1}),
        ([None, None], {}),
        ([{"a": 1}, 1], Refused(40400)),
    ],
    "$bsonSize": [({"a": 1}, 12), (None, None), (1, Refused(31393))],
    "$binarySize": [("abc", 3), ("é", 2), (Binary(b"1234", 2), 4), (None, None), (1, Refused(51276))],
}

CONDITIONS: Final[dict[str, list[tuple[Any, Any]]]] = {
    "$and": [
        ([1, "green"], True),
        ([], True),
        ([[None], [False], [0]], True),
        ([None, True], False),
        ([0, True], False),
    ],
    "$or": [([True, False], True), ([[False], False], True), ([None, 0], False), ([], False)],
    "$not": [([True], False), ([[False]], False), ([None], True), (["$absent"], True)],
    "$cmp": [([1, 2], -1), (["b", "a"], 1), ([1, 1.0], 0), ([None, "$absent"], 1), ([1], Refused(16020))],
    "$eq": [([1, 1.0], True), (["a", "A"], False), ([None, "$absent"], False)],
    "$ne": [([1, 2], True), ([{"a": 1}, {"a": 1}], False)],
    "$gt": [([2, 1], True), (["a", 1], True), ([[], {}], True)],
    "$gte": [([1, 1], True), ([None, 1], False)],
    "$lt": [([1, 2], True), ([1, "$absent"], False)],
    "$lte": [([2, 1], False), (["$absent", None], True)],
    "$cond": [
        ({"if": {"$gte": ["$n", 5]}, "then": "many", "else": "few"}, "many"),
        ([False, 1, 2], 2),
        ([None, 1, 2], 2),
        ([True, "$absent", 2], ABSENT),
        ({"if": 1, "then": 1}, Refused(17082)),
        ([1, 2], Refused(16020)),
    ],
    "$ifNull": [
        (["$nothing", "unspecified"], "unspecified"),
        (["$absent", "$nothing", 3], 3),
        (["$n", 1], 7),
        (["$absent", "$missing"], ABSENT),
        ([1], Refused(1257300)),
    ],
    "$switch": [
        (
            {
                "branches": [
                    {"case": {"$eq": [0, 5]}, "then": "equal"},
                    {"case": {"$gt": [0, 5]}, "then": "greater"},
                    {"case": {"$lt": [0, 5]}, "then": "less"},
                ]
            },
            "less",
        ),
        ({"branches": [{"case": "$absent", "then": 1}], "default": "none"}, "none"),
        ({"branches": [{"case": False, "then": 1}]}, Refused(40069)),
        ({"branches": []}, Refused(40068)),
    ],
    "$literal": [("$n", "$n"), ({"$add": [1, 2]}, {"$add": [1, 2]})],
    "$const": [("$n", "$n")],
    "$let": [
        ({"vars": {"total": {"$add": ["$n", 1]}}, "in": {"$multiply": ["$$total", 2]}}, 16),
        ({"vars": {"CURRENT": "$sub"}, "in": "$a"}, 1),
        ({"vars": {"X": 1}, "in": 1}, Refused(9)),
        ({"vars": {}}, Refused(16877)),
    ],
    "$meta": [("indexKey", ABSENT), ("nonsense", Refused(17308)), (1, Refused(17307))],
    "$function": [],
}
