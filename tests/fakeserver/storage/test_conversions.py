"""Expressions that convert, cut and search answer, or refuse, as a server does."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from bson import Binary, DatetimeMS, Decimal128, Int64, ObjectId, Regex, Timestamp

from fakeserver.errors import CommandError
from fakeserver.storage.port.engine import Namespace, Query
from fakeserver.storage.store.memory_engine import MemoryEngine

NS = Namespace("db", "c")
DAY = dt.datetime(2020, 1, 2, 3, 4, 5, 678_000)  # noqa: DTZ001 -- BSON dates are decoded as naive UTC
MILLISECONDS = 1_577_934_245_678


def value_of(expression: Any) -> Any:
    (result,) = MemoryEngine().aggregate(
        NS, [{"$replaceWith": {"r": expression}}], options=Query(), documents=[{"_id": 1, "d": DAY}]
    )
    return result.get("r")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"$toDecimal": "$d"}, Decimal128(str(MILLISECONDS))),
        ({"$toDouble": "$d"}, float(MILLISECONDS)),
        ({"$toLong": "$d"}, Int64(MILLISECONDS)),
        ({"$toString": "$d"}, "2020-01-02T03:04:05.678Z"),
        ({"$toDate": Int64(MILLISECONDS)}, DAY),
        ({"$toDate": float(MILLISECONDS)}, DAY),
        ({"$toDate": Decimal128(str(MILLISECONDS))}, DAY),
        ({"$toDate": Timestamp(MILLISECONDS // 1000, 1)}, DAY.replace(microsecond=0)),
        ({"$toDate": Int64(2**62)}, DatetimeMS(2**62)),
        ({"$toInt": "-12"}, -12),
        ({"$toInt": 2.9}, 2),
        ({"$toDouble": ".5e1"}, 5.0),
        ({"$toString": 1e0}, "1"),
        ({"$toString": 0.1 + 0.2}, "0.30000000000000004"),
        ({"$toString": float("-inf")}, "-Infinity"),
        ({"$toBool": float("nan")}, True),
        ({"$convert": {"input": 1, "to": None}}, None),
        ({"$convert": {"input": 1, "to": "date", "onError": "no"}}, "no"),
        ({"$convert": {"input": 1.5, "to": 2}}, "1.5"),
        ({"$toUpper": "straße é"}, "STRAßE é"),
        ({"$toLower": "ÉA"}, "Éa"),
        ({"$toUpper": None}, ""),
        ({"$toLower": "$d"}, "2020-01-02t03:04:05.678z"),
        ({"$strcasecmp": ["É", "é"]}, -1),
        ({"$strcasecmp": ["a", "A"]}, 0),
        ({"$substrBytes": ["aéb", 0, 3]}, "aé"),
        ({"$substrBytes": ["aéb", 1, -1]}, "éb"),
        ({"$substrBytes": ["ab", 5, 1]}, ""),
        ({"$substrCP": ["aéb", 1, 1]}, "é"),
        ({"$indexOfCP": ["aéb", "b"]}, 2),
        ({"$indexOfBytes": ["aéb", "b"]}, 3),
        ({"$indexOfCP": ["ab", "b", 0, 1]}, -1),
        ({"$indexOfCP": ["ab", "", 3]}, -1),
        ({"$indexOfArray": [[1, 2], 2, 0, 99]}, 1),
        ({"$indexOfArray": [None, 1]}, None),
        ({"$trim": {"input": "\0 \xa0x\u2003"}}, "x"),
        ({"$trim": {"input": "x", "chars": None}}, None),
        ({"$ltrim": {"input": "xxy", "chars": "x"}}, "y"),
        ({"$arrayToObject": [[{"k": "a", "v": 1}, {"v": 2, "k": "b"}]]}, {"a": 1, "b": 2}),
        ({"$arrayToObject": [[]]}, {}),
        ({"$regexMatch": {"input": "x", "regex": None}}, False),
        ({"$regexFind": {"input": "x", "regex": None}}, None),
        ({"$regexFindAll": {"input": "x", "regex": "$missing"}}, []),
        ({"$regexMatch": {"input": None, "regex": "x"}}, False),
        ({"$regexFind": {"input": "aéb", "regex": "(?<l>b)|(c)"}},
         {"match": "b", "idx": 2, "captures": ["b", None]}),
        ({"$regexFindAll": {"input": "aab", "regex": "a*"}},
         [{"match": "aa", "idx": 0, "captures": []}, {"match": "", "idx": 2, "captures": []}]),
        ({"$regexFindAll": {"input": "", "regex": "a*"}}, [{"match": "", "idx": 0, "captures": []}]),
        ({"$regexMatch": {"input": "AB", "regex": Regex("b"), "options": "i"}}, True),
    ],
)  # fmt: skip
def test_expressions(expression: Any, expected: Any) -> None:
    found = value_of(expression)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("expression", "code", "message"),
    [
        ({"$toDate": 5}, 241, "Unsupported conversion from int to date in $convert with no onError value"),
        ({"$toInt": "$d"}, 241, "Unsupported conversion from date to int in $convert with no onError value"),
        (
            {"$toDecimal": ObjectId()},
            241,
            "Unsupported conversion from objectId to decimal in $convert with no onError value",
        ),
        (
            {"$convert": {"input": 1, "to": "array"}},
            241,
            "Unsupported conversion from int to array in $convert with no onError value",
        ),
        (
            {"$toInt": " 1"},
            241,
            "Failed to parse number ' 1' in $convert with no onError value: Did not consume any digits",
        ),
        (
            {"$toInt": "1_0"},
            241,
            "Failed to parse number '1_0' in $convert with no onError value: Did not consume whole string.",
        ),
        (
            {"$toInt": float("nan")},
            241,
            "Attempt to convert NaN value to integer type in $convert with no onError value",
        ),
        (
            {"$toLong": float("inf")},
            241,
            "Attempt to convert infinity value to integer type in $convert with no onError value",
        ),
        ({"$convert": {"input": 1, "to": "nonsense"}}, 2, "Unknown type name: nonsense"),
        (
            {"$convert": {"input": 1, "to": True}},
            9,
            "$convert's 'to' argument must be a string or number, but is bool",
        ),
        ({"$toUpper": True}, 16007, "can't convert from BSON type bool to String"),
        ({"$toUpper": {"a": 1}}, 16007, "can't convert from BSON type object to String"),
        (
            {"$substrBytes": ["aéb", 0, 2]},
            28657,
            "$substrBytes:  Invalid range, ending index is in the middle of a UTF-8 character.",
        ),
        (
            {"$substr": ["aéb", 2, 1]},
            28656,
            "$substr:  Invalid range, starting index is a UTF-8 continuation byte.",
        ),
        (
            {"$substrBytes": ["a", -1, 1]},
            50752,
            "$substrBytes:  starting index must be non-negative (got: -1)",
        ),
        (
            {"$substrBytes": ["a", "x", 1]},
            16034,
            "$substrBytes:  starting index must be a numeric type (is BSON type string)",
        ),
        (
            {"$substrBytes": ["a", 0, None]},
            16035,
            "$substrBytes:  length must be a numeric type (is BSON type null)",
        ),
        (
            {"$substrCP": ["a", "x", 1]},
            34450,
            "$substrCP: starting index must be a numeric type (is BSON type string)",
        ),
        (
            {"$substrCP": ["a", 0.5, 1]},
            34451,
            "$substrCP: starting index cannot be represented as a 32-bit integral value: 0.5",
        ),
        ({"$substrCP": ["a", 0, -1]}, 34454, "$substrCP: length must be a nonnegative integer."),
        ({"$substrCP": ["a", -1, 1]}, 34455, "$substrCP: the starting index must be nonnegative integer."),
        ({"$indexOfCP": [1, "a"]}, 40093, "$indexOfCP requires a string as the first argument, found: int"),
        (
            {"$indexOfBytes": ["a", 1]},
            40092,
            "$indexOfBytes requires a string as the second argument, found: int",
        ),
        (
            {"$indexOfCP": ["a", "a", -1]},
            40097,
            "$indexOfCP requires a nonnegative starting index, found: -1",
        ),
        ({"$indexOfArray": [1, 1]}, 40090, "$indexOfArray requires an array as a first argument, found: int"),
        (
            {"$split": [1, ","]},
            40085,
            "$split requires an expression that evaluates to a string as a first argument, found: int",
        ),
        (
            {"$split": ["a", 1]},
            10503900,
            "$split requires an expression that evaluates to a string as a second argument, found: int",
        ),
        ({"$split": ["a", ""]}, 40087, "$split requires a non-empty separator"),
        (
            {"$trim": {"input": 1}},
            50699,
            "$trim requires its input to be a string, got 1 (of type int) instead.",
        ),
        (
            {"$trim": {"input": "a", "chars": 1}},
            50700,
            "$trim requires 'chars' to be a string, got 1 (of type int) instead.",
        ),
        (
            {"$replaceOne": {"input": 1, "find": "a", "replacement": "b"}},
            10503904,
            "$replaceOne requires that 'input' be a string, found: 1",
        ),
        (
            {"$replaceAll": {"input": None, "find": 1, "replacement": "b"}},
            10503901,
            "$replaceAll requires that 'find' be a string, found: 1",
        ),
        ({"$arrayToObject": 1}, 40386, "$arrayToObject requires an array input, found: int"),
        ({"$arrayToObject": [[1]]}, 40398, "Unrecognised input type format for $arrayToObject: int"),
        (
            {"$arrayToObject": [[{"k": "a", "v": 1}, ["b", 2]]]},
            40391,
            (
                "$arrayToObject requires a consistent input format. Elements mustall be arrays or all "
                "be objects. Object was detected, now found: array"
            ),
        ),
        (
            {"$arrayToObject": [[["b", 2], {"k": "a", "v": 1}]]},
            40396,
            (
                "$arrayToObject requires a consistent input format. Elements mustall be arrays or all "
                "be objects. Array was detected, now found: object"
            ),
        ),
        (
            {"$arrayToObject": [[{"k": "a"}]]},
            40392,
            "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys:1",
        ),
        (
            {"$arrayToObject": [[{"k": "a", "x": 1}]]},
            40393,
            (
                "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both keys "
                'from: { k: "a", x: 1 }'
            ),
        ),
        (
            {"$arrayToObject": [[{"k": 1, "v": 1}]]},
            40394,
            (
                "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' must "
                "be of type string. Found type: int"
            ),
        ),
        (
            {"$arrayToObject": [[["a"]]]},
            40397,
            "$arrayToObject requires an array of size 2 arrays,found array of size: 1",
        ),
        (
            {"$arrayToObject": [[[1, 2]]]},
            40395,
            (
                "$arrayToObject requires an array of key-value pairs, where the key must be of type "
                "string. Found key type: int"
            ),
        ),
        ({"$regexMatch": {"regex": "x"}}, 31022, "$regexMatch requires 'input' parameter"),
        ({"$regexFind": {"input": "x"}}, 31023, "$regexFind requires 'regex' parameter"),
        (
            {"$regexFind": {"input": "x", "regex": "x", "z": 1}},
            31024,
            "$regexFind found an unknown argument: z",
        ),
        (
            {"$regexMatch": {"input": 1, "regex": "x"}},
            51104,
            "$regexMatch needs 'input' to be of type string",
        ),
        (
            {"$regexMatch": {"input": "x", "regex": Binary(b"x")}},
            51105,
            "$regexMatch needs 'regex' to be of type string or regex",
        ),
        (
            {"$regexMatch": {"input": "x", "regex": "x", "options": 1}},
            51106,
            "$regexMatch needs 'options' to be of type string",
        ),
        (
            {"$regexMatch": {"input": "x", "regex": Regex("x", "i"), "options": "m"}},
            51107,
            "$regexMatch: found regex option(s) specified in both 'regex' and 'option' fields",
        ),
    ],
)
def test_expressions_that_cannot_be(expression: Any, code: int, message: str) -> None:
    with pytest.raises(CommandError) as caught:
        value_of(expression)
    optimizer = "Failed to optimize pipeline :: caused by :: "  # which meets constants first
    assert (caught.value.code, caught.value.message.removeprefix(optimizer)) == (code, message)


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ({"$regexMatch": {"input": "$a"}}, 31023),
        ({"$regexMatch": {"input": "$a", "regex": "("}}, 51111),
        ({"$regexFind": {"input": "$a", "regex": 1}}, 51105),
        ({"$regexFindAll": {"input": "$a", "regex": "x", "options": "q"}}, 51108),
        ({"$convert": {"input": 1}}, 9),
        ({"$convert": {"input": 1, "to": "int", "nonsense": 1}}, 9),
    ],
)
def test_what_is_wrong_with_an_expression_is_said_without_a_document(expression: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        MemoryEngine().aggregate(NS, [{"$set": {"r": expression}}], options=Query())
    assert caught.value.code == code
