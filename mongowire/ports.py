"""The ports to the outside world: time, random numbers and bytes.

Decisions never use these: they take instants and numbers as arguments. Only shells hold a port, so one
object runs unchanged on the wall clock over TCP and in virtual time over memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Clock(Protocol):
    """Time in seconds. Deadlines are instants of `now()`, never durations: durations get added twice."""

    is_real: bool
    """Whether time passes while work is done; virtual time stands still meanwhile."""

    def now(self) -> float:
        """Return a monotonic instant, in seconds from an origin that has no meaning."""
        ...

    def utc(self) -> float:
        """Return seconds since the Unix epoch, for what peers see: dates, timestamps, object ids."""
        ...

    async def sleep_until(self, when: float) -> None:
        """Return at the instant `when` of `now()`, at once when it has passed."""
        ...


class Rng(Protocol):
    """Random numbers. Each actor has a generator, seeded by name, so a new actor changes no other's."""

    def random(self) -> float:
        """Return a number from 0 (included) to 1 (excluded)."""
        ...

    def randbytes(self, n: int) -> bytes:
        """Return `n` random bytes."""
        ...

    def spawn(self, actor: str) -> Rng:
        """Return the generator of an actor below this one: the same seed, and its name after this one's."""
        ...


class Stream(Protocol):
    """One connection's bytes, for a caller that reads one message at a time."""

    async def read(self, max_bytes: int) -> bytes:
        """Return at least one byte and at most `max_bytes`; `b""` is end of file. Raises `OSError`."""
        ...

    async def write(self, data: bytes) -> None:
        """Send all of `data`. Raises `OSError`."""
        ...

    async def aclose(self, *, abort: bool = False) -> None:
        """Close; `abort` discards what has not been sent and resets the peer. Closing twice is allowed."""
        ...

    def abandon(self) -> None:
        """Let go of it in a process that inherited it by a fork, unnoticed by its peer and by the parent."""
        ...


class Listener(Protocol):
    """An open port."""

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port that clients reach it by (the real port when 0 was asked for)."""
        ...

    async def aclose(self) -> None:
        """Stop accepting. Connections that were accepted stay open."""
        ...


class Network(Protocol):
    """The source of connections.

    The accepting side is asyncio's own pair of protocol and transport, because there bytes flow fastest;
    the connecting side is a `Stream`.
    """

    async def connect(self, host: str, port: int, *, deadline: float) -> Stream:
        """Open a connection. Raises `TimeoutError` after `deadline`, another `OSError` on refusal."""
        ...

    async def listen(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        refused: Callable[[], None] | None = None,
    ) -> Listener:
        """Accept connections, each served by a new protocol; port 0 takes a free one. Raises `OSError`.

        `refused` is called for each connection that was closed at once because the process may open no file
        more.
        """
        ...
