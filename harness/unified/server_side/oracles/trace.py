"""Traces of cases: the operations of a case, with all that servers saw and clients said, as values.

An operation is one step of the case's account; a command of it is what it sends, with all attempts. Two
requests are attempts of one command if the earlier one failed and the later one says the same again.

Order is by `seq`, the process-wide number of events, steps and entries of the record; instants (`at`, in
seconds of the deployment's clock) are for durations. Both are needed: in virtual time many things happen at
one instant, and on the wall clock a number says nothing about how long something took. `making` is the only
maker of a `Trace`; tests write theirs by hand.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import Feature
from harness.unified.server_side.attempt import OK, JudgedAttempt, attempts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.adapters.base import Event
    from harness.adapters.deployment import Topology
    from harness.unified.account import PerformedOperation
    from harness.unified.server_side.connection_judge import ConnectionLife
    from harness.unified.server_side.rules import JudgedEdition, Timing
    from harness.unified.server_side.seen import SeenRequest

VARYING: Final = frozenset(
    {"$clusterTime", "txnNumber", "lsid", "maxTimeMS", "$readPreference", "startTransaction", "writeConcern"}
    | {"readConcern", "recoveryToken", "stmtIds", "stmtId"}
)
"""Fields that may differ between two attempts, or that a rule of their own is about."""

ENDS: Final = frozenset({"commitTransaction", "abortTransaction"})
"""Commands that end a transaction, and are retried by themselves."""


@dataclass(frozen=True, slots=True)
class SentCommand:
    """One command of an operation, with all its attempts in their order."""

    attempts: tuple[JudgedAttempt, ...]

    @property
    def first(self) -> SeenRequest:
        """The request of the first attempt."""
        return self.attempts[0].request

    @property
    def last(self) -> JudgedAttempt:
        """The last attempt."""
        return self.attempts[-1]

    @property
    def name(self) -> str:
        """The command's name."""
        return self.first.name

    @property
    def in_transaction(self) -> bool:
        """Whether it is a statement of a transaction, and not its end."""
        return "autocommit" in self.first.command and self.name not in ENDS


@dataclass(frozen=True, slots=True)
class TracedClient:
    """A client entity: its name, the options of its connection string, and what it said."""

    name: str
    app_name: str | None
    options: Mapping[str, Any]
    events: tuple[Event, ...] = ()
    tokens: float | None = None
    """The tokens in its retry token bucket at the end; None where it has none, or cannot tell."""
    jitter: float | None = None
    """The jitter that the case sets for it; None for a client with dice of its own."""
    seeds: int = 1
    """The number of hosts in its connection string."""

    def of_kind(self, *kinds: str) -> Iterator[Event]:
        """Yield its events of some kinds, oldest first."""
        return (event for event in self.events if event.kind in kinds)

    def during(self, operation: TracedOperation, *kinds: str) -> Iterator[Event]:
        """Yield its events of some kinds that were told while an operation ran."""
        first = bisect_right(self.events, operation.began, key=_place)
        last = bisect_left(self.events, operation.ended, key=_place)
        return (event for event in self.events[first:last] if event.kind in kinds)

    def timed_out(self, request: SeenRequest) -> bool:
        """Return whether it ran out of time for a reply, which it tells by the failure of the command.

        Servers cannot tell: a connection that is cut just when its reader runs out of time looks lost to
        them. The text of the failure is the only sign; a driver with other words counts as not having timed
        out.
        """
        return any(
            "timed out" in str(event.fields.get("failure"))
            for event in self.of_kind("commandFailedEvent")
            if event.fields.get("requestId") == request.request_id
        )


def _place(event: Event) -> float:
    return event.seq


@dataclass(frozen=True, slots=True)
class TracedOperation:
    """An operation that the case called on a driver, with the commands that it sent.

    `is_alone` says that no other operation ran beside it; `is_disturbed` that a connection could not be had
    or established meanwhile, or was lost unnoticed, so that servers may not have heard of every attempt.
    """

    step: PerformedOperation
    client: TracedClient
    commands: tuple[SentCommand, ...]
    is_alone: bool = True
    is_disturbed: bool = False

    @property
    def name(self) -> str:
        """Its name in the unified test format."""
        return self.step.operation.name

    @property
    def began(self) -> float:
        """Its beginning, in the order of all events."""
        return self.step.began_seq

    @property
    def ended(self) -> float:
        """Its end in the order of all events, infinite while it runs."""
        return inf if self.step.ended is None else self.step.ended_seq

    @property
    def timeout_ms(self) -> float | None:
        """Its timeoutMS: its own, or else that of its client. 0 and None are no limit."""
        inherited = self.client.options.get("timeoutMS")
        limit: float | None = self.step.operation.arguments.get("timeoutMS", inherited)
        return limit

    @property
    def is_timed(self) -> bool:
        """Whether it has a deadline: timeoutMS of its own, or of its client."""
        return bool(self.step.operation.arguments.get("timeoutMS") or self.client.options.get("timeoutMS"))

    def __str__(self) -> str:
        return f"{self.name} of {self.client.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A case that has run. `stored` holds the documents at the end, by database and collection.

    `initial` holds those of the beginning. `servers` are the names of those that clients connected to.
    """

    edition: JudgedEdition
    timing: Timing
    topology: Topology
    version: tuple[int, ...]
    features: frozenset[Feature]
    operations: tuple[TracedOperation, ...]
    clients: tuple[TracedClient, ...]
    connections: tuple[ConnectionLife, ...]
    unacknowledged: tuple[SeenRequest, ...] = ()
    """Requests that ask for no reply: servers may hear of them after their operation has ended."""
    steps: tuple[PerformedOperation, ...] = ()
    greetings_fail: float = inf
    """When the case set a fail point for hello: what monitors stream afterwards, no record has."""
    ended: float = inf
    """The instant at which the operations had ended."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """The address of each server, by its name."""
    stored: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    initial: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def is_of_backpressure(self) -> bool:
        """Whether the driver knows Client Backpressure, whose options its adapter then declares."""
        return bool(self.features & {Feature.ADAPTIVE_RETRIES, Feature.MAX_ADAPTIVE_RETRIES})

    @property
    def servers(self) -> frozenset[str]:
        """The names of all servers that clients connected to."""
        return frozenset(life.seen.server for life in self.connections)

    def commands(self) -> Iterator[tuple[TracedOperation, SentCommand]]:
        """Yield each command with its operation, in the order of their operations."""
        return ((operation, command) for operation in self.operations for command in operation.commands)


def commands_of(requests: Sequence[SeenRequest], timing: Timing) -> tuple[SentCommand, ...]:
    """Return the commands of one operation, whose requests are in order, each with its attempts."""
    groups: list[list[SeenRequest]] = []
    for request in requests:
        before = groups[-1][-1] if groups else None
        # What follows a success is another command, however much alike: a loop that inserts the same document
        # twice.
        if before is not None and is_failed(before) and _is_again(request, before):
            groups[-1].append(request)
        else:
            groups.append([request])
    return tuple(SentCommand(attempts_of(group, timing)) for group in groups)


def is_failed(request: SeenRequest) -> bool:
    """Return whether an attempt failed: without a reply, with an error, or with one of its write concern."""
    reply = request.reply
    return reply is None or not reply.get("ok") or "writeConcernError" in reply


def is_ok(attempt: JudgedAttempt) -> bool:
    """Return whether an attempt succeeded as a whole."""
    return attempt.ends == (OK,)


def is_committed_again(operation: TracedOperation, command: SentCommand) -> bool:
    """Return whether withTransaction may repeat a commit, beside the retries that a commit has by itself."""
    return operation.name == "withTransaction" and command.name == "commitTransaction"


def _is_again(request: SeenRequest, before: SeenRequest) -> bool:
    within = "autocommit" in request.command and "autocommit" in before.command
    # The same statement of another transaction: withTransaction began anew.
    if within and request.command.get("txnNumber") != before.command.get("txnNumber"):
        return False
    return essence(request) == essence(before)


def essence(request: SeenRequest) -> Mapping[str, Any]:
    """Return what an attempt has in common with its retries."""
    return {name: value for name, value in request.command.items() if name not in VARYING}


def overlapping(steps: Iterable[PerformedOperation]) -> frozenset[int]:
    """Return the identities of the steps during which another one ran that neither holds nor is held."""
    found: set[int] = set()
    ordered = sorted(steps, key=lambda step: step.began_seq)
    for index, step in enumerate(ordered):
        end = inf if step.ended is None else step.ended_seq
        for other in ordered[index + 1 :]:
            # Sorted by beginning, so nothing that follows can overlap either.
            if other.began_seq > end:
                break
            found |= {id(step), id(other)}
    return frozenset(found)


def by_client(operations: Iterable[TracedOperation]) -> Mapping[str, list[TracedOperation]]:
    """Return the operations of each client, by its name."""
    found: dict[str, list[TracedOperation]] = defaultdict(list)
    for operation in operations:
        found[operation.client.name].append(operation)
    return found
