"""Both storage engines keep the contract, and do the same with the same operations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_engine import ModelEngine

from fakeserver.errors import CommandError
from fakeserver.storage.plans.index_keys import KeyMaker
from fakeserver.storage.port.engine import Changed, IndexSpec, Query, Update
from fakeserver.storage.store.collection_state import CollectionState
from fakeserver.storage.store.memory_engine import MemoryEngine
from fakeserver.storage.store.mongomock_engine import MongomockEngine
from harness.testing.storage_engine import NS, STATEMENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.storage.port.engine import StorageEngine

Operation = tuple[str, Any]

IDS = st.sampled_from([1, 2, 3, 4.0, "a", True, None])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 1.0, "a", "b"]))
FIELDS = st.sampled_from(["x", "y"])
DOCUMENTS = st.fixed_dictionaries({"_id": IDS}, optional={"x": SCALARS, "y": SCALARS})
CONDITIONS = st.one_of(
    SCALARS,
    st.builds(
        lambda name, value: {name: value}, st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), st.integers(-3, 3)
    ),
    st.builds(lambda values: {"$in": values}, st.lists(SCALARS, max_size=3)),
    st.builds(lambda value: {"$ne": value}, SCALARS),
    st.builds(lambda wanted: {"$exists": wanted}, st.booleans()),
)
PLAIN_FILTERS = st.dictionaries(st.sampled_from(["_id", "x", "y"]), CONDITIONS, max_size=2)
FILTERS = st.one_of(
    PLAIN_FILTERS,
    st.builds(
        lambda name, branches: {name: branches},
        st.sampled_from(["$or", "$and"]),
        st.lists(PLAIN_FILTERS, min_size=1, max_size=2),
    ),
)
CHANGES = st.one_of(
    st.builds(lambda field, value: {"$set": {field: value}}, FIELDS, SCALARS),
    st.builds(lambda field: {"$unset": {field: ""}}, FIELDS),
    st.builds(lambda field, value: {"$inc": {field: value}}, FIELDS, st.integers(-2, 2)),
    st.builds(lambda field, value: {"$push": {field: value}}, FIELDS, st.integers(0, 2)),
    st.dictionaries(FIELDS, SCALARS, min_size=1),
)
SORTS = st.one_of(st.none(), st.dictionaries(FIELDS, st.sampled_from([1, -1]), min_size=1))
NATURAL = {"$natural": 1}
"""The hint of what is compared with the model, which knows nothing of the order of a plan."""
QUERIES = st.builds(
    lambda wanted, sort, skip, limit: Query(wanted, sort=sort, skip=skip, limit=limit, hint=NATURAL),
    FILTERS,
    SORTS,
    st.integers(0, 2),
    st.integers(0, 3),
)
OPERATIONS = st.one_of(
    st.tuples(st.just("insert"), DOCUMENTS),
    st.tuples(st.just("find"), QUERIES),
    st.tuples(
        st.just("update"),
        st.builds(lambda wanted, change: Update(Query(wanted, hint=NATURAL), change), FILTERS, CHANGES),
    ),
    st.tuples(
        st.just("delete"),
        st.builds(
            lambda wanted, limit: Query(wanted, limit=limit, hint=NATURAL), FILTERS, st.sampled_from([0, 1])
        ),
    ),
)


@pytest.mark.parametrize("make", [MemoryEngine, ModelEngine], ids=lambda make: make.__name__)
@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.__name__)
def test_the_engine_keeps_the_contract(
    make: Callable[[], StorageEngine], statement: Callable[[Callable[[], StorageEngine]], None]
) -> None:
    statement(make)


LACKED = {
    "_a_second_document_with_an_id_is_refused": "to mongomock true is 1",
    "_a_range_of_ids_comes_in_their_order": "mongomock has no index on the ids",
    "_filters_select": "to mongomock true is 1",
    "_a_unique_index_over_duplicates_is_refused_unless_tolerant": "mongomock refuses it always",
    "_measurements_may_share_an_id": "mongomock keeps the documents by their ids",
    "_a_pipeline_runs_its_stages_in_order": "mongomock has another code for an unknown stage",
}


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.__name__)
def test_mongomock_keeps_the_contract_but_for_what_it_lacks(
    statement: Callable[[Callable[[], StorageEngine]], None],
) -> None:
    if statement.__name__ not in LACKED:
        statement(MongomockEngine)
        return
    with pytest.raises((AssertionError, CommandError)):
        statement(MongomockEngine)


@pytest.mark.parametrize("feature", ["$sample", "$lookup", "$out"])
def test_what_mongomock_is_not_asked_is_refused_by_name(feature: str) -> None:
    with pytest.raises(CommandError, match=re.escape(feature)) as caught:
        MongomockEngine().aggregate(NS, [{feature: {}}], options=Query())
    assert caught.value.code == 238


def outcome(engine: StorageEngine, operation: Operation) -> Any:
    """Return what an operation answers, or the code of its error."""
    name, argument = operation
    try:
        result = getattr(engine, name)(NS, argument)
    except CommandError as error:
        return int(error.code)
    return (result.matched, result.modified) if name == "update" else result


def has_arrays(engine: StorageEngine) -> bool:
    return any(isinstance(value, list) for each in engine.find(NS, Query()) for value in each.values())


@pytest.mark.slow
@given(st.lists(OPERATIONS, max_size=12))
def test_both_engines_do_the_same_with_any_simple_operations(operations: list[Operation]) -> None:
    engines: list[StorageEngine] = [MemoryEngine(), ModelEngine()]
    for engine in engines:
        engine.create_index(NS, IndexSpec("y_1", {"y": 1}, unique=True, sparse=True))
    for operation in operations:
        if has_arrays(engines[1]):
            break
        ours, models = (outcome(engine, operation) for engine in engines)
        assert ours == models, operation
    # Within another document, where the library leaves the order of fields alone.
    left, right = (bson.encode({"": engine.find(NS, Query())}) for engine in engines)
    assert left == right


def test_an_equality_on_the_id_reads_no_other_document(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = MemoryEngine()
    for number in range(10):
        engine.insert(NS, {"_id": number, "x": number})

    def refuse(_collection: CollectionState) -> None:
        raise AssertionError("a scan")

    monkeypatch.setattr(CollectionState, "items", refuse)
    assert engine.find(NS, Query({"_id": 7})) == [{"_id": 7, "x": 7}]
    assert engine.update(NS, Update(Query({"_id": 7}), {"$set": {"x": 1}})).modified == 1
    assert engine.delete(NS, Query({"_id": 7}, limit=1)) == [{"_id": 7, "x": 1}]
    engine.insert(NS, {"_id": 7, "x": [6, 7]})
    assert engine.find(NS, Query({"_id": {"$eq": 7}, "x": 7})) == [{"_id": 7, "x": [6, 7]}]
    assert engine.aggregate(NS, [{"$match": {"_id": 7}}], options=Query()) == [{"_id": 7, "x": [6, 7]}]
    with pytest.raises(AssertionError, match="a scan"):
        engine.find(NS, Query({"x": 7}))


def test_an_equality_on_the_first_field_of_an_index_reads_no_other_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = MemoryEngine()
    engine.create_index(NS, IndexSpec("x_1_y_1", {"x": 1, "y": 1}))
    for number in range(10):
        engine.insert(NS, {"_id": number, "x": number // 2, "y": number})

    def refuse(_collection: CollectionState) -> None:
        raise AssertionError("a scan")

    monkeypatch.setattr(CollectionState, "items", refuse)
    assert [each["_id"] for each in engine.find(NS, Query({"x": 3}))] == [6, 7]
    assert engine.update(NS, Update(Query({"x": 3, "y": 7}), {"$set": {"x": 4}})).modified == 1
    assert [each["_id"] for each in engine.delete(NS, Query({"x": 4.0}))] == [7, 8, 9]
    assert engine.find(NS, Query({"x": 4})) == []
    engine.drop_index(NS, "x_1_y_1")
    with pytest.raises(AssertionError, match="a scan"):
        engine.find(NS, Query({"x": 3}))


ODD = st.one_of(
    SCALARS,
    st.sampled_from([bson.Int64(1), bson.Decimal128("1.0"), bson.Binary(b"a", 4), b"a", float("nan"), []]),
    st.lists(st.one_of(SCALARS, st.lists(SCALARS, max_size=2)), max_size=3),
    st.fixed_dictionaries({}, optional={"z": SCALARS, "$eq": SCALARS}),
    st.lists(st.fixed_dictionaries({}, optional={"z": SCALARS}), max_size=2),
)
ODD_DOCUMENTS = st.fixed_dictionaries({"_id": IDS}, optional={"x": ODD, "y": ODD})
ODD_FILTERS = st.dictionaries(
    st.sampled_from(["_id", "x", "y.z", "x.0"]),
    st.one_of(ODD, st.builds(lambda value: {"$eq": value}, ODD), CONDITIONS),
    max_size=2,
)
ODD_QUERIES = st.builds(
    lambda wanted, sort, skip, limit, hint: Query(wanted, sort=sort, skip=skip, limit=limit, hint=hint),
    ODD_FILTERS,
    SORTS,
    st.integers(0, 1),
    st.integers(0, 2),
    st.sampled_from([None, {"$natural": -1}]),
)
ODD_OPERATIONS = st.one_of(
    st.tuples(st.just("insert"), ODD_DOCUMENTS),
    st.tuples(st.just("update"), st.builds(lambda found, to: Update(Query(found), to), ODD_FILTERS, CHANGES)),
    st.tuples(st.just("delete"), st.builds(lambda wanted: Query(wanted, limit=1), ODD_FILTERS)),
)


INDEXES = [
    IndexSpec("x", {"x": 1}),
    IndexSpec("y.z", {"y.z": -1}),
    IndexSpec("x.0", {"x.0": 1}),
    IndexSpec("_id, x", {"_id": 1, "x": -1}),
    IndexSpec("sparse", {"y.z": 1}, sparse=True, document={"sparse": True}),
    IndexSpec("partial", {"x": 1, "_id": 1}, document={"partialFilterExpression": {"x": {"$gt": 0}}}),
    IndexSpec("hashed", {"_id": "hashed"}),
]


def all_found(engine: StorageEngine, query: Query) -> tuple[Any, Any]:
    """Return what a query finds, and its filter at the head of a pipeline, or the codes of the errors."""
    try:
        matched: Any = engine.aggregate(NS, [{"$match": query.filter}], options=Query())
    except CommandError as error:
        matched = int(error.code)
    return in_any_order(outcome(engine, ("find", query))), in_any_order(matched)


def in_any_order(found: Any) -> Any:
    return sorted(map(repr, found)) if isinstance(found, list) else found


def test_a_null_in_an_array_cannot_hold_a_field_and_an_element_that_is_made_can() -> None:
    engine = MemoryEngine()
    engine.insert(NS, {"_id": 1, "a": [None]})
    with pytest.raises(CommandError, match=r"Cannot create field 'b' in element \{0: null\}"):
        engine.update(NS, Update(Query({}), {"$set": {"a.0.b": 1}}))
    engine.update(NS, Update(Query({}), {"$set": {"a.2.b": 1}}))
    assert engine.find(NS, Query({})) == [{"_id": 1, "a": [None, None, {"b": 1}]}]


@pytest.mark.parametrize("condition", [{"$ne": None}, {"$nin": [None, 1]}, {"$not": {"$gte": None}}])
@pytest.mark.parametrize("index", [IndexSpec("y.z", {"y.z": 1}), IndexSpec("y.z", {"y.z": 1}, sparse=True)])
def test_what_excludes_null_finds_an_empty_array_on_the_way_with_an_index_too(
    index: IndexSpec, condition: dict[str, Any]
) -> None:
    engine = MemoryEngine()
    engine.create_index(NS, index)
    for document in ({"_id": 1, "y": []}, {"_id": 2, "y": {"z": 2}}, {"_id": 3, "y": {}}):
        engine.insert(NS, document)
    assert [each["_id"] for each in engine.find(NS, Query({"y.z": condition}))] == [1, 2]


@pytest.mark.slow
@given(st.lists(ODD_DOCUMENTS, max_size=5), st.lists(ODD_OPERATIONS, max_size=4), ODD_QUERIES)
def test_indexes_change_nothing_that_is_found_but_its_order(
    documents: list[dict[str, Any]], operations: list[Operation], query: Query
) -> None:
    scanning, looking = MemoryEngine(), MemoryEngine()
    for index in INDEXES[:-1]:
        looking.create_index(NS, index)
    everything = query._replace(skip=0, limit=0)
    for operation in [*(("insert", document) for document in documents), *operations]:
        in_natural_order = [Query(each.filter, hint={"$natural": 1}) for each in _queries_of(operation)]
        stated = _with_query(operation, in_natural_order)
        assert repr(outcome(scanning, stated)) == repr(outcome(looking, stated)), operation
        assert all_found(scanning, everything) == all_found(looking, everything)
    late = looking.fork()
    late.create_index(NS, IndexSpec("late", {"x": 1}))
    late.drop_index(NS, "x")
    assert all_found(scanning, everything) == all_found(looking, everything) == all_found(late, everything)
    found = [outcome(engine, ("find", everything)) for engine in (scanning, looking, late)]
    if query.sort and isinstance(found[0], list):  # parallel arrays have no order
        keys = [[_sorted_by(query.sort, each) for each in documents] for documents in found]
        assert keys[0] == keys[1] == keys[2]


@given(
    st.lists(ODD_DOCUMENTS, max_size=6),
    st.lists(ODD_OPERATIONS, max_size=3),
    st.sampled_from(INDEXES[:3]),
    ODD,
    st.integers(0, 2),
    st.integers(0, 2),
)
def test_an_equality_finds_by_its_only_index_what_a_scan_finds_in_natural_order(
    documents: list[dict[str, Any]],
    operations: list[Operation],
    index: IndexSpec,
    value: Any,
    skip: int,
    limit: int,
) -> None:
    scanning, looking = MemoryEngine(), MemoryEngine()
    looking.create_index(NS, index)
    for operation in [*(("insert", document) for document in documents), *operations]:
        in_natural_order = [Query(each.filter, hint={"$natural": 1}) for each in _queries_of(operation)]
        for engine in (scanning, looking):
            outcome(engine, _with_query(operation, in_natural_order))
    wanted = Query({index.name: value}, skip=skip, limit=limit)
    natural = wanted._replace(hint={"$natural": 1})
    fork = looking.fork()
    fork.create_index(NS, IndexSpec("sparse", index.key, sparse=True, document={"sparse": True}))
    fork.drop_index(NS, index.name)
    found = repr(outcome(scanning, ("find", wanted)))
    assert found == repr(outcome(looking, ("find", natural))) == repr(outcome(fork, ("find", natural)))
    if not isinstance(value, list | dict):
        assert found == repr(outcome(looking, ("find", wanted)))


def _queries_of(operation: Operation) -> list[Query]:
    name, argument = operation
    return [argument.query] if name == "update" else [argument] if name == "delete" else []


def _with_query(operation: Operation, queries: list[Query]) -> Operation:
    name, argument = operation
    if name == "update":
        return name, argument._replace(query=queries[0])
    return (name, queries[0]._replace(limit=1)) if name == "delete" else operation


def _sorted_by(sort: Any, document: dict[str, Any]) -> list[str]:
    return [repr(document.get(name)) for name in sort if not isinstance(document.get(name), list | dict)]


@given(st.lists(ODD_DOCUMENTS, max_size=6), st.sampled_from(INDEXES), ODD_FILTERS)
def test_a_hinted_index_finds_what_it_holds_and_explain_counts_it(
    documents: list[dict[str, Any]], index: IndexSpec, wanted: dict[str, Any]
) -> None:
    engine = MemoryEngine()
    engine.create_index(NS, index)
    for document in documents:
        outcome(engine, ("insert", document))
    try:
        every = engine.find(NS, Query(wanted))
    except CommandError:
        return
    maker = KeyMaker(index)
    held = [document for document in every if maker.values(document)]
    hinted = engine.find(NS, Query(wanted, hint=index.name))
    assert in_any_order(hinted) == in_any_order(held)
    told = engine.explain(NS, Query(wanted, hint=index.name), run=True)
    assert (told.returned, told.index) == (len(held), index)
    assert told.keys >= told.documents >= told.returned


@given(st.lists(DOCUMENTS, max_size=6), IDS)
def test_the_short_cut_by_id_finds_what_a_scan_finds(documents: list[dict[str, Any]], wanted: Any) -> None:
    engine = MemoryEngine()
    for document in documents:
        outcome(engine, ("insert", document))
    short = engine.find(NS, Query({"_id": wanted}))
    assert short == engine.find(NS, Query({"$and": [{"_id": wanted}]}))
    assert short == engine.find(NS, Query({"_id": {"$in": [wanted]}}))
    assert engine.delete(NS, Query({"_id": wanted})) == short


def test_a_change_tells_how_it_was_made() -> None:
    engine = MemoryEngine()
    engine.insert(NS, {"_id": 1, "x": {"y": [1]}})
    changes: list[Changed] = []
    statements: tuple[Any, ...] = ({"$push": {"x.y": 2}}, [{"$set": {"z": 1}}], {"w": 1})
    for change in statements:
        engine.update(NS, Update(Query({"_id": 1}), change), accept=changes.append)
    assert [(each.replacement, each.touched) for each in changes] == [
        (False, (("$push", ("x", "y")),)),
        (False, None),
        (True, None),
    ]


def test_a_change_tells_what_its_document_takes() -> None:
    engine, seen = MemoryEngine(), list[Changed]()
    engine.insert(NS, {"_id": 1}, accept=seen.append)
    engine.update(NS, Update(Query(), {"$set": {"x": "long"}}), accept=seen.append)
    engine.delete(NS, Query(), accept=seen.append)
    kept = [change.before if change.after is None else change.after for change in seen]
    assert [change.size for change in seen] == [len(bson.encode(document or {})) for document in kept]
