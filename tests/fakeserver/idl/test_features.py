"""What each release knows: commands, fields, stages, and the options of change streams."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64
from talking import Deployment, lsid, play

from fakeserver import ClusterSpec
from fakeserver.commands.default_table import default_table
from fakeserver.idl.features import ARGUMENTS, FIELDS, IN_TRANSACTIONS, STAGES, STRICT, TEXT_COMMENTS
from fakeserver.idl.fields import Fields
from fakeserver.profile import PROFILES

NEWEST_FIRST = list(PROFILES)
_UPDATE = {"q": {}, "u": {"$set": {"a": 1}}}


def aggregate(*stages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"aggregate": "c", "pipeline": list(stages), "cursor": {}, **more}


def before(release: str, code: int, later: int = 40415) -> dict[str, int]:
    """Return the codes of a refusal that another parser made before a release."""
    place = NEWEST_FIRST.index(release)
    return {name: code if NEWEST_FIRST.index(name) > place else later for name in PROFILES}


_BULK = {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "db.c"}], "$db": "admin"}
_MODIFY = {"findAndModify": "c", "remove": True}
_UPDATES = {"update": "c", "updates": [_UPDATE]}
_DELETES = {"delete": "c", "deletes": [{"q": {}, "limit": 1}]}
_EMPTY_TIMES = {"bypassEmptyTsReplacement": True}
_INDEXES = {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}

FEATURES: tuple[tuple[str, str, dict[str, Any], int | dict[str, int]], ...] = (
    ("4.4", "unionWith", aggregate({"$unionWith": "d"}), 40324),
    ("4.4", "delete hint", {"delete": "c", "deletes": [{"q": {}, "limit": 1, "hint": "_id_"}]}, 40415),
    ("4.4", "findAndModify hint", {**_MODIFY, "hint": "_id_"}, 51177),
    ("4.4", "find allowDiskUse", {"find": "c", "allowDiskUse": True}, 9),
    ("4.4", "commitQuorum", {**_INDEXES, "commitQuorum": "majority"}, 2),
    ("4.4", "hidden", {"collMod": "c", "index": {"name": "a", "hidden": False}}, 72),
    ("4.4", "find comment", {"find": "c", "comment": {"a": 1}}, 9),
    ("4.4", "aggregate comment", aggregate(comment={"a": 1}), 14),
    ("4.4", "insert comment", {"insert": "c", "documents": [{}], "comment": "a"}, 40415),
    ("4.4", "update comment", {**_UPDATES, "comment": "a"}, 40415),
    ("4.4", "delete comment", {**_DELETES, "comment": "a"}, 40415),
    ("4.4", "findAndModify comment", {**_MODIFY, "comment": "a"}, 51177),
    ("4.4", "createIndexes comment", {**_INDEXES, "comment": "a"}, 2),
    ("4.4", "collMod comment", {"collMod": "c", "comment": "a"}, 72),
    ("4.4", "create comment", {"create": "cc", "comment": "a"}, 72),
    ("4.4", "count comment", {"count": "c", "comment": {"a": 1}}, 14),
    ("4.4", "distinct comment", {"distinct": "c", "key": "a", "comment": {"a": 1}}, 14),
    ("5.0", "find let", {"find": "c", "let": {}}, 9),
    ("5.0", "aggregate let", aggregate(let={}), 9),
    ("5.0", "insert empty times", {"insert": "c", "documents": [{}], **_EMPTY_TIMES}, 40415),
    ("5.0", "update empty times", {**_UPDATES, **_EMPTY_TIMES}, 40415),
    ("5.0", "findAndModify empty times", {**_MODIFY, **_EMPTY_TIMES}, 51177),
    ("8.0", "bulkWrite empty times", {**_BULK, **_EMPTY_TIMES}, 59),
    ("5.0", "update let", {**_UPDATES, "let": {}}, 40415),
    ("5.0", "delete let", {**_DELETES, "let": {}}, 40415),
    ("5.0", "findAndModify let", {**_MODIFY, "let": {}}, 51177),
    ("5.0", "API version", {"find": "c", "apiVersion": "1"}, 9),
    ("5.0", "time series", {"create": "ts", "timeseries": {"timeField": "t"}}, before("4.4", 72)),
    ("5.0", "filter of the profiler", {"profile": 0, "filter": {}}, 40415),
    (
        "6.0",
        "clustered index",
        {"create": "ci", "clusteredIndex": {"key": {"_id": 1}, "unique": True}},
        before("4.4", 72),
    ),
    ("6.0", "images", {"create": "im", "changeStreamPreAndPostImages": {"enabled": True}}, before("4.4", 72)),
    (
        "6.0",
        "collMod images",
        {"collMod": "c", "changeStreamPreAndPostImages": {"enabled": True}},
        before("5.0", 72),
    ),
    (
        "6.0",
        "prepareUnique",
        {"collMod": "c", "index": {"name": "a", "prepareUnique": True}},
        before("5.0", 72),
    ),
    ("6.0", "expanded events", aggregate({"$changeStream": {"showExpandedEvents": True}}), 40415),
    ("6.0", "images before", aggregate({"$changeStream": {"fullDocumentBeforeChange": "off"}}), 40415),
    ("6.0", "images after", aggregate({"$changeStream": {"fullDocument": "whenAvailable"}}), 2),
    ("6.0", "split events", aggregate({"$changeStream": {}}, {"$changeStreamSplitLargeEvent": {}}), 40324),
    ("8.0", "update sort", {"update": "c", "updates": [{**_UPDATE, "sort": {"a": 1}}]}, 40415),
    ("8.0", "distinct hint", {"distinct": "c", "key": "a", "hint": "_id_"}, 40415),
    ("8.0", "bulkWrite", _BULK, 59),
    ("8.2", "find rawData", {"find": "c", "rawData": True}, before("5.0", 9)),
    ("8.2", "insert rawData", {"insert": "c", "documents": [{}], "rawData": True}, 40415),
)
"""The release that brought a feature, a command with it, and the code by which others refuse it."""


@pytest.mark.parametrize("profile", PROFILES)
def test_a_release_knows_what_came_with_it_or_before_and_nothing_else(profile: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({**_INDEXES, "$db": "db"})
        for since, name, command, code in FEATURES:
            reply = await talker.command({**command, "$db": command.get("$db", "db")})
            assert reply is not None
            known = NEWEST_FIRST.index(profile) <= NEWEST_FIRST.index(since)
            refused = code if isinstance(code, int) else code[profile]
            assert reply.get("code") == (None if known else refused), (name, reply)

    play(scenario, ClusterSpec.replica_set(1, profile=profile))


REFUSALS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("4.4", {"find": "c", "let": {}}, 'Failed to parse: { find: "c", let: {}, '),
    ("4.4", {"find": "c", "let": {}}, ". Unrecognized field 'let'."),
    (
        "4.2",
        {"find": "c", "comment": {"a": 1}},
        "Failed to parse: comment: { a: 1 }. 'comment' field must be ",
    ),
    ("4.4", {"find": "c", "skip": "a"}, ". 'skip' field must be numeric."),
    ("4.4", {"find": "c", "hint": 1}, "hint must be either a string or nested object"),
    ("4.4", {"getMore": Int64(1), "collection": "c", "x": 1}, ". Unrecognized field 'x'."),
    ("4.4", aggregate(let={}), "unrecognized field 'let'"),
    ("4.4", aggregate(hint=1), "hint must be specified as a string representing an index name, or an object"),
    ("4.2", aggregate(comment={"a": 1}), "comment must be a string, not a object"),
    ("4.4", {**_MODIFY, "let": {}}, "BSON field 'let' is an unknown field."),
    ("4.4", {**_UPDATES, "let": {}}, "BSON field 'update.let' is an unknown field."),
    ("4.4", {**_INDEXES, "x": 1}, "Invalid field specified for createIndexes command: x"),
    ("4.4", {"collMod": "c", "x": 1}, "unknown option to collMod: x"),
    ("4.4", {"collMod": "c", "index": {"x": 1}}, "Unrecognized field 'x' in 'index' option"),
    ("4.2", {"create": "d", "x": 1}, "The field 'x' is not a valid collection option. Options: { x: 1, "),
    ("4.4", {"create": "d", "x": 1}, "BSON field 'create.x' is an unknown field."),
    ("5.0", {"find": "c", "x": 1}, "BSON field 'find.x' is an unknown field."),
    ("5.0", {"collMod": "c", "x": 1}, "BSON field 'collMod.x' is an unknown field."),
)


@pytest.mark.parametrize(("profile", "command", "text"), REFUSALS)
def test_a_release_refuses_a_field_in_its_own_words(profile: str, command: dict[str, Any], text: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"create": "c", "$db": "db"})
        reply = await talker.command({**command, "$db": "db"})
        assert reply is not None
        assert text in reply["errmsg"]

    play(scenario, ClusterSpec.replica_set(1, profile=profile))


@pytest.mark.parametrize(
    "command", [{"find": "c"}, aggregate(), {"count": "c"}, {"distinct": "c", "key": "a"}]
)
def test_a_comment_of_text_was_always_known_to_queries(command: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        await (await deployment.connect()).ok({**command, "comment": "why", "$db": "db"})

    play(scenario, ClusterSpec.replica_set(1, profile="4.2"))


@pytest.mark.parametrize(
    "command", [{"drop": "c"}, {"listCollections": 1}, {"listIndexes": "c"}, {"ping": 1}]
)
def test_commands_that_were_not_strict_pass_over_newer_arguments(command: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"create": "c", "$db": "db"})
        await talker.ok({**command, "comment": "why", "rawData": True, "$db": "db"})

    play(scenario, ClusterSpec.replica_set(1, profile="4.2"))


MAKERS: dict[str, tuple[dict[str, Any], str]] = {
    "create": ({"create": "new"}, "Cannot run 'create' in a multi-document transaction."),
    "createIndexes": (
        {**_INDEXES, "createIndexes": "new"},
        "Cannot run 'createIndexes' in a multi-document transaction.",
    ),
    "insert": (
        {"insert": "new", "documents": [{}]},
        "Cannot create namespace db.new in multi-document transaction.",
    ),
    "upsert": (
        {"update": "new", "updates": [{**_UPDATE, "upsert": True}]},
        "Cannot create namespace db.new in multi-document transaction.",
    ),
}


@pytest.mark.parametrize("profile", ["4.2", "4.4"])
@pytest.mark.parametrize("maker", MAKERS)
def test_a_transaction_makes_collections_since_4_4(maker: str, profile: str) -> None:
    command, text = MAKERS[maker]

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        within = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        reply = await talker.command({**command, "$db": "db", **within, "startTransaction": True})
        assert reply is not None
        errors = reply.get("writeErrors", [] if reply["ok"] else [reply])
        said = [(error["code"], error["errmsg"]) for error in errors]
        assert said == ([(263, text)] if profile == "4.2" else [])
        commit = await talker.command({"commitTransaction": 1, "$db": "admin", **within})
        assert commit is not None
        assert commit.get("code") == (251 if profile == "4.2" else None)

    play(scenario, ClusterSpec.replica_set(1, profile=profile))


def test_a_database_pipeline_begins_with_documents_since_6_0() -> None:
    for profile in ("5.0", "6.0"):

        async def scenario(deployment: Deployment, profile: str = profile) -> None:
            command = {"aggregate": 1, "pipeline": [{"$documents": [{"a": 1}]}], "cursor": {}, "$db": "db"}
            reply = await (await deployment.connect()).command(command)
            assert reply is not None
            assert reply.get("code") == (40324 if profile == "5.0" else None)

        play(scenario, ClusterSpec.replica_set(1, profile=profile))


def test_every_declared_feature_came_with_a_release() -> None:
    wires = {profile.max_wire_version for profile in PROFILES.values()}
    declared = {since for fields in FIELDS.values() for since in fields.values()} | set(STAGES.values())
    declared |= {*ARGUMENTS.values(), *TEXT_COMMENTS.values(), *IN_TRANSACTIONS.values()}
    assert declared <= wires


def test_every_declared_field_is_one_of_its_command() -> None:
    table = default_table()
    for name, fields in FIELDS.items():
        spec = table.get(name)
        assert name.startswith("$") or (spec is not None and spec.fields is not None)
        for path in fields:
            at: Fields | str | None = None if spec is None else spec.fields
            for part in path.split(".") if at is not None else ():
                assert isinstance(at, Fields)
                assert part in at.by_name, (name, path)
                at = at.by_name[part].of


def test_what_all_releases_refuse_newer_arguments_of_is_strict() -> None:
    table = default_table()
    for name in STRICT:
        spec = table.get(name)
        assert spec is not None
        assert spec.fields is not None
        assert spec.fields.strict


@pytest.mark.parametrize(("profile", "known"), [("5.0", False), ("6.0", True)])
def test_commands_of_search_indexes_are_known_where_a_patch_release_brought_them(
    profile: str,
    known: bool,  # noqa: FBT001 - a case
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        command = {"createSearchIndexes": "c", "indexes": [{"definition": {}}], "$db": "db"}
        assert ((await talker.fails(command))["code"] != 59) == known
        reply = await talker.fails({**aggregate({"$listSearchIndexes": {}}), "$db": "db"})
        assert (reply["code"] != 40324) == known

    play(scenario, ClusterSpec.replica_set(1, profile=profile))


def test_a_release_shows_itself_as_its_last_patch_release() -> None:
    for profile in PROFILES.values():
        assert profile.version.startswith(f"{profile.name}.")
        assert (profile.version_array[2] > 0) == (profile.name != "9.0")
