"""A real driver introduces itself: PyMongo, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import OperationFailure
from threaded_server import serving

import fakeserver
from fakeserver import ClusterSpec, UserSpec

SPEC = ClusterSpec.standalone(auth=True, users=(UserSpec("bob", "pwd123"),))
MECHANISMS = ["DEFAULT", "SCRAM-SHA-1", "SCRAM-SHA-256"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_asynchronous_pymongo_authenticates(mechanism: str) -> None:
    async def main() -> None:
        async with (
            fakeserver.start(SPEC) as cluster,
            AsyncMongoClient[dict[str, Any]](cluster.uri, authMechanism=mechanism) as client,
        ):
            await client.db.c.insert_one({"_id": 1})
            status = await client.admin.command("connectionStatus")
            assert status["authInfo"]["authenticatedUsers"] == [{"user": "bob", "db": "admin"}]

    asyncio.run(main())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_synchronous_pymongo_authenticates_and_a_wrong_password_does_not(mechanism: str) -> None:
    with serving(SPEC) as server:
        host, port = server.address
        with MongoClient[dict[str, Any]](
            host, port, username="bob", password="pwd123", authMechanism=mechanism
        ) as client:
            assert client.db.c.find_one() is None
        with (
            MongoClient[dict[str, Any]](
                host, port, username="bob", password="wrong", authMechanism=mechanism
            ) as client,
            pytest.raises(OperationFailure) as info,
        ):
            client.db.c.find_one()
        assert (info.value.code, info.value.details and info.value.details["errmsg"]) == (
            18,
            "Authentication failed.",
        )
        with MongoClient[dict[str, Any]](host, port) as client, pytest.raises(OperationFailure) as info:
            client.db.c.find_one()
        assert info.value.code == 13


def test_a_suite_of_a_driver_can_make_its_own_first_user() -> None:
    async def main() -> None:
        async with fakeserver.start(ClusterSpec.replica_set(3, auth=True)) as cluster:
            async with AsyncMongoClient[dict[str, Any]](cluster.uri) as client:
                await client.admin.command("createUser", "user", pwd="password", roles=["root"])
            known: dict[str, Any] = {"username": "user", "password": "password"}
            async with AsyncMongoClient[dict[str, Any]](cluster.uri, **known) as client:
                await client.db.c.insert_one({"_id": 1})
                assert (await client.admin.command("usersInfo", "user"))["users"][0]["db"] == "admin"

    asyncio.run(main())
