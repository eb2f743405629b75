"""`$lookup` and `$graphLookup` by tables and indexes, against what they mean: each document with each."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import Decimal128, Int64
from data_commands import Server
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeserver.errors import CommandError
from fakeserver.storage.port.engine import IndexSpec, Namespace, Query, Scope
from fakeserver.storage.stages import lookup
from fakeserver.storage.stages.lookup import equals_of, keys_of
from fakeserver.storage.store.memory_engine import MemoryEngine
from fakeserver.storage.values.types import order

LOCAL, FOREIGN = Namespace("db", "local"), Namespace("db", "foreign")
Document = dict[str, Any]

VALUES = st.sampled_from([
    None, 1, Int64(1), 1.0, Decimal128("1"), 2, "a", "A", "b", True, float("nan"), [1, "a"], [None], [],
    [[1]], {"b": 1}, {"b": [1, 2]}, [{"b": 1}, {"b": "a"}], b"x",
])  # fmt: skip
DOCUMENTS = st.lists(st.fixed_dictionaries({}, optional={"k": VALUES}), max_size=8)
PATHS = st.sampled_from(["k", "k.b", "_id"])
FOLDING = {"locale": "en", "strength": 2}


class Joined:
    """Two collections, and how often the other one was read as a whole."""

    def __init__(self, local: list[Document], foreign: list[Document], index: str | None = None) -> None:
        self.engine = MemoryEngine()
        self.reads = 0
        for ns, documents in ((LOCAL, local), (FOREIGN, foreign)):
            self.engine.create(ns)
            for number, document in enumerate(documents):
                self.engine.insert(ns, {"_id": number, **document})
        if index is not None:
            self.engine.create_index(FOREIGN, IndexSpec("i", {index: 1}))

    def run(self, *stages: Document, collation: Document | None = None, **how: Any) -> list[Document]:
        def read(name: str) -> list[Document]:
            self.reads += 1
            return self.engine.aggregate(Namespace("db", name), [], options=Query())

        def look_up(name: str, path: str, value: Any) -> list[Document] | None:
            return self.engine.equal(Namespace("db", name), path, value)

        options = Query(read=read, look_up=look_up, collation=collation)
        return self.engine.aggregate(LOCAL, stages, options=options, **how)

    def stored(self, ns: Namespace) -> list[Document]:
        return self.engine.find(ns, Query())


def numbered(found: list[Document]) -> list[list[Any]]:
    """Return the `_id`s of what each document was joined with."""
    return [[each["_id"] for each in document["j"]] for document in found]


@given(
    local=DOCUMENTS,
    foreign=DOCUMENTS,
    mine=PATHS,
    theirs=PATHS,
    indexed=st.booleans(),
    folding=st.booleans(),
)
@settings(max_examples=150)
def test_fields_are_joined_by_every_value_that_they_share(
    local: list[Document], foreign: list[Document], mine: str, theirs: str, *, indexed: bool, folding: bool
) -> None:
    joined = Joined(local, foreign, theirs if indexed and theirs != "_id" else None)
    stage = {"from": "foreign", "localField": mine, "foreignField": theirs, "as": "j"}
    scope = Scope(str.lower if folding else None)
    expected = [
        [
            other["_id"]
            for other in joined.stored(FOREIGN)
            if (keys_of(document, mine, scope) or {order(None)}) & equals_of(other, theirs, scope)
        ]
        for document in joined.stored(LOCAL)
    ]
    assert numbered(joined.run({"$lookup": stage}, collation=FOLDING if folding else None)) == expected


@given(
    local=DOCUMENTS,
    foreign=DOCUMENTS,
    theirs=PATHS,
    indexed=st.booleans(),
    folding=st.booleans(),
    turned=st.booleans(),
)
@settings(max_examples=150)
def test_an_equality_of_a_pipeline_is_found_by_table_or_index(
    local: list[Document], foreign: list[Document], theirs: str, *, indexed: bool, folding: bool, turned: bool
) -> None:
    joined = Joined(local, foreign, theirs if indexed and theirs != "_id" else None)
    sides = ["$$x", f"${theirs}"] if turned else [f"${theirs}", "$$x"]
    quick = {"$expr": {"$and": [{"$gte": ["$_id", 1]}, {"$eq": sides}]}}
    slow = {"$expr": {"$and": [{"$gte": ["$_id", 1]}, {"$not": {"$ne": sides}}]}}

    def stage(match: Document) -> Document:
        return {
            "$lookup": {"from": "foreign", "let": {"x": "$k"}, "pipeline": [{"$match": match}], "as": "j"}
        }

    collation = FOLDING if folding else None
    assert joined.run(stage(quick), collation=collation) == joined.run(stage(slow), collation=collation)


def test_a_pipeline_sees_the_variables_of_each_document_and_of_those_around_it() -> None:
    inner = {
        "from": "foreign",
        "let": {"y": "$k"},
        "pipeline": [{"$project": {"_id": 0, "sum": {"$add": ["$$x", "$$y", "$k"]}}}, {"$limit": 1}],
        "as": "inner",
    }
    outer = {
        "from": "foreign",
        "let": {"x": "$k"},
        "pipeline": [{"$lookup": inner}, {"$project": {"_id": 0, "sums": "$inner.sum"}}],
        "as": "j",
    }
    joined = Joined([{"k": 100}, {"k": 200}], [{"k": 1}, {"k": 2}])
    found = [document["j"] for document in joined.run({"$lookup": outer})]
    assert found == [[{"sums": [102]}, {"sums": [103]}], [{"sums": [202]}, {"sums": [203]}]]


def test_what_an_operator_takes_as_it_is_compiled_is_that_of_each_document() -> None:
    window = {"sortBy": {"_id": 1}, "output": {"k": {"$shift": {"output": "$k", "by": 1, "default": "$$x"}}}}
    stage = {"from": "foreign", "let": {"x": "$k"}, "pipeline": [{"$setWindowFields": window}], "as": "j"}
    joined = Joined([{"k": 100}, {"k": 200}], [{"k": 1}, {"k": 2}])
    found = [[other["k"] for other in document["j"]] for document in joined.run({"$lookup": stage})]
    assert found == [[2, 100], [2, 200]]


def test_a_pipeline_that_asks_for_no_variable_runs_once() -> None:
    runs = 0

    class Counting(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            nonlocal runs
            runs += name == "k"
            return super().get(name, default)

    joined = Joined([{"k": 1}] * 5, [])
    joined.engine.insert(FOREIGN, {"_id": 0})
    kept = joined.engine._collections[FOREIGN]
    documents: Any = kept.documents
    documents[0] = Counting({"_id": 0, "k": 1})
    stage = {"from": "foreign", "pipeline": [{"$project": {"k": {"$add": ["$k", 1]}}}], "as": "j"}
    found = joined.run({"$lookup": stage})
    assert [document["j"] for document in found] == [[{"_id": 0, "k": 2}]] * 5
    assert runs == 1


def test_an_index_is_asked_instead_of_reading_the_collection() -> None:
    joined = Joined([{"k": 3}, {"k": 4}], [{"k": number} for number in range(100)], "k")
    by_fields = {"from": "foreign", "localField": "k", "foreignField": "k", "as": "j"}
    match = {"$expr": {"$eq": ["$k", "$$x"]}}
    by_pipeline = {"from": "foreign", "let": {"x": "$k"}, "pipeline": [{"$match": match}], "as": "j"}
    assert numbered(joined.run({"$lookup": by_fields})) == [[3], [4]]
    assert numbered(joined.run({"$lookup": by_pipeline})) == [[3], [4]]
    assert joined.reads == 0


def test_what_is_joined_may_come_to_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = Joined([{"k": 1}], [{"k": 1, "text": "x" * 100}] * 20)
    size = sum(len(bson.encode(each)) for each in joined.stored(FOREIGN))
    monkeypatch.setattr("fakeserver.storage.values.limits.MAX_INTERNAL_BYTES", 200)
    stage = {"from": "foreign", "localField": "k", "foreignField": "k", "as": "j"}
    monkeypatch.setattr(lookup, "_MAX_BYTES", size)
    assert len(joined.run({"$lookup": stage})[0]["j"]) == 20
    monkeypatch.setattr(lookup, "_MAX_BYTES", size - 1)
    with pytest.raises(CommandError) as refused:
        joined.run({"$lookup": stage})
    assert refused.value.code == 4568
    assert refused.value.message == (
        f"Total size of documents in foreign matching pipeline's $lookup stage exceeds {size - 1} bytes"
    )


# $graphLookup.

GRAPH = {"from": "foreign", "startWith": "$k", "connectFromField": "to", "connectToField": "k", "as": "j"}
EDGES = st.lists(st.fixed_dictionaries({"k": VALUES, "to": VALUES}), max_size=8)


def reached(start: Any, others: list[Document], deepest: int | None) -> list[Any]:
    """Return the `_id`s that are reached, each document looked at in each round."""
    scope = Scope()
    reach = (
        keys_of({"k": start}, "k", scope) if isinstance(start, list) else keys_of({"k": [start]}, "k", scope)
    )
    seen: list[Any] = []
    depth = 0
    while reach and (deepest is None or depth <= deepest):
        new = [each for each in others if each["_id"] not in seen and reach & equals_of(each, "k", scope)]
        seen += [each["_id"] for each in new]
        reach = set().union(*(keys_of(each, "to", scope) for each in new)) if new else set()
        depth += 1
    return seen


@given(DOCUMENTS, EDGES, st.none() | st.integers(0, 2))
@settings(max_examples=100)
def test_a_graph_is_followed_as_round_by_round(
    local: list[Document], foreign: list[Document], deepest: int | None
) -> None:
    joined = Joined(local, foreign)
    stage = GRAPH if deepest is None else {**GRAPH, "maxDepth": deepest}
    others = joined.stored(FOREIGN)
    expected = [reached(document.get("k"), others, deepest) for document in joined.stored(LOCAL)]
    assert numbered(joined.run({"$graphLookup": stage})) == expected


def test_a_graph_looks_only_at_documents_that_match() -> None:
    joined = Joined([{"k": 1}], [{"k": 1, "to": 2}, {"k": 2, "to": 3}, {"k": 3, "to": 1}])
    stage = {**GRAPH, "restrictSearchWithMatch": {"k": {"$ne": 2}}}
    assert numbered(joined.run({"$graphLookup": stage})) == [[0]]


def test_what_a_graph_holds_may_come_to_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_MAX_GRAPH_BYTES", 100)
    joined = Joined([{"k": 1}], [{"k": 1, "to": 2, "text": "x" * 60}, {"k": 2, "to": 3, "text": "x" * 60}])
    with pytest.raises(CommandError) as refused:
        joined.run({"$graphLookup": GRAPH})
    assert (refused.value.code, refused.value.message) == (
        40099,
        "$graphLookup reached maximum memory consumption",
    )


def test_documents_of_a_graph_must_have_an_id() -> None:
    joined = Joined([{"k": 1}], [])
    options = Query(read=lambda _name: [{"k": 1}])
    with pytest.raises(CommandError) as refused:
        joined.engine.aggregate(LOCAL, [{"$graphLookup": GRAPH}], options=options)
    assert refused.value.code == 40271


@pytest.mark.parametrize("first", [1, None, "x", []])
@pytest.mark.parametrize("around", [None, "$facet", "$lookup", "$unionWith"])
def test_a_stage_that_is_no_object_is_refused_however_deep_it_stands(first: Any, around: str | None) -> None:
    for stage in (
        {"$lookup": {"from": "d", "pipeline": [first], "as": "x"}},
        {"$unionWith": {"coll": "d", "pipeline": [first]}},
    ):
        outer: Any = {
            None: stage,
            "$facet": {"$facet": {"a": [stage]}},
            "$lookup": {"$lookup": {"from": "d", "pipeline": [stage], "as": "x"}},
            "$unionWith": {"$unionWith": {"coll": "d", "pipeline": [stage]}},
        }[around]
        server = Server()
        server.fill("c", {"_id": 1})
        with pytest.raises(CommandError) as refused:
            server.run({"aggregate": "c", "pipeline": [outer], "cursor": {}})
        assert refused.value.code == 14


@pytest.mark.parametrize(
    "stage",
    [
        {"$unionWith": bson.Code("d")},
        {"$unionWith": {"coll": bson.Code("d")}},
        {"$lookup": {"from": bson.Code("d"), "as": "x", "pipeline": []}},
        {"$graphLookup": {**GRAPH, "from": bson.Code("d")}},
    ],
)
def test_code_names_no_collection(stage: dict[str, Any]) -> None:
    server = Server()
    for pipeline in ([stage], [{"$facet": {"a": [stage]}}]):
        with pytest.raises(CommandError) as refused:
            server.run({"aggregate": "c", "pipeline": pipeline, "cursor": {}})
        assert refused.value.code in {9, 14}


# Pipelines over the other collection: its indexes serve their searches, `let` is computed for each document.


def shops() -> Server:
    """Return a server with towns (indexed by nothing) and their shops (by text and by place)."""
    server = Server()
    server.fill("towns", {"_id": 1, "at": [0, 0], "name": "A"}, {"_id": 2, "at": [5, 5], "name": 7})
    server.fill("shops", {"_id": 1, "at": [0, 1], "sells": "tea"}, {"_id": 2, "at": [5, 6], "sells": "bread"})
    for key in ({"sells": "text"}, {"at": "2d"}):
        server.run({"createIndexes": "shops", "indexes": [{"key": key, "name": next(iter(key))}]})
    return server


def piped(server: Server, *pipeline: Document) -> list[Document]:
    """Return what a pipeline makes of the towns."""
    answer = server.run({"aggregate": "towns", "pipeline": list(pipeline), "cursor": {}})
    documents: list[Document] = answer["cursor"]["firstBatch"]
    return documents


def joined_ids(documents: list[Document]) -> list[list[int]]:
    return [[shop["_id"] for shop in document["shops"]] for document in documents]


def over_shops(*pipeline: Document, **options: Any) -> Document:
    return {"$lookup": {"from": "shops", "pipeline": list(pipeline), "as": "shops", **options}}


def test_a_text_search_within_a_stage_uses_the_index_of_the_other_collection() -> None:
    search = {"$match": {"$text": {"$search": "tea"}}}
    score = {"$addFields": {"score": {"$meta": "textScore"}}}
    assert joined_ids(piped(shops(), over_shops(search))) == [[1], [1]]
    first, *_others = piped(shops(), over_shops(search, score))
    assert first["shops"][0]["score"] > 0
    union = {"$unionWith": {"coll": "shops", "pipeline": [search]}}
    assert [document["_id"] for document in piped(shops(), union)] == [1, 2, 1]


def test_the_indexes_of_the_collection_outside_do_not_serve_the_pipeline_within() -> None:
    within = {"$lookup": {"from": "towns", "as": "x", "pipeline": [{"$match": {"$text": {"$search": "A"}}}]}}
    with pytest.raises(CommandError) as refused:
        shops().run({"aggregate": "shops", "pipeline": [within], "cursor": {}})
    assert refused.value.code == 27


def test_the_place_to_search_around_may_be_a_variable() -> None:
    near = {"$geoNear": {"near": "$$place", "distanceField": "far", "maxDistance": 2}}
    assert joined_ids(piped(shops(), over_shops(near, let={"place": "$at"}))) == [[1], [2]]


@pytest.mark.parametrize("options", [{}, {"localField": "none", "foreignField": "_id"}])
@pytest.mark.parametrize("pipeline", [[], [{"$match": {"sells": "tea"}}]])
def test_a_variable_that_fails_fails_the_stage_though_nothing_reads_it(
    options: Document, pipeline: list[Document]
) -> None:
    stage = over_shops(*pipeline, let={"bad": {"$add": ["$name", 1]}}, **options)
    with pytest.raises(CommandError) as refused:
        piped(shops(), stage)
    assert refused.value.code == 14


def test_a_pipeline_runs_also_where_no_document_of_the_other_collection_is_related() -> None:
    count = {"$facet": {"all": [{"$count": "n"}]}}
    documents = piped(shops(), over_shops(count, localField="name", foreignField="sells"))
    assert [document["shops"] for document in documents] == [[{"all": []}], [{"all": []}]]
