from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from bson import Decimal128, Int64
from data_commands import Server
from turns import run_in_turns

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.expressions.regex import MatchLimitError, compile_regex
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.port.engine import Scope
from fakeserver.storage.stages.pipeline_stages import compile_pipeline
from fakeserver.storage.updates.updating import compile_update
from fakeserver.storage.values.limits import MAX_OPERATOR_BYTES, checked_document, weight
from fakeserver.storage.values.pacing import sorted_at_leisure
from fakeserver.waiting.interrupts import in_one_turn

if TYPE_CHECKING:
    from collections.abc import Callable

_MEMORY = 146
_NO_DISK = 292
_STRING = 16493
_TOO_LARGE = 10334
_CATASTROPHE = "(a|aa)+$"
_VICTIM = "a" * 60 + "!"


def evaluate(expression: Any, document: dict[str, Any] | None = None) -> Any:
    scope = Scope()
    return compile_expression(expression, scope)(scope.frame(document or {}))


def aggregate(*stages: Any, documents: Any = ({"_id": 1},), scope: Scope | None = None) -> Any:
    return compile_pipeline(list(stages), scope or Scope())(list(documents))


def code_of(work: Callable[[], Any]) -> int:
    with pytest.raises(CommandError) as raised:
        work()
    return int(raised.value.code)


def _doubled(value: Any, times: int) -> dict[str, Any]:
    return {"$reduce": {"input": {"$range": [0, times]}, "initialValue": value, "in": {}}}


def _doubling_strings() -> dict[str, Any]:
    doubled = _doubled("0123456789", 40)
    doubled["$reduce"]["in"] = {"$concat": ["$$value", "$$value"]}
    return doubled


def _doubling_arrays() -> dict[str, Any]:
    doubled = _doubled([1], 64)
    doubled["$reduce"]["in"] = {"$concatArrays": ["$$value", "$$value"]}
    return doubled


def _doubling_nests() -> dict[str, Any]:
    doubled = _doubled([1], 64)
    doubled["$reduce"]["in"] = ["$$value", "$$value"]
    return doubled


def _doubling_variables(depth: int) -> Any:
    if not depth:
        return "$$a"
    return {"$let": {"vars": {"a": ["$$a", "$$a"]}, "in": _doubling_variables(depth - 1)}}


_RUNAWAY = {
    "a range of 10^9": ({"$range": [0, 10**9]}, _MEMORY),
    "a range from back to front": ({"$range": [10**9, -(10**9), -1]}, _MEMORY),
    "strings that double": (_doubling_strings(), _STRING),
    "a replacement that multiplies": (
        {"$replaceAll": {"input": "a" * 10**5, "find": "a", "replacement": "b" * 10**5}},
        _STRING,
    ),
    "arrays that double": (_doubling_arrays(), _MEMORY),
    "arrays of themselves": (_doubling_nests(), _MEMORY),
    "variables of themselves": ({"$let": {"vars": {"a": 1}, "in": _doubling_variables(60)}}, _MEMORY),
    "a map of ranges": (
        {"$map": {"input": {"$range": [0, 10**6]}, "in": {"$range": [0, 10**6]}}},
        _MEMORY,
    ),
    "a zip of one with itself": (
        {"$let": {"vars": {"a": {"$range": [0, 10**5]}}, "in": {"$zip": {"inputs": ["$$a"] * 100}}}},
        _MEMORY,
    ),
    "matches without end": (
        {"$regexFindAll": {"input": {"$literal": "a" * 100_000}, "regex": f"(a){'()' * 40}"}},
        51151,
    ),
    "a search that backtracks": ({"$regexMatch": {"input": _VICTIM, "regex": _CATASTROPHE}}, 51156),
}


@pytest.mark.slow
@pytest.mark.parametrize(("expression", "code"), _RUNAWAY.values(), ids=list(_RUNAWAY))
def test_an_expression_that_would_grow_without_bounds_is_refused(expression: Any, code: int) -> None:
    assert code_of(lambda: evaluate(expression)) == code


def test_a_range_says_how_much_memory_it_would_take() -> None:
    with pytest.raises(CommandError, match=r"\$range would use too much memory \(16000000024 bytes\) and"):
        evaluate({"$range": [0, 10**9]})


@pytest.mark.parametrize(
    ("base", "exponent", "power"),
    [
        (2, 10**9, float("inf")),
        (-2, 10**9 + 1, float("-inf")),
        (3, 39, Int64(3**39)),
        (3, 40, 3.0**40),
        (2, 62, Int64(2**62)),
        (2, 63, 2.0**63),
        (-2, 63, Int64(-(2**63))),
        (1, -(10**18), 1),
        (-1, 10**18 + 1, Int64(-1)),
        (2, -1, 0.5),
        (Decimal128("10"), 10**9, Decimal128("Infinity")),
    ],
)
def test_a_power_is_an_integer_where_it_fits_one(base: Any, exponent: int, power: Any) -> None:
    found = evaluate({"$pow": [base, exponent]})
    assert found == power
    assert isinstance(found, float) == isinstance(power, float)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"$toInt": "-" + "0" * 20_000 + "7"}, -7),
        ({"$toLong": "0" * 5000}, 0),
        ({"$mod": [Decimal128("1E+6144"), 7]}, Decimal128(str(10**6144 % 7))),
        ({"$add": [Decimal128("Infinity"), Decimal128("-Infinity")]}, Decimal128("NaN")),
    ],
)
def test_numbers_of_many_digits_are_calculated_with(expression: Any, expected: Any) -> None:
    assert str(evaluate(expression)) == str(expected)


@pytest.mark.parametrize(
    "expression",
    [
        {"$toInt": "9" * 20_000},
        {"$toLong": "-" + "9" * 20_000},
        {"$toDecimal": "1e99999999999999999999"},
        {"$toDecimal": "1e6145"},
        {"$dateFromString": {"dateString": "1" * 90 + "x", "format": "%d" * 40}},
    ],
)
def test_what_is_too_large_to_convert_is_a_failed_conversion(expression: Any) -> None:
    assert code_of(lambda: evaluate(expression)) == 241


def test_the_last_of_two_equal_specifiers_of_a_format_counts() -> None:
    found = evaluate({"$dateFromString": {"dateString": "2020-01-02 03", "format": "%Y-%m-%d %d"}})
    assert found.day == 3


@pytest.mark.parametrize(
    ("operator", "value", "matches"),
    [
        ("$bitsAllSet", -1, True),
        ("$bitsAllSet", 1, False),
        ("$bitsAnySet", b"\xff", False),
        ("$bitsAllClear", b"\xff", True),
    ],
)
def test_a_bit_position_beyond_every_value_is_that_of_the_sign(
    operator: str, value: Any, *, matches: bool
) -> None:
    assert compile_filter({"a": {operator: [2**31 - 1, 2**30]}})({"a": value}) is matches


# Stages.


def test_an_array_that_is_unwound_again_and_again_is_never_held_as_a_whole() -> None:
    unwinding = [{"$unwind": "$a"}, {"$set": {"a": {"$range": [0, 1000]}}}] * 4
    made = aggregate(*unwinding, {"$limit": 3}, documents=[{"a": list(range(1000))}])
    assert len(made) == 3


@pytest.mark.slow
def test_documents_that_have_to_be_held_are_bounded() -> None:
    wide = {"_id": 1, "a": list(range(1000)), **{f"f{n}": "x" * 100 for n in range(50)}}
    stages = [{"$unwind": "$a"}, {"$set": {"a": {"$range": [0, 1000]}}}, {"$unwind": "$a"}]
    assert code_of(lambda: aggregate(*stages, {"$sort": {"a": 1}}, documents=[wide])) == _MEMORY


_PUSHED = {"$push": "a", "$addToSet": "b", "$concatArrays": "c", "$setUnion": "c"}


@pytest.mark.slow
@pytest.mark.parametrize("operator", list(_PUSHED))
def test_an_accumulator_holds_what_a_server_holds(operator: str) -> None:
    text = "x" * 10_000_000
    documents = [{"_id": n, "a": text, "b": f"{text}{n}", "c": [text, n]} for n in range(11)]
    stage = {"$group": {"_id": None, "found": {operator: f"${_PUSHED[operator]}"}}}
    assert code_of(lambda: aggregate(stage, documents=documents)) == _MEMORY


@pytest.mark.parametrize(
    "stage",
    [
        {"$sort": {"a": 1}},
        {"$group": {"_id": "$a"}},
        {"$bucketAuto": {"groupBy": "$a", "buckets": 2}},
    ],
    ids=lambda stage: next(iter(stage)),
)
def test_a_stage_without_the_disk_keeps_to_its_memory(stage: dict[str, Any]) -> None:
    documents = [{"_id": n, "a": f"{n}" + "x" * 10_000_000} for n in range(11)]
    assert code_of(lambda: aggregate(stage, documents=documents, scope=Scope(spills=False))) == _NO_DISK
    aggregate(stage, documents=documents)


def test_a_document_made_of_copies_of_itself_is_refused() -> None:
    stages = [{"$set": {"a": ["$a", "$a"]}}] * 60
    assert code_of(lambda: aggregate(*stages, documents=[{"a": "x"}])) == _TOO_LARGE


def test_a_facet_is_bounded() -> None:
    documents = [{"_id": n, "a": "x" * 10_000_000} for n in range(6)]
    assert code_of(lambda: aggregate({"$facet": {"a": [], "b": []}}, documents=documents)) == 4031700


def test_windows_that_hold_windows_are_bounded() -> None:
    documents = [{"_id": n, "a": "x" * 1000} for n in range(600)]
    output = {"all": {"$push": "$a", "window": {"documents": ["unbounded", "current"]}}}
    stage = {"$setWindowFields": {"sortBy": {"_id": 1}, "output": output}}
    assert code_of(lambda: aggregate(stage, documents=documents)) == 5414201


def test_a_value_weighs_as_much_as_what_stands_in_it_each_time_that_it_does() -> None:
    inner = ["x" * 84]
    assert weight([inner, inner]) - weight([inner]) == weight(inner)
    nested: Any = "x"
    for _ in range(100):
        nested = [nested, nested]
    assert weight(nested, MAX_OPERATOR_BYTES) > MAX_OPERATOR_BYTES
    assert code_of(lambda: checked_document({"a": nested})) == _TOO_LARGE


# Regular expressions.


def test_a_search_that_takes_too_long_is_no_match_to_a_query() -> None:
    pattern = compile_regex(_CATASTROPHE)
    with pytest.raises(MatchLimitError):
        pattern.search(_VICTIM)
    assert compile_filter({"a": {"$regex": _CATASTROPHE}})({"a": _VICTIM}) is False
    assert (
        compile_filter({"$jsonSchema": {"properties": {"a": {"pattern": _CATASTROPHE}}}})({"a": _VICTIM})
        is False
    )


def test_a_search_that_takes_too_long_fails_an_expression() -> None:
    with pytest.raises(CommandError, match=r"\$regexFind. Result code: match limit exceeded"):
        evaluate({"$regexFind": {"input": _VICTIM, "regex": _CATASTROPHE}})


def test_a_search_is_given_up_soon() -> None:
    began = time.process_time()
    compile_regex(_CATASTROPHE).matches(_VICTIM)
    assert time.process_time() - began < 1


# Turns.

_MANY = 3000
_ITEMS = list(range(_MANY))
_DOCUMENTS = [{"_id": n, "a": n, "b": [n]} for n in range(_MANY)]

_LONG_STAGES: dict[str, list[dict[str, Any]]] = {
    "$match": [{"$match": {"a": -1}}],
    "$project": [{"$project": {"a": 1}}],
    "$set": [{"$set": {"c": 1}}],
    "$unset": [{"$unset": "a"}],
    "$group": [{"$group": {"_id": "$a"}}],
    "$skip": [{"$skip": 10**9}],
    "$count": [{"$count": "n"}],
    "$replaceWith": [{"$replaceWith": {"a": "$a"}}],
    "$unwind": [{"$unwind": "$b"}],
    "$sample": [{"$sample": {"size": _MANY}}],
    "$bucket": [{"$bucket": {"groupBy": "$a", "boundaries": [0, 10**6]}}],
    "$bucketAuto": [{"$bucketAuto": {"groupBy": "$a", "buckets": 2}}],
    "$redact": [{"$redact": "$$KEEP"}],
    "$densify": [{"$densify": {"field": "a", "range": {"step": 1, "bounds": [0, _MANY]}}}],
    "$fill": [{"$fill": {"output": {"c": {"value": 1}}}}],
    "$setWindowFields": [
        {"$setWindowFields": {"sortBy": {"a": 1}, "output": {"r": {"$documentNumber": {}}}}}
    ],
    "$facet": [{"$facet": {"a": [{"$match": {"a": 1}}]}}],
}


@pytest.mark.parametrize("stages", _LONG_STAGES.values(), ids=list(_LONG_STAGES))
def test_a_stage_gives_way_between_documents(stages: list[dict[str, Any]]) -> None:
    run = run_in_turns(lambda: aggregate(*stages, documents=_DOCUMENTS))
    assert run.result == aggregate(*stages, documents=_DOCUMENTS)
    assert run.turns >= _MANY


_LONG_EXPRESSIONS: dict[str, Any] = {
    "$map": {"$map": {"input": "$a", "in": 1}},
    "$filter": {"$filter": {"input": "$a", "cond": False}},
    "$reduce": {"$reduce": {"input": "$a", "initialValue": 0, "in": 1}},
    "$zip": {"$zip": {"inputs": ["$a", "$a"]}},
    "$in": {"$in": [-1, "$a"]},
    "$sum": {"$sum": "$a"},
    "$max": {"$max": "$a"},
    "$setUnion": {"$setUnion": ["$a", [-1]]},
    "$sortArray": {"$sortArray": {"input": "$a", "sortBy": 1}},
    "$indexOfArray": {"$indexOfArray": ["$a", -1]},
    "$regexFindAll": {"$regexFindAll": {"input": "a" * _MANY, "regex": "a"}},
    "a literal array": list(range(_MANY)),
    "$and": {"$and": [True] * _MANY},
    "$stdDevPop": {"$stdDevPop": "$a"},
    "$anyElementTrue": {"$anyElementTrue": [[False] * _MANY]},
}


@pytest.mark.parametrize("expression", _LONG_EXPRESSIONS.values(), ids=list(_LONG_EXPRESSIONS))
def test_an_expression_gives_way_between_elements(expression: Any) -> None:
    run = run_in_turns(lambda: evaluate(expression, {"a": _ITEMS}))
    assert run.result == evaluate(expression, {"a": _ITEMS})
    assert run.turns >= _MANY // 256


_WIDE_FILTERS: dict[str, dict[str, Any]] = {
    "$in": {"a": {"$in": _ITEMS}},
    "$or": {"$or": [{"b": n} for n in _ITEMS]},
    "fields": {f"f{n}": None for n in _ITEMS},
    "$all": {"a": {"$all": _ITEMS}},
    "an array": {"a": -1},
    "$elemMatch": {"a": {"$elemMatch": {"$gt": 10**9}}},
    "positions of bits": {"b": {"$bitsAllSet": _ITEMS}},
}


@pytest.mark.parametrize("query", _WIDE_FILTERS.values(), ids=list(_WIDE_FILTERS))
def test_a_wide_filter_gives_way_while_it_is_compiled_or_run(query: dict[str, Any]) -> None:
    run = run_in_turns(lambda: compile_filter(query)({"a": _ITEMS, "b": 1}))
    assert run.turns >= _MANY // 256
    assert run.result is compile_filter(query)({"a": _ITEMS, "b": 1})


def test_long_pipelines_and_wide_projections_are_compiled_in_turns() -> None:
    assert run_in_turns(lambda: compile_pipeline([{"$limit": 1}] * 1000, Scope())).turns >= 1000
    wide = {f"f{n}": 1 for n in range(20_000)}
    assert run_in_turns(lambda: compile_pipeline([{"$project": wide}], Scope())).turns >= 20_000 // 256


def test_an_endless_product_of_arrays_can_be_left_at_any_time() -> None:
    axis = {"$range": [0, 10**4]}
    product = [{"$set": {"a": axis, "b": axis, "c": axis}}, *({"$unwind": f"${name}"} for name in "abc")]
    assert run_in_turns(lambda: aggregate(*product, {"$count": "n"}), most=5000).turns == 5000


@pytest.mark.parametrize("reverse", [False, True])
def test_a_sort_in_turns_is_the_sort_of_python(*, reverse: bool) -> None:
    items = [(n * 7919) % 1009 for n in range(70_000)]
    places = list(range(len(items)))
    run = run_in_turns(lambda: sorted_at_leisure(places, items.__getitem__, reverse=reverse))
    assert run.result == sorted(places, key=items.__getitem__, reverse=reverse)
    assert run.turns > 4


def test_what_an_update_makes_of_a_document_is_made_in_turns() -> None:
    change: Any = [{"$set": {"a": {"$map": {"input": {"$range": [0, 1000]}, "in": 1}}}}]
    updater = compile_update(change, Scope(), query={})
    run = run_in_turns(lambda: updater.apply({"_id": 1}))
    assert run.result == {"_id": 1, "a": [1] * 1000}
    assert run.turns > 4


def test_what_must_be_done_at_once_is_one_turn() -> None:
    def at_once() -> Any:
        with in_one_turn():
            return aggregate({"$count": "n"}, documents=_DOCUMENTS)

    assert run_in_turns(at_once).turns == 1


def test_adding_to_a_set_takes_time_for_each_element_once() -> None:
    updater = compile_update({"$addToSet": {"a": {"$each": list(range(0, 40_000, 2))}}}, Scope(), query={})
    began = time.process_time()
    changed = updater.apply({"_id": 1, "a": list(range(20_000))})
    assert len(changed["a"]) == 30_000
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "command",
    [
        {"find": "c", "sort": {"a": 1}},
        {"find": "c", "filter": {"a": {"$gt": ""}}, "sort": {"a": 1}, "limit": 1},
        {"aggregate": "c", "pipeline": [{"$group": {"_id": "$a"}}, {"$count": "n"}], "cursor": {}},
    ],
    ids=["find", "find one", "aggregate"],
)
def test_a_command_that_may_not_use_the_disk_keeps_to_its_memory(command: dict[str, Any]) -> None:
    server = Server()
    for number in range(11):
        server.fill("c", {"_id": number, "a": f"{number}" + "x" * 10_000_000})
    server.run({**command, "batchSize": 0} if "find" in command else command)
    assert code_of(lambda: server.run({**command, "allowDiskUse": False})) == _NO_DISK
