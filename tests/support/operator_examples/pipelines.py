"""Cases of stages, accumulators and window functions."""

from __future__ import annotations

import math
from typing import Any, Final

from bson import Int64

from operator_examples import Refused, day

L = Int64
SALES: Final[list[dict[str, Any]]] = [
    {"_id": 1, "item": "abc", "price": 10, "at": day("2024-01-01T08:00")},
    {"_id": 2, "item": "jkl", "price": 20, "at": day("2024-01-02T09:00")},
    {"_id": 3, "item": "xyz", "price": 5, "at": day("2024-01-03T09:00")},
    {"_id": 4, "item": "xyz", "price": 5, "at": day("2024-01-04T11:00")},
    {"_id": 5, "item": "abc", "price": None, "at": day("2024-01-05T12:00")},
    {"_id": 6, "item": "abc", "at": day("2024-01-06T12:00")},
]

ACCUMULATORS: Final[dict[str, list[tuple[Any, Any]]]] = {
    "$sum": [("$price", 40), (1, 6), ("$item", 0), ("$absent", 0)],
    "$avg": [("$price", 10.0), ("$item", None)],
    "$min": [("$price", 5), ("$absent", None), ("$item", "abc")],
    "$max": [("$price", 20), ("$item", "xyz")],
    "$first": [("$item", "abc"), ("$absent", None)],
    "$last": [("$item", "abc"), ("$price", None)],
    "$push": [
        ("$price", [10, 20, 5, 5, None]),
        ({"p": "$price"}, [{"p": 10}, {"p": 20}, {"p": 5}, {"p": 5}, {"p": None}, {}]),
    ],
    "$addToSet": [({"$type": "$price"}, ["int", "null", "missing"]), ("$absent", [])],
    "$stdDevPop": [("$price", math.sqrt(37.5)), ("$item", None)],
    "$stdDevSamp": [("$price", math.sqrt(50)), ("$absent", None)],
    "$count": [({}, 6), (1, Refused(14))],
    "$mergeObjects": [({"a": "$price"}, {"a": None}), ("$absent", {}), ("$price", Refused(5911200))],
    "$firstN": [
        ({"n": 2, "input": "$item"}, ["abc", "jkl"]),
        ({"n": 9, "input": "$absent"}, [None] * 6),
        ({"n": 0, "input": "$item"}, Refused(7548606)),
        ({"input": "$item"}, Refused(5787906)),
    ],
    "$lastN": [({"n": 2, "input": "$price"}, [None, None])],
    "$minN": [({"n": 2, "input": "$price"}, [5, 5])],
    "$maxN": [({"n": 2, "input": "$price"}, [20, 10]), (1, Refused(5787900))],
    "$top": [
        ({"sortBy": {"price": -1}, "output": ["$item", "$price"]}, ["jkl", 20]),
        ({"sortBy": {"price": 1}}, Refused(5788004)),
    ],
    "$topN": [({"n": 2, "sortBy": {"price": -1, "_id": 1}, "output": "$_id"}, [2, 1])],
    "$bottom": [({"sortBy": {"price": -1, "_id": 1}, "output": "$_id"}, 6)],
    "$bottomN": [({"n": 2, "sortBy": {"price": -1, "_id": 1}, "output": "$_id"}, [5, 6])],
    "$median": [({"input": "$price", "method": "approximate"}, 5.0)],
    "$percentile": [({"input": "$price", "p": [0.75], "method": "approximate"}, [10.0])],
    "$concatArrays": [
        ("$$REMOVE", []),
        (["$$REMOVE"], Refused(40237)),
        ("$item", Refused(14)),
        ({"$cond": [{"$eq": ["$_id", 1]}, [1, 2], "$$REMOVE"]}, [1, 2]),
    ],
    "$setUnion": [({"$cond": [{"$lt": ["$_id", 3]}, [1, "$_id"], "$$REMOVE"]}, [1, 2])],
}
"""By operator: its argument, and what it makes of all sales in one group."""

_POINTS: Final[list[dict[str, Any]]] = [
    {"_id": 1, "v": 2},
    {"_id": 2, "v": None},
    {"_id": 3, "v": 6},
    {"_id": 4, "v": 6},
]
_TWO: Final = {"window": {"documents": [-1, 0]}}
WINDOWS: Final[dict[str, list[tuple[dict[str, Any], Any]]]] = {
    "$sum": [({"$sum": "$v", "window": {"documents": ["unbounded", "current"]}}, [2, 2, 8, 14])],
    "$avg": [({"$avg": "$v", **_TWO}, [2.0, 2.0, 6.0, 6.0])],
    "$min": [({"$min": "$v", **_TWO}, [2, 2, 6, 6])],
    "$max": [({"$max": "$v"}, [6, 6, 6, 6])],
    "$first": [({"$first": "$v", **_TWO}, [2, 2, None, 6])],
    "$last": [({"$last": "$v"}, [6, 6, 6, 6])],
    "$push": [({"$push": "$_id", **_TWO}, [[1], [1, 2], [2, 3], [3, 4]])],
    "$addToSet": [({"$addToSet": "$v", **_TWO}, [[2], [2, None], [None, 6], [6]])],
    "$count": [({"$count": {}, **_TWO}, [1, 2, 2, 2])],
    "$stdDevPop": [({"$stdDevPop": "$v"}, [math.sqrt(32 / 9)] * 4)],
    "$stdDevSamp": [({"$stdDevSamp": "$v", **_TWO}, [None, None, None, 0.0])],
    "$minN": [({"$minN": {"n": 1, "input": "$v"}}, [[2]] * 4)],
    "$maxN": [({"$maxN": {"n": 1, "input": "$v"}}, [[6]] * 4)],
    "$firstN": [({"$firstN": {"n": 2, "input": "$_id"}, **_TWO}, [[1], [1, 2], [2, 3], [3, 4]])],
    "$lastN": [({"$lastN": {"n": 1, "input": "$_id"}, **_TWO}, [[1], [2], [3], [4]])],
    "$top": [({"$top": {"sortBy": {"_id": -1}, "output": "$_id"}, **_TWO}, [1, 2, 3, 4])],
    "$topN": [({"$topN": {"n": 1, "sortBy": {"_id": 1}, "output": "$_id"}, **_TWO}, [[1], [1], [2], [3]])],
    "$bottom": [({"$bottom": {"sortBy": {"_id": -1}, "output": "$_id"}, **_TWO}, [1, 1, 2, 3])],
    "$bottomN": [({"$bottomN": {"n": 1, "sortBy": {"_id": 1}, "output": "$_id"}}, [[4]] * 4)],
    "$concatArrays": [
        ({"$concatArrays": ["$_id"], **_TWO}, [[1], [1, 2], [2, 3], [3, 4]]),
        ({"$concatArrays": "$_id", **_TWO}, Refused(14)),
        ({"$concatArrays": {"$concatArrays": [["$_id"]]}, **_TWO}, [[1], [1, 2], [2, 3], [3, 4]]),
    ],
    "$setUnion": [({"$setUnion": {"$concatArrays": [["$v"]]}, **_TWO}, [[2], [2, None], [None, 6], [6]])],
    "$median": [({"$median": {"input": "$v", "method": "approximate"}}, [6.0] * 4)],
    "$percentile": [({"$percentile": {"input": "$v", "p": [0], "method": "approximate"}}, [[2.0]] * 4)],
    "$covariancePop": [({"$covariancePop": ["$_id", "$_id"]}, [1.25] * 4)],
    "$covarianceSamp": [({"$covarianceSamp": ["$_id", "$_id"], **_TWO}, [None, 0.5, 0.5, 0.5])],
    "$rank": [
        ({"$rank": {}}, [1, 2, 3, 4]),
        ({"$rank": {}, **_TWO}, Refused(5371601)),
        ({"$rank": "$v"}, Refused(5371603)),
    ],
    "$denseRank": [({"$denseRank": {}}, [1, 2, 3, 4])],
    "$documentNumber": [({"$documentNumber": {}}, [1, 2, 3, 4])],
    "$shift": [
        ({"$shift": {"output": "$v", "by": 1, "default": 0}}, [None, 6, 6, 0]),
        ({"$shift": {"output": "$v", "by": -1}}, [None, 2, None, 6]),
    ],
    "$derivative": [
        ({"$derivative": {"input": "$_id"}, **_TWO}, [None, 1.0, 1.0, 1.0]),
        ({"$derivative": {"input": "$_id"}}, Refused(9)),
    ],
    "$integral": [
        (
            {"$integral": {"input": "$_id"}, "window": {"documents": ["unbounded", "current"]}},
            [0, 1.5, 4.0, 7.5],
        )
    ],
    "$expMovingAvg": [
        ({"$expMovingAvg": {"input": "$_id", "N": 3}}, [1.0, 1.5, 2.25, 3.125]),
        ({"$expMovingAvg": {"input": "$v"}}, Refused(9)),
    ],
    "$minMaxScaler": [({"$minMaxScaler": {"input": "$_id"}}, [0.0, 1 / 3, 2 / 3, 1.0])],
    "$locf": [({"$locf": "$v"}, [2, 2, 6, 6]), ({"$locf": "$v", **_TWO}, Refused(9))],
    "$linearFill": [({"$linearFill": "$v"}, [2, 4.0, 6, 6])],
}
"""By operator: an output field, and its value for each of four points that are sorted by `_id`."""
POINTS = _POINTS

_TREE: Final[list[dict[str, Any]]] = [
    {"_id": 1, "a": [1, 2]},
    {"_id": 2, "a": []},
    {"_id": 3, "a": None},
    {"_id": 4},
    {"_id": 5, "a": "x"},
]
STAGES: Final[dict[str, list[tuple[list[dict[str, Any]], Any, Any]]]] = {
    "$addFields": [
        (
            [{"_id": 1, "a": {"b": 1}}],
            {"a.c": 2, "d": "$a.b", "e": "$x"},
            [{"_id": 1, "a": {"b": 1, "c": 2}, "d": 1}],
        ),
        ([{"_id": 1, "a": [{"b": 1}, 2]}], {"a.c": 3}, [{"_id": 1, "a": [{"b": 1, "c": 3}, {"c": 3}]}]),
        ([], 1, Refused(40272)),
    ],
    "$set": [([{"_id": 1, "a": 1}], {"a": "$$REMOVE"}, [{"_id": 1}])],
    "$bucket": [
        (
            SALES[:4],
            {"groupBy": "$price", "boundaries": [0, 10, 20], "default": "more"},
            [{"_id": 0, "count": 2}, {"_id": 10, "count": 1}, {"_id": "more", "count": 1}],
        ),
        (SALES, {"groupBy": "$price", "boundaries": [0, 10]}, Refused(40066)),
        ([], {"groupBy": "$price", "boundaries": [2, 1]}, Refused(40194)),
    ],
    "$bucketAuto": [
        (
            SALES[:4],
            {"groupBy": "$price", "buckets": 2},
            [{"_id": {"min": 5, "max": 10}, "count": 2}, {"_id": {"min": 10, "max": 20}, "count": 2}],
        )
    ],
    "$count": [
        (SALES, "n", [{"n": 6}]),
        ([], "n", []),
        ([], "$n", Refused(40158)),
        ([], "", Refused(40157)),
        ([], "a.b", Refused(40160)),
    ],
    "$densify": [
        (
            [{"_id": 1, "v": 1}, {"_id": 2, "v": 4}],
            {"field": "v", "range": {"step": 1, "bounds": "full"}},
            [{"_id": 1, "v": 1}, {"v": 2}, {"v": 3}, {"_id": 2, "v": 4}],
        )
    ],
    "$facet": [
        (SALES[:2], {"a": [{"$count": "n"}], "b": [{"$match": {"_id": 9}}]}, [{"a": [{"n": 2}], "b": []}]),
        ([], {"a": [{"$facet": {}}]}, Refused(40600)),
        ([], {"a": [{"$out": "x"}]}, Refused(40600)),
    ],
    "$fill": [
        (
            _POINTS,
            {"sortBy": {"_id": 1}, "output": {"v": {"method": "linear"}}},
            [{"_id": 1, "v": 2}, {"_id": 2, "v": 4.0}, {"_id": 3, "v": 6}, {"_id": 4, "v": 6}],
        ),
        (_POINTS[:2], {"output": {"v": {"value": 0}}}, [{"_id": 1, "v": 2}, {"_id": 2, "v": 0}]),
    ],
    "$geoNear": [([], {"near": [0, 0], "distanceField": "d"}, Refused(27))],
    "$graphLookup": [
        (
            [{"_id": 1}],
            {"from": "c", "startWith": 1, "connectFromField": "x", "connectToField": "y", "as": "z"},
            [{"_id": 1, "z": []}],
        ),
        ([], {"from": "c"}, Refused(40105)),
    ],
    "$group": [
        (
            SALES,
            {"_id": "$item", "n": {"$sum": 1}},
            [{"_id": "abc", "n": 3}, {"_id": "jkl", "n": 1}, {"_id": "xyz", "n": 2}],
        ),
        (SALES, {"_id": "$price"}, [{"_id": 10}, {"_id": 20}, {"_id": 5}, {"_id": None}]),
        ([], {"n": {"$sum": 1}}, Refused(15955)),
        ([], {"_id": None, "n": {"$nonsense": 1}}, Refused(15952)),
        ([], {"_id": None, "a.b": {"$sum": 1}}, Refused(40235)),
    ],
    "$limit": [(SALES, 1, SALES[:1]), ([], 0, Refused(15958)), ([], -1, Refused(5107201))],
    "$lookup": [
        (
            [{"_id": 1}],
            {"from": "c", "localField": "a", "foreignField": "b", "as": "z"},
            [{"_id": 1, "z": [{}]}],
        ),
        ([{"_id": 1}], {"pipeline": [{"$documents": [{"a": 1}]}], "as": "z"}, [{"_id": 1, "z": [{"a": 1}]}]),
        ([], {"from": "c", "as": "z", "localField": "a"}, Refused(9)),
        ([], {"pipeline": [], "as": "z"}, Refused(9)),
    ],
    "$match": [
        (SALES, {"price": 5}, SALES[2:4]),
        ([], 1, Refused(15959)),
        ([], {"$nonsense": 1}, Refused(2)),
    ],
    "$project": [
        ([{"_id": 1, "a": 1, "b": 2}], {"a": 1}, [{"_id": 1, "a": 1}]),
        ([{"_id": 1, "a": 1, "b": 2}], {"_id": 0, "a": 0}, [{"b": 2}]),
        ([{"_id": 1, "a": 1}], {"_id": 0, "c": {"$add": ["$a", 1]}, "d": "$$REMOVE"}, [{"c": 2}]),
        ([], {}, Refused(51272)),
        ([], {"a": 1, "b": 0}, Refused(31254)),
    ],
    "$rankFusion": [
        (
            [{"_id": 1, "v": 2}, {"_id": 2, "v": 3}],
            {"input": {"pipelines": {"p": [{"$sort": {"v": -1}}]}}},
            [{"_id": 2, "v": 3}, {"_id": 1, "v": 2}],
        ),
        ([], {"input": {"pipelines": {}}}, Refused(2)),
    ],
    "$redact": [
        (
            [{"_id": 1, "l": 1, "s": {"l": 5}}],
            {"$cond": [{"$lte": ["$l", 2]}, "$$DESCEND", "$$PRUNE"]},
            [{"_id": 1, "l": 1}],
        ),
        ([{"_id": 1}], 1, Refused(17053)),
    ],
    "$replaceRoot": [
        ([{"_id": 1, "a": {"b": 2}}], {"newRoot": "$a"}, [{"b": 2}]),
        ([{"_id": 1}], {"newRoot": "$a"}, Refused(40228)),
        ([], {}, Refused(40414)),
    ],
    "$replaceWith": [
        ([{"_id": 1, "a": {"b": 2}}], {"$mergeObjects": [{"c": 0}, "$a"]}, [{"c": 0, "b": 2}]),
        ([{"_id": 1}], 1, Refused(40228)),
    ],
    "$sample": [(SALES[:1], {"size": 3}, SALES[:1]), ([], {"size": -1}, Refused(28747))],
    "$setWindowFields": [
        (
            _POINTS[:2],
            {"sortBy": {"_id": 1}, "output": {"n": {"$documentNumber": {}}}},
            [{"_id": 1, "v": 2, "n": 1}, {"_id": 2, "v": None, "n": 2}],
        )
    ],
    "$skip": [(SALES, 5, SALES[5:]), ([], -1, Refused(5107200))],
    "$sort": [
        (_TREE[1:], {"a": 1, "_id": -1}, [_TREE[1], _TREE[3], _TREE[2], _TREE[4]]),
        ([], {}, Refused(15976)),
        ([], {"a": 2}, Refused(15975)),
    ],
    "$sortByCount": [
        (SALES, "$item", [{"_id": "abc", "count": 3}, {"_id": "xyz", "count": 2}, {"_id": "jkl", "count": 1}])
    ],
    "$unionWith": [
        ([{"_id": 1}], {"pipeline": [{"$documents": [{"a": 1}]}]}, [{"_id": 1}, {"a": 1}]),
        ([], {"pipeline": []}, Refused(9)),
    ],
    "$unset": [
        ([{"_id": 1, "a": {"b": 1, "c": 2}, "d": 3}], ["a.b", "d"], [{"_id": 1, "a": {"c": 2}}]),
        ([], 1, Refused(31002)),
    ],
    "$unwind": [
        (_TREE, "$a", [{"_id": 1, "a": 1}, {"_id": 1, "a": 2}, {"_id": 5, "a": "x"}]),
        (
            _TREE[:3],
            {"path": "$a", "preserveNullAndEmptyArrays": True, "includeArrayIndex": "i"},
            [
                {"_id": 1, "a": 1, "i": L(0)},
                {"_id": 1, "a": 2, "i": L(1)},
                {"_id": 2, "i": None},
                {"_id": 3, "a": None, "i": None},
            ],
        ),
        ([], "a", Refused(28818)),
    ],
}
"""By stage: documents, its argument, and the documents that it makes of them."""
