"""No read changes what is stored."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from data_commands import Server
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeserver.errors import CommandError
from fakeserver.storage.port.engine import Namespace

Document = dict[str, Any]
NS = Namespace("db", "c")

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.sampled_from([None, True, 0, 1, 2.5, "x", "yé"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.lists(st.dictionaries(NAMES, VALUES, max_size=3), min_size=1, max_size=3)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
OPERANDS = PATHS.map("$".__add__) | st.just("$$ROOT") | SCALARS.map(lambda value: {"$literal": value})
EXPRESSIONS = st.recursive(
    OPERANDS,
    lambda inner: st.one_of(
        st.builds(lambda one: {"$ifNull": [one, "none"]}, inner),
        st.builds(lambda one, two: {"$cond": [one, two, "$$CURRENT"]}, inner, inner),
        st.builds(lambda one: {"x": one, "y": [one]}, inner),
        st.builds(lambda one: {"$mergeObjects": ["$$ROOT", {"z": one}]}, inner),
        st.builds(lambda one: {"$setField": {"field": "z", "input": "$$ROOT", "value": one}}, inner),
        st.builds(lambda one: {"$let": {"vars": {"v": one}, "in": ["$$v", "$$v"]}}, inner),
        st.builds(lambda one: {"$slice": [{"$cond": [{"$isArray": [one]}, one, []]}, 1]}, inner),
        st.builds(lambda one: {"$concatArrays": [[one], [one]]}, inner),
        st.builds(lambda one: {"$map": {"input": [one], "in": {"k": "$$this"}}}, inner),
        st.builds(lambda one: {"$reduce": {"input": [one], "initialValue": [], "in": ["$$this"]}}, inner),
    ),
    max_leaves=4,
)
FILTERS = st.one_of(
    st.just({}),
    st.builds(lambda path, value: {path: value}, PATHS, SCALARS),
    st.builds(lambda path, value: {path: {"$elemMatch": {"$gte": value}}}, PATHS, st.integers(0, 1)),
    st.builds(lambda path: {path: {"$exists": True}}, PATHS),
    st.builds(lambda one: {"$expr": one}, EXPRESSIONS),
)
FIELDS = st.one_of(
    st.sampled_from([0, 1]),
    st.builds(lambda bounds: {"$slice": bounds}, st.sampled_from([1, -1, 0, [0, 1], [-2, 1], ["$a", 1]])),
    st.just({"$elemMatch": {"a": 1}}),
    st.just({"$meta": "sortKey"}),
    EXPRESSIONS,
)
PROJECTIONS = st.dictionaries(
    PATHS | st.just("_id") | PATHS.map(lambda path: f"{path}.$"), FIELDS, max_size=3
)
SORTS = st.dictionaries(PATHS, st.sampled_from([1, -1]), min_size=1, max_size=2)
STAGES = st.recursive(
    st.one_of(
        st.builds(lambda wanted: {"$match": wanted}, FILTERS),
        st.builds(lambda spec: {"$project": spec}, st.dictionaries(PATHS, FIELDS, min_size=1, max_size=3)),
        st.builds(lambda name, spec: {name: spec}, st.sampled_from(["$set", "$addFields"]),
                  st.dictionaries(PATHS, EXPRESSIONS, min_size=1, max_size=2)),
        st.builds(lambda path: {"$unset": path}, PATHS),
        st.builds(lambda path, keep: {"$unwind": {"path": f"${path}", "preserveNullAndEmptyArrays": keep,
                                                  "includeArrayIndex": "i"}}, PATHS, st.booleans()),
        st.builds(lambda one: {"$replaceWith": {"$mergeObjects": ["$$ROOT", {"r": one}]}}, EXPRESSIONS),
        st.builds(lambda key, one: {"$group": {"_id": key, "all": {"$push": one}, "first": {"$first": one},
                                               "set": {"$addToSet": one}}}, OPERANDS, OPERANDS),
        st.builds(lambda sort: {"$sort": sort}, SORTS),
        st.just({"$redact": "$$DESCEND"}),
        st.builds(lambda path, name: {"$lookup": {"from": "c", "localField": path, "foreignField": path,
                                                  "as": name}}, PATHS, PATHS),
        st.builds(lambda path: {"$graphLookup": {"from": "c", "startWith": f"${path}", "as": "g",
                                                 "connectFromField": path, "connectToField": path}}, PATHS),
        st.just({"$unionWith": "c"}),
        st.just({"$limit": 2}),
    ),
    lambda inner: st.builds(lambda some: {"$facet": {"f": some, "g": some}}, st.lists(inner, max_size=2)),
    max_leaves=3,
)  # fmt: skip
PIPELINES = st.lists(STAGES, max_size=4)
FINDS = st.fixed_dictionaries(
    {"filter": FILTERS, "projection": PROJECTIONS, "batchSize": st.just(1)},
    optional={"sort": SORTS, "let": st.just({"v": {"$literal": [1]}}), "showRecordId": st.just(value=True),
              "returnKey": st.just(value=True), "hint": st.just({"a": 1})},
).map(lambda options: {"find": "c", **options})  # fmt: skip
AGGREGATES = st.fixed_dictionaries(
    {"pipeline": PIPELINES, "cursor": st.just({"batchSize": 1})},
    optional={"let": st.just({"v": {"$literal": {"k": [1]}}})},
).map(lambda options: {"aggregate": "c", **options})
PLAIN_READS = st.one_of(
    FINDS,
    AGGREGATES,
    st.builds(lambda path, wanted: {"distinct": "c", "key": path, "query": wanted}, PATHS, FILTERS),
    st.builds(lambda wanted: {"count": "c", "query": wanted}, FILTERS),
)
READS = PLAIN_READS | PLAIN_READS.map(lambda command: {"explain": command, "verbosity": "executionStats"})


def holding(documents: list[Document]) -> Server:
    server = Server()
    server.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
    server.fill("c", *({"_id": number, **each} for number, each in enumerate(documents)))
    return server


def stored(server: Server) -> list[Document]:
    return [document for _key, document in server.catalog.engine._collections[NS].items()]  # type: ignore[attr-defined]


def read_to_the_end(server: Server, command: Document) -> None:
    cursor = server.run(command).get("cursor", {})
    while cursor.get("id"):
        cursor = server.run({"getMore": cursor["id"], "collection": "c", "batchSize": 1})["cursor"]


@given(documents=DOCUMENTS, reads=st.lists(READS, min_size=1, max_size=3))
@settings(max_examples=settings().max_examples * 3)
def test_no_read_command_changes_a_stored_byte(documents: list[Document], reads: list[Document]) -> None:
    server = holding(documents)
    before = [bson.encode(document) for document in stored(server)]
    for command in reads:
        try:
            read_to_the_end(server, command)
        except CommandError as refused:
            assert refused.code != 1  # noqa: PT017 -- the other codes are for what the grammar makes amiss
    assert [bson.encode(document) for document in stored(server)] == before


@pytest.mark.parametrize(
    ("projection", "shown"),
    [
        (
            {"e.n": {"$slice": 1}},
            {"_id": 1, "e": {"n": [1], "m": 1}, "d": [{"n": [1, 2]}, 3, [{"n": [1, 2]}]]},
        ),
        (
            {"d.n": {"$slice": 1}},
            {"_id": 1, "e": {"n": [1, 2], "m": 1}, "d": [{"n": [1]}, 3, [{"n": [1, 2]}]]},
        ),
        ({"_id": 0, "e.n": {"$slice": -1}, "d": 0}, {"e": {"n": [2], "m": 1}}),
        ({"e.n": {"$slice": 1}, "e.m": 1}, {"_id": 1, "e": {"n": [1], "m": 1}}),
        ({"e": {"n": {"$slice": [1, 5]}}, "_id": 1}, {"_id": 1, "e": {"n": [2]}}),
    ],
)
def test_slice_cuts_what_is_shown_and_not_what_is_stored(projection: Document, shown: Document) -> None:
    document = {"_id": 1, "e": {"n": [1, 2], "m": 1}, "d": [{"n": [1, 2]}, 3, [{"n": [1, 2]}]]}
    server = Server()
    server.fill("c", document)
    reply = server.run({"find": "c", "projection": projection})
    assert reply["cursor"]["firstBatch"] == [shown]
    assert server.documents("c") == [document]
