"""Collations: what is the same, what comes first, and which documents a server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from data_commands import Server
from hypothesis import given
from hypothesis import strategies as st
from pipelines import piped

from fakeserver.errors import CommandError
from fakeserver.storage.values.collation import complete, fold_of

if TYPE_CHECKING:
    from collections.abc import Callable


def key(**options: Any) -> Callable[[str], Any]:
    fold = fold_of({"locale": "en", **options})
    assert fold is not None
    return fold


ORDERS: list[tuple[dict[str, Any], str]] = [
    ({}, "_x -x ~ $ 1 10 2 a A á Á ab b B z"),
    ({"caseFirst": "lower"}, "a A b B"),
    ({"caseFirst": "upper"}, "A a B b"),
    ({"strength": 2, "caseLevel": True, "caseFirst": "upper"}, "A a Á á"),
    ({"numericOrdering": True}, "a1 a9 a10 b2"),
    ({}, "a1 a10 a9 b2"),
    ({"locale": "fr"}, "cote coté côte côté"),
    ({"locale": "fr_CA"}, "cote côte coté côté"),
    ({"backwards": True}, "cote côte coté côté"),
    ({"locale": "da"}, "Ab ab zebra æble øl ål"),
    ({"locale": "sv_SE"}, "a zebra ål ära öl"),
    ({"locale": "de"}, "ad aha ähnlich az"),
    ({"locale": "de@collation=phonebook"}, "ad ähnlich af aha"),
    ({}, "a á à ă â å ä ã ą ā b"),
    ({"locale": "tr"}, "hz \u0131 Ia i ia j"),
    ({"locale": "tr"}, "ca ça d gz ğa"),
    ({"locale": "zh"}, "ā á ǎ à a â b u û ǖ ü v"),
    ({"locale": "ko"}, "1 가 간 나 a b"),
    ({"locale": "ja"}, "a あ い か が き ん 亜 愛 一 日"),
    ({"locale": "ja"}, "カー かあ かい"),
    ({"locale": "en_US_POSIX"}, "! 1 A Z _ a z"),
    ({"locale": "et"}, "s š z ž t õ ä ö ü"),
    ({"locale": "is"}, "a á b d ð þ æ ö å"),
    ({"locale": "sq"}, "c ç d dh e ë z zh"),
    ({"locale": "cy"}, "c d dd e f ff g ng h l ll"),
    ({"locale": "mt"}, "ċ c ġ g għ h ħ i ż z"),
    ({"locale": "lv"}, "i y j"),
    ({"numericOrdering": True}, f"{'1' * 255} {'2' * 254}"),
    ({"locale": "es"}, "llama luz na ña oso"),
    ({"locale": "es@collation=traditional"}, "lomo luz llama"),
    ({"locale": "cs"}, "cizí čas hora chata"),
    ({"locale": "hu"}, "cukor csata dal"),
    ({"locale": "pl"}, "lato łapa mama"),
    ({"locale": "ru"}, "да ёж жук йод кот a"),
    ({"locale": "en"}, "a да ёж жук йод кот"),
    ({"alternate": "shifted", "strength": 4}, "de-luge delu-ge deluge"),
    ({}, "あ ア か が"),
]


@pytest.mark.parametrize(("options", "words"), ORDERS, ids=str)
def test_words_come_in_the_order_of_the_locale(options: dict[str, Any], words: str) -> None:
    documents = [{"w": word} for word in sorted(words.split(), reverse=True)]
    found = piped(documents, {"$sort": {"w": 1}}, collation={"locale": "en", **options})
    assert [document["w"] for document in found] == words.split()


SAME: list[tuple[dict[str, Any], str, str, bool]] = [
    ({"strength": 1}, "résumé", "RESUME", True),
    ({"strength": 2}, "résumé", "RÉSUMÉ", True),
    ({"strength": 2}, "résumé", "resume", False),
    ({"strength": 3}, "a", "A", False),
    ({"strength": 3}, "e\u0301", "é", True),
    ({"strength": 1, "caseLevel": True}, "é", "e", True),
    ({"strength": 1, "caseLevel": True}, "e", "E", False),
    ({"strength": 2, "caseLevel": True}, "e", "E", False),
    ({"strength": 1}, "straße", "STRASSE", True),
    ({"strength": 2}, "straße", "strasse", False),
    ({"strength": 1}, "đð", "dd", True),
    ({"alternate": "shifted", "maxVariable": "space"}, "a\u00a0b", "ab", False),
    ({"alternate": "shifted"}, "a\u00a0b", "ab", True),
    ({"locale": "tr", "strength": 1}, "I", "\u0131", True),
    ({"locale": "tr", "strength": 1}, "i", "\u0130", True),
    ({"locale": "tr", "strength": 1}, "i", "I", False),
    ({"locale": "ja"}, "あ", "ア", True),
    ({"locale": "ja", "strength": 4}, "あ", "ア", False),
    ({"locale": "en"}, "あ", "ア", False),
    ({"locale": "en_US_POSIX", "strength": 1}, "a", "A", False),
    ({"strength": 3}, "straße", "strasse", False),
    ({"strength": 1}, "ø", "o", True),
    ({"strength": 1}, "й", "и", False),
    ({"strength": 3}, "black bird", "blackbird", False),
    ({"strength": 3, "alternate": "shifted"}, "black-bird", "black bird", True),
    ({"strength": 4, "alternate": "shifted"}, "black-bird", "black bird", False),
    ({"strength": 3, "alternate": "shifted"}, "a$b", "ab", False),
    ({"strength": 3, "alternate": "shifted", "maxVariable": "space"}, "a b", "ab", True),
    ({"strength": 3, "alternate": "shifted", "maxVariable": "space"}, "a-b", "ab", False),
    ({"numericOrdering": True}, "a007", "a7", True),
    ({"strength": 3}, "a\u0001b", "ab", True),
    ({"strength": 5}, "a\u0001b", "ab", False),
    ({"locale": "sv", "strength": 1}, "å", "a", False),
]


@pytest.mark.parametrize(("options", "left", "right", "same"), SAME, ids=str)
def test_strength_and_its_companions_decide_what_is_the_same(
    options: dict[str, Any],
    left: str,
    right: str,
    same: bool,  # noqa: FBT001 -- a case of the table
) -> None:
    fold = key(**options)
    assert (fold(left) == fold(right)) is same


@given(st.text(max_size=8), st.text(max_size=8), st.integers(1, 4))
def test_what_is_the_same_stays_the_same_with_less_strength(left: str, right: str, strength: int) -> None:
    if key(strength=strength + 1)(left) == key(strength=strength + 1)(right):
        assert key(strength=strength)(left) == key(strength=strength)(right)


@given(st.lists(st.text(max_size=6), max_size=6), st.sampled_from(["en", "sv", "cs", "ru"]), st.booleans())
def test_any_texts_can_be_compared(texts: list[str], locale: str, shifted: bool) -> None:  # noqa: FBT001
    options: dict[str, Any] = {"alternate": "shifted"} if shifted else {}
    assert len(sorted(texts, key=key(locale=locale, numericOrdering=True, strength=5, **options))) == len(
        texts
    )


REFUSALS: list[tuple[Any, int, str]] = [
    ({"strength": 1}, 40414, "BSON field 'collation.locale' is missing but a required field"),
    ({"locale": 1}, 14, "BSON field 'collation.locale' is the wrong type 'int', expected type 'string'"),
    ({"locale": "en", "depth": 1}, 40415, "BSON field 'collation.depth' is an unknown field."),
    ({"locale": "en", "caseFirst": "no"}, 2,
     "Enumeration value 'no' for field 'collation.caseFirst' is not a valid value."),
    ({"locale": "en", "alternate": "no"}, 2,
     "Enumeration value 'no' for field 'collation.alternate' is not a valid value."),
    ({"locale": "en", "maxVariable": 1}, 14,
     "BSON field 'collation.maxVariable' is the wrong type 'int', expected type 'string'"),
    ({"locale": "en", "strength": 6}, 2, "BSON field 'strength' value must be <= 5, actual value '6'"),
    ({"locale": "en", "strength": 0}, 9, "Field 'strength' must be an integer 1 through 5. Got: 0"),
    ({"locale": "xx"}, 2, "Field 'locale' is invalid in: { locale: \"xx\" }"),
    ({"locale": ""}, 2, "Field 'locale' is invalid in: { locale: \"\" }"),
    ({"locale": "en", "version": "1"}, 161,
     ("Requested collation version 1 but the only available collator version was 57.1. Requested collation"
      ' spec: { locale: "en", version: "1" }')),
    ({"locale": "en@collation=pinyin"}, 238,
     "the order of the locale 'en@collation=pinyin' is not known to this fake server"),
]  # fmt: skip


@pytest.mark.parametrize(("collation", "code", "text"), REFUSALS, ids=str)
def test_a_bad_collation_is_refused_in_a_servers_words(collation: Any, code: int, text: str) -> None:
    with pytest.raises(CommandError) as caught:
        complete(collation)
    assert (caught.value.code, caught.value.message) == (code, text)


@pytest.mark.parametrize(
    "collation",
    [
        {"locale": "en", "backwards": True, "strength": 1},
        {"locale": "en", "caseFirst": "upper", "strength": 2},
    ],
    ids=str,
)
def test_options_that_would_do_nothing_are_refused(collation: Any) -> None:
    with pytest.raises(CommandError) as caught:
        fold_of(collation)
    assert caught.value.code == 2


def test_a_collation_is_shown_with_the_defaults_of_its_locale() -> None:
    assert complete({"locale": "fr_CA", "strength": 2.0}) == {
        "locale": "fr_CA",
        "caseLevel": False,
        "caseFirst": "off",
        "strength": 2,
        "numericOrdering": False,
        "alternate": "non-ignorable",
        "maxVariable": "punct",
        "normalization": False,
        "backwards": True,
        "version": "57.1",
    }
    assert complete({"locale": "simple"}) is None
    assert complete({"locale": "simple", "strength": 1, "numericOrdering": True}) is None
    assert fold_of({"locale": "simple"}) is None


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"$setUnion": [["a"], ["A", "b"]]}, ["a", "b"]),
        ({"$setIntersection": [["a", "b"], ["B"]]}, ["b"]),
        ({"$setDifference": [["a", "b"], ["A"]]}, ["b"]),
        ({"$setEquals": [["a"], ["A"]]}, True),
        ({"$setIsSubset": [["a"], ["A", "b"]]}, True),
        ({"$indexOfArray": [["x", "A"], "a"]}, 1),
        ({"$in": ["a", ["A"]]}, True),
        ({"$max": ["a", "B"]}, "B"),
        ({"$min": ["b", "A", "a"]}, "A"),
        ({"$sortArray": {"input": ["B", "a", "C"], "sortBy": 1}}, ["a", "B", "C"]),
        ({"$maxN": {"n": 1, "input": ["B", "a"]}}, ["B"]),
        ({"$eq": ["a", "A"]}, True),
    ],
    ids=str,
)
def test_an_expression_compares_by_collation(expression: Any, expected: Any) -> None:
    (found,) = piped([{}], {"$replaceWith": {"r": expression}}, collation={"locale": "en", "strength": 2})
    assert found["r"] == expected


IGNORING_CASE = {"locale": "en", "strength": 1}


def test_a_list_of_constants_in_the_expression_of_a_filter_knows_no_collation() -> None:
    documents = [{"_id": 1, "x": "apple"}, {"_id": 2, "x": "Apple"}]

    def found(expression: dict[str, Any]) -> list[int]:
        return [
            each["_id"]
            for each in piped(documents, {"$match": {"$expr": expression}}, collation=IGNORING_CASE)
        ]

    listed = {"$in": ["$x", ["Apple", "Pear"]]}
    assert found(listed) == found({"$and": [listed, True]}) == [2]
    assert found({"$or": [listed, False]}) == found({"$in": ["$x", ["$x"]]}) == [1, 2]


def test_what_a_collation_calls_the_same_is_one_partition_and_no_other_boundary() -> None:
    documents = [{"c": "apple", "v": 0}, {"c": "Apple", "v": 2}]
    spread = {"field": "v", "partitionByFields": ["c"], "range": {"step": 1, "bounds": "partition"}}
    found = piped(documents, {"$densify": spread}, collation=IGNORING_CASE)
    assert [(each["c"], each["v"]) for each in found] == [("apple", 0), ("Apple", 1), ("Apple", 2)]
    stage = {"$bucket": {"groupBy": "$c", "boundaries": ["cafe", "caf\u00e9", "z"], "default": "x"}}
    with pytest.raises(CommandError) as caught:
        piped(documents, stage, collation=IGNORING_CASE)
    assert caught.value.code == 40194


def test_an_index_of_unknown_order_finds_what_is_equal() -> None:
    server, collation = Server(), {"locale": "zh"}
    server.fill("c", *({"_id": n, "x": text} for n, text in enumerate("\u4e2d\u6587b")))
    index = {"key": {"x": 1}, "name": "x", "collation": collation}
    server.run({"createIndexes": "c", "indexes": [index]})
    find = {"find": "c", "filter": {"x": "\u6587"}, "collation": collation}
    assert [each["_id"] for each in server.run(find)["cursor"]["firstBatch"]] == [1]
    plan = server.run({"explain": find, "verbosity": "queryPlanner"})["queryPlanner"]["winningPlan"]
    assert plan["inputStage"]["indexName"] == "x"
    for more in ({"filter": {"x": {"$gt": "\u4e2d"}}}, {"filter": {}, "sort": {"x": 1}}):
        with pytest.raises(CommandError, match="is not known"):
            server.run({**find, **more})


@pytest.mark.parametrize(
    ("locale", "known", "unknown"),
    [
        ("zh", ["b", "A", "7", "\u00e9", "_"], "\u4e2d"),
        ("th", ["b", "a"], "\u0e40"),
        ("fa_AF", ["b", "a"], "\u0627"),
        ("vi", ["2", "10", "-", ""], "i"),
        ("ko", ["b", "A"], "\u4e2d"),
        ("zh@collation=stroke", ["b", "a"], "\u4e2d"),
    ],
)
def test_a_language_of_unknown_order_is_refused_when_its_texts_are_put_in_order(
    locale: str, known: list[str], unknown: str
) -> None:
    keys = key(locale=locale)
    assert complete({"locale": locale}) is not None
    assert sorted(known, key=keys) == sorted(known, key=key(locale="en"))
    assert keys(unknown) == keys(unknown)
    assert len({keys(unknown), keys(unknown), keys("1")}) == 2
    assert keys(unknown) != keys(unknown * 2)
    for one, other in ((unknown, "1"), ("1", unknown), (unknown, unknown * 2)):
        with pytest.raises(CommandError, match=f"the order of the locale '{locale}' is not known") as caught:
            sorted([one, other], key=keys)
        assert caught.value.code == 238
