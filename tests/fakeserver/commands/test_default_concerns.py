"""setDefaultRWConcern: what holds where a client gives no concern, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Timestamp
from talking import REPLICA_SET, STANDALONE, Deployment, play

from fakeserver import ClusterSpec

INSERT = {"insert": "c", "documents": [{}], "$db": "db"}


def test_a_default_write_concern_holds_where_a_command_brings_none() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        before = await talker.ok({"getDefaultRWConcern": 1})
        assert before["defaultWriteConcernSource"] == "implicit"
        wanted = {"w": "majority", "wtimeout": 50}
        told = await talker.ok({"setDefaultRWConcern": 1, "defaultWriteConcern": wanted})
        assert told["defaultWriteConcern"] == wanted
        assert (told["defaultWriteConcernSource"], told["defaultReadConcernSource"]) == ("global", "implicit")
        for member in deployment.cluster.nodes[1:]:
            member.hold()
        error = (await talker.ok(dict(INSERT)))["writeConcernError"]
        assert error["code"] == 64
        assert error["errInfo"]["writeConcern"] == {**wanted, "provenance": "customDefault"}
        own = {**INSERT, "writeConcern": {"w": 1}}
        assert "writeConcernError" not in await talker.ok(own)
        without_w = {**INSERT, "writeConcern": {"wtimeout": 70}}
        assert (await talker.ok(without_w))["writeConcernError"]["errInfo"]["writeConcern"]["wtimeout"] == 70

    play(scenario, REPLICA_SET)


def test_a_default_read_concern_holds_where_a_read_states_none() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "majority"}})
        for member in deployment.cluster.nodes[1:]:
            member.hold()
        await talker.ok(dict(INSERT))
        assert (await talker.ok({"count": "c", "$db": "db"}))["n"] == 0
        local = {"readConcern": {"level": "local"}}
        assert (await talker.ok({"count": "c", "$db": "db", **local}))["n"] == 1

    play(scenario, REPLICA_SET)


def test_the_defaults_are_kept_in_the_settings_and_one_may_be_changed_alone() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "majority"}})
        await talker.ok({"setDefaultRWConcern": 1, "defaultWriteConcern": {"w": 1}})
        (kept,) = (await talker.ok({"find": "settings", "$db": "config"}))["cursor"]["firstBatch"]
        assert kept["_id"] == "ReadWriteConcernDefaults"
        assert kept["defaultReadConcern"] == {"level": "majority"}
        assert kept["defaultWriteConcern"] == {"w": 1, "wtimeout": 0}
        told = await talker.ok({"setDefaultRWConcern": 1, "defaultReadConcern": {}})
        assert told["defaultReadConcern"] == {"level": "local"}
        refused = await talker.fails({"setDefaultRWConcern": 1, "defaultWriteConcern": {}})
        assert refused["code"] == 20

    play(scenario, REPLICA_SET)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({}, 2),
        ({"defaultWriteConcern": {"w": 0}}, 2),
        ({"defaultWriteConcern": {"w": "elsewhere"}}, 79),
        ({"defaultWriteConcern": {"w": 50}}, 100),
        ({"defaultWriteConcern": {"wtimeout": 100}}, 2),
        ({"defaultWriteConcern": {"j": True}}, 2),
        ({"defaultReadConcern": {"level": "local"}, "writeConcern": {"w": "elsewhere"}}, 79),
        ({"defaultReadConcern": {"level": "local"}, "writeConcern": {"w": 50}}, 100),
        ({"defaultReadConcern": {"level": "snapshot"}}, 2),
        ({"defaultReadConcern": {"level": "x"}}, 2),
        ({"defaultReadConcern": {"afterClusterTime": Timestamp(1, 1)}}, 2),
        ({"defaultReadConcern": 1}, 14),
        ({"depth": 1}, 40415),
    ],
    ids=str,
)
def test_an_unsuitable_default_is_refused(command: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert (await talker.fails({"setDefaultRWConcern": 1, **command}))["code"] == code

    play(scenario, REPLICA_SET)


def test_a_standalone_has_no_defaults() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert (await talker.fails({"getDefaultRWConcern": 1}))["code"] == 51300

    play(scenario, STANDALONE)


def test_a_mongos_sets_the_defaults_of_the_cluster() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        told = await talker.ok({"setDefaultRWConcern": 1, "defaultWriteConcern": {"w": 1, "wtimeout": 9}})
        assert told["defaultWriteConcern"] == {"w": 1, "wtimeout": 9}
        assert "writeConcernError" not in await talker.ok(dict(INSERT))

    play(scenario, ClusterSpec.sharded())
