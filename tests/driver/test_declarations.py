"""What a client says of itself with every command and every connection: its API version and its metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from driven_client import Stage, play
from scripted_mongod import Drop, ScriptedMongod, replica_set, standalone_hello, topology_version

from driver.cmap.metadata import DriverInfo, client_metadata
from driver.errors import ConfigurationError, DriverError
from driver.server_api import ServerApi

if TYPE_CHECKING:
    from collections.abc import Callable

DECLARED = {"apiVersion": "1"}


def declared(command: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in command.items() if name.startswith("api")}


# --- versioned API ---


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        (ServerApi("1"), DECLARED),
        (ServerApi("1", strict=True), {**DECLARED, "apiStrict": True}),
        (ServerApi("1", strict=False), {**DECLARED, "apiStrict": False}),
        (ServerApi("1", deprecation_errors=True), {**DECLARED, "apiDeprecationErrors": True}),
    ],
)
def test_only_what_was_declared_is_sent(api: ServerApi, fields: dict[str, Any]) -> None:
    assert api.fields() == fields


def test_an_unknown_version_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ConfigurationError, match="unknown server API version '2'"):
        ServerApi("2")


def test_every_command_declares_the_version_get_more_and_transactions_too() -> None:
    async def scenario(stage: Stage) -> None:
        first = {"ok": 1.0, "cursor": {"id": 5, "ns": "db.things", "firstBatch": [{"x": 1}]}}
        stage.primary.will("find", first)
        stage.primary.will("getMore", {"ok": 1.0, "cursor": {"id": 0, "ns": "db.t", "nextBatch": []}})
        await (await stage.collection.find({})).to_list()
        async with stage.client.start_session() as session:
            session.start_transaction()
            await stage.collection.insert_one({}, session=session)
            await stage.collection.insert_one({}, session=session)
            await session.commit_transaction()
        await stage.client.command("admin", {"ping": 1})

    sent = play(scenario, server_api=ServerApi()).primary.received
    assert [next(iter(command)) for command in sent] == [
        *("find", "getMore", "insert", "insert", "commitTransaction", "ping", "endSessions")
    ]
    assert [declared(command) for command in sent] == [DECLARED] * len(sent)


def test_a_retry_declares_the_version_again() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", Drop())
        await stage.collection.insert_one({})

    inserts = play(scenario, server_api=ServerApi()).primary.commands("insert")
    assert [declared(command) for command in inserts] == [DECLARED, DECLARED]


def test_handshakes_and_checks_declare_the_version_and_say_hello_by_op_msg() -> None:
    members = [ScriptedMongod(1, standalone_hello(topologyVersion=topology_version(1)))]

    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})
        await stage.world.clock.sleep_until(stage.world.clock.now() + 2.1)

    hellos = play(
        scenario, "heartbeatFrequencyMS=500", members=members, server_api=ServerApi()
    ).primary.hellos
    kinds = {("client" in hello, "topologyVersion" in hello) for hello in hellos}
    assert kinds == {(True, False), (False, True), (False, False)}, "handshakes, streaming checks, pings"
    for hello in hellos:
        assert next(iter(hello)) == "hello"
        assert hello["$db"] == "admin"
        assert declared(hello) == DECLARED


def test_authentication_declares_the_version() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(DriverError):
            await stage.client.command("admin", {"ping": 1})

    stage = play(
        scenario,
        "authMechanism=SCRAM-SHA-256",
        members=replica_set([1]),
        credentials="u:p@",
        server_api=ServerApi(),
    )
    assert [declared(command) for command in stage.primary.commands("saslStart")] == [DECLARED]


def test_without_a_declaration_commands_carry_none() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})

    stage = play(scenario)
    assert not any(declared(command) for command in stage.primary.received + stage.primary.hellos)


# --- metadata ---

LIBRARY = DriverInfo("library", "1.2", "Library Platform")
FRAMEWORK = DriverInfo("framework", "2.0", "Framework Platform")


def described(*wrappers: DriverInfo) -> tuple[str, str, str]:
    document = client_metadata(None, wrappers)
    return document["driver"]["name"], document["driver"]["version"], document["platform"]


OWN = described()


@pytest.mark.parametrize(
    ("wrapper", "suffixes"),
    [
        (FRAMEWORK, ("|framework", "|2.0", "|Framework Platform")),
        (DriverInfo("framework", "2.0"), ("|framework", "|2.0", "")),
        (DriverInfo("framework", None, "Framework Platform"), ("|framework", "", "|Framework Platform")),
        (DriverInfo("framework"), ("|framework", "", "")),
    ],
)
def test_metadata_name_what_wraps_the_driver(wrapper: DriverInfo, suffixes: tuple[str, ...]) -> None:
    assert described(wrapper) == tuple(own + suffix for own, suffix in zip(OWN, suffixes, strict=True))


def connect_with(*appended: DriverInfo, first: DriverInfo | None = None) -> list[str]:
    """Append one library after another, and return the names on each connection made in between."""

    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})
        for info in appended:
            stage.client.append_metadata(info)
            stage.primary.will("ping", Drop())
            with pytest.raises(DriverError):
                await stage.client.command("admin", {"ping": 1})
            await stage.client.command("admin", {"ping": 1})

    members = [ScriptedMongod(1, standalone_hello(topologyVersion=topology_version(1)))]
    stage = play(scenario, members=members, driver_info=first)
    sent = [hello["client"]["driver"]["name"] for hello in stage.primary.hellos if "compression" in hello]
    return list(dict.fromkeys(sent))


def test_new_connections_say_what_was_appended_in_order() -> None:
    assert connect_with(FRAMEWORK, first=LIBRARY) == ["pushbackd|library", "pushbackd|library|framework"]
    assert connect_with(LIBRARY, FRAMEWORK)[-1] == "pushbackd|library|framework"


@pytest.mark.parametrize("again", [LIBRARY, DriverInfo("library", "1.2", "Library Platform")])
def test_a_library_is_named_once(again: DriverInfo) -> None:
    assert connect_with(FRAMEWORK, again, first=LIBRARY)[-1] == "pushbackd|library|framework"


def test_a_library_of_another_version_is_another_library() -> None:
    assert connect_with(DriverInfo("library", "1.3"), first=LIBRARY)[-1] == "pushbackd|library|library"


@pytest.mark.parametrize(
    ("empty", "unset"),
    [
        (DriverInfo("library", "", "P"), DriverInfo("library", None, "P")),
        (DriverInfo("library", "1", ""), DriverInfo("library", "1", None)),
    ],
)
def test_empty_text_is_as_good_as_none(empty: DriverInfo, unset: DriverInfo) -> None:
    assert empty == unset


@pytest.mark.parametrize(
    "make",
    [
        lambda: DriverInfo(""),
        lambda: DriverInfo("a|b"),
        lambda: DriverInfo("a", "1|2"),
        lambda: DriverInfo("a", "1", "x|y"),
    ],
)
def test_a_name_is_needed_and_the_delimiter_is_not_for_libraries(make: Callable[[], DriverInfo]) -> None:
    with pytest.raises(ConfigurationError):
        make()


def test_the_connection_in_use_is_left_as_it_is() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})
        stage.client.append_metadata(FRAMEWORK)
        await stage.client.command("admin", {"ping": 1})

    stage = play(scenario)
    assert stage.kinds("connectionCreated") == ["connectionCreated"]
    assert stage.kinds("connectionClosed") in ([], ["connectionClosed"])
    assert not any("framework" in str(hello) for hello in stage.primary.hellos)
