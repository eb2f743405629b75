"""Each operator answers as its page of the manual shows, and each has a case here."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson import Binary
from operator_examples import ABSENT, Refused
from operator_examples.commands import QUERIES, STORED, UPDATES
from operator_examples.expressions import DOCUMENT, EXPRESSIONS
from operator_examples.pipelines import ACCUMULATORS, POINTS, SALES, STAGES, WINDOWS
from pipelines import piped

from fakeserver.errors import CommandError
from fakeserver.idl import features
from fakeserver.profile import WIRE_42, WIRE_44, WIRE_50, WIRE_60, WIRE_70, WIRE_80, WIRE_82
from fakeserver.storage.expressions import accumulators
from fakeserver.storage.expressions.compiler import expression_names
from fakeserver.storage.filters import matching
from fakeserver.storage.port.engine import Namespace, Query, Update
from fakeserver.storage.stages import pipeline_stages, window_functions
from fakeserver.storage.store.memory_engine import MemoryEngine
from fakeserver.storage.updates import update_operators

if TYPE_CHECKING:
    from collections.abc import Callable

NS = Namespace("db", "c")
UNPREDICTABLE = {"$rand", "$createObjectId", "$function"}
"""Operators without an answer that a table may hold: what they draw, or make of a script."""


def answer(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except CommandError as error:
        return Refused(int(error.code))


def same(found: Any, expected: Any) -> bool:
    """Return whether two answers are the same, down to types of numbers and order of fields."""
    if expected is ABSENT or isinstance(expected, Refused) or found is ABSENT or isinstance(found, Refused):
        return bool(found is expected or found == expected)
    return bool(bson.encode({"": found}) == bson.encode({"": expected}))


@pytest.mark.parametrize("name", sorted(EXPRESSIONS))
def test_an_expression_answers_as_its_page_shows(name: str) -> None:
    def value(argument: Any) -> Any:
        (found,) = piped([DOCUMENT], {"$replaceWith": {"r": {name: argument}}})
        return found.get("r", ABSENT)

    for argument, expected in EXPRESSIONS[name]:
        found = answer(partial(value, argument))
        assert same(found, expected), (argument, found, expected)


def test_each_expression_has_a_case() -> None:
    assert EXPRESSIONS.keys() == expression_names()
    assert {name for name, cases in EXPRESSIONS.items() if not cases} == UNPREDICTABLE


@pytest.mark.parametrize("name", sorted(ACCUMULATORS))
def test_an_accumulator_answers_as_its_page_shows(name: str) -> None:
    def value(argument: Any) -> Any:
        (found,) = piped(SALES, {"$group": {"_id": None, "r": {name: argument}}})
        return found["r"]

    for argument, expected in ACCUMULATORS[name]:
        found = answer(partial(value, argument))
        assert same(found, expected), (argument, found, expected)


@pytest.mark.parametrize("name", sorted(WINDOWS))
def test_a_window_function_answers_as_its_page_shows(name: str) -> None:
    def values(spec: Any) -> Any:
        found = piped(POINTS, {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"r": spec}}})
        return [each["r"] for each in found]

    for spec, expected in WINDOWS[name]:
        found = answer(partial(values, spec))
        assert same(found, expected), (spec, found, expected)


@pytest.mark.parametrize("name", sorted(STAGES))
def test_a_stage_answers_as_its_page_shows(name: str) -> None:
    for documents, argument, expected in STAGES[name]:
        found = answer(partial(piped, documents, {name: argument}))
        assert same(found, expected), (argument, found, expected)


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_a_query_operator_answers_as_its_page_shows(name: str) -> None:
    engine = MemoryEngine()
    for document in STORED:
        engine.insert(NS, document)

    def ids(wanted: Any) -> Any:
        return [each["_id"] for each in engine.find(NS, Query(wanted))]

    for wanted, expected in QUERIES[name]:
        found = answer(partial(ids, wanted))
        assert same(found, expected), (wanted, found, expected)


@pytest.mark.parametrize("name", sorted(UPDATES))
def test_an_update_operator_answers_as_its_page_shows(name: str) -> None:
    def changed(before: Any, change: Any) -> Any:
        engine = MemoryEngine()
        engine.insert(NS, {"_id": 1, **before})
        engine.update(NS, Update(Query({"_id": 1}), change))
        (after,) = engine.find(NS, Query())
        return {name: value for name, value in after.items() if name != "_id"}

    for before, change, expected in UPDATES[name]:
        found = answer(partial(changed, before, change))
        assert same(found, expected), (before, change, found, expected)


@pytest.mark.parametrize(
    ("table", "names", "without"),
    [
        (ACCUMULATORS, accumulators.NAMES, {"$accumulator"}),
        (WINDOWS, window_functions.NAMES, set()),
        (STAGES, pipeline_stages.NAMES, set()),
        (QUERIES, matching.NAMES, set()),
        (UPDATES, {*update_operators.OPERATORS, "$rename"}, set()),
    ],
    ids=["accumulators", "window functions", "stages", "query operators", "update operators"],
)
def test_each_other_operator_has_a_case(table: dict[str, Any], names: set[str], without: set[str]) -> None:
    """`without` are those that need more than a table can hold: scripts."""
    assert table.keys() | without == set(names)


RELEASES = (WIRE_42, WIRE_44, WIRE_50, WIRE_60, WIRE_70, WIRE_80, WIRE_82)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("since", "stage", "code"),
    [
        (features.EXPRESSIONS, lambda name: {"$set": {"r": {name: "$$nobody"}}}, 168),
        (features.ACCUMULATORS, lambda name: {"$group": {"_id": None, "r": {name: "$$nobody"}}}, 15952),
        (features.WINDOWS, lambda name: {"$setWindowFields": {"output": {"r": {name: "$$nobody"}}}}, 9),
    ],
    ids=["expressions", "accumulators", "window functions"],
)
def test_a_release_does_not_know_the_operators_of_later_ones(
    since: dict[str, int], stage: Callable[[str], Any], code: int, release: int
) -> None:
    unknown = (
        *("Unrecognized expression", "unknown group operator"),
        *("Unrecognized window function", "Unrecognized pipeline stage"),
    )

    def refused(name: str) -> bool:
        try:
            piped([], stage(name), release=release)
        except CommandError as error:
            return int(error.code) in {code, 40324} and any(each in error.message for each in unknown)
        return False

    assert {name for name in since if refused(name)} == {
        name for name, first in since.items() if first > release
    }


@pytest.mark.parametrize(
    ("expression", "since", "expected"),
    [
        ({"$map": {"input": "$a", "arrayIndexAs": "i", "in": {"$add": ["$$i", "$$this"]}}}, 29, [5, 7, 9]),
        ({"$map": {"input": "$a", "in": "$$IDX"}}, 29, [0, 1, 2]),
        ({"$filter": {"input": "$a", "cond": {"$gt": ["$$IDX", 0]}}}, 29, [6, 7]),
        ({"$reduce": {"input": "$a", "initialValue": 0, "in": {"$add": ["$$value", "$$IDX"]}}}, 29, 3),
        ({"$filter": {"input": "$a", "cond": True, "limit": 1}}, 17, [5]),
        ({"$convert": {"input": "f", "to": "int", "base": 16}}, 27, 15),
        ({"$convert": {"input": "$a", "to": "binData"}}, 29, Binary(bytes([3, 0, 5, 6, 7]), 9)),
    ],
    ids=str,
)
def test_a_release_does_not_know_the_arguments_of_later_ones(
    expression: dict[str, Any], since: int, expected: Any
) -> None:
    def found(release: int) -> Any:
        return piped([{"a": [5, 6, 7]}], {"$replaceWith": {"r": expression}}, release=release)[0]["r"]

    assert found(0) == found(since) == expected
    before = max(each for each in RELEASES if each < since)
    with pytest.raises(CommandError, match=r"IDX|parameter|argument|conversion"):
        found(before)
