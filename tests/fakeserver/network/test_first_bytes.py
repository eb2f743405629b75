"""A client that speaks something else than the wire protocol learns so at once, and so does the log."""

from __future__ import annotations

import json
import ssl
import struct
from typing import TYPE_CHECKING, Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from talking import STANDALONE, Deployment, play, play_live
from tls_files import tls

from fakeserver import ClusterSpec
from fakeserver.deployment.spec import TlsMode
from fakeserver.network.first_bytes import Speech, speech_of
from mongowire.framing import HEADER, HEADER_SIZE
from mongowire.tls import TlsSession

if TYPE_CHECKING:
    from collections.abc import Callable

NO_TLS = "SSL handshake received but server is started without SSL support"
OVER_HTTP = "Client sent an HTTP request over a native MongoDB connection"
PROXIED = "ProxyProtocol message detected on mongorpc port"
ONLY_TLS = "The server is configured to only allow SSL connections"

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
PROXY_V1 = b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 27017\r\n"
PROXY_V2 = b"\r\n\r\n\0\r\nQUIT\n" + bytes([0x21, 0x11, 0, 12]) + bytes(12)
TEXT = b"hello, is anybody there?\r\n"


def client_hello() -> bytes:
    session = TlsSession(ssl.create_default_context(), hostname="localhost")
    session.begin()
    return session.pending()


def operation(code: int, payload: bytes) -> bytes:
    return HEADER.pack(HEADER_SIZE + len(payload), 1, 0, code) + payload


def logged(deployment: Deployment, number: int) -> list[dict[str, Any]]:
    """Return the lines of the log with a number, as objects."""
    lines = map(json.loads, deployment.cluster.nodes[0].log.lines)
    return [line for line in lines if line["id"] == number]


def refused(deployment: Deployment) -> tuple[str, str]:
    (line,) = logged(deployment, 22988)
    assert line["c"] == "EXECUTOR"
    assert line["msg"] == "Error receiving request from client. Ending connection from remote"
    assert set(line["attr"]) == {"error", "remote", "connectionId", "node"}
    error = line["attr"]["error"]
    return error["codeName"], error["errmsg"]


async def said(deployment: Deployment, sent: bytes) -> bytes:
    """Send bytes, go on waiting as a client would, and return what comes before the server hangs up."""
    talker = await deployment.connect()
    await talker.send_bytes(sent)
    return await talker.rest()


@pytest.mark.parametrize("run", [play, play_live])
@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (client_hello(), ("SSLHandshakeFailed", NO_TLS)),
        (TEXT, ("SSLHandshakeFailed", NO_TLS)),
        (PROXY_V1, ("OperationFailed", PROXIED)),
        (PROXY_V2, ("OperationFailed", PROXIED)),
        (
            b"quit\r\n",
            ("ProtocolError", "recv(): message msgLen 1953068401 is invalid. Min 16 Max: 48000000"),
        ),
        (bytes(16), ("ProtocolError", "recv(): message msgLen 0 is invalid. Min 16 Max: 48000000")),
    ],
    ids=["TLS", "text", "proxy v1", "proxy v2", "a word", "zeros"],
)
def test_what_is_no_message_ends_the_connection_at_once(
    run: Callable[..., None], sent: bytes, error: tuple[str, str]
) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert await said(deployment, sent) == b""
        assert refused(deployment) == error

    run(scenario, STANDALONE)


@pytest.mark.parametrize("spec", [STANDALONE, ClusterSpec.standalone(tls=tls())], ids=["plain", "TLS"])
@pytest.mark.parametrize("run", [play, play_live])
def test_a_health_check_over_http_gets_an_answer(run: Callable[..., None], spec: ClusterSpec) -> None:
    async def scenario(deployment: Deployment) -> None:
        head, _, body = (await said(deployment, GET)).partition(b"\r\n\r\n")
        assert head.splitlines() == [
            b"HTTP/1.0 200 OK",
            b"Connection: close",
            b"Content-Type: text/plain",
            b"Content-Length: %d" % len(body),
        ]
        assert b"trying to access MongoDB over HTTP on the native driver port" in body
        assert refused(deployment) == ("ProtocolError", OVER_HTTP)

    run(scenario, spec)


@pytest.mark.parametrize("release", ["7.0", "8.0"])
def test_releases_that_know_no_proxies_take_their_header_for_a_handshake(release: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert await said(deployment, PROXY_V1) == b""
        assert refused(deployment) == ("SSLHandshakeFailed", NO_TLS)

    play(scenario, ClusterSpec.standalone(profile=release))


@pytest.mark.parametrize(
    ("sent", "name", "message"),
    [
        (operation(2013, bytes(30)), "SSLHandshakeFailed", ONLY_TLS),
        (TEXT, "SSLHandshakeFailed", "SSL peer failed"),
        (PROXY_V1, "OperationFailed", PROXIED),
        (b"quit\r\n", "SSLHandshakeFailed", ONLY_TLS),
    ],
    ids=["a message", "text", "proxy", "a word"],
)
def test_a_port_that_requires_tls_turns_plain_bytes_away(sent: bytes, name: str, message: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert not (await said(deployment, sent)).startswith(b"HTTP")
        found = refused(deployment)
        assert found[0] == name
        assert found[1].startswith(message)

    play(scenario, ClusterSpec.standalone(tls=tls()))


def test_a_port_that_prefers_tls_says_who_does_without() -> None:
    async def scenario(deployment: Deployment) -> None:
        await (await deployment.connect()).ok({"ping": 1})
        (line,) = logged(deployment, 23838)
        assert line["attr"]["connectionId"] == 1

    play(scenario, ClusterSpec.standalone(tls=tls(TlsMode.PREFER)))


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (operation(2002, b"\0\0\0\0test.c\0" + bson.encode({})), "insert"),
        (operation(2001, bytes(4) + b"test.c\0" + bytes(4) + bson.encode({}) * 2), "update"),
        (operation(2006, bytes(4) + b"test.c\0" + bytes(4) + bson.encode({})), "remove"),
        (operation(2007, struct.pack("<iiq", 0, 1, 5)), "killcursors"),
    ],
)
def test_an_old_drivers_write_ends_the_connection_with_a_warning(sent: bytes, name: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert await said(deployment, sent) == b""
        (line,) = logged(deployment, 5578800)
        assert (line["s"], line["attr"]["op"]) == ("W", name)

    play(scenario, STANDALONE)


@pytest.mark.parametrize("name", ["test.c", "test.$cmd"])
def test_an_old_drivers_query_is_answered_with_a_warning(name: str) -> None:
    query = bytes(4) + name.encode() + b"\0" + struct.pack("<ii", 0, -1) + bson.encode({"find": "c"})

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.send_bytes(operation(2004, query))
        assert await talker.reply() is not None
        (line,) = logged(deployment, 5578800)
        assert line["attr"]["op"] == "query"
        await talker.ok({"ping": 1})

    play(scenario, STANDALONE)


def test_half_a_header_is_waited_for_and_its_end_is_told_to_who_debugs() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"setParameter": 1, "logLevel": 2})
        other = await deployment.connect()
        await other.send_bytes(operation(2013, bytes(30))[:11])
        await deployment.sleep(60)
        assert len(deployment.cluster.nodes[0].connections) == 2
        await other.aclose()
        await deployment.sleep(1)
        assert len(deployment.cluster.nodes[0].connections) == 1
        (line,) = logged(deployment, 22986)
        assert (line["s"], line["ctx"]) == ("D2", "conn2")
        assert line["attr"]["error"]["codeName"] == "HostUnreachable"

    play(scenario, STANDALONE)


@given(head=st.binary(max_size=20), cut=st.integers(0, 20))
def test_what_a_client_speaks_does_not_depend_on_the_pieces_it_comes_in(head: bytes, cut: int) -> None:
    before, after = speech_of(head[:cut][:HEADER_SIZE]), speech_of(head[:HEADER_SIZE])
    # Less than a header may be refused as a message of a wrong length before it could be called a handshake.
    assert before in {Speech.UNDECIDED, after} or (before, after) == (Speech.MESSAGES, Speech.TLS)
