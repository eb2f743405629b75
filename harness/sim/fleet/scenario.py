"""The scenario of a simulated fleet: clients, their strategies, and servers. All values.

Times are seconds and rates are events a second. Whatever cannot be simulated raises `ValueError` with the
name of the field, when the value is made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from harness.sim.fleet.strategies import (
    Strategy,
    at_least,
    not_negative,
    positive,
)

MOST_MEMBERS: Final = 30
"""Members, or mongos, that a client can tell apart: a bit of a 32-bit number for each."""

SEEDS: Final = 2**56
"""Seeds are from 0 to one less."""


# --- when operations arrive ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Each client waits an exponential gap of mean `gap` seconds, asks, and waits again when that is over."""

    gap: float

    def __post_init__(self) -> None:
        positive(self, "gap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploy:
    """All clients start at even chances within the first `within` seconds, and then behave as `Closed`."""

    within: float
    gap: float

    def __post_init__(self) -> None:
        positive(self, "within", "gap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Operations arrive at random, `rate` a second, whatever became of those before (a Poisson process).

    Each takes the client that has been idle for longest; where none is idle, nobody asks, and
    `Outcome.turned_away` counts it.
    """

    rate: float

    def __post_init__(self) -> None:
        positive(self, "rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diurnal:
    """As `Open`, with a rate that swings: `rate · (1 + swing · sin(2π · t / period))`."""

    rate: float
    swing: float
    period: float

    def __post_init__(self) -> None:
        positive(self, "rate", "period")
        if not 0 <= self.swing <= 1:
            raise ValueError(f"Diurnal.swing is {self.swing}: it must be from 0 to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spike:
    """As `Open`, with `factor` times the rate from `start` to `end`."""

    rate: float
    factor: float
    start: float
    end: float

    def __post_init__(self) -> None:
        positive(self, "rate", "factor", "end")
        not_negative(self, "start")
        if self.start >= self.end:
            raise ValueError(f"Spike.end is {self.end}: it must be after start, {self.start}")


Arrivals: TypeAlias = Open | Closed | Diurnal | Spike | Deploy


# --- the servers ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The time for a request: `base`, and beyond `limit` requests `base · factor^((requests - limit) / k)`.

    With `recompute` above 0 a server looks at each request every so many seconds, and answers when it has
    taken longer than what is right for the number of requests *now*; with 0 the time is decided when a
    request begins, as the fake's own service model does, and is at most `longest`. With `workers` above 0
    the time does not grow: requests wait in one queue for the first worker that is free. `spread` says
    whether a worker's time is always `base` or exponential of that mean. `rejection` is the part of `base`
    that a request takes of a worker which the limiter refuses: the client hears at once, those behind wait.
    """

    base: float = 0.1
    limit: int = 30
    factor: float = 1.05
    k: float = 15.0
    recompute: float = 0.05
    workers: int = 0
    spread: Literal["constant", "exponential"] = "constant"
    longest: float = 60.0
    rejection: float = 0.0

    def __post_init__(self) -> None:
        positive(self, "base", "factor", "k", "longest")
        not_negative(self, "recompute", "rejection")
        if self.rejection and not self.workers:
            raise ValueError(f"Service.rejection is {self.rejection}: only workers have work to do for it")
        at_least(self, 0, "limit", "workers")
        at_least(self, 1, "factor")
        if self.spread not in {"constant", "exponential"}:
            raise ValueError(f"Service.spread is {self.spread!r}: it must be constant or exponential")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimit:
    """The request rate limiter: a token bucket of `rate · burst_seconds` with room for `queue` to wait.

    `told_backoff` are the seconds that its error carries as `baseBackoffMS`.
    """

    rate: float
    burst_seconds: float = 1.0
    queue: int = 0
    told_backoff: float | None = None

    def __post_init__(self) -> None:
        positive(self, "rate", "burst_seconds")
        at_least(self, 0, "queue")
        if self.told_backoff is not None:
            positive(self, "told_backoff")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimit:
    """The limiter of connection establishment: a token bucket of `rate · burst_seconds`, and a queue."""

    rate: float
    burst_seconds: float = 1.0
    queue: int = 0

    def __post_init__(self) -> None:
        positive(self, "rate", "burst_seconds")
        at_least(self, 0, "queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """`members` alike, each with its own limits; clients ask one at random, through a mongos if there is any.

    `request_limit` and `connection_limit` stand where clients connect to: at each mongos, if there are any,
    else at each member. `tickets` bound what a member works on at a time; others queue. `abandoned` says when
    a server notices that a client has gone: in that instant, when it next looks at the request (in a queue:
    when its turn comes), or never. A member that is paused hears, when it goes on, every request whose client
    still waits, as the client's kernel sends again what found no room; and of those whose clients have gone
    the first `backlog`, which its own kernel has kept.
    """

    members: int = 1
    mongos: int = 0
    service: Service = field(default_factory=Service)
    request_limit: RequestLimit | None = None
    connection_limit: ConnectionLimit | None = None
    tickets: int | None = None
    abandoned: Literal["at once", "at a check", "never"] = "at a check"
    backlog: int = 128

    def __post_init__(self) -> None:
        at_least(self, 1, "members")
        at_least(self, 0, "mongos", "backlog")
        if self.tickets is not None:
            at_least(self, 1, "tickets")
        if max(self.members, self.mongos) > MOST_MEMBERS:
            raise ValueError(f"Servers.members and Servers.mongos must be {MOST_MEMBERS} or fewer")
        if self.abandoned not in {"at once", "at a check", "never"}:
            raise ValueError(
                f"Servers.abandoned is {self.abandoned!r}: it must be 'at once', 'at a check' or 'never'"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """From `start` to `end` a member (None: all) stands still, as by SIGSTOP, or is gone and refuses."""

    start: float
    end: float
    member: int | None = None
    kind: Literal["pause", "crash"] = "pause"

    def __post_init__(self) -> None:
        not_negative(self, "start")
        if not self.start < self.end:
            raise ValueError(f"Outage.end is {self.end}: it must be after start, {self.start}")
        if self.kind not in {"pause", "crash"}:
            raise ValueError(f"Outage.kind is {self.kind!r}: it must be pause or crash")


# --- all of it ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A fleet of `clients`, its servers, and what happens to them in `seconds`.

    `fleet` gives each strategy its share, as relative weights. `timeout` is how long a client waits for the
    answer to one attempt, None for ever; it then gives up and closes its connection. Time is a whole number
    of ticks of `tick` seconds, and what would fall between two happens at the nearest, at least one later.
    `window` is the length of a row of the outcome.
    """

    clients: int
    seconds: float
    arrivals: Arrivals
    fleet: tuple[tuple[float, Strategy], ...]
    servers: Servers = field(default_factory=Servers)
    timeout: float | None = None
    outages: tuple[Outage, ...] = ()
    seed: int = 0
    tick: float = 0.001
    window: float = 1.0

    def __post_init__(self) -> None:
        positive(self, "seconds", "tick", "window")
        at_least(self, 1, "clients")
        if not 0 <= self.seed < SEEDS:
            raise ValueError(f"Scenario.seed is {self.seed}: it must be from 0 to {SEEDS - 1}")
        if self.timeout is not None:
            positive(self, "timeout")
        if not self.fleet or any(not 0 < share < math.inf for share, _ in self.fleet):
            raise ValueError("Scenario.fleet needs at least one strategy, each with a share above 0")
        for outage in self.outages:
            if outage.member is not None and not 0 <= outage.member < self.servers.members:
                raise ValueError(
                    f"Outage.member is {outage.member}: members are 0 to {self.servers.members - 1}"
                )
