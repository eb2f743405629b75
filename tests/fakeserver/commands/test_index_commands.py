"""The commands for indexes and what depends on the deployment and its release."""

from __future__ import annotations

from typing import Any

import pytest
from talking import REPLICA_SET, STANDALONE, Deployment, play

from fakeserver import ClusterSpec

INDEX = {"key": {"a": 1}, "name": "a_1"}


def make(**options: Any) -> dict[str, Any]:
    return {"createIndexes": "c", "indexes": [INDEX], "$db": "db", **options}


@pytest.mark.parametrize(
    ("quorum", "code"),
    [
        ("majority", None),
        ("votingMembers", None),
        (0, None),
        (3, None),
        (2.0, None),
        (4, 278),
        (51, 9),
        (-1, 9),
        (True, 9),
        ({}, 9),
        ([1], 9),
        ("everybody", 79),
    ],
)
def test_the_quorum_of_a_build_is_checked(quorum: Any, code: int | None) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.primary)
        reply = await talker.command(make(commitQuorum=quorum))
        assert reply is not None
        assert reply.get("code") == code
        assert reply.get("commitQuorum") == (quorum if code is None else None)
        names = await talker.command({"listIndexes": "c", "$db": "db"})
        assert names is not None
        assert (names["ok"] == 1.0) == (code is None)

    play(scenario, REPLICA_SET)


def test_a_standalone_has_no_quorum() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        reply = await talker.fails(make(commitQuorum="majority"))
        assert (reply["code"], reply["errmsg"]) == (2, "Standalones can't specify commitQuorum")
        assert "commitQuorum" not in await talker.ok(make())

    play(scenario, STANDALONE)


def test_a_text_index_may_have_an_expiry_and_a_view_says_ok_as_an_integer() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        text = {"key": {"d": "text"}, "name": "d_text", "expireAfterSeconds": 9}
        await talker.ok({"createIndexes": "c", "indexes": [text], "$db": "db"})
        await talker.ok({"insert": "c", "documents": [{"_id": 1, "d": "word"}], "$db": "db"})
        await talker.ok({"create": "v", "viewOn": "c", "$db": "db"})
        reply = await talker.ok({"distinct": "v", "key": "d", "$db": "db"})
        assert (reply["values"], type(reply["ok"])) == (["word"], int)

    play(scenario, STANDALONE)


def test_an_index_that_is_not_hidden_says_nothing_of_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        options = {"hidden": False, "unique": False, "sparse": False}
        await talker.ok({"createIndexes": "c", "indexes": [{**INDEX, **options}], "$db": "db"})
        cursor = (await talker.ok({"listIndexes": "c", "$db": "db"}))["cursor"]
        assert cursor["firstBatch"][1] == {"v": 2, **INDEX, "sparse": False}
        # To ask for it again, in whatever words, is to ask for the same.
        for again in ({}, {"hidden": False}, {"unique": False}):
            reply = await talker.ok({"createIndexes": "c", "indexes": [{**INDEX, **again}], "$db": "db"})
            assert reply["note"] == "all indexes already exist"

    play(scenario, STANDALONE)


@pytest.mark.parametrize("index", ["nope", {"z": 1}, ["nope"], ["a_1", "nope", "a_1"]])
@pytest.mark.parametrize("profile", ["8.2", "9.0"])
def test_to_drop_an_index_that_is_not_there_is_no_error_since_8_3(profile: str, index: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(make())
        reply = await talker.command({"dropIndexes": "c", "index": index, "$db": "db"})
        assert reply is not None
        left = len((await talker.ok({"listIndexes": "c", "$db": "db"}))["cursor"]["firstBatch"])
        if profile == "8.2":
            assert (reply["code"], left) == (27, 2)
        else:
            assert (reply["ok"], reply["nIndexesWas"]) == (1.0, 2)
            assert left == (1 if "a_1" in index else 2)
        for never, code in (("_id_", 72), ({"_id": 1}, 72)):
            assert (await talker.fails({"dropIndexes": "c", "index": never, "$db": "db"}))["code"] == code

    play(scenario, ClusterSpec.standalone(profile=profile))


@pytest.mark.parametrize("hint", [{"a": 1}, "a_1", None, {"$natural": 1}])
@pytest.mark.parametrize("command", ["find", "explain"])
def test_bounds_find_nothing_on_a_collection_that_is_not_there(command: str, hint: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        find = {"find": "nope", "min": {"a": 1}, "max": {"a": 5}, **({"hint": hint} if hint else {})}
        reply = await talker.ok(
            {**find, "$db": "db"} if command == "find" else {"explain": find, "$db": "db"}
        )
        assert command == "explain" or reply["cursor"]["firstBatch"] == []

    play(scenario, STANDALONE)


def test_a_collation_of_unknown_order_is_refused_when_it_must_order() -> None:
    chinese = {"collation": {"locale": "zh"}, "$db": "db"}

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        index = {**INDEX, "collation": {"locale": "zh"}}
        await talker.ok({"createIndexes": "c", "indexes": [index], "$db": "db"})
        await talker.ok({"insert": "c", "documents": [{"a": "b"}, {"a": "B"}, {"a": 1}], "$db": "db"})
        found = await talker.ok({"find": "c", "sort": {"a": 1}, **chinese})
        assert [each["a"] for each in found["cursor"]["firstBatch"]] == [1, "b", "B"]
        await talker.ok({"create": "d", **chinese})
        await talker.ok({"insert": "d", "documents": [{"a": "\u4e2d"}, {"a": "\u6587"}], "$db": "db"})
        equal = await talker.ok({"find": "d", "filter": {"a": "\u4e2d"}, "$db": "db"})
        assert len(equal["cursor"]["firstBatch"]) == 1
        assert (await talker.fails({"find": "d", "sort": {"a": 1}, "$db": "db"}))["code"] == 238

    play(scenario, STANDALONE)


_POINT = {"type": "Point", "coordinates": [0, 0]}


@pytest.mark.parametrize(
    ("key", "placed", "options"),
    [
        ({"a": "2d"}, [1, 2], {}),
        ({"a": "2dsphere"}, _POINT, {}),
        ({"a": "2dsphere", "b": 1}, _POINT, {"sparse": True}),
        ({"a.at": "2d"}, [{"at": [1, 2]}, {"at": [3, 4]}], {}),
    ],
    ids=str,
)
def test_a_geographic_index_holds_the_documents_that_are_somewhere(
    key: dict[str, Any], placed: Any, options: dict[str, Any]
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(
            {"createIndexes": "c", "indexes": [{"key": key, "name": "at", **options}], "$db": "db"}
        )
        documents = [{"_id": 1, "a": placed}, {"_id": 2, "b": 1}]
        await talker.ok({"insert": "c", "documents": documents, "$db": "db"})
        found = await talker.ok({"find": "c", "hint": "at", "$db": "db"})
        assert [each["_id"] for each in found["cursor"]["firstBatch"]] == [1]

    play(scenario, STANDALONE)


_BESIDE = {"key": {"a": 1, "$**": 1}, "name": "beside", "wildcardProjection": {"a": 0}}


@pytest.mark.parametrize(
    ("before", "write", "code"),
    [
        ({"a": 1}, {"insert": "c", "documents": [{"a": [1]}]}, 7246301),
        ({"a": 1}, {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": [1]}}}]}, 7246301),
        ({"a": 1}, {"insert": "c", "documents": [{"b": [1]}]}, None),
        ({"a": [1]}, None, 7246301),
    ],
    ids=str,
)
def test_a_field_beside_a_wildcard_holds_no_array(
    before: dict[str, Any], write: dict[str, Any] | None, code: int | None
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [before], "$db": "db"})
        reply = await talker.command({"createIndexes": "c", "indexes": [_BESIDE], "$db": "db"})
        if write is not None:
            reply = await talker.command({**write, "$db": "db"})
        assert reply is not None
        (error,) = reply.get("writeErrors", [reply])
        assert error.get("code") == code

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("hidden", "wanted", "code"),
    [
        ({"a": "text"}, {"$text": {"$search": "x"}}, 291),
        ({"a": "2d"}, {"a": {"$near": [0, 0]}}, 291),
    ],
    ids=str,
)
def test_a_hidden_index_serves_no_search(hidden: dict[str, Any], wanted: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        index = {"key": hidden, "name": "hidden", "hidden": True}
        await talker.ok({"createIndexes": "c", "indexes": [index], "$db": "db"})
        assert (await talker.fails({"find": "c", "filter": wanted, "$db": "db"}))["code"] == code
        shown = {"name": "hidden", "hidden": False}
        await talker.ok({"collMod": "c", "index": shown, "$db": "db"})
        await talker.ok({"find": "c", "filter": wanted, "$db": "db"})

    play(scenario, STANDALONE)


@pytest.mark.parametrize(("weights", "code"), [("x", 67), ([1], 67), (1, 14), ({"a": "x"}, 67)], ids=str)
def test_weights_are_an_object_of_numbers(weights: Any, code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        index = {"key": {"a": "text"}, "name": "words", "weights": weights}
        assert (await talker.fails({"createIndexes": "c", "indexes": [index], "$db": "db"}))["code"] == code

    play(scenario, STANDALONE)
