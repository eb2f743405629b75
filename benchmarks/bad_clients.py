"""A good client beside bad ones: how long it waits, and whether the server's memory comes back.

`python -m benchmarks.bad_clients` starts a server in a process of its own and lets seven kinds of bad clients
loose on it at once, in another process: pipelining, slow bytes, half-open TLS, resets, large messages,
expensive queries, and cursors and replies that nobody reads. Meanwhile a good client finds, inserts and
updates one document after the other. It prints the good client's latencies alone and beside the others, in
milliseconds, and the server's memory before, beside and after them. Read it on a machine that does nothing
else.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import signal
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import bson

from benchmarks.liveness import DB, PRODUCT, Server
from benchmarks.raw_client import RawClient, encoded
from fakeserver.network.certificates import make_certificates
from mongowire.connection import WireConnection
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MS: Final = 1000.0
_MIB: Final = 1 << 20
_CURSOR_TIMEOUT_MS: Final = 5_000
"""After which cursors that nobody reads are forgotten, so that nobody waits ten minutes for the result."""
_COLLECTED_SECONDS: Final = 14
"""After which what is not used any more has been given back."""
_CONNECTIONS: Final = 20
"""Of each kind that holds many open."""


class Crowd:
    """The bad clients of one run: each does its harm until the end."""

    def __init__(self, address: tuple[str, int], until: float) -> None:
        self._address = address
        self._until = until

    @property
    def goes_on(self) -> bool:
        """Whether it is not over yet."""
        return time.monotonic() < self._until

    @contextmanager
    def _connected(self, connections: int = 1) -> Iterator[list[socket.socket]]:
        sockets = [socket.create_connection(self._address, 10) for _ in range(connections)]
        try:
            yield sockets
        finally:
            for sock in sockets:
                sock.close()

    def pipelining(self) -> None:
        """Send requests by the thousand, of which most want no reply."""
        wire = WireConnection()
        quiet = OpMsg(OpMsg.of({"ping": 1, "$db": DB}).body, more_to_come=True)
        burst = b"".join(wire.send(quiet, request_id=1) for _ in range(2_000)) + encoded(
            {"ping": 1, "$db": DB}
        )
        with self._connected() as (sock,):
            while self.goes_on:
                sock.sendall(burst)
                sock.recv(_MIB)

    def slow_bytes(self) -> None:
        """Send a byte now and then, on many connections."""
        message = encoded({"ping": 1, "$db": DB})
        with self._connected(_CONNECTIONS) as sockets:
            for at in count():
                for sock in sockets:
                    sock.sendall(message[at % len(message) :][:1])
                if not self.goes_on:
                    return
                time.sleep(0.02)

    def half_open_tls(self) -> None:
        """Begin to shake hands, and stop in the middle."""
        while self.goes_on:
            with self._connected(_CONNECTIONS) as sockets:
                for sock in sockets:
                    sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32))
                time.sleep(0.2)

    def resets(self) -> None:
        """Ask, and reset the connection before the answer."""
        find = encoded({"find": "many", "batchSize": 1000, "$db": DB})
        while self.goes_on:
            with self._connected() as (sock,):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.sendall(find)
            time.sleep(0.005)

    def large_messages(self) -> None:
        """Insert documents of 15 MB into a small capped collection, and say that 100 MB follow."""
        client = RawClient(self._address, 1)
        client.command({"create": "large", "capped": True, "size": 1 << 26, "$db": DB})
        insert = encoded({"insert": "large", "documents": [{"x": b"x" * (15 * _MIB)}], "$db": DB})
        lying = struct.pack("<iiii", 100_000_000, 1, 0, 2013) + bytes(1 << 16)
        while self.goes_on:
            client.sockets[0].sendall(insert)
            client.sockets[0].recv(_MIB)
            with self._connected() as (sock,), suppress(OSError):
                sock.sendall(lying)
        client.close()

    def expensive_queries(self) -> None:
        """Ask for products and for regular expressions that backtrack."""
        client = RawClient(self._address, 1)
        product = {"aggregate": "hundred", "pipeline": PRODUCT, "cursor": {}, "maxTimeMS": 1000, "$db": DB}
        regex = {"find": "texts", "filter": {"t": {"$regex": "^(a+)+$"}}, "$db": DB}
        while self.goes_on:
            client.command(product)
            client.command(regex)
        client.close()

    def unread(self) -> None:
        """Open cursors over all there is and never read on; ask for much and do not read it."""
        all_there_is = encoded({"find": "many", "batchSize": 2, "$db": DB})
        much = encoded({"find": "many", "batchSize": 1_000_000, "$db": DB})
        while self.goes_on:
            with self._connected(_CONNECTIONS) as sockets:
                for number, sock in enumerate(sockets):
                    sock.sendall(all_there_is if number % 5 else much)
                    time.sleep(0.05)

    @property
    def kinds(self) -> list[Callable[[], None]]:
        """All seven."""
        return [
            self.pipelining,
            self.slow_bytes,
            self.half_open_tls,
            self.resets,
            self.large_messages,
            self.expensive_queries,
            self.unread,
        ]


def unleash(address: tuple[str, int], seconds: float, only: str) -> None:
    """Be the bad clients, in a process of their own: all whose kind contains `only`."""
    crowd = Crowd(address, time.monotonic() + seconds)
    threads = [threading.Thread(target=kind) for kind in crowd.kinds if only in kind.__name__]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def good(address: tuple[str, int], until: float) -> list[float]:
    """Find, insert and update until an instant, and return how long each took, in milliseconds."""
    client, latencies = RawClient(address, 1), []
    for number in count():
        for command in (
            {"find": "hundred", "filter": {"_id": number % 100}, "$db": DB},
            {"insert": "good", "documents": [{"_id": bson.ObjectId()}], "$db": DB},
            {"update": "hundred", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}], "$db": DB},
        ):
            began = time.perf_counter()
            reply = client.command(command)
            latencies.append((time.perf_counter() - began) * _MS)
            assert reply["ok"] == 1.0, reply
        if time.monotonic() >= until:
            client.close()
            return latencies
        time.sleep(0.005)
    raise AssertionError


def memory(server: Server) -> float:
    """Return what a server's process holds, in MiB (0 where the system does not say)."""
    statm = Path(f"/proc/{server.process.pid}/statm")
    return int(statm.read_text().split()[1]) * 4096 / _MIB if statm.exists() else 0.0


def run(seconds: float, only: str) -> dict[str, Any]:
    """Measure, and return a report made of numbers and names."""
    made = make_certificates(Path(tempfile.mkdtemp()) / "tls")
    server = Server(
        *("--setParameter", f"cursorTimeoutMillis={_CURSOR_TIMEOUT_MS}"),
        *("--tlsMode", "allowTLS", "--tlsCertificateKeyFile", str(made.server_file)),
        *("--tlsCAFile", str(made.ca_file), "--tlsAllowConnectionsWithoutCertificates"),
    )
    try:
        server.fill()
        before = memory(server)
        alone = good(server.address, time.monotonic() + min(seconds, 5))
        crowd = multiprocessing.Process(target=unleash, args=(server.address, seconds, only))
        crowd.start()
        beside = good(server.address, time.monotonic() + seconds)
        most = memory(server)
        crowd.join()
        time.sleep(_CURSOR_TIMEOUT_MS / _MS + _COLLECTED_SECONDS)
        after = memory(server)
        return {
            "alone": _summary(alone),
            "beside": _summary(beside),
            "memory": {"before": before, "beside": most, "after": after},
            "sigterm": server.end() * _MS,
        }
    finally:
        if server.process.poll() is None:
            server.process.send_signal(signal.SIGKILL)


def _summary(latencies: list[float]) -> dict[str, float]:
    quantiles = statistics.quantiles(latencies, n=1000)
    return {
        "requests": len(latencies),
        "p50": quantiles[499],
        "p99": quantiles[989],
        "p999": quantiles[998],
        "max": max(latencies),
    }


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    lines = [f"{'ms':10}{'requests':>10}{'p50':>9}{'p99':>9}{'p99.9':>9}{'max':>9}"]
    for name in ("alone", "beside"):
        row = report[name]
        numbers = "".join(f"{row[each]:9.1f}" for each in ("p50", "p99", "p999", "max"))
        lines.append(f"{name:10}{row['requests']:10}{numbers}")
    held = ", ".join(f"{name} {value:.0f}" for name, value in report["memory"].items())
    return "\n".join([*lines, f"memory in MiB: {held}", f"SIGTERM: {report['sigterm']:.0f} ms"])


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bad_clients", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long the bad clients are at it")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    options = parser.parse_args(arguments)
    report = run(options.seconds, options.only)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
