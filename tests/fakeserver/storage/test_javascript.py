"""Scripts in filters and expressions: what they see, what they give back, and where they end."""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import Any

import pytest
from bson import (
    Binary,
    Code,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from data_commands import Server
from hypothesis import given
from hypothesis import strategies as st

from fakeserver.errors import CommandError
from fakeserver.storage.scripts import javascript
from fakeserver.storage.scripts.javascript import MEMORY_BYTES, RunawayError, Runtime


def runtime() -> Runtime:
    return Runtime(epoch=0.0, longest=1e9, seed=1)


def result(code: str, *arguments: Any, this: Any = None) -> Any:
    world = runtime()
    return world.call(world.compile(code), {} if this is None else this, list(arguments)).value


def failure(command: dict[str, Any], server: Server | None = None) -> CommandError:
    server = server or Server()
    if not server.catalog.engine.stats(("db", "c")).count:  # type: ignore[arg-type]
        server.fill("c", {"_id": 1, "a": 1})
    with pytest.raises(CommandError) as caught:
        server.run(command)
    return caught.value


def ids(filter_: dict[str, Any]) -> list[Any]:
    server = Server()
    server.fill("c", *({"_id": n, "a": n, "tags": ["x"] * n} for n in range(4)))
    return [each["_id"] for each in server.documents("c", filter_)]


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("this.a > 1", [2, 3]),
        ("obj.a == 2;", [2]),
        ("return this.a == 1", [1]),
        ("function() { return this.tags.length == 3 }", [3]),
        ("function named() { return obj.a == 0 }", [0]),
        ("var limit = 2; return this.a >= limit;", [2, 3]),
        ("() => obj.a == 1", [1]),
        (Code("this.a == 3"), [3]),
        ("this.missing", []),
        ("this.a == null", []),
    ],
)
def test_where_holds_for_documents_for_which_its_script_is_true(script: str, found: list[int]) -> None:
    assert ids({"$where": script}) == found


@pytest.mark.parametrize(
    "filter_",
    [
        {"a": {"$gt": 0}, "$where": "this.a < 3"},
        {"$where": "this.a < 3", "a": {"$gt": 0}},
        {"$and": [{"$where": "this.a < 3"}, {"$where": "this.a > 0"}]},
        {"$nor": [{"$where": "this.a == 3"}, {"a": 0}]},
    ],
)
def test_where_stands_among_other_conditions(filter_: dict[str, Any]) -> None:
    assert ids(filter_) == [1, 2]


@pytest.mark.parametrize(
    "command",
    [
        {"count": "c", "query": {"$where": "this.a == 1"}},
        {"distinct": "c", "key": "a", "query": {"$where": "this.a == 1"}},
        {"delete": "c", "deletes": [{"q": {"$where": "this.a == 1"}, "limit": 0}]},
        {"update": "c", "updates": [{"q": {"$where": "this.a == 1"}, "u": {"$set": {"b": 1}}}]},
        {"findAndModify": "c", "query": {"$where": "this.a == 1"}, "remove": True},
    ],
    ids=lambda command: next(iter(command)),
)
def test_every_command_with_a_filter_takes_where(command: dict[str, Any]) -> None:
    server = Server()
    server.fill("c", {"_id": 1, "a": 1}, {"_id": 2, "a": 2})
    reply = server.run(command)
    assert reply.get("n", 1) == 1
    assert reply.get("values", [1]) == [1]


def test_function_computes_a_field() -> None:
    server = Server()
    server.fill("c", {"_id": 1, "a": 2})
    body = {"body": "function(a, b) { return {sum: a + b, list: [a]} }", "args": ["$a", 3], "lang": "js"}
    reply = server.run({"aggregate": "c", "pipeline": [{"$set": {"f": {"$function": body}}}], "cursor": {}})
    assert reply["cursor"]["firstBatch"] == [{"_id": 1, "a": 2, "f": {"sum": 5.0, "list": [2.0]}}]


def test_a_view_may_compute_with_scripts() -> None:
    server = Server()
    server.fill("c", {"_id": 2})
    body = {"body": "function(a) { return a * a }", "args": ["$_id"], "lang": "js"}
    server.run({"create": "v", "viewOn": "c", "pipeline": [{"$set": {"f": {"$function": body}}}]})
    assert server.documents("v") == [{"_id": 2, "f": 4.0}]


def test_accumulator_folds_a_group() -> None:
    server = Server()
    server.fill("c", *({"_id": n, "k": n % 2} for n in range(5)))
    folding = {
        "init": "function(start) { return {n: 0, sum: start} }",
        "initArgs": [100],
        "accumulate": "function(s, x) { return {n: s.n + 1, sum: s.sum + x} }",
        "accumulateArgs": ["$_id"],
        "merge": "function(a, b) { return a }",
        "finalize": "function(s) { return s.sum / s.n }",
        "lang": "js",
    }
    pipeline = [{"$group": {"_id": "$k", "f": {"$accumulator": folding}}}]
    reply = server.run({"aggregate": "c", "pipeline": pipeline, "cursor": {}})
    assert reply["cursor"]["firstBatch"] == [{"_id": 0, "f": 106 / 3}, {"_id": 1, "f": 52.0}]


# Values.

VALUES = [
    None,
    True,
    "text \u00e9 \U0001f600",
    1.5,
    float("inf"),
    Int64(1 << 62),
    Decimal128("1.10"),
    ObjectId("0123456789abcdef01234567"),
    dt.datetime(2020, 5, 17, 1, 2, 3, 4000),  # noqa: DTZ001 -- BSON dates are naive
    Timestamp(7, 8),
    Binary(b"abc", 5),
    b"bytes",
    Regex("^a", "i"),
    MinKey(),
    MaxKey(),
    Code("function() {}"),
    [1.5, ["x"], {}],
    {"a": {"$:": ["x"]}, "b": None},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_goes_through_a_script_as_it_was(value: Any) -> None:
    assert result("x => x", value) == value


def test_an_integer_comes_back_as_one_where_it_stood_and_else_as_a_double() -> None:
    given = {"a": 1, "deep": [{"n": 2}]}
    back = result("function(d) { d.b = d.a; d.c = d.a + 1; return d }", given)
    assert back == {**given, "b": 1.0, "c": 2.0}
    assert [type(back[name]) for name in "abc"] == [int, float, float]
    assert type(back["deep"][0]["n"]) is int


json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.text()
    | st.integers(-(1 << 31), (1 << 31) - 1),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.from_regex(r"\A[a-z$:]{1,3}\Z"), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(json_like)
def test_any_document_comes_back_equal(value: Any) -> None:
    assert result("x => x", {"v": value}) == {"v": value}


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("tojson({a: 1, b: ['x', null]})", '{ "a" : 1, "b" : [ "x", null ] }'),
        ("tojson(ObjectId('0123456789abcdef01234567'))", 'ObjectId("0123456789abcdef01234567")'),
        ("tojson(NumberLong(5))", "NumberLong(5)"),
        ("tojson(new NumberLong('9007199254740993'))", 'NumberLong("9007199254740993")'),
        ("tojson(NumberDecimal('1.5'))", 'NumberDecimal("1.5")'),
        ("tojson(ISODate('2020-01-01T00:00:00Z'))", 'ISODate("2020-01-01T00:00:00.000Z")'),
        ("tojson(Timestamp(1, 2))", "Timestamp(1, 2)"),
        ("tojson(BinData(0, 'AAAA'))", 'BinData(0,"AAAA")'),
        ("UUID('00112233-4455-6677-8899-aabbccddeeff').base64()", "ABEiM0RVZneImaq7zN3u/w=="),
        ("String(NumberLong(2) + 1)", "3"),
        ("String(Array.sum([1, 2, 3]))", "6"),
        ("String(new Date(0).getHours()) + new Date(0).getTimezoneOffset()", "00"),
        ("String(new Date(2020, 0, 2))", "Thu Jan 02 2020 00:00:00 GMT+0000 (UTC)"),
        ("print('nobody hears'); return typeof emit", "function"),
        ("typeof host + typeof require + typeof console", "undefinedundefinedundefined"),
        ("tojson(this.ref)", 'DBRef("c", 1)'),
    ],
)
def test_the_shells_names_are_there(script: str, shown: str) -> None:
    assert result(script, this={"ref": DBRef("c", 1.0)}) == shown


def test_what_bson_cannot_hold_is_left_out() -> None:
    assert result(r"({['a\0b']: '\ud800'})") == {"ab": "\ufffd"}


def test_the_same_seed_gives_the_same_random_numbers() -> None:
    assert result("Math.random()") == result("Math.random()")


# The end of a script.


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("nonsense.x", "ReferenceError: nonsense is not defined"),
        ("throw new Error('bang')", "Error: bang"),
        ("throw 5", "uncaught exception: 5"),
        ("function() { return f(); function f() { return f() + 1 } }", "RangeError: Maximum call stack"),
        ("x y", "SyntaxError: "),
    ],
)
def test_what_a_script_throws_fails_the_command(script: str, message: str) -> None:
    error = failure({"find": "c", "filter": {"$where": script}})
    assert error.code == 139
    assert message in error.message


def test_a_script_that_does_not_end_is_ended() -> None:
    world = runtime()
    number = world.compile("while (true) { try { while (true) {} } catch (error) {} }")
    with pytest.raises(RunawayError):
        world.call(number, {}, [])


def test_a_script_that_eats_memory_is_ended() -> None:
    world = runtime()
    number = world.compile("var kept = []; while (true) kept.push(new Array(100000).fill(1));")
    with pytest.raises((CommandError, RunawayError)):
        world.call(number, {}, [])
    assert MEMORY_BYTES <= 128 << 20


@pytest.mark.parametrize(
    ("filter_", "code", "message"),
    [
        ({"$where": 1}, 2, "$where got bad type"),
        ({"$where": Code("true", {"a": 1})}, 2, "$where no longer supports deprecated BSON type CodeWScope"),
        ({"a": {"$where": "true"}}, 2, "unknown operator: $where"),
    ],
)
def test_a_where_that_cannot_be_is_refused(filter_: dict[str, Any], code: int, message: str) -> None:
    error = failure({"find": "c", "filter": filter_})
    assert (error.code, error.message) == (code, message)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"body": None}, 31262),
        ({"body": "$field"}, 31432),
        ({"args": 1}, 31266),
        ({"lang": "lua"}, 31419),
        ("body", 31261),
        ("args", 31263),
        ("lang", 31418),
    ],
)
def test_a_function_that_cannot_be_is_refused(change: Any, code: int) -> None:
    spec: dict[str, Any] = {"body": "function() {}", "args": [], "lang": "js"}
    if isinstance(change, str):
        del spec[change]
    else:
        spec |= change
    assert failure({"find": "c", "filter": {"$expr": {"$function": spec}}}).code == code


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"aggregate": "c", "pipeline": [{"$match": {"$where": "true"}}], "cursor": {}}, 2),
        ({"create": "v", "validator": {"$where": "true"}}, 2),
        (
            {"create": "v", "validator": {"$expr": {"$function": {"body": "f", "args": [], "lang": "js"}}}},
            4660800,
        ),
    ],
)
def test_scripts_have_no_place_in_some_filters(command: dict[str, Any], code: int) -> None:
    assert failure(command).code == code


@pytest.mark.parametrize(("installed", "enabled"), [(False, True), (True, False)])
def test_without_an_engine_a_script_is_refused(
    monkeypatch: pytest.MonkeyPatch, *, installed: bool, enabled: bool
) -> None:
    monkeypatch.setattr(javascript, "available", lambda: installed)
    server = Server()
    server.node.javascript = enabled
    where = failure({"find": "c", "filter": {"$where": "this.a == 1"}}, server)
    assert where.code == 2
    assert where.message.startswith("no globalScriptEngine in $where parsing")
    spec = {"body": "function() {}", "args": [], "lang": "js"}
    function = failure({"find": "c", "filter": {"$expr": {"$function": spec}}}, server)
    assert function.code == 31264
    for error in (where, function):
        assert ("pip install 'pushbackd[javascript]'" in error.message) is enabled
    assert server.run({"buildInfo": 1}, db="admin")["javascriptEngine"] == "none"


def test_build_info_tells_of_the_engine() -> None:
    assert Server().run({"buildInfo": 1}, db="admin")["javascriptEngine"] == "mozjs"


@pytest.mark.parametrize("text", ["", "abc", "é" * 40, "x" * 1000], ids=len)
def test_a_script_hashes_a_text(text: str) -> None:
    expected = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    assert result("function(text) { return hex_md5(text) }", text) == expected
    assert result("function(text) { return MD5(text) }", text) == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("Array.stdDev([1, 3])", 1.0),
        ("Array.shuffle([1, 2, 3]).length", 3.0),
        ("Object.merge({a: 1}, {b: 2})", {"a": 1.0, "b": 2.0}),
        ("Object.extend({a: 1}, {a: 2})", {"a": 2.0}),
        ("Object.keySet({a: 1})", ["a"]),
        ("(7).zeroPad(3) + 'x'.pad(3) + 'y'.pad(3, true) + ' z'.ltrim()", "007  xy  z"),
        ("(0.5).toPercentStr()", "50.00%"),
        ("(assert(true), gc(), tojsonObject({a: 1}))", '{ "a" : 1 }'),
    ],
)
def test_a_script_has_a_servers_helpers(script: str, expected: Any) -> None:
    assert result(f"function() {{ return {script} }}") == expected


def test_an_assertion_of_a_script_fails_with_its_message() -> None:
    with pytest.raises(CommandError, match="assert failed : why"):
        result("function() { assert(false, 'why') }")
