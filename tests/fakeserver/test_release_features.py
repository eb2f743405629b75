"""What each release knows: commands, fields, stages, and the options of change streams."""

from __future__ import annotations

from typing import Any

import pytest
from talking import Deployment, play

from fakeserver import ClusterSpec
from fakeserver.features import FIELDS, STAGES
from fakeserver.profile import PROFILES

NEWEST_FIRST = list(PROFILES)
_UPDATE = {"q": {}, "u": {"$set": {"a": 1}}}


def aggregate(*stages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"aggregate": "c", "pipeline": list(stages), "cursor": {}, **more}


FEATURES: tuple[tuple[str, str, dict[str, Any], int], ...] = (
    ("4.4", "unionWith", aggregate({"$unionWith": "d"}), 40324),
    ("4.4", "delete hint", {"delete": "c", "deletes": [{"q": {}, "limit": 1, "hint": "_id_"}]}, 40415),
    ("4.4", "findAndModify hint", {"findAndModify": "c", "remove": True, "hint": "_id_"}, 40415),
    ("5.0", "find let", {"find": "c", "let": {}}, 40415),
    ("5.0", "aggregate let", aggregate(let={}), 40415),
    ("5.0", "update let", {"update": "c", "updates": [_UPDATE], "let": {}}, 40415),
    ("5.0", "delete let", {"delete": "c", "deletes": [{"q": {}, "limit": 1}], "let": {}}, 40415),
    ("5.0", "findAndModify let", {"findAndModify": "c", "remove": True, "let": {}}, 40415),
    ("5.0", "time series", {"create": "ts", "timeseries": {"timeField": "t"}}, 40415),
    (
        "6.0",
        "clustered index",
        {"create": "ci", "clusteredIndex": {"key": {"_id": 1}, "unique": True}},
        40415,
    ),
    ("6.0", "images", {"create": "im", "changeStreamPreAndPostImages": {"enabled": True}}, 40415),
    ("6.0", "collMod images", {"collMod": "c", "changeStreamPreAndPostImages": {"enabled": True}}, 40415),
    ("6.0", "prepareUnique", {"collMod": "c", "index": {"name": "a", "prepareUnique": True}}, 40415),
    ("6.0", "expanded events", aggregate({"$changeStream": {"showExpandedEvents": True}}), 40415),
    ("6.0", "images before", aggregate({"$changeStream": {"fullDocumentBeforeChange": "off"}}), 40415),
    ("6.0", "images after", aggregate({"$changeStream": {"fullDocument": "whenAvailable"}}), 2),
    ("7.0", "split events", aggregate({"$changeStream": {}}, {"$changeStreamSplitLargeEvent": {}}), 40324),
    ("8.0", "update sort", {"update": "c", "updates": [{**_UPDATE, "sort": {"a": 1}}]}, 40415),
    ("8.0", "distinct hint", {"distinct": "c", "key": "a", "hint": "_id_"}, 40415),
    (
        "8.0",
        "bulkWrite",
        {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "db.c"}], "$db": "admin"},
        59,
    ),
)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_release_knows_what_came_with_it_or_before_and_nothing_else(profile: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}], "$db": "db"})
        for since, name, command, code in FEATURES:
            reply = await talker.command({**command, "$db": command.get("$db", "db")})
            assert reply is not None
            known = NEWEST_FIRST.index(profile) <= NEWEST_FIRST.index(since)
            assert reply.get("code") == (None if known else code), (name, reply)

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
    assert declared <= wires
