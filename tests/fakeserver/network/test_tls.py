"""TLS on the server's port: modes, files, and certificates that speak for users."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from pymongo import AsyncMongoClient, MongoClient
from threaded_server import serving
from tls_files import certificates, client_options, tls

import fakeserver
from driver import AsyncClient
from driver.cmap.connection import CertificateError
from driver.editions import EDITION_2026_07_08
from driver.errors import ConfigurationError, NetworkError, ServerError, ServerSelectionError
from fakeserver import ClusterSpec, TlsSpec, UserSpec
from fakeserver.deployment.records.events import CommandFinished
from fakeserver.deployment.spec import TlsMode
from fakeserver.network.certificates import make_certificates
from fakeserver.network.tls import subject_of
from harness.cli import cli
from harness.sim import run_virtual
from mongowire.codes import Label
from mongowire.tls import is_client_hello

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.world.virtual import World

QUICK = {"serverSelectionTimeoutMS": 500}


async def found(uri: str, **options: Any) -> str:
    """Write and read with the reference driver; return `ok`, or the name of the error."""
    async with AsyncClient(uri, options={**QUICK, **options}) as client:
        try:
            await client.database("db").collection("c").insert_one({})
        except (NetworkError, ServerError, ServerSelectionError) as error:
            return type(error).__name__
        return "ok"


def plain(uri: str) -> str:
    return uri.partition("?")[0] + "?directConnection=true"


@pytest.mark.parametrize(
    ("mode", "secured", "unsecured"),
    [
        (TlsMode.DISABLED, "ServerSelectionTimeoutError", "ok"),
        (TlsMode.ALLOW, "ok", "ok"),
        (TlsMode.PREFER, "ok", "ok"),
        (TlsMode.REQUIRE, "ok", "ServerSelectionTimeoutError"),
    ],
)
@pytest.mark.slow
def test_a_mode_says_who_may_speak(mode: TlsMode, secured: str, unsecured: str) -> None:
    async def main() -> None:
        async with fakeserver.start(ClusterSpec.standalone(tls=tls(mode))) as cluster:
            assert await found(plain(cluster.uri), **client_options()) == secured
            assert await found(plain(cluster.uri)) == unsecured

    asyncio.run(main())


def test_the_connection_string_of_a_deployment_with_tls_says_so() -> None:
    async def main() -> None:
        async with fakeserver.start(ClusterSpec.replica_set(3, tls=tls())) as cluster:
            assert "&tls=true&tlsCAFile=" in cluster.uri
            assert await found(cluster.uri) == "ok"
            async with AsyncMongoClient[dict[str, Any]](cluster.uri) as client:
                await client.db.c.insert_one({"_id": 1})
                options = await client.admin.command("getCmdLineOpts")
                assert options["parsed"]["net"]["tls"]["mode"] == "requireTLS"

    asyncio.run(main())


@pytest.mark.slow
def test_clients_without_a_certificate_are_turned_away_where_one_is_asked_for() -> None:
    spec = ClusterSpec.standalone(tls=tls(allow_connections_without_certificates=False))

    async def main() -> None:
        async with fakeserver.start(spec) as cluster:
            assert await found(cluster.uri) == "ServerSelectionTimeoutError"
            assert await found(cluster.uri, **client_options(with_certificate=True)) == "ok"

    asyncio.run(main())


@pytest.mark.slow
def test_a_client_trusts_its_own_authority_only_unless_it_is_told_to_trust_anybody() -> None:
    other = {"tls": True, "tlsCAFile": str(certificates("other").ca_file)}

    async def main() -> None:
        async with fakeserver.start(ClusterSpec.standalone(tls=tls())) as cluster:
            uri = plain(cluster.uri)
            assert await found(uri, **other) == "ServerSelectionTimeoutError"
            assert await found(uri, **other, tlsInsecure=True) == "ok"
            assert await found(uri, **other, tlsAllowInvalidCertificates=True) == "ok"
            async with AsyncClient(uri, options=other, edition=EDITION_2026_07_08) as client:
                with pytest.raises(CertificateError) as info:
                    await client._handshake(monitoring=False).establish(cluster.nodes[0].address)
                assert not info.value.has_label(Label.SYSTEM_OVERLOADED)

    asyncio.run(main())


@pytest.mark.parametrize("named", [True, False])
def test_a_certificate_speaks_for_the_user_of_its_subject(named: bool) -> None:  # noqa: FBT001 - a case
    made = certificates()
    users = (UserSpec(made.client_subject, db="$external", roles=("readWriteAnyDatabase",)),)
    spec = ClusterSpec.standalone(auth=True, users=users, tls=tls())
    options = client_options(with_certificate=True) | {"authMechanism": "MONGODB-X509"}

    async def main() -> None:
        async with fakeserver.start(spec) as cluster:
            assert await found(plain(cluster.uri), **options) == "ok"
            who: dict[str, Any] = {"username": made.client_subject} if named else {}
            async with AsyncMongoClient[dict[str, Any]](plain(cluster.uri), **options, **who) as client:
                await client.db.c.insert_one({})
                status = await client.admin.command("connectionStatus")
                user = {"user": made.client_subject, "db": "$external"}
                assert status["authInfo"]["authenticatedUsers"] == [user]
            assert await found(plain(cluster.uri), **client_options(with_certificate=True)) == "ServerError"

    asyncio.run(main())


def test_a_hello_carries_a_certificates_authentication_without_naming_its_database() -> None:
    made = certificates()
    users = (UserSpec(made.client_subject, db="$external", roles=("readWriteAnyDatabase",)),)
    options = client_options(with_certificate=True) | {"authMechanism": "MONGODB-X509"}

    async def main() -> None:
        async with (
            fakeserver.start(ClusterSpec.standalone(auth=True, users=users, tls=tls())) as cluster,
            AsyncMongoClient[dict[str, Any]](plain(cluster.uri), **options) as client,
        ):
            await client.db.c.insert_one({})
            events = [record.event for record in cluster.journal]
            sent = {event.name for event in events if isinstance(event, CommandFinished)}
            assert "insert" in sent
            assert "authenticate" not in sent

    asyncio.run(main())


def test_a_certificate_of_nobody_we_know_is_refused_as_any_proof_is() -> None:
    options = client_options(with_certificate=True) | {"authMechanism": "MONGODB-X509"}

    async def main() -> None:
        async with (
            fakeserver.start(ClusterSpec.standalone(auth=True, tls=tls())) as cluster,
            AsyncClient(plain(cluster.uri), options=options) as client,
        ):
            with pytest.raises(ServerError) as info:
                await client.command("db", {"find": "c"})
            assert info.value.code == 18

    asyncio.run(main())


def test_synchronous_pymongo_speaks_tls_and_scram() -> None:
    spec = ClusterSpec.standalone(auth=True, users=(UserSpec("bob", "pwd123"),), tls=tls())
    with serving(spec) as server:
        host, port = "localhost", server.address[1]
        who: dict[str, Any] = {"username": "bob", "password": "pwd123", **client_options()}
        with MongoClient[dict[str, Any]](host, port, **who) as client:
            client.db.c.insert_many([{"a": "x" * 100_000} for _ in range(20)])
            assert sum(1 for _ in client.db.c.find(batch_size=3)) == 20
        assert server.reports == []


@pytest.mark.slow
def test_a_load_balancer_hands_tls_on_to_the_mongos_behind_it() -> None:
    users = (UserSpec("bob", "pwd123"),)
    spec = ClusterSpec.load_balanced(members=1, auth=True, users=users, tls=tls())

    async def main() -> None:
        async with fakeserver.start(spec) as cluster:
            assert "loadBalanced=true&tls=true&tlsCAFile=" in cluster.uri
            assert await found(cluster.uri.partition("tls=")[0].rstrip("&")) == "NetworkError"
            assert await found(cluster.uri_single) == "ok"
            async with AsyncMongoClient[dict[str, Any]](cluster.uri) as client:
                await client.db.c.insert_many([{} for _ in range(3)])
                assert len(await client.db.c.find(batch_size=1).to_list()) == 4

    asyncio.run(main())


def test_tls_works_in_virtual_time() -> None:
    async def main(world: World) -> None:
        ports: dict[str, Any] = {"network": world.network, "clock": world.clock}
        spec = ClusterSpec.replica_set(3, tls=tls())
        async with (
            fakeserver.start(spec, rng=world.rng.spawn("cluster"), **ports) as cluster,
            AsyncClient(cluster.uri, rng=world.rng.spawn("client"), **ports) as client,
        ):
            await client.database("db").collection("c").insert_one({"_id": 1})

    run_virtual(main)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_client_hello_is_known_in_whatever_pieces_it_comes(size: int) -> None:
    async def main() -> None:
        async with fakeserver.start(ClusterSpec.standalone(tls=tls(TlsMode.ALLOW))) as cluster:
            reader, writer = await asyncio.open_connection(*cluster.nodes[0].address.split(":"))
            garbage = b"\x16\x03\x01" + bytes(range(150))
            alert = b""
            with suppress(ConnectionError):
                for start in range(0, len(garbage), size):
                    writer.write(garbage[start : start + size])
                    await writer.drain()
                alert = await reader.read()
            assert alert[:1] in {b"\x15", b""}
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            assert not cluster.nodes[0].connections

    asyncio.run(main())


def test_a_message_is_no_client_hello() -> None:
    assert is_client_hello(b"\x16\x03\x01\x02")
    assert not is_client_hello((0x116).to_bytes(4, "little"))
    assert not is_client_hello((0x316).to_bytes(4, "little"))


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (((("commonName", "x"),),), "CN=x"),
        (((("organizationName", "o, p"),), (("commonName", "a+b"),)), "CN=a\\+b,O=o\\, p"),
        (((("commonName", "a"), ("userId", "b")),), "CN=a+UID=b"),
        (((("commonName", " a "),),), "CN=\\ a\\ "),
        ((), None),
    ],
)
def test_a_subject_is_written_as_rfc_2253_has_it(subject: Any, text: str | None) -> None:
    assert subject_of({"subject": subject}) == text


@pytest.mark.parametrize(
    "facts", [{}, {"mode": "sometimes", "certificate_key_file": "x"}, {"mode": "requireTLS"}]
)
def test_what_a_mongod_would_not_start_with_is_refused(facts: Mapping[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tlsMode|sometimes"):
        TlsSpec(**facts)


def test_files_that_cannot_be_used_are_errors_of_the_configuration() -> None:
    with pytest.raises(ConfigurationError, match="files of TLS"):
        AsyncClient("mongodb://a/?tls=true&tlsCAFile=/does/not/exist")


def test_a_command_makes_certificates_and_says_what_to_do_with_them(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["certs", str(tmp_path / "new"), "--client", "Mia, A"])
    assert done.exit_code == 0, done.output
    options, query, subject = done.output.splitlines()
    assert options.startswith("--tlsMode requireTLS --tlsCertificateKeyFile ")
    assert query.startswith("tls=true&tlsCAFile=")
    assert subject == "CN=Mia\\, A,OU=clients,O=pushbackd"
    assert ((tmp_path / "new" / "client.pem").stat().st_mode & 0o777) == 0o600


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "trustme", None)
    with pytest.raises(ImportError, match=r"pip install 'pushbackd\[tls\]'"):
        make_certificates(tmp_path)
