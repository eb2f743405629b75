"""Names of fields that begin with a dollar sign, which servers before 5.0 do not store."""

from __future__ import annotations

from typing import Any

import pytest
from talking import Deployment, play

from fakeserver import ClusterSpec
from fakeserver.commands.writes.writing import check_insert, check_update
from fakeserver.errors import WriteError


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"_id": 1, "$a": 1}, "Document can't have $ prefixed field names: $a"),
        ({"_id": 1, "a.b": 1}, None),
        ({"_id": 1, "a": {"$b": 1}}, None),
        ({"_id": 1, "a": [{"$b": 1}]}, None),
    ],
)
def test_an_insert_is_looked_at_on_its_top_level(document: dict[str, Any], message: str | None) -> None:
    if message is None:
        check_insert(document)
        return
    with pytest.raises(WriteError) as refused:
        check_insert(document)
    assert (refused.value.code, refused.value.message) == (2, message)


_REF = {"$ref": "c", "$id": 1}


@pytest.mark.parametrize(
    ("after", "before", "refusal"),
    [
        ({"a": {"b": 1}}, None, None),
        ({"a.b": 1, "a": {"b.c": 1}}, None, None),
        ({"$a": 1}, None, (52, "The dollar ($) prefixed field '$a' in '$a' is not valid for storage.")),
        (
            {"a": {"$b": 1}},
            None,
            (52, "The dollar ($) prefixed field '$b' in 'a.$b' is not valid for storage."),
        ),
        (
            {"a": [1, {"$b": 1}]},
            None,
            (52, "The dollar ($) prefixed field '$b' in 'a.1.$b' is not valid for storage."),
        ),
        ({"a": {"$b": 1}, "c": 2}, {"a": {"$b": 1}, "c": 1}, None),
        ({"a": {"$b": 1, "c": 2}}, {"a": {"$b": 1}}, None),
        ({"a": [{"$b": 1}, 2]}, {"a": [{"$b": 1}]}, None),
        (
            {"a": {"$b": 2}},
            {"a": {"$b": 1}},
            (52, "The dollar ($) prefixed field '$b' in 'a.$b' is not valid for storage."),
        ),
        ({"a": _REF}, None, None),
        ({"a": {**_REF, "$db": "d", "x": 1}}, None, None),
        ({"a": {"$ref": "c"}}, None, (55, "The DBRef $ref field must be following by a $id field")),
        ({"a": {"$ref": 1, "$id": 1}}, None, (55, "The DBRef $ref field must be a String, not a int")),
        ({"a": {"$id": 1}}, None, (55, "Found $id field without a $ref before it, which is invalid.")),
        ({"a": {"$db": "d"}}, None, (55, "Found $db field without a $id before it, which is invalid.")),
        ({"a": {**_REF, "$db": 1}}, None, (55, "The DBRef $db field must be a String, not a int")),
    ],
)
def test_an_update_is_looked_at_where_it_changes_a_document(
    after: dict[str, Any], before: dict[str, Any] | None, refusal: tuple[int, str] | None
) -> None:
    if refusal is None:
        check_update(after, before)
        return
    with pytest.raises(WriteError) as refused:
        check_update(after, before)
    assert (refused.value.code, refused.value.message) == refusal


WRITES: dict[str, tuple[dict[str, Any], int]] = {
    "insert": ({"insert": "c", "documents": [{"_id": 2, "$a": 1}]}, 2),
    "replace": ({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"a": {"$b": 1}}}]}, 52),
    "set": ({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": {"$b": 1}}}}]}, 52),
    "upsert": ({"update": "c", "updates": [{"q": {"_id": 2}, "u": {"a": {"$b": 1}}, "upsert": True}]}, 52),
    "modify": ({"findAndModify": "c", "query": {"_id": 1}, "update": {"a": {"$b": 1}}}, 52),
}


@pytest.mark.parametrize("profile", ["4.2", "4.4", "5.0"])
@pytest.mark.parametrize("write", WRITES)
def test_a_release_stores_such_names_since_5_0(write: str, profile: str) -> None:
    command, code = WRITES[write]

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1, "x": {"$y": 1}}], "$db": "db"})
        reply = await talker.command({**command, "$db": "db"})
        assert reply is not None
        codes = [error["code"] for error in reply.get("writeErrors", [reply]) if "code" in error]
        assert codes == ([code] if profile < "5.0" else [])
        found = await talker.ok({"find": "c", "filter": {}, "$db": "db"})
        kept = found["cursor"]["firstBatch"]
        assert (kept == [{"_id": 1, "x": {"$y": 1}}]) is (profile < "5.0")

    play(scenario, ClusterSpec.replica_set(1, profile=profile))


def test_an_update_leaves_such_names_alone_that_an_insert_stored() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1, "x": {"$y": 1}}], "$db": "db"})
        update = {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}], "$db": "db"}
        assert (await talker.ok(update))["nModified"] == 1

    play(scenario, ClusterSpec.replica_set(1, profile="4.4"))
