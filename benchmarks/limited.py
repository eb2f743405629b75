"""What the benchmarks of the request rate limiter share: a server of its own, and who may always set it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bson import Binary, Int64, Timestamp

import fakeserver
from benchmarks.raw_client import RawClient
from benchmarks.server_cpu import contestant, serve
from mongowire.system import fast_loop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from benchmarks.server_cpu import Contestant

BARE_PING = {"ping": 1, "$db": "admin"}
PING = {
    "ping": 1,
    "lsid": {"id": Binary(bytes(range(16)), 4)},
    "$clusterTime": {
        "clusterTime": Timestamp(1, 1),
        "signature": {"hash": bytes(20), "keyId": Int64(0)},
    },
    "$db": "admin",
}
"""A ping as drivers send it: in a session, and with the newest time that they know."""
UNLIMITED = 2**31 - 1
NO_TOKENS = {
    "ingressRequestRateLimiterEnabled": True,
    "ingressRequestAdmissionRatePerSec": 1,
    "ingressRequestAdmissionBurstCapacitySecs": 5e-6,
}
"""A bucket that never holds a whole token."""
ENOUGH_TOKENS = {
    "ingressRequestRateLimiterEnabled": True,
    "ingressRequestAdmissionRatePerSec": UNLIMITED,
    "ingressRequestAdmissionBurstCapacitySecs": 1.0,
}
_APPLICATION = "benchmark control"
_EXEMPT = {"ingressRequestRateLimiterApplicationExemptions": {"appNames": [_APPLICATION]}}
_HELLO = {
    "hello": 1,
    "client": {
        "application": {"name": _APPLICATION},
        "driver": {"name": "benchmark", "version": "1"},
        "os": {"type": "any"},
    },
    "$db": "admin",
}


def serve_limited(pipe: Connection) -> None:
    """Run a replica set of one, whose limiter exempts the control connection, in this process."""
    serve(pipe, fakeserver.ClusterSpec.replica_set(1, parameters=_EXEMPT))


def serve_limited_on_uvloop(pipe: Connection) -> None:
    """Run the same on uvloop."""
    serve(pipe, fakeserver.ClusterSpec.replica_set(1, parameters=_EXEMPT), loop_factory=fast_loop())


class Control:
    """A connection that is exempt from the limiter."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._client = RawClient(address, 1)
        self._client.command(_HELLO)

    def set(self, parameters: dict[str, Any]) -> None:
        """Set server parameters. Raises `RuntimeError` if they are refused."""
        reply = self._client.command({"setParameter": 1, **parameters, "$db": "admin"})
        if reply.get("ok") != 1:
            raise RuntimeError(f"the server answers {reply}")

    def status(self) -> dict[str, Any]:
        """Return the reply to `serverStatus`."""
        return self._client.command({"serverStatus": 1, "$db": "admin"})

    def close(self) -> None:
        self._client.close()


@contextmanager
def limited_server(connections: int) -> Iterator[tuple[Contestant, Control]]:
    """Start a server in a process of its own, and connect to it."""
    with contestant("limited", serve_limited, connections) as server:
        control = Control(server.client.address)
        try:
            yield server, control
        finally:
            control.close()
