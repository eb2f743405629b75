"""A listening socket that goes on when the process may open no file more (`EMFILE`)."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

if sys.platform != "win32":
    import resource

_FOR_REQUESTS: Final = 16
"""The files that connections leave free: a request may need a library that is not loaded yet."""
_AT_ONCE: Final = 100
"""Connections that are accepted before the loop does other work."""
_OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})


class SparingSocket(socket.socket):
    """Leaves some files free for the requests of those who have a connection, and refuses others.

    Where somebody else took those, it has a file in reserve to accept a connection with and refuse it.

    asyncio would leave the connection in the queue, say so as often as the queue is long, and look again
    after a second; the client would wait for an answer that does not come.
    """

    refused: Callable[[], None] | None = None
    """Called for each connection that was refused."""
    _spare: int | None = None
    _gave_up = False

    def keep_spare(self) -> None:
        """Open the file that is kept. Raises `OSError`."""
        self._spare = os.open(os.devnull, os.O_RDONLY)

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Raises `BlockingIOError` when there is none, or it was refused."""
        try:
            accepted = super().accept()
        except OSError as error:
            if error.errno not in _OUT_OF_FILES:
                raise
            self._refuse(error)
            raise BlockingIOError(errno.EAGAIN, "it was refused") from None
        self._gave_up = False
        if accepted[0].fileno() >= _most_files():
            accepted[0].close()
            if self.refused is not None:
                self.refused()
            raise BlockingIOError(errno.EAGAIN, "it was refused")
        return accepted

    def _refuse(self, error: OSError) -> None:
        """Accept a connection with the spare file, and close it. Raises `error` where there is none."""
        if self._spare is None:
            with suppress(OSError):
                self.keep_spare()
        if self._spare is None:
            # Somebody else took the file. asyncio looks again in a second, and would complain for each of a
            # queue's connections until then: once is enough.
            self._gave_up = not self._gave_up
            if self._gave_up:
                raise error
            return
        os.close(self._spare)
        self._spare = None
        with suppress(OSError):
            super().accept()[0].close()
            if self.refused is not None:
                self.refused()
        with suppress(OSError):
            self.keep_spare()

    def close(self) -> None:
        """Close it, and the file in reserve."""
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        super().close()


def _most_files() -> float:
    """Return the number of files from which on connections are refused."""
    if sys.platform == "win32":
        return math.inf
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return math.inf
    return limit - min(_FOR_REQUESTS, limit // 2)


class Acceptor:
    """An open port on a loop that accepts in C: here the socket itself is asked, so that it can be sparing.

    It has what is used of an `asyncio.Server`.
    """

    def __init__(self, listening: SparingSocket, factory: Callable[[], asyncio.Protocol]) -> None:
        self.sockets: tuple[SparingSocket, ...] = (listening,)
        self._factory = factory
        self._loop = asyncio.get_running_loop()
        self._under_way: set[asyncio.Task[None]] = set()
        listening.settimeout(0)
        self._loop.add_reader(listening.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more."""
        listening, self.sockets = self.sockets, ()
        for sock in listening:
            self._loop.remove_reader(sock.fileno())
            sock.close()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = self.sockets[0].accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            task = self._loop.create_task(self._connect(accepted))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        accepted.settimeout(0)
        try:
            await self._loop.connect_accepted_socket(self._factory, accepted)
        except OSError:
            accepted.close()
