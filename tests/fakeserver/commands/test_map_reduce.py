"""mapReduce: by the engine, and the specification tests' own functions without it."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Code, Int64, ObjectId, Regex
from data_commands import Server
from talking import REPLICA_SET, Deployment, lsid, play

from fakeserver import ClusterSpec
from fakeserver.errors import CommandError
from fakeserver.storage.scripts import javascript

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


@pytest.mark.parametrize("scope", [{}, {"factor": 10}], ids=str)
def test_without_the_engine_other_functions_are_refused_with_the_fix(
    scope: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(javascript, "available", lambda: False)
    error = failure({"mapReduce": "c", **BY_KIND, "scope": scope, "out": {"inline": 1}})
    assert error.code == 31264
    assert "pip install 'pushbackd[javascript]'" in error.message


def test_a_scope_that_scripts_cannot_have_is_refused() -> None:
    assert (
        failure({"mapReduce": "c", **BY_KIND, "scope": {"x": Regex("[")}, "out": {"inline": 1}}).code == 139
    )


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


SECONDARY = {"$readPreference": {"mode": "secondary"}}


def by_kind(out: Any, **more: Any) -> dict[str, Any]:
    return {"mapReduce": "c", **BY_KIND, "out": out, "$db": "db", **more}


def insertion() -> dict[str, Any]:
    documents = [{"_id": n, "x": n, "kind": "ab"[n % 2]} for n in range(5)]
    return {"insert": "c", "documents": documents, "writeConcern": {"w": "majority"}, "$db": "db"}


@pytest.mark.parametrize("out", ["r", {"replace": "r"}, {"merge": "r"}, {"reduce": "r"}])
def test_a_secondary_refuses_to_write_results_and_gives_them_inline(out: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        await (await deployment.connect(deployment.primary)).ok(insertion())
        await deployment.sleep(1.0)
        talker = await deployment.connect(deployment.secondary)
        assert (await talker.fails(by_kind(out, **SECONDARY)))["code"] == 10107
        assert len((await talker.ok(by_kind({"inline": 1}, **SECONDARY)))["results"]) == 2

    play(scenario, REPLICA_SET)


@pytest.mark.parametrize("preference", [{}, SECONDARY])
@pytest.mark.parametrize("out", ["r", {"merge": "r", "db": "other"}])
def test_a_mongos_has_a_primary_write_the_results(out: Any, preference: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(insertion())
        await talker.ok(by_kind(out, **preference))
        db = "db" if isinstance(out, str) else "other"
        assert (await talker.ok({"count": "r", "$db": db}))["n"] == 2

    play(scenario, ClusterSpec.sharded())


def test_a_step_down_ends_a_map_reduce_that_waits_to_write() -> None:
    slow = "function() { sleep(2000); emit(this.kind, this.x) }"

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.primary)
        other = await deployment.connect(deployment.primary)
        await talker.ok(insertion())
        await talker.send(by_kind("r", map=slow))
        await deployment.sleep(0.5)
        await other.ok({"replSetStepDown": 10, "force": True})
        reply = await talker.reply()
        assert reply is not None
        assert reply["code"] == 11602
        await deployment.sleep(20.0)
        assert (await (await deployment.connect(deployment.primary)).ok({"count": "r", "$db": "db"}))[
            "n"
        ] == 0

    play(scenario, REPLICA_SET)


def test_results_wait_for_a_transaction_that_uses_their_collection() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, other = await deployment.connect(), await deployment.connect()
        await talker.ok(insertion())
        await talker.ok({"create": "r", "$db": "db"})
        in_transaction = {"lsid": lsid(1), "txnNumber": Int64(1), "autocommit": False}
        start = {"insert": "r", "documents": [{"_id": "b"}], "$db": "db", "startTransaction": True}
        await other.ok({**start, **in_transaction})
        await talker.send(by_kind("r"))
        await deployment.sleep(1.0)
        assert (await (await deployment.connect()).ok({"count": "r", "$db": "db"}))["n"] == 0
        await other.ok({"abortTransaction": 1, **in_transaction})
        reply = await talker.reply()
        assert reply is not None
        assert reply["ok"] == 1.0, reply

    play(scenario, ClusterSpec.replica_set(1))
