"""What servers say of themselves, also those that say less than ours: hosted, locked, half set up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from harness.adapters.deployment import Topology
from harness.deployments.external import DeploymentError, DeploymentSurvey, survey

if TYPE_CHECKING:
    from collections.abc import Mapping

PRIMARY = {
    "ok": 1,
    "isWritablePrimary": True,
    "setName": "rs0",
    "hosts": ["a:1", "b:1"],
    "passives": ["c:1"],
    "arbiters": ["d:1"],
    "primary": "a:1",
    "me": "a:1",
}
UNAUTHORIZED = {"ok": 0, "code": 13, "errmsg": "not authorized on admin"}
SAID: dict[str, Mapping[str, Any]] = {
    "hello": {"ok": 1, "isWritablePrimary": True},
    "buildInfo": {"ok": 1, "version": "7.0.14", "versionArray": [7, 0, 14, 0]},
    "connectionStatus": {"ok": 1, "authInfo": {"authenticatedUsers": []}},
    "listDatabases": {"ok": 1, "databases": []},
    "getParameter": {"ok": 1, "enableTestCommands": True},
}


def surveyed(*, load_balanced: bool = False, **said: Any) -> DeploymentSurvey:
    replies: dict[str, Any] = {**SAID, **said}

    async def ask(database: str, command: Mapping[str, Any]) -> Mapping[str, Any]:
        assert database == "admin"
        reply: Mapping[str, Any] = replies[next(iter(command))]
        return reply

    return asyncio.run(survey(ask, load_balanced=load_balanced))


@pytest.mark.parametrize(
    ("hello", "load_balanced", "topology"),
    [
        ({"isWritablePrimary": True}, False, Topology.SINGLE),
        (PRIMARY, False, Topology.REPLICA_SET),
        ({"isWritablePrimary": True, "msg": "isdbgrid"}, False, Topology.SHARDED),
        ({"isWritablePrimary": True, "msg": "isdbgrid", "serviceId": 1}, True, Topology.LOAD_BALANCED),
    ],
)
def test_hello_tells_the_topology(
    hello: Mapping[str, Any], *, load_balanced: bool, topology: Topology
) -> None:
    assert surveyed(load_balanced=load_balanced, hello={"ok": 1, **hello}).topology is topology


def test_members_are_those_that_hold_data_and_that_clients_are_shown() -> None:
    said = surveyed(hello=PRIMARY)
    assert (said.set_name, said.primary, said.members) == ("rs0", "a:1", ("a:1", "b:1", "c:1"))


@pytest.mark.parametrize(
    ("build_info", "version"),
    [
        ({"version": "8.1.0-rc2", "versionArray": [8, 1, 0, -48]}, (8, 1, 0)),
        ({"version": "6.0.2-foreign"}, (6, 0, 2)),
    ],
)
def test_the_version_has_three_numbers(build_info: Mapping[str, Any], version: tuple[int, ...]) -> None:
    assert surveyed(buildInfo={"ok": 1, **build_info}).server_version == version


def test_who_is_logged_in_has_servers_with_access_control() -> None:
    users = [{"user": "bob", "db": "admin"}]
    status = {"ok": 1, "authInfo": {"authenticatedUsers": users}}
    assert surveyed(connectionStatus=status).auth is True
    assert surveyed().auth is False


def test_servers_without_an_answer_to_who_is_logged_in_are_tried() -> None:
    assert surveyed(connectionStatus={"ok": 0, "code": 59}).auth is False


def test_parameters_that_cannot_be_read_are_missing_and_noted() -> None:
    said = surveyed(getParameter=UNAUTHORIZED)
    assert said.parameters == {}
    assert said.notes == (
        (
            "the server's parameters cannot be read, so cases that ask for some are skipped:"
            " not authorized on admin"
        ),
    )


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            {"listDatabases": UNAUTHORIZED},
            "the server requires authentication: name a user in the connection string",
        ),
        ({"hello": {"ok": 0, "errmsg": "Authentication failed."}}, "refuses hello: Authentication failed"),
        (
            {"buildInfo": {"ok": 0, "errmsg": "The apiVersion parameter is required"}},
            "refuses buildInfo: The apiVersion parameter is required",
        ),
        ({"hello": {"ok": 1, "isreplicaset": True, "isWritablePrimary": False}}, "replSetInitiate"),
        (
            {"hello": {**PRIMARY, "isWritablePrimary": False, "me": "b:1"}},
            "b:1 takes no writes, its primary is a:1: name that one, or leave out directConnection",
        ),
    ],
)
def test_servers_on_which_nothing_can_run_are_refused(said: dict[str, Any], message: str) -> None:
    with pytest.raises(DeploymentError, match=message):
        surveyed(**said)
