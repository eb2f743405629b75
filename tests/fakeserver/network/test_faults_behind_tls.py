"""Faults of bytes where the connection speaks TLS: of its hello, and of what it carries."""

from __future__ import annotations

import socket
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tls_files import certificates, tls

from fakeserver import ClusterSpec
from fakeserver.assembly.background import BackgroundCluster
from mongowire.connection import WireConnection
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Iterator

PING = WireConnection().send(OpMsg.of({"ping": 1, "$db": "admin"}), request_id=7)
REPLY_BYTES = 38


@pytest.fixture(scope="module")
def server() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(ClusterSpec.standalone(tls=tls())) as cluster:
        yield cluster


@contextmanager
def fault(server: BackgroundCluster, **document: Any) -> Iterator[None]:
    added = server.control.add_fault(document)
    try:
        yield
    finally:
        server.control.remove_fault(added["id"])


@contextmanager
def plain(server: BackgroundCluster) -> Iterator[socket.socket]:
    host, _, port = server.node("primary").address.rpartition(":")
    with socket.create_connection((host, int(port)), 5) as sock:
        yield sock


@contextmanager
def secure(server: BackgroundCluster) -> Iterator[ssl.SSLSocket]:
    context = ssl.create_default_context(cafile=str(certificates().ca_file))
    with plain(server) as sock, context.wrap_socket(sock, server_hostname="localhost") as wrapped:
        yield wrapped


def everything(sock: socket.socket) -> bytes:
    found = b""
    while data := sock.recv(1 << 16):
        found += data
    return found


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=str(certificates().ca_file))
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("count", [0, 1, 5, 100])
def test_a_cut_of_the_tls_hello_lets_so_many_bytes_of_the_answer_pass(
    server: BackgroundCluster, count: int
) -> None:
    with fault(server, at="tlsHello", do={"cut": count}), plain(server) as sock:
        sock.sendall(client_hello())
        assert len(everything(sock)) == count


def test_garbage_stands_in_front_of_the_answer_to_a_tls_hello(server: BackgroundCluster) -> None:
    with (
        fault(server, at="tlsHello", do={"garbage": 64}),
        pytest.raises(ssl.SSLError),
        secure(server),
    ):
        pass


def test_a_reset_at_the_tls_hello_is_a_reset(server: BackgroundCluster) -> None:
    with fault(server, at="tlsHello", do={"reset": True}), plain(server) as sock:
        sock.sendall(client_hello())
        with pytest.raises(ConnectionResetError):
            everything(sock)


def test_a_connection_in_pieces_is_secure_all_the_same(server: BackgroundCluster) -> None:
    with fault(server, at="accept", do={"split": 700, "delay": "5ms"}), secure(server) as sock:
        sock.sendall(PING)
        assert len(sock.recv(100)) == REPLY_BYTES


@pytest.mark.parametrize("count", [0, 10, 37])
def test_a_cut_reply_is_cut_before_it_is_encrypted(server: BackgroundCluster, count: int) -> None:
    with secure(server) as sock, fault(server, at="reply", do={"cut": count}):
        sock.sendall(PING)
        assert len(everything(sock)) == count


def test_a_reply_is_changed_before_it_is_encrypted(server: BackgroundCluster) -> None:
    with secure(server) as sock, fault(server, at="reply", do={"responseTo": 9, "duplicate": True}):
        sock.sendall(PING)
        data = b""
        while len(data) < 2 * REPLY_BYTES:
            data += sock.recv(100)
        assert data[8:12] == data[46:50] == b"\t\0\0\0"
