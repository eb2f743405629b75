"""reIndex, convertToCapped and dbHash: what they make of a collection, and where they are refused."""

from __future__ import annotations

import hashlib
from typing import Any

import bson
import pytest
from talking import REPLICA_SET, STANDALONE, Deployment, play

from fakeserver import ClusterSpec


def test_a_standalone_makes_indexes_anew_and_tells_which() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        index = {"key": {"a": 1}, "name": "a_1"}
        await talker.ok({"createIndexes": "c", "indexes": [index], "$db": "db"})
        reply = await talker.ok({"reIndex": "c", "$db": "db"})
        assert (reply["nIndexesWas"], reply["nIndexes"]) == (2, 2)
        assert [each["name"] for each in reply["indexes"]] == ["_id_", "a_1"]

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("spec", "command", "code"),
    [
        (REPLICA_SET, {"reIndex": "c"}, 20),
        (STANDALONE, {"reIndex": "c"}, 26),
        (STANDALONE, {"convertToCapped": "c", "size": 100}, 26),
        (STANDALONE, {"convertToCapped": "c"}, 72),
        (STANDALONE, {"dbHash": 1, "collections": [1]}, 14),
        (ClusterSpec.sharded(), {"dbHash": 1}, 59),
    ],
    ids=str,
)
def test_what_cannot_be_converted_is_refused(spec: ClusterSpec, command: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert (await (await deployment.connect()).fails({**command, "$db": "db"}))["code"] == code

    play(scenario, spec)


def test_a_converted_collection_keeps_the_newest_documents_that_fit() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        documents = [{"_id": number, "text": "x" * 100} for number in range(10)]
        await talker.ok({"insert": "c", "documents": documents, "$db": "db"})
        await talker.ok({"convertToCapped": "c", "size": 4096, "$db": "db"})
        assert (await talker.ok({"count": "c", "$db": "db"}))["n"] == 10
        await talker.ok({"convertToCapped": "c", "size": 300, "$db": "db"})
        found = (await talker.ok({"find": "c", "$db": "db"}))["cursor"]["firstBatch"]
        assert found == documents[-len(found) :]
        assert 0 < len(found) < 10
        (described,) = (await talker.ok({"listCollections": 1, "$db": "db"}))["cursor"]["firstBatch"]
        assert described["options"] == {"capped": True, "size": 300}

    play(scenario, REPLICA_SET)


def test_a_hash_is_of_the_documents_in_the_order_of_their_ids() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "b", "documents": [{"_id": 2}, {"_id": 1}], "$db": "db"})
        await talker.ok({"create": "a", "capped": True, "size": 4096, "$db": "db"})
        reply = await talker.ok({"dbHash": 1, "$db": "db"})
        expected = hashlib.md5(bson.encode({"_id": 1}) + bson.encode({"_id": 2}), usedforsecurity=False)
        assert reply["collections"]["b"] == expected.hexdigest()
        assert reply["capped"] == ["a"]
        assert set(reply["uuids"]) == {"a", "b"}
        whole = "".join(reply["collections"][name] for name in ("a", "b")).encode()
        assert reply["md5"] == hashlib.md5(whole, usedforsecurity=False).hexdigest()
        only = await talker.ok({"dbHash": 1, "collections": ["b"], "$db": "db"})
        assert list(only["collections"]) == ["b"]

    play(scenario, REPLICA_SET)
