"""What an index may be, how it is shown, and which documents it cannot hold."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Code, Decimal128, Int64, Regex
from data_commands import Server

from fakeserver.errors import CommandError

NUMBER = {"expireAfterSeconds": 1}
AT_ZERO = {"$geometry": {"type": "Point", "coordinates": [0, 0]}}


def make(server: Server, key: Any, name: Any = "i", **options: Any) -> dict[str, Any]:
    """Make an index."""
    return server.run({"createIndexes": "c", "indexes": [{"key": key, "name": name, **options}]})


def shown(server: Server) -> dict[str, Any]:
    """Return how listIndexes shows the newest index."""
    found = server.run({"listIndexes": "c"})["cursor"]["firstBatch"][-1]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("key", "options", "code"),
    [
        ({"a": 1}, {"partialFilterExpression": {"a": {"$ne": 1}}}, 67),
        ({"a": 1}, {"partialFilterExpression": {"a": {"$nin": [1]}}}, 67),
        ({"a": 1}, {"partialFilterExpression": {"a": {"$exists": False}}}, 67),
        ({"a": 1}, {"partialFilterExpression": {"a": {"$not": {"$gt": 1}}}}, 67),
        ({"a": 1}, {"partialFilterExpression": {"a": {"$regex": "x"}}}, 67),
        ({"a": 1}, {"partialFilterExpression": {"a": {"$size": 1}}}, 67),
        ({"a": 1}, {"partialFilterExpression": {"a": {"$all": []}}}, 67),
        ({"a": 1}, {"partialFilterExpression": {"a": {"$all": [Regex("x")]}}}, 67),
        ({"a": 1}, {"partialFilterExpression": {"a": {"$all": [{"$elemMatch": {"$gt": 1}}]}}}, 67),
        ({"a": 1}, {"partialFilterExpression": {"a": {"$elemMatch": {"$gt": 1}}}}, 67),
        ({"a": 1}, {"partialFilterExpression": {"$or": [{"a": {"$ne": 1}}]}}, 67),
        ({"a": 1}, {"partialFilterExpression": {"$nor": [{"a": 1}]}}, 67),
        ({"a": 1}, {"partialFilterExpression": {"$expr": {"$eq": ["$a", 1]}}}, 224),
        ({"a": 1}, {"partialFilterExpression": {"$where": "1"}}, 2),
        ({"a": 1}, {"partialFilterExpression": 1}, 14),
        ({"a": 1}, {"partialFilterExpression": {"a": 1}, "sparse": True}, 67),
        ({"a": 1, "b": 1}, NUMBER, 67),
        ({"a": 1}, {"expireAfterSeconds": -1}, 67),
        ({"a": 1}, {"expireAfterSeconds": "1"}, 67),
        ({"a": 1}, {"expireAfterSeconds": 2**31}, 67),
        ({"_id": 1}, NUMBER, 197),
        ({"a": 1}, {"expireAfterSeconds": float("nan")}, 67),
        ({"a": 1}, {"collation": {}}, 2),
        ({"a": 1}, {"collation": {"locale": "en", "strength": 0}}, 2),
        ({"a": 1}, {"clustered": True}, 72),
        ({"a": "wildcard"}, {}, 7246202),
        ({"$**": 1}, {"v": 1}, 67),
        ({"$**": 1, "a": 1}, {}, 67),
        ({"$**": 1, "a.$**": 1}, {}, 7246201),
        ({"$**": 1, "a": 1}, {"wildcardProjection": {"b": 0}}, 7246209),
        ({"$**": 1}, {"wildcardProjection": {}}, 9),
        ({"$**": 1}, {"wildcardProjection": {"a": True, "b": 0}}, 31254),
        ({"$**": 1}, {"wildcardProjection": {"a": {"b": 0, "c": 1.0}}}, 31253),
        ({"$**": 1}, {"wildcardProjection": {"a": 1, "a.b": 1}}, 31249),
        ({"$**": 1}, {"wildcardProjection": {"a.b": 1, "a": 1}}, 31250),
        ({"$**": 1}, {"wildcardProjection": {"a": "b"}}, 51271),
        ({"$**": 1}, {"wildcardProjection": {"a": None}}, 51271),
        ({"$**": 1}, NUMBER, 67),
        ({"$**": 1}, {"unique": True}, 67),
        ({"a.$**": 1}, {"sparse": True}, 67),
        ({"a": 1}, {"wildcardProjection": {"b": 1}}, 2),
        ({"a": "text"}, {"wildcardProjection": {"b": 1}}, 2),
        ({"a": "hashed"}, {"wildcardProjection": {"b": 1}}, 2),
        ({"a": "hashed"}, {"unique": True}, 16764),
        ({"a": "hashed", "b": "hashed"}, {}, 31303),
        ({"a": "hashed", "b": "text"}, {}, 67),
        ({"a": 1, "b": "2d"}, {}, 16801),
        ({"a": "2d", "b": "2d"}, {}, 16800),
        ({"a": "2dsphere"}, {"2dsphereIndexVersion": 9}, 67),
        ({"a": "text", "b": 1, "c": "text"}, {}, 67),
        ({"a": "text"}, {"weights": {"a": 0}}, 67),
        ({"a": "text"}, {"weights": "a"}, 67),
        ({"a": "text"}, {"weights": Code("a")}, 14),
        ({"a": 1}, {"weights": {"a": 1}}, 67),
        ({"a": 1}, {"hidden": 1}, 14),
        ({"a": "2d"}, {"bits": 0}, 72),
        ({"a": "2d"}, {"bits": 33}, 72),
        ({"a": "2d"}, {"min": 5, "max": 5}, 72),
        ({"a.$**": 1}, {"wildcardProjection": {"b": 1}}, 9),
        ({"a": "text"}, {"weights": {"a": "x"}}, 67),
        ({"a": "text"}, {"default_language": "klingon"}, 67),
        ({"a": "text"}, {"language_override": ""}, 67),
        ({"a": "text"}, {"collation": {"locale": "en"}}, 67),
        ({}, {}, 67),
        ({"": 1}, {}, 67),
        ({"a..b": 1}, {}, 67),
        ({"$a": 1}, {}, 67),
        ({"a": True}, {}, 67),
        ({"a": 0.0}, {}, 67),
        ({"a": "nonsense"}, {}, 67),
        ({f"f{number}": 1 for number in range(33)}, {}, 13103),
        ("a", {}, 14),
        ({"a": 1}, {"unique": "yes"}, 14),
        ({"a": 1}, {"v": "2"}, 14),
        ({"a": 1}, {"v": 0}, 67),
        ({"a": 1}, {"nonsense": 1}, 197),
        ({"_id": 1}, {"unique": False}, 67),
        ({"_id": 1}, {"hidden": True}, 197),
        ({"_id": -1}, {}, 2),
        ({"_id": 1}, {"collation": {"locale": "en"}}, 2),
    ],
    ids=str,
)
def test_an_index_that_cannot_be_is_refused(key: Any, options: dict[str, Any], code: int) -> None:
    server = Server()
    with pytest.raises(CommandError) as refused:
        make(server, key, **options)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("name", "code"), [("", 67), ("a\0b", 67), ("*", 2), ("_id_", 2), (1, 14), (None, 14)]
)
def test_a_name_that_cannot_be_is_refused(name: Any, code: int) -> None:
    with pytest.raises(CommandError) as refused:
        make(Server(), {"a": 1}, name)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "expression",
    [
        {"a": {"$gt": 1, "$lte": 4}},
        {"a": None, "b": {"$exists": True}},
        {"$or": [{"a": 1}, {"$and": [{"b": {"$type": "string"}}, {"c": {"$in": [1, 2]}}]}]},
    ],
)
def test_a_partial_index_may_choose_by_comparisons(expression: dict[str, Any]) -> None:
    server = Server()
    make(server, {"a": 1}, partialFilterExpression=expression)
    assert shown(server)["partialFilterExpression"] == expression


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"key": {"a": 1}, "background": True}, {"v": 2, "key": {"a": 1}, "name": "i", "background": True}),
        ({"key": {"a": 1}, "background": False}, {"v": 2, "key": {"a": 1}, "name": "i", "background": False}),
        (
            {"key": {"a": "2dsphere"}},
            {"v": 2, "key": {"a": "2dsphere"}, "name": "i", "2dsphereIndexVersion": 3},
        ),
        (
            {"key": {"b": -1, "t": "text", "a": "text"}, "weights": {"t": 5}},
            {
                "v": 2,
                "key": {"b": -1, "_fts": "text", "_ftsx": 1},
                "name": "i",
                "weights": {"a": 1, "t": 5},
                "default_language": "english",
                "language_override": "language",
                "textIndexVersion": 3,
            },
        ),
        (
            {"key": {"$**": "text"}, "default_language": "none", "language_override": "lang"},
            {
                "v": 2,
                "key": {"_fts": "text", "_ftsx": 1},
                "name": "i",
                "weights": {"$**": 1},
                "default_language": "none",
                "language_override": "lang",
                "textIndexVersion": 3,
            },
        ),
        ({"key": {"_id": "hashed"}}, {"v": 2, "key": {"_id": "hashed"}, "name": "i"}),
        (
            {"key": {"a": 1}, "partialFilterExpression": {"b": {"$all": [1, 2]}}},
            {"v": 2, "key": {"a": 1}, "name": "i", "partialFilterExpression": {"b": {"$all": [1, 2]}}},
        ),
        (
            {"key": {"a": 1}, "partialFilterExpression": {"b": {"$geoIntersects": AT_ZERO}}},
            {
                "v": 2,
                "key": {"a": 1},
                "name": "i",
                "partialFilterExpression": {"b": {"$geoIntersects": AT_ZERO}},
            },
        ),
    ],
    ids=str,
)
def test_an_index_is_listed_as_it_was_made(given: dict[str, Any], expected: dict[str, Any]) -> None:
    server = Server()
    made = server.run({"createIndexes": "c", "indexes": [{"name": "i", **given}]})
    assert shown(server) == expected
    assert list(shown(server)) == list(expected)
    assert made["numIndexesAfter"] == 2
    again = server.run({"createIndexes": "c", "indexes": [{"name": "i", **given}]})
    assert again["note"] == "all indexes already exist"
    assert server.run({"dropIndexes": "c", "index": "i"})["nIndexesWas"] == 2


def test_the_bounds_of_a_flat_index_are_listed_as_doubles() -> None:
    server = Server()
    make(server, {"a": "2d"}, min=-100, max=Int64(100), bits=20)
    assert list(shown(server).items())[3:] == [("min", -100.0), ("max", 100.0), ("bits", 20)]
    assert [type(shown(server)[name]) for name in ("min", "max")] == [float, float]
    counted = server.run({"aggregate": "c", "pipeline": [{"$indexStats": {}}], "cursor": {}})
    spec = counted["cursor"]["firstBatch"][1]["spec"]
    assert [type(spec[name]) for name in ("min", "max")] == [int, Int64]  # as they were given


def test_a_collection_has_one_text_index() -> None:
    server = Server()
    make(server, {"a": "text"}, "first")
    # Their fields are weights, so that two text indexes are one key with other options.
    for name in ("first", "second"):
        with pytest.raises(CommandError) as refused:
            make(server, {"b": "text"}, name)
        assert refused.value.code == 85
    with pytest.raises(CommandError, match='found existing text index "first"') as refused:
        make(server, {"b": "text"}, "partial", partialFilterExpression={"b": 1})
    assert refused.value.code == 67


def test_a_collection_has_no_more_than_64_indexes() -> None:
    server = Server()
    for number in range(63):
        make(server, {f"f{number}": 1}, f"i{number}")
    with pytest.raises(CommandError, match=r"too many indexes for db\.c key:") as refused:
        make(server, {"more": 1}, "more")
    assert refused.value.code == 67


def test_documents_of_a_capped_collection_do_not_expire() -> None:
    server = Server()
    server.run({"create": "c", "capped": True, "size": 4096})
    with pytest.raises(CommandError) as refused:
        make(server, {"a": 1}, expireAfterSeconds=1)
    assert refused.value.code == 67


@pytest.mark.parametrize(
    ("key", "document", "code", "text"),
    [
        ({"a": 1, "b": 1}, {"a": [1, 2], "b": [3]}, 171, "cannot index parallel arrays [b] [a]"),
        ({"a.x": 1, "a.y": 1}, {"a": [{"x": [1], "y": [2]}]}, 171, "cannot index parallel arrays [y] [x]"),
        ({"a": "hashed"}, {"a": [1]}, 16766, "array values. Found array at path: a"),
        ({"b": 1, "a.x": "hashed"}, {"a": [{"x": 1}]}, 16766, "array values. Found array at path: a"),
        ({"a.0": 1}, {"a": [{"0": 1}]}, 16746, "Ambiguous field name found in array"),
    ],
)
def test_a_document_that_an_index_cannot_hold_is_refused_whenever_they_meet(
    key: dict[str, Any], document: dict[str, Any], code: int, text: str
) -> None:
    server = Server()
    make(server, key)
    (error,) = server.run({"insert": "c", "documents": [{"_id": 1, **document}]})["writeErrors"]
    assert (error["code"], text in error["errmsg"]) == (code, True)
    server.fill("c", {"_id": 2})
    change = {"q": {"_id": 2}, "u": {"$set": document}}
    (error,) = server.run({"update": "c", "updates": [change]})["writeErrors"]
    assert error["code"] == code
    server.run({"dropIndexes": "c", "index": "i"})
    server.fill("c", {"_id": 3, **document})
    with pytest.raises(CommandError, match="Index build failed") as refused:
        make(server, key)
    assert refused.value.code == code


def test_a_unique_key_over_one_array_pairs_the_fields_of_each_element() -> None:
    server = Server()
    make(server, {"a.x": 1, "a.y": 1}, unique=True)
    server.fill("c", {"_id": 1, "a": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]})
    server.fill("c", {"_id": 2, "a": [{"x": 1, "y": 4}]})
    (error,) = server.run({"insert": "c", "documents": [{"a": {"x": 3, "y": 4}}]})["writeErrors"]
    assert error["code"] == 11000
    assert error["keyValue"] == {"a.x": 3, "a.y": 4}


def test_validate_is_not_full_and_in_the_background() -> None:
    server = Server()
    server.fill("c", {"_id": 1})
    assert server.run({"validate": "c", "full": True})["valid"] is True
    with pytest.raises(CommandError) as refused:
        server.run({"validate": "c", "full": True, "background": True})
    assert refused.value.code == 72


@pytest.mark.parametrize(
    "options",
    [
        {"unique": True},
        {"sparse": True},
        {"sparse": True, "unique": True},
        {"partialFilterExpression": {"a": 1}},
        {"collation": {"locale": "en"}},
    ],
    ids=str,
)
def test_a_key_with_other_properties_is_another_index(options: dict[str, Any]) -> None:
    server = Server()
    make(server, {"a": 1}, "plain")
    assert make(server, {"a": 1}, "other", **options)["numIndexesAfter"] == 3
    with pytest.raises(CommandError) as refused:
        make(server, {"a": 1}, "third", **options)
    assert refused.value.code == 85
    with pytest.raises(CommandError) as ambiguous:
        server.run({"dropIndexes": "c", "index": {"a": 1}})
    assert ambiguous.value.code == 181


def test_the_order_of_conditions_is_no_difference_between_indexes() -> None:
    server = Server()
    make(server, {"a": 1}, partialFilterExpression={"$and": [{"a": 1}, {"b": 2}]})
    again = make(server, {"a": 1}, partialFilterExpression={"$and": [{"b": 2}, {"a": 1}]})
    assert again["note"] == "all indexes already exist"


@pytest.mark.parametrize(
    ("second", "code"),
    [({"key": {"b": 1}, "name": "i"}, 86), ({"key": {"a": 1}, "name": "j"}, 85)],
    ids=str,
)
def test_the_indexes_of_one_command_are_compared(second: dict[str, Any], code: int) -> None:
    server = Server()
    with pytest.raises(CommandError) as refused:
        server.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "i"}, second]})
    assert refused.value.code == code


@pytest.mark.parametrize("seconds", [3600, Int64(3600), 3600.5, Decimal128("3600.5")], ids=str)
def test_an_expiry_is_shown_as_an_integer(seconds: Any) -> None:
    server = Server()
    make(server, {"a": 1}, expireAfterSeconds=seconds)
    assert type(shown(server)["expireAfterSeconds"]) is int
    assert shown(server)["expireAfterSeconds"] == 3600


@pytest.mark.parametrize(
    ("wanted", "code"),
    [(["i", "i"], 27), ([1, "i"], 14), (None, 14), (["nope"], 27), (["_id_"], 72)],
    ids=str,
)
def test_names_of_indexes_to_drop_are_checked(wanted: Any, code: int) -> None:
    server = Server()
    make(server, {"a": 1})
    with pytest.raises(CommandError) as refused:
        server.run({"dropIndexes": "c", "index": wanted})
    assert refused.value.code == code


def test_a_list_of_a_star_drops_all() -> None:
    server = Server()
    make(server, {"a": 1})
    assert server.run({"dropIndexes": "c", "index": ["*"]})["nIndexesWas"] == 2
    assert shown(server)["name"] == "_id_"


def test_the_information_on_builds_is_around_a_specification() -> None:
    server = Server()
    make(server, {"a": 1})
    command = {"listIndexes": "c", "includeIndexBuildInfo": True}
    found = server.run(command)["cursor"]["firstBatch"]
    assert [each["spec"]["name"] for each in found] == ["_id_", "i"]
    with pytest.raises(CommandError) as refused:
        server.run({**command, "includeBuildUUIDs": True})
    assert refused.value.code == 72


@pytest.mark.parametrize(
    ("key", "options", "code"),
    [
        ({"v": 1}, {"unique": True}, 72),
        ({"v": 1}, {"sparse": True}, 72),
        ({"v": "text"}, {}, 72),
        ({"v": "hashed"}, {}, 67),
        ({"v": "2d"}, {}, 67),
        ({"$**": 1}, {}, 7246201),
        ({"t": 1}, NUMBER, 72),
        ({"t": 1}, {**NUMBER, "partialFilterExpression": {"v": 1}}, 72),
        ({"m.a": 1}, {"partialFilterExpression": {"m.b": 1}, "collation": {"locale": "en"}}, 85),
        ({"t": 1}, {**NUMBER, "partialFilterExpression": {"m": 1}}, None),
        ({"m": 1}, {"sparse": True}, None),
        ({"m": "2d"}, {}, None),
        ({"v": "2dsphere"}, {}, None),
        ({"v": 1}, {"hidden": True}, None),
    ],
    ids=str,
)
def test_a_time_series_has_some_indexes_beside_that_of_its_metadata(
    key: dict[str, Any], options: dict[str, Any], code: int | None
) -> None:
    server = Server()
    server.run({"create": "c", "timeseries": {"timeField": "t", "metaField": "m"}})
    assert shown(server) == {"v": 2, "key": {"m": 1, "t": 1}, "name": "m_1_t_1"}
    if code is None:
        assert make(server, key, **options)["numIndexesAfter"] == 2
        return
    with pytest.raises(CommandError) as refused:
        make(server, key, **options)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("collation", "code"),
    [
        ({}, 40414),
        ({"locale": "en", "strength": 0}, 2),
        ({"locale": "en", "strength": float("nan")}, 2),
        ({"locale": "en", "caseLevel": 1}, 14),
        ({"locale": "en", "numericOrdering": 0.0}, 14),
        ({"locale": "en", "backwards": None}, 14),
        ({"locale": "en", "caseLevel": None}, None),
    ],
    ids=str,
)
def test_a_collection_is_made_with_a_strict_collation(collation: dict[str, Any], code: int | None) -> None:
    server = Server()
    if code is None:
        server.run({"create": "c", "collation": collation})
        return
    with pytest.raises(CommandError) as refused:
        server.run({"create": "c", "collation": collation})
    assert refused.value.code == code
