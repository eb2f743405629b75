"""The key `pushbackd` of a case as frozen values: what the servers are to have seen.

Rules stay rules here (`CountRule`, `GapRule`): how many attempts and which seconds they mean depends on the
edition of the driver and on what was met, which only `rules` knows when a case is judged. `str` of each is
the spelling of the file, for messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from harness.unified.model import UNSET

if TYPE_CHECKING:
    from collections.abc import Mapping
    from re import Pattern

    from mongowire.documents.marks import Location

KEY: Final = "pushbackd"
"""The name under which a case holds what is our own."""


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `least` to `most`, both included."""

    least: float = -inf
    most: float = inf

    def __contains__(self, number: float) -> bool:
        """Return whether a number is in the range."""
        return self.least <= number <= self.most

    def __str__(self) -> str:
        if self.least == self.most:
            return f"{self.least:g}"
        if self.least == -inf:
            return f"at most {self.most:g}"
        return f"at least {self.least:g}" if self.most == inf else f"{self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True)
class CountRule:
    """A number of attempts by the edition: its overload retries, and some more."""

    more: int = 0

    def __str__(self) -> str:
        return f"overload retries + {self.more}" if self.more else "overload retries"


@dataclass(frozen=True, slots=True)
class GapRule:
    """A gap by the edition. `retry` is the number of the retry before which it is, None: as it was seen."""

    name: str
    retry: int | None = None

    def __str__(self) -> str:
        return self.name if self.retry is None else f"{self.name}, attempt {self.retry}"


NO_GAP: Final = "none"
OVERLOAD_BACKOFF: Final = "overload backoff"
FULL_OVERLOAD_BACKOFF: Final = "full overload backoff"
TRANSACTION_BACKOFF: Final = "transaction backoff"
GAP_RULES: Final = (NO_GAP, OVERLOAD_BACKOFF, FULL_OVERLOAD_BACKOFF, TRANSACTION_BACKOFF)
OVERLOAD_RETRIES: Final = "overload retries"
UNCOMPRESSED: Final = "none"

ExpectedGap: TypeAlias = Range | GapRule
ExpectedCount: TypeAlias = Range | CountRule


@dataclass(frozen=True, slots=True)
class RunOn:
    """The conditions under which a case with the key runs; what is empty or None asks nothing."""

    editions: tuple[str, ...] = ()
    time: str | None = None
    features: tuple[str, ...] = ()
    least_profile: str | None = None
    most_profile: str | None = None


@dataclass(frozen=True, slots=True)
class ExpectedAttempt:
    """The assertions on one attempt; what is empty or None asserts nothing.

    `meets` holds the alternatives of how it ended. `gap` is the time before it, in seconds. `same`, `newer`
    and `omits` are paths into the command's document.
    """

    body: Mapping[str, Any]
    location: Location
    meets: tuple[str | int, ...] = ()
    on: str | None = None
    gap: ExpectedGap | None = None
    carries: Mapping[str, Any] | None = None
    same: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()
    omits: tuple[str, ...] = ()
    size_max: int | None = None
    connection: str | None = None
    compressor: str | None = None


@dataclass(frozen=True, slots=True)
class ExpectedAttempts:
    """One element of `expectAttempts`: which commands it is about, and the attempts of each operation.

    `operations` is how many operations there are, `count` how many attempts each has. `attempts` are all of
    one operation in their order; `first`, `retries`, `each` and `last` are about some of every operation.
    """

    commands: tuple[str, ...]
    location: Location
    namespace: str | None = None
    app_name: str | None = None
    comment: Any = UNSET
    session: str | None = None
    operations: Range | None = None
    count: ExpectedCount | None = None
    attempts: tuple[ExpectedAttempt, ...] | None = None
    first: ExpectedAttempt | None = None
    retries: ExpectedAttempt | None = None
    each: ExpectedAttempt | None = None
    last: ExpectedAttempt | None = None
    jitter: str | None = None


@dataclass(frozen=True, slots=True)
class ExpectedConnection:
    """The assertions on one connection; what is None asserts nothing."""

    location: Location
    hello: Mapping[str, Any] | None = None
    commands: tuple[str, ...] | None = None
    authentication: tuple[str, ...] | None = None
    closed_by: str | None = None
    compressed: tuple[str, ...] | None = None
    streamed: bool | None = None


@dataclass(frozen=True, slots=True)
class ExpectedConnections:
    """One element of `expectConnections`; `idle` is in seconds."""

    location: Location
    app_name: str | None = None
    on: str | None = None
    monitoring: bool = False
    established: Range | None = None
    at_once: Range | None = None
    open: Range | None = None
    open_at_end: Range | None = None
    idle: Range | None = None
    each: ExpectedConnection | None = None
    connections: tuple[ExpectedConnection, ...] | None = None
    closed_in_order: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ExpectedMetric:
    """One element of `expectMetrics`: a path in `serverStatus`, how it changed and what it is at the end."""

    path: str
    location: Location
    on: str | None = None
    change: Range | None = None
    value: Any = UNSET


@dataclass(frozen=True, slots=True)
class ExpectedRules:
    """`expectRules`: the oracles that a case is held against, by their names (`oracles`).

    `known` has for each of them what finds the sentences that are passed over, None for none.
    """

    known: Mapping[str, Pattern[str] | None]
    location: Location

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the oracles."""
        return tuple(self.known)

    def passes_over(self, oracle: str, sentence: str) -> bool:
        """Return whether a breach is one that is known."""
        pattern = self.known.get(oracle)
        return pattern is not None and pattern.search(sentence) is not None


@dataclass(frozen=True, slots=True)
class ServerSide:
    """All of the key: where the case runs, and what the servers are to have seen."""

    location: Location
    run_on: RunOn = RunOn()
    attempts: tuple[ExpectedAttempts, ...] = ()
    connections: tuple[ExpectedConnections, ...] = ()
    metrics: tuple[ExpectedMetric, ...] = ()
    rules: ExpectedRules | None = None

    @property
    def is_judged(self) -> bool:
        """Whether anything is expected that takes servers which record it."""
        return bool(self.attempts or self.connections or self.rules)
