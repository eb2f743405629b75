"""Expressions and stages with arguments wrong, missing or unknown: refused with a server's codes."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, MinKey, Regex
from pipelines import piped, refusal

from fakeserver.storage.values.types import is_finite, not_an_integer, whole

DAY = dt.datetime(2020, 5, 17)  # noqa: DTZ001 -- BSON dates are decoded as naive UTC
INFINITY, NAN = float("inf"), float("nan")
BRANCH = {"case": True, "then": 1}


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ({"$switch": 1}, 40060),
        ({"$switch": {"branches": 1}}, 40061),
        ({"$switch": {"branches": [1]}}, 40062),
        ({"$switch": {"branches": [{**BRANCH, "x": 1}]}}, 40063),
        ({"$switch": {"branches": [{"then": 1}]}}, 40064),
        ({"$switch": {"branches": [{"case": 1}]}}, 40065),
        ({"$switch": {"branches": [BRANCH], "x": 1}}, 40067),
        ({"$switch": {"branches": []}}, 40068),
        ({"$switch": {}}, 40068),
        ({"$cond": {"if": 1, "then": 1}}, 17082),
        ({"$cond": {"if": 1, "then": 1, "else": 1, "x": 1}}, 17083),
        ({"$let": 1}, 16874),
        ({"$let": {"vars": {}, "in": 1, "x": 1}}, 16875),
        ({"$let": {"in": 1}}, 16876),
        ({"$let": {"vars": {}}}, 16877),
        ({"$let": {"vars": [1], "in": 1}}, 9),
        ({"$let": {"vars": "a", "in": 1}}, 10065),
        ({"$let": {"vars": {"": 1}, "in": 1}}, 9),
        ({"$let": {"vars": {"A": 1}, "in": 1}}, 9),
        ({"$let": {"vars": {"a.b": 1}, "in": 1}}, 9),
        ({"$map": 1}, 16878),
        ({"$map": {"in": 1}}, 16880),
        ({"$map": {"input": [], "in": 1, "as": {}}}, 9),
        ({"$map": {"input": [], "in": 1, "as": ""}}, 9),
        ({"$map": {"input": 1, "in": 1}}, 16883),
        ({"$filter": {"input": []}}, 28650),
        ({"$filter": {"input": 1, "cond": 1}}, 28651),
        ({"$filter": {"input": [1], "cond": 1, "limit": 1.5}}, 327391),
        ({"$filter": {"input": [1], "cond": 1, "limit": "a"}}, 327391),
        ({"$filter": {"input": [1], "cond": 1, "limit": 0}}, 327392),
        ({"$reduce": {"input": [], "initialValue": 0}}, 40079),
        ({"$reduce": {"input": 1, "initialValue": 0, "in": 1}}, 40080),
        ({"$getField": {"field": 1, "input": {}}}, 3041704),
        ({"$getField": None}, 3041704),
        ({"$getField": {}}, 3041702),
        ({"$getField": {"field": "a", "input": {}, "x": 1}}, 3041701),
        ({"$getField": {"field": "$n", "input": {}}}, 3041704),
        ({"$setField": {"field": 1, "input": {}, "value": 1}}, 4161107),
        ({"$setField": {"field": "$n", "input": {}, "value": 1}}, 4161108),
        ({"$setField": {"field": "$n", "input": {"$n": 1}, "value": 1}}, 168),
        ({"$setField": {"field": ["a"], "input": {}, "value": 1}}, 4161106),
        ({"$setField": {"field": {"$concat": ["a"]}, "input": {}, "value": 1}}, 4161106),
        ({"$setField": {"field": "a\0", "input": {}, "value": 1}}, 9534700),
        ({"$unsetField": {"field": "a\0", "input": {}}}, 9534700),
        ({"$setField": {"field": "a"}}, 4161103),
        ({"$setField": {"field": "a", "input": 1, "value": 1}}, 4161105),
        ({"$unsetField": 1}, 4161100),
        ({"$meta": Code("textScore")}, 17307),
        ({"$arrayElemAt": [[1], "a"]}, 28690),
        ({"$arrayElemAt": [[1], 1.5]}, 28691),
        ({"$arrayElemAt": [[1], 2**40]}, 28691),
        ({"$slice": [[1], "a"]}, 28725),
        ({"$slice": [[1], 1.5]}, 28726),
        ({"$slice": [[1], 1, "a"]}, 28727),
        ({"$slice": [[1], 1, NAN]}, 28728),
        ({"$slice": [[1], 1, 0]}, 28729),
        ({"$range": ["a", 1]}, 34443),
        ({"$range": [1.5, 1]}, 34444),
        ({"$range": [0, None]}, 34445),
        ({"$range": [0, INFINITY]}, 34446),
        ({"$range": [0, 1, "a"]}, 34447),
        ({"$range": [0, 1, 0.5]}, 34448),
        ({"$range": [0, 1, 0]}, 34449),
        ({"$zip": {"inputs": 1}}, 34461),
        ({"$zip": {"inputs": [[1]], "useLongestLength": True, "defaults": 1}}, 34462),
        ({"$zip": {"inputs": [[1]], "useLongestLength": 1}}, 34463),
        ({"$zip": {"inputs": []}}, 34465),
        ({"$zip": {"inputs": [[1]], "defaults": [1]}}, 34466),
        ({"$zip": {"inputs": [[1]], "useLongestLength": True, "defaults": [1, 2]}}, 34467),
        ({"$zip": {"inputs": [1]}}, 34468),
        ({"$log": ["a", 2]}, 28756),
        ({"$log": [2, "a"]}, 28757),
        ({"$log": [-1, 2]}, 28758),
        ({"$log": [2, 1]}, 28759),
        ({"$pow": ["a", 2]}, 28762),
        ({"$pow": [2, {}]}, 28763),
        ({"$pow": [0, -1]}, 28764),
        ({"$abs": -(2**63)}, 28680),
        ({"$round": ["a", 1]}, 51081),
        ({"$round": [1.5, "a"]}, 16004),
        ({"$trunc": [1.5, 0.5]}, 51082),
        ({"$round": [1.5, 101]}, 51083),
        ({"$round": [-(2**63), -1]}, 51080),
        ({"$add": [DAY, INFINITY]}, 15),
        ({"$subtract": [DAY, -(2**63)]}, 15),
        ({"$subtract": [DAY, "a"]}, 14),
        ({"$dateFromParts": {"year": 0}}, 40523),
        ({"$concat": ["a", Code("b")]}, 16702),
        ({"$toString": Code("a")}, 241),
        ({"$toInt": Code("1")}, 241),
        ({"$toUpper": Code("a", {"b": 1})}, 16007),
        ({"$toUpper": Regex("a")}, 16007),
        ({"$regexMatch": {"input": "a", "regex": Code("a")}}, 51105),
        ({"$dateFromParts": {"year": Decimal128("NaN")}}, 40515),
        ({"$dateFromString": {"dateString": "a", "format": 1}}, 40684),
        ({"$dateAdd": {"startDate": DAY, "unit": "day", "amount": Decimal128("1.5")}}, 5166405),
        ({"$dateTrunc": {"date": DAY, "unit": "day", "binSize": NAN}}, 5439017),
        ({"$dateAdd": {"startDate": DAY, "unit": Code("day"), "amount": 1}}, 5439013),
        ({"$hour": {"date": DAY, "timezone": "Z"}}, 40485),
        ({"$dateTrunc": {"date": 1, "unit": "day"}}, 5166307),
        ({"$dateTrunc": {"date": DAY, "unit": "hour", "binSize": 2**52}}, 5439002),
        ({"$dateTrunc": {"date": DAY, "unit": "year", "binSize": 10**12}}, 5439006),
        ({"$cond": True}, 16020),
        ({"$switch": {"branches": [{"case": False, "then": 1}]}}, 40069),
        ({"$switch": {"branches": [{"case": "$missing", "then": 1}]}}, 40066),
        ({"$rand": 1}, 10065),
        ({"$rand": {"a": 1}}, 3040501),
        ({"$rand": [1]}, 3040501),
        ({"$round": [1.5, NAN]}, 31109),
        ({"$trunc": [1.5, INFINITY]}, 31109),
        ({"$setEquals": [[1]]}, 17045),
        ({"$setEquals": [[1], None]}, 5887502),
        ({"$setEquals": [[1], "$n"]}, 17044),
        ({"$indexOfArray": [[1], 1, "a"]}, 9711600),
        ({"$indexOfArray": [[1], 1, 0, "$missing"]}, 9711600),
        ({"$indexOfArray": [[1], 1, 2**31]}, 9711600),
        ({"$indexOfArray": [[1], 1, -1]}, 9711601),
        ({"$indexOfCP": ["a", "a", 2**31]}, 40096),
        ({"$indexOfBytes": ["a", "a", 0, -(2**31) - 1]}, 40096),
        ({"$sortArray": {"input": [1], "sortBy": 2}}, 2942506),
        ({"$sortArray": {"input": [1], "sortBy": "a"}}, 2942507),
        ({"$sortArray": {"input": [1], "sortBy": {}}}, 2942505),
        ({"$sortArray": {"input": [1], "sortBy": {"a": 0}}}, 2942505),
        ({"$substrBytes": ["a", NAN, 1]}, 31109),
        ({"$substrBytes": ["a", 0, 1e20]}, 31109),
        ({"$substrBytes": ["a", Decimal128("NaN"), 1]}, 50752),
        ({"$substrBytes": ["a", Decimal128("-0.6"), 1]}, 50752),
        ({"$toInt": []}, 50723),
        ({"$toString": [1, 2]}, 50723),
        ({"$convert": {"input": 1, "to": 0}}, 241),
        ({"$convert": {"input": 1, "to": {"type": None}}}, 9),
        ({"$convert": {"input": 1, "to": {"subtype": 5}}}, 9),
        ({"$toDouble": "1e-400"}, 241),
        ({"$concat": "a" * 2**24}, 16493),
    ],
    ids=str,
)
def test_an_expression_is_refused(expression: Any, code: int) -> None:
    assert refusal([{"n": 1}], {"$set": {"x": expression}})[0] == code


TRIMS = ("$trim", "$ltrim", "$rtrim")
REPLACES = ("$replaceOne", "$replaceAll")
SEARCHES = ("$regexMatch", "$regexFind", "$regexFindAll")


@pytest.mark.parametrize(
    ("names", "argument", "code"),
    [
        (TRIMS, "a", 50696),
        (TRIMS, {"input": "a", "x": 1}, 50694),
        (TRIMS, {"chars": "a"}, 50695),
        (REPLACES, "a", 51751),
        (REPLACES, {"input": "a", "find": "a", "replacement": "b", "x": 1}, 51750),
        (REPLACES, {"find": "a", "replacement": "b"}, 51749),
        (REPLACES, {"input": "a", "replacement": "b"}, 51748),
        (REPLACES, {"input": "a", "find": "a"}, 51747),
        (SEARCHES, "a", 51103),
        (("$zip",), [1], 34460),
        (("$zip",), {"inputs": [[1]], "x": 1}, 34464),
        (("$zip",), {}, 34465),
        (("$firstN", "$lastN", "$minN", "$maxN"), 1, 5787900),
        (("$firstN", "$lastN", "$minN", "$maxN"), {"n": 1, "input": [], "x": 1}, 5787901),
        (("$firstN", "$lastN", "$minN", "$maxN"), {"input": []}, 5787906),
        (("$firstN", "$lastN", "$minN", "$maxN"), {"n": 1}, 5787907),
    ],
    ids=str,
)
def test_operators_of_named_arguments_have_codes_of_their_own(
    names: tuple[str, ...], argument: Any, code: int
) -> None:
    assert [refusal([{}], {"$set": {"x": {name: argument}}})[0] for name in names] == [code] * len(names)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("$", 16872),
        ("$.a", 15998),
        ("$a.", 40353),
        ("$a..b", 15998),
        ("$a.$b", 16410),
        ("$a\0", 16411),
        ("$" + ".".join("a" * 200), 5984700),
        ("$$", 9),
        ("$$.a", 9),
        ("$$a-b", 9),
        ("$$ROOT.", 40353),
        ("$$ROOT.$a", 16410),
    ],
)
def test_a_path_of_an_expression_is_checked_part_by_part(path: str, code: int) -> None:
    assert refusal([{}], {"$set": {"x": path}})[0] == code


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ({"$pow": [2, 2**62]}, INFINITY),
        ({"$pow": [-2, 2**31 + 1]}, -INFINITY),
        ({"$pow": [2, 62]}, 2**62),
        ({"$pow": [2, 64]}, float(2**64)),
        ({"$round": [1e308, 100]}, 1e308),
        ({"$round": [Decimal128("1E6144"), 2]}, Decimal128("1.000000000000000000000000000000000E+6144")),
        ({"$filter": {"input": [1, 2, 3], "cond": True, "limit": 2.0}}, [1, 2]),
        ({"$filter": {"input": [1], "cond": True, "limit": None}}, [1]),
        ({"$arrayElemAt": [[1, 2], -1.0]}, 2),
        ({"$range": [0.0, Decimal128("3")]}, [0, 1, 2]),
        ({"$hour": {"date": DAY, "timezone": "+23:59"}}, 23),
        ({"$subtract": [DAY, 2**62]}, DatetimeMS(1_589_673_600_000 - 2**62)),
        ({"$dateFromParts": {"year": 1, "month": -5}}, DatetimeMS(-62_151_494_400_000)),
        (Code("$n"), Code("$n")),
        ({"$toUpper": Code("a")}, "A"),
        ({"$getField": {"field": {"$literal": "$n"}, "input": {"n": 1}}}, None),
    ],
    ids=str,
)
def test_arguments_at_the_edges_are_computed_with(expression: Any, value: Any) -> None:
    (document,) = piped([{"n": 1}], {"$set": {"x": expression}})
    assert document.get("x") == value


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ({"$bucket": 1}, 40201),
        ({"$bucket": {"groupBy": "$a", "boundaries": [0, 1], "x": 1}}, 40197),
        ({"$bucket": {"groupBy": "$a"}}, 40198),
        ({"$bucket": {"groupBy": "$a", "boundaries": 1}}, 40200),
        ({"$bucket": {"groupBy": "$a", "boundaries": [1]}}, 40192),
        ({"$bucket": {"groupBy": "$a", "boundaries": [1, 0]}}, 40194),
        ({"$bucket": {"groupBy": "$a", "boundaries": [0, 1], "output": 1}}, 40196),
        ({"$lookup": 1}, 9),
        ({"$lookup": {"from": 1, "as": "x", "pipeline": []}}, 9),
        ({"$lookup": {"from": Code("c"), "as": "x", "localField": "a", "foreignField": "b"}}, 9),
        ({"$lookup": {"from": "c", "as": Code("x"), "localField": "a", "foreignField": "b"}}, 14),
        ({"$lookup": {"from": "c", "as": "x", "localField": 1, "foreignField": "b"}}, 14),
        ({"$lookup": {"from": "c", "as": "x", "localField": "a"}}, 9),
        ({"$lookup": {"from": "c", "as": "x", "pipeline": [], "let": 1}}, 14),
        ({"$lookup": {"from": "c", "as": "x", "pipeline": [], "odd": 1}}, 40415),
        ({"$lookup": {"from": "c", "as": "x", "pipeline": {"a": 1}}}, 14),
        ({"$sortByCount": {"a": 1}}, 40147),
        ({"$sortByCount": {}}, 40147),
        ({"$sortByCount": "a"}, 40148),
        ({"$sortByCount": 1}, 40149),
        ({"$unionWith": 1}, 9),
        ({"$unionWith": {}}, 9),
        ({"$unionWith": {"coll": 1}}, 14),
        ({"$unionWith": {"coll": "c", "pipeline": 1}}, 14),
        ({"$unionWith": {"coll": "c", "odd": 1}}, 40415),
        ({"$unwind": {"path": "$a", "includeArrayIndex": 1}}, 28810),
        ({"$unwind": {"path": "$a", "includeArrayIndex": ""}}, 28810),
        ({"$match": {"$sampleRate": NAN}}, 2),
        ({"$match": {"a": {"$mod": [INFINITY, 1]}}}, 2),
    ],
    ids=str,
)
def test_a_stage_is_refused(stage: Any, code: int) -> None:
    assert refusal([{"a": 1}], stage)[0] == code


WALK = {"from": "c", "startWith": 1, "connectFromField": "a", "connectToField": "b", "as": "x"}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"from": 1}, 9),
        ({"as": 1}, 40103),
        ({"connectToField": Code("a")}, 40103),
        ({"depthField": 1}, 40103),
        ({"maxDepth": "a"}, 40100),
        ({"maxDepth": -1}, 40101),
        ({"maxDepth": 1.5}, 40102),
        ({"restrictSearchWithMatch": 1}, 40185),
    ],
    ids=str,
)
def test_a_walk_of_a_graph_is_refused(changed: dict[str, Any], code: int) -> None:
    assert refusal([{"a": 1}], {"$graphLookup": {**WALK, **changed}})[0] == code


@pytest.mark.parametrize(
    ("value", "integer", "finite"),
    [
        (1, 1, True),
        (1.0, 1, True),
        (1.5, None, True),
        (Decimal128("2.50"), None, True),
        (Decimal128("1E+2"), 100, True),
        (Decimal128("1E6144"), 2**63 - 1, True),
        (-1e300, -(2**63), True),
        (INFINITY, None, False),
        (Decimal128("-Infinity"), None, False),
        (NAN, None, False),
        (Decimal128("NaN"), None, False),
    ],
    ids=str,
)
def test_a_number_is_a_whole_one_or_finite(value: Any, integer: int | None, *, finite: bool) -> None:
    assert (whole(value), is_finite(value)) == (integer, finite)


NOT_WHOLE, TOO_LARGE = "Expected an integer", "Cannot represent as a 64-bit integer"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (1, None),
        (-(2.0**63), None),
        (Decimal128("1E+2"), None),
        ("a", "Expected a number in"),
        (True, "Expected a number in"),
        (1.5, NOT_WHOLE),
        (NAN, "Expected an integer, but found NaN in"),
        (INFINITY, TOO_LARGE),
        (2.0**63, TOO_LARGE),
        (Decimal128("1.5"), TOO_LARGE),
        (Decimal128("NaN"), TOO_LARGE),
        (Decimal128("1E6144"), TOO_LARGE),
    ],
    ids=str,
)
def test_why_a_value_is_no_integer_is_told_by_its_type(value: Any, reason: str | None) -> None:
    assert not_an_integer(value) == reason


@pytest.mark.parametrize("name", ["$limit", "$skip"])
def test_a_limit_of_a_pipeline_is_a_whole_number(name: str) -> None:
    for value, reason in ((1.5, NOT_WHOLE), (INFINITY, TOO_LARGE), (-1, "Expected a non-negative number in")):
        _, text = refusal([], {name: value})
        assert text == f"invalid argument to {name} stage: {reason}: {name}: {value}"


@pytest.mark.parametrize("value", ["a", None, Binary(b"a")], ids=str)
def test_what_is_no_number_is_no_whole_one(value: Any) -> None:
    assert whole(value) is None


BUCKET: dict[str, Any] = {"groupBy": "$a", "boundaries": [0, 10]}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"groupBy": "a"}, 40202),
        ({"groupBy": 1.5}, 40202),
        ({"groupBy": ["$a"]}, 40202),
        ({"groupBy": {"a": "$a"}}, 40202),
        ({"boundaries": "$a"}, 40200),
        ({"boundaries": ["$a", 10]}, 40191),
        *(({"boundaries": [each, 10]}, 40191) for each in ("$$NOW", {"$add": ["$$NOW", 1]})),
        ({"boundaries": [1]}, 40192),
        ({"boundaries": [0, "a"]}, 40193),
        ({"boundaries": [1, 1.0]}, 40194),
        ({"boundaries": [2, 1]}, 40194),
        ({"default": "$a"}, 40195),
        ({"default": 5}, 40199),
        ({"default": Decimal128("0")}, 40199),
        ({"output": 1}, 40196),
        ({"output": {"_id": {"$sum": 1}}}, 15948),
        ({"output": {"n": {"$sum": [1]}}}, 40237),
        ({"x": 1}, 40197),
    ],
    ids=str,
)
def test_a_bucket_is_refused_before_there_is_a_document(changed: dict[str, Any], code: int) -> None:
    assert refusal([], {"$bucket": {**BUCKET, **changed}})[0] == code


def test_options_of_a_bucket_are_looked_at_in_their_order() -> None:
    assert refusal([], {"$bucket": {"boundaries": 1, "groupBy": 1}})[0] == 40200
    assert refusal([], {"$bucket": {"groupBy": 1, "boundaries": 1}})[0] == 40202
    assert refusal([], {"$bucket": {"boundaries": 1}})[0] == 40200


def test_a_bucket_shows_its_documents_as_they_are() -> None:
    (found,) = piped([{"_id": 1, "a": 5}], {"$bucket": {**BUCKET, "output": {"all": {"$push": "$$ROOT"}}}})
    assert found == {"_id": 0, "all": [{"_id": 1, "a": 5}]}


GROUPED = {"$group": {"_id": None, "a": {"$first": {"$divide": [1, "$a"]}}}}


@pytest.mark.parametrize(
    ("stages", "code"),
    [
        ([GROUPED], 4848401),
        ([{"$sort": {"a": 1}}, {"$match": {}}, GROUPED], 4848401),
        ([{"$project": {"a": 1}}, GROUPED], 2),
        ([{"$group": {"_id": {"$mod": [1, "$a"]}}}], 4848403),
        ([{"$group": {"_id": None, "a": {"$mergeObjects": "$a"}}}], 5911200),
        ([{"$unwind": "$a"}, {"$group": {"_id": None, "a": {"$mergeObjects": "$a"}}}], 40400),
    ],
    ids=str,
)
def test_a_group_below_the_pipeline_has_codes_of_its_own(stages: list[dict[str, Any]], code: int) -> None:
    assert refusal([{"a": 0}], *stages)[0] == code


def test_what_a_group_hands_on_has_its_ends_within_objects() -> None:
    group = {"$group": {"_id": "$a", "all": {"$push": "$a"}}}
    handed_on = {"_id": {"": MinKey()}, "all": [{"": MinKey()}]}
    assert piped([{"a": MinKey()}], group) == [{"_id": MinKey(), "all": [MinKey()]}]
    assert piped([{"a": MinKey()}], group, {"$set": {}}) == [handed_on]
    assert [each["_id"] for each in piped([{"a": Code("f")}], group, {"$limit": 1})] == ["f"]


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ({"$unwind": 1}, 15981),
        ({"$unwind": {}}, 28812),
        ({"$unwind": ""}, 28812),
        ({"$unwind": "a"}, 28818),
        ({"$unwind": "$"}, 40352),
        ({"$unwind": "$$ROOT"}, 16410),
        ({"$unwind": {"path": Code("$a")}}, 28808),
        ({"$unwind": {"path": "$a", "preserveNullAndEmptyArrays": 0}}, 28809),
        ({"$unwind": {"path": "$a", "includeArrayIndex": None}}, 28810),
        ({"$unwind": {"path": "$a", "includeArrayIndex": "$i"}}, 28822),
        ({"$unwind": {"path": "$a", "includeArrayIndex": "i."}}, 40353),
        ({"$unwind": {"path": "$a", "x": 1}}, 28811),
        ({"$unwind": "$a\0"}, 16419),
        ({"$unwind": "a\0"}, 28818),
        ({"$sort": {"a": 2.9}}, 15975),
        ({"$sort": {"a": Decimal128("0.5")}}, 15975),
        ({"$sort": {"a": NAN}}, 15975),
        ({"$sort": {"a": "1"}}, 15974),
        ({"$sort": {"a": {}}}, 17312),
        ({"$sort": {"a": {"b": 1}}}, 17312),
        ({"$sort": {"a": {"$meta": "randVal", "b": 1}}}, 9),
        ({"$sort": {"a": {"$meta": "sortKey"}}}, 31138),
        ({"$sort": {"a": {"$meta": "geoNearPoint"}}}, 31138),
        ({"$sort": {"a": {"$meta": Code("randVal")}}}, 31138),
        ({"$sort": {"a": {"$meta": []}}}, 31138),
        ({"$sort": {"": 1}}, 40352),
        ({"$sort": {"a.": 1}}, 40353),
        ({"$sort": {"a..b": 1}}, 15998),
        ({"$sort": {"$natural": 1}}, 16410),
        ({"$sort": {"a.$b": 1}}, 16410),
        ({"$sort": {".".join(["a"] * 201): 1}}, 15),
        ({"$sort": dict.fromkeys(map(str, range(33)), 1)}, 13103),
        ({"$set": {"": 1}}, 40352),
        ({"$set": {"$a": 1}}, 16410),
        ({"$addFields": {"a.$b": 1}}, 16410),
        ({"$addFields": {"a.": 1}}, 40353),
        ({"$set": {".a": 1}}, 15998),
        ({"$set": {".".join(["a"] * 201): 1}}, 15),
        ({"$set": {"a": {"b.c": 1}}}, 40183),
        ({"$set": {"a": 1, "a.b": 1}}, 40176),
        ({"$set": {"a.b": 1, "a": 1}}, 40176),
        ({"$set": {"a": {"b": 1}, "a.b": 1}}, 40176),
        ({"$set": {"a": {"$abs": 1, "$ceil": 1}}}, 40181),
        ({"$replaceRoot": 1}, 40229),
        ({"$replaceRoot": {}}, 40414),
        ({"$replaceRoot": {"newroot": {}}}, 40415),
        ({"$replaceRoot": {"newRoot": {}, "x": 1}}, 40415),
        ({"$replaceWith": {"": 1}}, 15998),
        ({"$replaceWith": {"a.b": 1}}, 16412),
        ({"$replaceWith": {"a": {"b.c": 1}}}, 16412),
        ({"$replaceWith": {"a": 1, "$b": 1}}, 16410),
        ({"$group": {"_id": {"a": 1}}}, 17390),
        ({"$group": {"_id": {"a": "$b", "b": False}}}, 17390),
        ({"$group": {"_id": {"a.b": "$a"}}}, 16412),
        ({"$sample": 1}, 28745),
        ({"$sample": []}, 28745),
        ({"$sample": {}}, 28749),
        ({"$sample": {"size": "1"}}, 28746),
        ({"$sample": {"size": True}}, 28746),
        ({"$sample": {"size": "1", "x": 1}}, 28746),
        ({"$sample": {"size": 0, "x": 1}}, 28748),
        ({"$sample": {"size": 0}}, 28747),
        ({"$sample": {"size": Decimal128("0.5")}}, 28747),
        ({"$sample": {"size": NAN}}, 28747),
        ({"$unset": 1}, 31002),
        ({"$unset": []}, 31119),
        ({"$unset": ["a\0", 1]}, 31120),
        ({"$unset": ["$a", "a\0"]}, 9527900),
        ({"$unset": ["a", "a", "$a"]}, 16410),
        ({"$unset": ""}, 40352),
        ({"$unset": "a..b"}, 15998),
        ({"$unset": ["a", "a"]}, 31250),
        ({"$unset": ["a.b", "a"]}, 31250),
        ({"$unset": ["a", "a.b"]}, 31249),
        ({"$count": ""}, 40157),
        ({"$count": "a.\0"}, 40159),
        ({"$count": "_id"}, 9039800),
        ({"$group": {"_id": None, "a": {}}}, 40234),
        ({"$group": {"_id": None, "a": {"b": 1}}}, 40234),
        ({"$group": {"_id": None, "a": {"$count": []}}}, 40237),
        ({"$group": {"_id": None, "a": {"$firstN": {"n": "1", "input": "$a"}}}}, 7548606),
        ({"$group": {"_id": None, "a": {"$minN": {"n": 0, "input": "$a"}}}}, 7548606),
    ],
    ids=repr,
)
def test_what_a_stage_is_told_is_looked_at_when_it_is_parsed(stage: dict[str, Any], code: int) -> None:
    assert refusal([{"a": 1}], stage)[0] == code


@pytest.mark.parametrize(
    ("size", "most"),
    [(1.9, 1), (Decimal128("1.5"), 2), (Decimal128("2.5"), 2), (INFINITY, 3), (Decimal128("Infinity"), 3)],
)
def test_the_size_of_a_sample_is_a_number_of_any_type(size: Any, most: int) -> None:
    assert len(piped([{"a": number} for number in range(3)], {"$sample": {"size": size}})) == most


def test_until_8_0_a_sample_may_be_of_nothing() -> None:
    assert piped([{"a": 1}], {"$sample": {"size": 0}}, release=25) == []


@pytest.mark.parametrize(
    ("direction", "found"),
    [(1.9, [1, 2]), (-1.9, [2, 1]), (Decimal128("0.51"), [1, 2]), (Decimal128("-1.49"), [2, 1])],
)
def test_a_direction_of_a_sort_is_read_as_an_integer(direction: Any, found: list[int]) -> None:
    assert [each["a"] for each in piped([{"a": 2}, {"a": 1}], {"$sort": {"a": direction}})] == found


ROWS = {"a": [{"b": 1}, {"b": 2}]}


@pytest.mark.parametrize(
    ("document", "options", "found"),
    [
        (ROWS, {"path": "$a.b"}, []),
        (ROWS, {"path": "$a.b", "preserveNullAndEmptyArrays": True}, [ROWS]),
        (ROWS, {"path": "$a.0"}, []),
        (
            ROWS,
            {"path": "$a.b", "preserveNullAndEmptyArrays": True, "includeArrayIndex": "i"},
            [{**ROWS, "i": None}],
        ),
        ({"a": {"b": []}}, {"path": "$a.b", "preserveNullAndEmptyArrays": True}, [{"a": {}}]),
        ({"a": {"b": [1, 2]}}, {"path": "$a.b"}, [{"a": {"b": 1}}, {"a": {"b": 2}}]),
    ],
)
def test_no_array_is_entered_on_the_way_to_what_is_unwound(
    document: dict[str, Any], options: dict[str, Any], found: list[dict[str, Any]]
) -> None:
    assert piped([document], {"$unwind": options}) == found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([1, {"b": 2, "c": 3}, None], [{"b": 9}, {"b": 9}, {"b": 9}]),
        ([[1, {}], []], [[{"b": 9}, {"b": 9}], []]),
        ([], []),
        (1, {"b": 9}),
    ],
)
def test_a_field_is_computed_in_each_element_of_arrays(value: Any, found: Any) -> None:
    assert piped([{"a": value}], {"$project": {"a.b": {"$literal": 9}}}) == [{"a": found}]


def test_a_field_is_set_and_removed_within_arrays_of_arrays() -> None:
    rows = {"a": [[{"b": 1, "c": 2}], [3]]}
    assert piped([rows], {"$set": {"a.b": 9}}) == [{"a": [[{"b": 9, "c": 2}], [{"b": 9}]]}]
    assert piped([rows], {"$set": {"a.b": "$$REMOVE"}}) == [{"a": [[{"c": 2}], [{}]]}]
