"""The client of control listeners, for programs without an event loop: the command line, and tests.

`fakeserver.control.connect()` returns the control of the one server that runs, `connect("shop")` that of the
server with this id.
"""

from __future__ import annotations

import os
import socket
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from fakeserver.control.control import DistantControl
from fakeserver.control.listener import read_line, write_line
from fakeserver.control.registry import ID_VARIABLE, Registry
from mongowire.documents.errors import ControlError, UnmetError, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fakeserver.control.registry import RegistryEntry

_CONNECT_SECONDS: Final = 5.0
_HELLO_SECONDS: Final = 2.0
_END_SECONDS: Final = 20.0


class NoAnswerError(ControlError):
    """A server cannot be reached."""


class ServerStatus(StrEnum):
    """The states of a server in the registry."""

    RUNNING = "running"
    NOT_ANSWERING = "not answering"
    """Something accepts connections, and does not answer in two seconds, or not as this server."""
    ENDED = "ended"
    """It ended without removing its entry."""


class ControlClient:
    """Hands verbs to the control listener of a server, each over a connection of its own."""

    def __init__(self, entry: RegistryEntry) -> None:
        self.entry = entry

    def perform(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Perform a verb; return its document when it is over. Raises `ControlError`."""
        return next(self._asked({"verb": name, "arguments": dict(arguments or {})}, timeout=None))

    def follow(self, name: str, arguments: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Iterate over the records of the journal, those to come as well, until the server ends."""
        return self._asked({"verb": name, "arguments": dict(arguments or {}), "follow": True}, timeout=None)

    def status(self) -> ServerStatus:
        """Return whether it is this server that answers."""
        try:
            about = self.about()
        except NoAnswerError as error:
            ended = isinstance(error.__cause__, ConnectionRefusedError | FileNotFoundError)
            return ServerStatus.ENDED if ended else ServerStatus.NOT_ANSWERING
        except ControlError:
            return ServerStatus.NOT_ANSWERING  # another server has its address by now
        return ServerStatus.RUNNING if about.get("id") == self.entry.id else ServerStatus.NOT_ANSWERING

    def about(self) -> dict[str, Any]:
        """Return what a server tells of itself: `id`, `pid`, `uri`, `topology`, `variables`.

        Raises `ControlError`.
        """
        return next(self._asked({"verb": "hello"}, timeout=_HELLO_SECONDS))

    def shut_down(self) -> None:
        """End the server, and return when it has ended. Raises `ControlError`."""
        for _ in self._asked({"verb": "shutdown"}, timeout=_END_SECONDS, to_the_end=True):
            pass

    def _asked(
        self, request: Mapping[str, Any], *, timeout: float | None, to_the_end: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Send a request, and yield the results of the lines that answer it. Raises `ControlError`."""
        name = self.entry.id
        try:
            with _connected(self.entry.control) as connection:
                connection.settimeout(timeout)
                connection.sendall(write_line({"token": self.entry.token, **request}))
                if not request.get("follow") and not to_the_end:
                    connection.shutdown(socket.SHUT_WR)
                with connection.makefile("rb") as lines:
                    answered = False
                    for line in lines:
                        answered = True
                        yield _result(line)
                    if not answered:
                        raise NoAnswerError(f"the server {name!r} ended before it answered")
        except OSError as error:
            why = error.strerror or str(error) or type(error).__name__
            raise NoAnswerError(f"the server {name!r} does not answer: {why}") from error


def connect(id: str | None = None, *, registry: Registry | None = None) -> DistantControl:  # noqa: A002 - the field's name
    """Return the control of a running server, by default that of the only one. Raises `ControlError`."""
    client = ControlClient(find(id, registry=registry))
    return DistantControl(client.perform)


def find(id: str | None = None, *, registry: Registry | None = None) -> RegistryEntry:  # noqa: A002 - as above
    """Return the entry of a server: of this id, of that in `$PUSHBACKD_ID`, or of the only one that runs.

    Raises `ControlError`, which lists those that run where there are several.
    """
    registry = registry or Registry()
    wanted = id or os.environ.get(ID_VARIABLE)
    entries = {entry.id: entry for entry in registry.entries()}
    if wanted is not None:
        if wanted in entries:
            return entries[wanted]
        if not entries:
            raise ControlError(f"there is no server {wanted!r}; `pushbackd start --id {wanted}` starts one")
        raise unknown("server", wanted, entries)
    running = [entry for entry in entries.values() if ControlClient(entry).status() is not ServerStatus.ENDED]
    if not running:
        raise ControlError("no server runs; `pushbackd start` starts one")
    if len(running) > 1:
        raise ControlError(f"several servers run; name one by --id: {', '.join(each.id for each in running)}")
    return running[0]


def _connected(address: str) -> socket.socket:
    """Return a connection to a control listener. Raises `OSError`."""
    kind, _, rest = address.partition(":")
    if kind == "unix":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_CONNECT_SECONDS)
        try:
            connection.connect(rest)
        except BaseException:
            connection.close()
            raise
        return connection
    host, _, port = rest.rpartition(":")
    try:
        return socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS)
    except (OverflowError, UnicodeError) as error:
        raise OSError(f"{address} is no address: {error}") from None


def _result(line: bytes) -> dict[str, Any]:
    """Return the result in an answer. Raises the `ControlError` that it carries."""
    answer = read_line(line)
    if answer.get("ok") is True and isinstance(answer.get("result"), dict):
        return dict(answer["result"])
    place = answer.get("path")
    path = tuple(part for part in (place if isinstance(place, list) else ()) if isinstance(part, str | int))
    message = str(answer.get("error", "the answer is no answer of a control listener"))
    raise UnmetError(message) if answer.get("unmet") is True else ControlError(message, path=path)
