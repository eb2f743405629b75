"""Headers of the PROXY protocol: a line of text or binary, whole or in pieces, and what is none."""

from __future__ import annotations

import socket

import pytest

from fakeserver.network.proxy_layer import ProxyHeader, ProxyHeaderError, read_header

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
V4 = socket.inet_pton(socket.AF_INET, "192.0.2.7") + socket.inet_pton(socket.AF_INET, "192.0.2.1")
V6 = socket.inet_pton(socket.AF_INET6, "2001:db8::7") + socket.inet_pton(socket.AF_INET6, "2001:db8::1")
PORTS = (56324).to_bytes(2, "big") + (27017).to_bytes(2, "big")


def binary(command: int, family: int, body: bytes) -> bytes:
    """Return a header of version 2."""
    return SIGNATURE + bytes([command, family]) + len(body).to_bytes(2, "big") + body


WHOLE = [
    (b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 27017\r\n", ("192.0.2.7", 56324)),
    (b"PROXY TCP6 2001:db8::7 2001:db8::1 56324 27017\r\n", ("2001:db8::7", 56324)),
    (b"PROXY UNKNOWN\r\n", None),
    (binary(0x21, 0x11, V4 + PORTS), ("192.0.2.7", 56324)),
    (binary(0x21, 0x21, V6 + PORTS + b"extension"), ("2001:db8::7", 56324)),
    (binary(0x20, 0x00, b""), None),
    (binary(0x21, 0x31, bytes(216)), None),
]


@pytest.mark.parametrize(("header", "source"), WHOLE)
def test_a_header_names_the_client_and_ends_where_the_protocol_begins(
    header: bytes, source: tuple[str, int] | None
) -> None:
    assert read_header(header + b"the first message") == ProxyHeader(source, len(header))
    assert [read_header(header[:size]) for size in range(len(header))] == [None] * len(header)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"PROXY TCP4 192.0.2.7 192.0.2.1 56324\r\n",
        b"PROXY TCP4 nowhere 192.0.2.1 56324 27017\r\n",
        b"PROXY TCP4 192.0.2.7 192.0.2.1 65536 27017\r\n",
        b"PROXY UDP4 192.0.2.7 192.0.2.1 56324 27017\r\n",
        b"PROXY TCP4 " + b"1" * 107,
        binary(0x11, 0x11, V4 + PORTS),
        binary(0x22, 0x11, V4 + PORTS),
        binary(0x21, 0x11, V4),
        binary(0x21, 0x11, bytes(537)),
    ],
)
def test_what_begins_no_header_is_refused(data: bytes) -> None:
    with pytest.raises(ProxyHeaderError):
        read_header(data)
