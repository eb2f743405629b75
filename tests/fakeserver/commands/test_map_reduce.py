"""mapReduce: by the engine, and the specification tests' own functions without it."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Code, Int64, ObjectId
from data_commands import Server

from fakeserver.errors import CommandError
from fakeserver.storage import javascript

MAP = "function inc() { return emit(0, this.x + 1) }"
REDUCE = "function sum(key, values) { return values.reduce((acc, x) => acc + x); }"
INLINE = {"map": Code(MAP), "reduce": Code(REDUCE), "out": {"inline": 1}}
BY_KIND = {"map": "function() { emit(this.kind, this.x) }", "reduce": "(k, v) => Array.sum(v)"}


def filled() -> Server:
    server = Server()
    server.fill("c", *({"_id": n, "x": n, "kind": "ab"[n % 2]} for n in range(5)))
    return server


def failure(command: dict[str, Any]) -> CommandError:
    with pytest.raises(CommandError) as caught:
        filled().run(command)
    return caught.value


@pytest.mark.parametrize("engine", [True, False])
@pytest.mark.parametrize(
    ("options", "value"),
    [({}, 15.0), ({"query": {"x": {"$gt": 0}}}, 14.0), ({"sort": {"x": -1}, "limit": 1}, 5.0)],
)
def test_the_functions_of_the_specification_tests_run_with_the_engine_and_without(
    options: dict[str, Any], value: float, monkeypatch: pytest.MonkeyPatch, *, engine: bool
) -> None:
    monkeypatch.setattr(javascript, "available", lambda: engine)
    reply = filled().run({"mapReduce": "c", **INLINE, **options})
    assert reply == {"results": [{"_id": 0.0, "value": value}]}


def test_over_nothing_there_are_no_results() -> None:
    assert filled().run({"mapReduce": "nothing", **INLINE}) == {"results": []}


def test_without_the_engine_other_functions_are_refused_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript, "available", lambda: False)
    error = failure({"mapReduce": "c", **BY_KIND, "out": {"inline": 1}})
    assert error.code == 31264
    assert "pip install 'pushbackd[javascript]'" in error.message


def test_values_are_reduced_by_key_in_the_order_of_keys() -> None:
    reply = filled().run({"mapReduce": "c", **BY_KIND, "out": {"inline": 1}})
    assert reply["results"] == [{"_id": "a", "value": 6.0}, {"_id": "b", "value": 4.0}]


def test_finalize_sees_key_and_value_and_every_function_sees_the_scope() -> None:
    finalize = "function(key, value) { return key + value * factor }"
    options = {"finalize": finalize, "scope": {"factor": 10}, "out": {"inline": 1}}
    reply = filled().run({"mapReduce": "c", **BY_KIND, **options})
    assert [each["value"] for each in reply["results"]] == ["a60", "b40"]


def test_a_value_that_stands_alone_is_not_reduced() -> None:
    functions = {"map": "function() { emit(this._id, this) }", "reduce": "function() { throw 'never' }"}
    server, id_ = Server(), ObjectId()
    server.fill("c", {"_id": id_, "long": Int64(1 << 60), "int": 7})
    reply = server.run({"mapReduce": "c", **functions, "out": {"inline": 1}})
    assert reply["results"] == [{"_id": id_, "value": {"_id": id_, "long": 1 << 60, "int": 7}}]


@pytest.mark.parametrize(
    ("out", "kept", "b"),
    [
        ("r", False, 4.0),
        ({"replace": "r"}, False, 4.0),
        ({"merge": "r"}, True, 4.0),
        ({"reduce": "r"}, True, 104.0),
    ],
)
def test_results_go_into_a_collection(out: Any, b: float, *, kept: bool) -> None:
    server = filled()
    server.fill("r", {"_id": "b", "value": 100.0}, {"_id": "z", "value": 1.0})
    assert server.run({"mapReduce": "c", **BY_KIND, "out": out}) == {"result": "r"}
    found = {each["_id"]: each["value"] for each in server.documents("r")}
    assert found == {"a": 6.0, "b": b} | ({"z": 1.0} if kept else {})


def test_results_go_into_another_database() -> None:
    server = filled()
    reply = server.run({"mapReduce": "c", **BY_KIND, "out": {"replace": "r", "db": "other"}})
    assert reply == {"result": {"db": "other", "collection": "r"}}
    assert server.run({"count": "r"}, db="other") == {"n": 2}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"map": 1}, 2),
        ({"map": Code("function() {}", {"a": 1})}, 2),
        ({"finalize": {}}, 2),
        ({"out": {}}, 2),
        ({"out": {"inline": 1, "merge": "r"}}, 2),
        ({"out": {"nonsense": 1}}, 2),
        ({"map": "function() { emit(1) }"}, 139),
        ({"map": "function() { nonsense() }"}, 139),
    ],
)
def test_what_cannot_be_mapped_and_reduced_is_refused(change: dict[str, Any], code: int) -> None:
    assert failure({"mapReduce": "c", **INLINE, **change}).code == code
