"""The connections of a case as `expectConnections` speaks of them: what each was for, and what became of it.

A connection of a pool and one of a monitor begin alike: with a handshake. What tells them apart is what they
carry. Monitors say hello and nothing else, also again and again; connections of pools authenticate, declare a
load balancer, or carry commands. A connection that was made for a pool and never used looks like a monitor's.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, takewhile
from math import inf
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.unified.server_side.seen import SeenConnection, SeenRequest

HELLO: Final = "hello"
NOBODY: Final = "nobody"
_HELLOS: Final = frozenset({HELLO, "isMaster", "ismaster"})
_AUTHENTICATION: Final = frozenset({"saslStart", "saslContinue", "authenticate", "getnonce"})
_LEFT_OUT: Final = (HELLO, "configureFailPoint", "endSessions")
"""Commands of monitors, of the runner, and of clients that are closed: no operation sends them."""

_OF_POOLS: Final = ("speculativeAuthenticate", "loadBalanced")
"""Fields of a handshake that monitors do not send."""


@dataclass(frozen=True, slots=True)
class ConnectionLife:
    """A connection, from its acceptance to its end.

    `hello` is the first command. `established_seq` is when the handshake's last command was answered,
    authentication included, infinite while it was not; `established` the instant. `commands` and
    `authentication` are names in their order: a legacy hello counts as `hello`; later ones, endSessions and
    the runner's configureFailPoint are left out. `idle` is the longest time in seconds that it was idle
    before a command. `role` is the server's at the handshake.
    """

    seen: SeenConnection
    role: str
    hello: Mapping[str, Any]
    commands: tuple[str, ...]
    authentication: tuple[str, ...]
    established: float
    established_seq: float
    idle: float
    is_monitoring: bool

    @property
    def name(self) -> str:
        """Return the words for it."""
        return f"connection {self.seen.number} to {self.seen.server}"

    @property
    def closed_by(self) -> str:
        """Return the side that closed it: client, server or nobody."""
        return self.seen.closed_by or NOBODY

    @property
    def establishing_ended_seq(self) -> float:
        """Return when its establishment ended, however it did; infinite while it goes on."""
        return min(self.established_seq, self.seen.closed_seq)


def lives_of(connections: Iterable[SeenConnection]) -> list[ConnectionLife]:
    """Return the connections on which anything was said, in the order of their acceptance."""
    return [_life(connection) for connection in connections if connection.requests]


def _life(seen: SeenConnection) -> ConnectionLife:
    names = list(map(_name, seen.requests))
    hello, later = seen.requests[0], list(zip(names[1:], seen.requests[1:], strict=True))
    authentication = [(name, request) for name, request in takewhile(_authenticates, later)]
    last = authentication[-1][1] if authentication else hello
    used = any(name != HELLO for name in names)
    return ConnectionLife(
        seen=seen,
        role=hello.role,
        hello=hello.command,
        commands=(names[0], *(name for name, _ in later[len(authentication) :] if _counts(name))),
        authentication=tuple(name for name, _ in authentication),
        established=last.ended if last.end == "reply" else inf,
        established_seq=last.ended_seq if last.end == "reply" else inf,
        idle=_idle(seen.requests),
        is_monitoring=not used and not any(hello.command.get(name) for name in _OF_POOLS),
    )


def _name(request: SeenRequest) -> str:
    return HELLO if request.name in _HELLOS else request.name


def _authenticates(step: tuple[str, SeenRequest]) -> bool:
    return step[0] in _AUTHENTICATION


def _counts(name: str) -> bool:
    return name not in _LEFT_OUT


def _idle(requests: Sequence[SeenRequest]) -> float:
    """Return the longest time between a reply and the next command; what has no reply ends at once."""
    gaps = (
        following.at - (request.ended if request.ended <= following.at else request.at)
        for request, following in pairwise(requests)
        if _counts(_name(following))
    )
    return max(gaps, default=0.0)
