"""The control listener: the verbs over a socket of its own, past admission, fail points, rules and quiesce.

It shares the loop of the deployment and nothing else of it: a deployment that refuses every request, or whose
servers are stopped, is still controlled through it. A request is a line of JSON, and so is its answer:

    {"token": "...", "verb": "kill", "arguments": {"node": "node1"}}

    {"ok": true, "result": {...}}    or    {"ok": false, "error": "...", "path": ["node"]}

With `"follow": true`, `readJournal` is answered with a line for each record, those to come as well, until the
client leaves. Besides the verbs there are `hello`, which tells who answers, and `shutdown`, which ends the
server. Values that JSON has not are Extended JSON, relaxed.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from bson import json_util
from bson.binary import UuidRepresentation

from mongowire.documents.arguments import from_json
from mongowire.documents.errors import ControlError, UnmetError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from fakeserver.deployment.cluster import Cluster

LINE_MAX: Final = 1 << 20
"""The bytes that a line may have."""

_LOGGER: Final = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 0.05
"""The period in which a connection that follows the journal looks for new records."""
_FOLLOWED: Final = "readJournal"
_JSON: Final = json_util.RELAXED_JSON_OPTIONS.with_options(uuid_representation=UuidRepresentation.STANDARD)
_FIELDS: Final = ("token", "verb", "arguments", "follow")


class ControlListener:
    """Answers requests on one deployment. `about` is what `hello` tells; `shut_down` ends the server."""

    def __init__(
        self,
        cluster: Cluster,
        token: str,
        *,
        about: Mapping[str, Any] | None = None,
        shut_down: Callable[[], None] | None = None,
    ) -> None:
        self.address = ""
        """`unix:PATH` or `tcp:HOST:PORT`, once it listens."""
        self.about = dict(about or {})
        self._cluster = cluster
        self._token = token.encode()
        self._shut_down = shut_down
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def listen_unix(self, path: Path) -> str:
        """Listen on a Unix socket that only its owner may open; return the address. Raises `OSError`."""
        listening = _bound(path)
        self._server = await asyncio.start_unix_server(self._accept, sock=listening, limit=LINE_MAX)
        self.address = f"unix:{path}"
        return self.address

    async def listen_tcp(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listen on a port of the loopback interface; return the address. Raises `OSError`."""
        self._server = await asyncio.start_server(self._accept, host, port, limit=LINE_MAX)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"tcp:{host}:{port}"
        return self.address

    async def aclose(self) -> None:
        """Close the listener and its connections. Closing twice is allowed."""
        if self._server is not None:
            self._server.close()
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        if self.address.startswith("unix:"):
            with suppress(OSError):
                os.unlink(self.address.removeprefix("unix:"))  # noqa: PTH108 - no path is made for it

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._connection(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the lines of a connection, one after the other, until it ends or is refused."""
        try:
            while True:
                line = await reader.readuntil(b"\n")
                async for answer in self._answers(line, reader):
                    writer.write(answer)
                    await writer.drain()
        except asyncio.LimitOverrunError:
            writer.write(failure(ControlError(f"the line is longer than {LINE_MAX} bytes")))
        except RefusedError as error:
            writer.write(failure(error))
        except (asyncio.IncompleteReadError, OSError):
            return  # the client has gone
        finally:
            writer.close()

    async def _answers(self, line: bytes, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        """Yield the answers to a line; whatever is wrong with it is one. Raises `RefusedError`."""
        try:
            request = self._request(line)
            if request.get("follow"):
                async for record in self._followed(request, reader):
                    yield write_line({"ok": True, "result": record})
            else:
                yield write_line({"ok": True, "result": await self._perform(request)})
        except RefusedError:
            raise
        except ControlError as error:
            yield failure(error)
        except Exception as error:
            _LOGGER.exception("a verb of the control failed")
            yield failure(ControlError(f"the verb failed, which is a defect of pushbackd: {error!r}"))

    def _request(self, line: bytes) -> dict[str, Any]:
        """Return the request that a line is. Raises `ControlError`."""
        request = read_line(line)
        if not hmac.compare_digest(str(request.get("token")).encode(errors="replace"), self._token):
            raise RefusedError("the token is missing or wrong")
        for name in request:
            if name not in _FIELDS:
                raise ControlError(f"a request has {', '.join(_FIELDS)}, and no {name!r}", path=(name,))
        if not isinstance(request.get("verb"), str):
            raise ControlError("a request needs the name of a verb", path=("verb",))
        if not isinstance(request.get("arguments", {}), dict):
            raise ControlError("arguments are a document", path=("arguments",))
        return request

    async def _perform(self, request: Mapping[str, Any]) -> dict[str, Any]:
        name, arguments = request["verb"], request.get("arguments", {})
        if name == "hello":
            return self.about
        if name == "shutdown":
            if self._shut_down is None:
                raise ControlError("this server is ended by the program that it is part of")
            self._shut_down()
            return {}
        return dict(await self._cluster.control.perform(name, arguments))

    async def _followed(
        self, request: Mapping[str, Any], reader: asyncio.StreamReader
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the records of the journal that the arguments ask for, those to come as well."""
        if request["verb"] != _FOLLOWED:
            raise ControlError(f"only {_FOLLOWED} can be followed", path=("follow",))
        arguments = dict(request.get("arguments", {}))
        clock, journal = self._cluster.clock, self._cluster.journal
        while not reader.at_eof():
            result = await self._cluster.control.perform(_FOLLOWED, arguments)
            records, followed = result["records"], "since" in arguments
            for record in records:
                yield record
            # Newer ones than those asked for by number come in portions: there may be another.
            arguments["since"] = records[-1]["seq"] if followed and records else result["last"]
            while journal.last_seq == arguments["since"] and not reader.at_eof():
                await clock.sleep_until(clock.now() + _LOOK_SECONDS)


class RefusedError(ControlError):
    """The client may ask nothing; its connection ends."""


def failure(error: ControlError) -> bytes:
    """Return the line that carries an error."""
    unmet = {"unmet": True} if isinstance(error, UnmetError) else {}
    return write_line({"ok": False, "error": error.message, "path": list(error.path), **unmet})


def read_line(line: bytes) -> dict[str, Any]:
    """Return the document that a line is. Raises `ControlError`."""
    try:
        document = from_json(line.decode())
    except (ControlError, UnicodeDecodeError):
        raise ControlError("the line is no JSON") from None
    if not isinstance(document, dict):
        raise ControlError("the line is no JSON object")
    return document


def write_line(document: Mapping[str, Any]) -> bytes:
    """Return a document as a line."""
    return json_util.dumps(document, json_options=_JSON).encode() + b"\n"


def _bound(path: Path) -> socket.socket:
    """Return a Unix socket that only its owner may open, and that does not listen yet. Raises `OSError`."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(os.fspath(path))
        path.chmod(0o600)
    except BaseException:
        listening.close()
        raise
    return listening
