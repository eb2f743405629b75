"""The driver's side of Authentication: credentials, SCRAM, and what failures mean for pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import fakeserver
from driver import AsyncClient
from driver.auth import KeyCache, ScramClient, ScramError, secret_of
from driver.editions import EDITION_2026_02_20, EDITION_2026_07_08
from driver.errors import AuthenticationError, DriverError, NetworkError, ServerError
from driver.options import ClientOptions
from fakeserver import ClusterSpec, UserSpec
from harness.sim import run_virtual
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from driver.editions import Edition
    from driver.events import DriverEvent
    from fakeserver.deployment.cluster import Cluster
    from harness.world.virtual import World

    Scenario = Callable[[AsyncClient, Cluster, list[DriverEvent]], Coroutine[Any, Any, None]]

SHA_1, SHA_256 = "SCRAM-SHA-1", "SCRAM-SHA-256"
RFC_NONCE = "rOprNGfwEbeRWgbNEkqO"
RFC_FIRST = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def scram(mechanism: str = SHA_256, nonce: str = RFC_NONCE) -> ScramClient:
    return ScramClient(mechanism, "user", "pencil", nonce=nonce, cache=KeyCache())


# --- the conversation ---


def test_the_exchange_of_rfc_7677_is_reproduced() -> None:
    client = scram()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(RFC_FIRST.encode()).endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert client.verified


def test_the_exchange_of_the_authentication_specification_is_reproduced_for_sha_1() -> None:
    client = scram(SHA_1, "fyko+d2lbbFgONRv9qkxdawL")
    nonce = "fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE"
    final = client.final(f"r={nonce},s=rQ9ZY3MntBeuP3E1TDVC4w==,i=10000".encode())
    assert final.endswith(b",p=MC2T8BvbmWRckDw8oWl5IVghwCY=")
    client.verify(b"v=UMWeI25JD1yNYZRMpZ4VHvhZ9e0=")


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (RFC_FIRST.replace("4096", "4095"), "asks for 4095 iterations, fewer than 4096"),
        (RFC_FIRST.replace(RFC_NONCE, "x"), "nonce does not continue ours"),
        (f"r={RFC_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce does not continue ours"),
        ("r=x", "malformed"),
        ("e=unknown-user", "malformed"),
        (RFC_FIRST.replace("i=4096", "i=many"), "malformed"),
        ("\udcff", "no text"),
    ],
)
def test_a_server_that_weakens_or_garbles_the_exchange_is_not_answered(message: str, complaint: str) -> None:
    with pytest.raises(ScramError, match=complaint):
        scram().final(message.encode(errors="surrogateescape"))


@pytest.mark.parametrize("final", [b"v=AAAA", b"v=", b"e=invalid-proof", b"\xff"])
def test_a_server_that_does_not_know_the_password_is_not_believed(final: bytes) -> None:
    client = scram()
    client.final(RFC_FIRST.encode())
    with pytest.raises(ScramError):
        client.verify(final)
    assert not client.verified


def test_passwords_are_prepared_for_sha_256_and_digested_for_sha_1() -> None:
    assert secret_of(SHA_256, "u", "I\u00adX") == "IX"
    assert secret_of(SHA_256, "u", "\u2168") == "IX"
    assert secret_of(SHA_1, "user", "pencil") == "1c33006ec1ffd90f9cadcbcc0e118200"
    with pytest.raises(ScramError, match="SASLprep forbids"):
        secret_of(SHA_256, "u", "\u0007")


def test_keys_are_derived_once() -> None:
    cache = KeyCache()
    keys = cache.keys(SHA_256, "secret", b"salt", 4096)
    assert cache.keys(SHA_256, "secret", b"salt", 4096) is keys
    assert cache.keys(SHA_256, "secret", b"other", 4096) is not keys


def test_a_credential_does_not_show_its_password() -> None:
    options, _ = ClientOptions.of_uri("mongodb://user:hidden@a/db?authSource=x")
    assert options.credential is not None
    assert options.credential.source == "x"
    assert "hidden" not in repr(options)


# --- with a server ---


def on_a_server(
    scenario: Scenario,
    *,
    user: UserSpec | None = None,
    query: str = "",
    password: str = "pwd123",
    edition: Edition = EDITION_2026_02_20,
) -> None:
    """Run a scenario with a client that names `bob`, in virtual time."""
    spec = ClusterSpec.standalone(auth=True, users=(user or UserSpec("bob", "pwd123"),))

    async def main(world: World) -> None:
        ports: dict[str, Any] = {"network": world.network, "clock": world.clock}
        events: list[DriverEvent] = []
        async with fakeserver.start(spec, rng=world.rng.spawn("cluster"), **ports) as cluster:
            uri = f"mongodb://bob:{password}@{cluster.nodes[0].address}/?appName=app&{query}"
            ports |= {"rng": world.rng.spawn("client"), "edition": edition}
            async with AsyncClient(uri, listeners=[events.append], **ports) as client:
                await scenario(client, cluster, events)

    run_virtual(main)


def names(cluster: Cluster) -> list[str]:
    """Return the authentication commands that the server saw."""
    documents = [record.event for record in cluster.journal.records]
    seen = [event.name for event in documents if event.kind == "commandFinished"]  # type: ignore[union-attr]
    return [name for name in seen if name.startswith("sasl")]


@pytest.mark.spec("CMAP-26")
@pytest.mark.parametrize("query", ["", "authMechanism=SCRAM-SHA-1", "authMechanism=SCRAM-SHA-256"])
@pytest.mark.parametrize("edition", [EDITION_2026_02_20, EDITION_2026_07_08])
def test_a_connection_is_authenticated_in_its_handshake_and_one_step_more(
    query: str, edition: Edition
) -> None:
    async def scenario(client: AsyncClient, cluster: Cluster, events: list[DriverEvent]) -> None:
        await client.database("db").collection("c").insert_one({})
        assert names(cluster) == ["saslContinue"]
        assert "saslContinue" not in repr(events)

    on_a_server(scenario, query=query, edition=edition)


def test_a_user_without_sha_256_is_found_out_by_negotiation() -> None:
    async def scenario(client: AsyncClient, cluster: Cluster, _events: list[DriverEvent]) -> None:
        await client.command("db", {"find": "c"})
        assert names(cluster) == ["saslStart", "saslContinue"]

    on_a_server(scenario, user=UserSpec("bob", "pwd123", mechanisms=(SHA_1,)))


def test_the_source_may_be_another_database() -> None:
    async def scenario(client: AsyncClient, _cluster: Cluster, _events: list[DriverEvent]) -> None:
        await client.command("db", {"find": "c"})

    on_a_server(scenario, user=UserSpec("bob", "pwd123", db="x"), query="authSource=x")


def test_a_wrong_password_fails_the_operation_and_is_not_tried_again() -> None:
    async def scenario(client: AsyncClient, cluster: Cluster, events: list[DriverEvent]) -> None:
        with pytest.raises(ServerError) as info:
            await client.database("db").collection("c").insert_one({})
        assert info.value.code == 18
        assert info.value.authenticating
        assert names(cluster) == ["saslContinue"]
        assert [event.kind for event in events].count("poolClearedEvent") == 1

    on_a_server(scenario, password="wrong")


def test_a_password_that_cannot_be_prepared_fails_before_anything_is_sent() -> None:
    async def scenario(client: AsyncClient, cluster: Cluster, _events: list[DriverEvent]) -> None:
        with pytest.raises(AuthenticationError, match="SASLprep"):
            await client.command("db", {"find": "c"})
        assert names(cluster) == []

    on_a_server(scenario, password="%07", query="authMechanism=SCRAM-SHA-256")


@pytest.mark.parametrize("edition", [EDITION_2026_02_20, EDITION_2026_07_08])
def test_a_connection_lost_while_it_is_authenticated_is_no_sign_of_overload(edition: Edition) -> None:
    async def scenario(client: AsyncClient, cluster: Cluster, events: list[DriverEvent]) -> None:
        data = {"failCommands": ["saslContinue"], "appName": "app", "closeConnection": True}
        cluster.nodes[0].configure_fail_point("failCommand", mode={"times": 1}, data=data)
        with pytest.raises(NetworkError) as info:
            await client.command("db", {"find": "c"})
        assert not info.value.has_label(Label.SYSTEM_OVERLOADED)
        assert [event.kind for event in events].count("poolClearedEvent") == 1
        await client.command("db", {"find": "c"})

    on_a_server(scenario, edition=edition)


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("timeoutMS=200&socketTimeoutMS=50", 0.2),
        ("timeoutMS=2000&serverSelectionTimeoutMS=100", 0.1),
        ("socketTimeoutMS=50", 0.05),
    ],
)
def test_authenticating_is_part_of_what_an_operation_has_time_for(query: str, seconds: float) -> None:
    async def scenario(client: AsyncClient, cluster: Cluster, events: list[DriverEvent]) -> None:
        data = {"failCommands": ["saslContinue"], "blockConnection": True, "blockTimeMS": 900}
        cluster.nodes[0].configure_fail_point("failCommand", mode="alwaysOn", data=data)
        client.open()
        await client.clock.sleep_until(client.clock.now() + 0.05)
        began = client.clock.now()
        with pytest.raises(DriverError) as info:
            await client.command("db", {"find": "c"})
        assert client.clock.now() - began == pytest.approx(seconds, abs=0.01)
        assert info.value.timed_out is query.startswith("timeoutMS")
        assert [event.kind for event in events].count("commandStartedEvent") == 0

    on_a_server(scenario, query=query)


def test_monitors_do_not_authenticate() -> None:
    async def scenario(client: AsyncClient, cluster: Cluster, _events: list[DriverEvent]) -> None:
        await client.command("db", {"find": "c"})
        lines = [line for line in cluster.nodes[0].log.lines if "Successfully authenticated" in line]
        assert len(lines) == 1
        assert len(cluster.nodes[0].connections) >= 2

    on_a_server(scenario)
