"""The ports on the real world: the wall clock, seeded random numbers, TCP."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import random
import secrets
import socket
import sys
import time
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from mongowire.streams import StreamProtocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from mongowire.ports import Listener, Stream


_BACKLOG = 1024


class SystemClock:
    """The running event loop's time and the wall clock's date."""

    is_real = True

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def utc(self) -> float:
        return time.time()

    async def sleep_until(self, when: float) -> None:
        # At least one turn of the loop, so that a caller who is always late cannot starve the others.
        await asyncio.sleep(0)
        # More than once, because a loop may call a timer early by the resolution of its clock.
        while self.now() < when:
            await _timer(when)


async def _timer(when: float) -> None:
    """Wait for the instant itself: `asyncio.sleep` would turn it into a duration and back, and drift."""
    loop = asyncio.get_running_loop()
    reached = loop.create_future()
    handle = loop.call_at(when, _set_reached, reached)
    try:
        await reached
    finally:
        handle.cancel()


def _set_reached(reached: asyncio.Future[None]) -> None:
    if not reached.done():
        reached.set_result(None)


class SeededRng:
    """The random numbers of one actor: the same seed and name give the same numbers in every process."""

    def __init__(self, seed: int | str, actor: str = "") -> None:
        self._seed = seed
        self._actor = actor

    @cached_property
    def _random(self) -> random.Random:
        """Its generator. Many actors never draw, and to seed one takes longer than a hundred draws."""
        return random.Random(f"{self._seed}/{self._actor}")  # noqa: S311 - reproducible on purpose, no secrets

    def random(self) -> float:
        return self._random.random()

    def randbytes(self, n: int) -> bytes:
        return self._random.randbytes(n)

    def spawn(self, actor: str) -> SeededRng:
        return SeededRng(self._seed, f"{self._actor}/{actor}" if self._actor else actor)

    def __repr__(self) -> str:
        return f"SeededRng({self._seed!r}, {self._actor!r})"


def fresh_rng(actor: str = "") -> SeededRng:
    """Return random numbers that no other process has, for ids that must be unique in the world."""
    return SeededRng(secrets.token_hex(16), actor)


class TcpListener:
    """A listening socket on an event loop."""

    def __init__(self, server: asyncio.Server | Acceptor, host: str) -> None:
        self._server = server
        self._address = (host, int(server.sockets[0].getsockname()[1]))

    @property
    def address(self) -> tuple[str, int]:
        return self._address

    async def aclose(self) -> None:
        # What was accepted in this turn of the loop becomes a transport in the next, and tells its protocol
        # in the one after. asyncio loses it when its server is closed by then, and it would stay open.
        loop = asyncio.get_running_loop()
        for listening in self._server.sockets:
            loop.remove_reader(listening.fileno())
        await asyncio.sleep(0)
        # `wait_closed` would wait for the accepted connections too (Python 3.12), which are not ours.
        self._server.close()
        await asyncio.sleep(0)


class TcpNetwork:
    """TCP on asyncio, which switches Nagle's algorithm off (TCP_NODELAY) on every connection."""

    async def connect(self, host: str, port: int, *, deadline: float) -> Stream:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout_at(deadline):
            _, protocol = await loop.create_connection(StreamProtocol, host, port)
        return protocol

    async def listen(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        refused: Callable[[], None] | None = None,
    ) -> Listener:
        """Accept on the one address that `host` means, IPv4 if it has both kinds.

        A name such as localhost often has two addresses; with port 0 each would take a port of its own.
        """
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(addresses, key=lambda info: info[0] != socket.AF_INET)
        listening = _bind(family, str(address[0]), port)
        listening.refused = refused
        server: asyncio.Server | Acceptor
        try:
            if isinstance(loop, asyncio.BaseEventLoop):
                server = await loop.create_server(factory, sock=listening, backlog=_BACKLOG)
            else:
                listening.listen(_BACKLOG)
                server = Acceptor(listening, factory)
        except BaseException:
            listening.close()
            raise
        return TcpListener(server, host)


def _bind(family: int, address: str, port: int) -> SparingSocket:
    """Return a socket that is bound, and does not listen yet. Raises `OSError`, which names the address."""
    listening = SparingSocket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.keep_spare()
    except OSError as error:
        listening.close()
        message = f"cannot listen on address {(address, port)}: {error.strerror}"
        raise OSError(error.errno, message) from None
    return listening


# A listening socket that goes on when the process may open no file more (`EMFILE`).


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


# The event loops that run on the real world.


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes loops of uvloop; None, which is asyncio's own, where it is not installed."""
    if find_spec("uvloop") is None:
        return None
    make: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return make
