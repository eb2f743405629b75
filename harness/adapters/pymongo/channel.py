"""Commands to servers that are not ours, by way of PyMongo: it gets into every deployment there is.

The reference driver resolves no `mongodb+srv`, opens no sockets and knows few mechanisms; and what it gets
wrong must not hide in the commands that prepare its own cases.

`external` asks for replies whatever their `ok` is, since a command may be unknown to an older server. Only
when no server could be asked does it get a `ChannelError`, whose text is for the command line.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final, cast

from pymongo import AsyncMongoClient
from pymongo.asynchronous.uri_parser import parse_uri
from pymongo.errors import (
    AutoReconnect,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from harness.adapters.pymongo import ChannelError
from harness.unified.uri import ConnectionString

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULTS: Final = {
    "serverselectiontimeoutms": "5000",
    "connecttimeoutms": "5000",
    "sockettimeoutms": "30000",
}
"""Bounds of every wait, unless the connection string says otherwise."""

# The least that PyMongo takes: a run would wait for ten seconds, the default, before it finds the server
# again.
_HEARTBEAT_MS: Final = 500
"""A fail point that looks like a change of state makes a server unknown for that long."""

_KEPT: Final = frozenset({*DEFAULTS, "directconnection", "loadbalanced", "replicaset"})
_REPEATABLE: Final = frozenset(
    {"hello", "ping", "find", "drop", "distinct", "configureFailPoint", "killAllSessions", "listCollections"}
)
"""Commands that may be sent again when nobody knows whether a server has seen them."""


class Channel:
    """Sends commands to servers, each named by a connection string, over clients that it keeps."""

    def __init__(self) -> None:
        self._clients: dict[str, AsyncMongoClient[dict[str, Any]]] = {}

    async def command(self, uri: str, database: str, command: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply of the server, or of the primary, whatever its `ok` is. Raises `ChannelError`."""
        try:
            return await self._repeatedly(self._client(uri), database, dict(command))
        except (OperationFailure, NotPrimaryError) as error:
            return {"ok": 0.0, "errmsg": str(error), **dict(cast("Any", error.details) or {})}
        except (PyMongoError, UserWarning, OSError, ValueError) as error:
            raise ChannelError(_sentence(error)) from error

    async def aclose(self) -> None:
        """Close all clients."""
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    def _client(self, uri: str) -> AsyncMongoClient[dict[str, Any]]:
        if uri not in self._clients:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                self._clients[uri] = AsyncMongoClient(
                    _way_in(uri), appname="pushbackd", heartbeatFrequencyMS=_HEARTBEAT_MS
                )
        return self._clients[uri]

    async def _repeatedly(
        self, client: AsyncMongoClient[dict[str, Any]], database: str, command: dict[str, Any]
    ) -> dict[str, Any]:
        """Send a command, and again if its connection was lost or its server is no longer the primary."""
        try:
            return await client[database].command(command)
        except ServerSelectionTimeoutError:
            raise
        except AutoReconnect as error:
            if not isinstance(error, NotPrimaryError) and next(iter(command)) not in _REPEATABLE:
                raise
        return await client[database].command(command)


def _way_in(uri: str) -> str:
    """Return the connection string with only what it takes to get in: the rest is for drivers under test."""
    string = ConnectionString.of(uri).keeping(
        lambda name: name in _KEPT or name.startswith(("auth", "tls", "srv"))
    )
    bounds = [(name, value) for name, value in DEFAULTS.items() if string.option(name) is None]
    return str(string.having(bounds))


async def resolved(uri: str) -> str:
    """Return a connection string that names its hosts: `mongodb+srv` is looked up. Raises `ChannelError`.

    Initial DNS Seedlist Discovery: TLS is on, and a TXT record may add options. A driver that cannot look
    hosts up can so be run too.
    """
    string = ConnectionString.of(uri)
    if string.scheme == "mongodb://":
        return uri
    if string.scheme != "mongodb+srv://":
        raise ChannelError("a connection string begins with mongodb:// or mongodb+srv://")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            found = await parse_uri(uri, connect_timeout=float(DEFAULTS["connecttimeoutms"]) / 1000)
    except (PyMongoError, UserWarning, ValueError) as error:
        raise ChannelError(_sentence(error)) from error
    hosts = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in found["nodelist"]]
    from_dns = {name: found["options"].get(name) for name in ("authSource", "replicaSet", "loadBalanced")}
    added = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in from_dns.items()
        if value
    }
    added = {"tls": "true", **added}
    plain = ConnectionString("mongodb://", string.credentials, tuple(hosts), string.database, string.options)
    missing = [(name, value) for name, value in added.items() if plain.option(name) is None]
    return str(plain.keeping(lambda name: not name.startswith("srv")).having(missing))


def _sentence(error: Exception) -> str:
    """Return what PyMongo says, without its settings and its picture of the deployment."""
    return str(error).partition(", Timeout:")[0].partition(" (configured timeouts:")[0]
