"""Low priority for operations that take long, since 9.0 (`Execution Control`).

Each time that an operation yields it gives its ticket back and asks for the next one. One that has asked
often enough asks a second pool of tickets from then on, so that short operations do not queue behind long
ones. The builders of indexes ask there from the beginning.

Never lowered are statements of transactions, which hold what others wait for; what shows the operations at
work (`$currentOp`); what comes by the port for operators; and the applications of a list.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from bson import Int64

from fakeserver.admission.execution_control import TicketHolder
from fakeserver.errors import CommandError
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.admission.invocations import TicketPool


GATE: Final = "executionControlDeprioritizationGate"
HEURISTIC: Final = "executionControlHeuristicDeprioritization"
BACKGROUND: Final = "executionControlBackgroundTasksDeprioritization"
THRESHOLD: Final = "executionControlHeuristicNumAdmissionsDeprioritizeThreshold"
EXEMPT_NAMES: Final = "executionControlApplicationDeprioritizationExemptions"
LOW_READ: Final = "executionControlConcurrentReadLowPriorityTransactions"
LOW_WRITE: Final = "executionControlConcurrentWriteLowPriorityTransactions"
LOW_READ_DEPTH: Final = "executionControlReadLowPriorityMaxQueueDepth"
LOW_WRITE_DEPTH: Final = "executionControlWriteLowPriorityMaxQueueDepth"
_YIELD_PERIOD: Final = "internalQueryExecYieldPeriodMS"
_BACKGROUND: Final = frozenset({"createIndexes"})


def is_in_use(values: Mapping[str, Any] | Any) -> bool:
    """Return whether there is low priority: the gate is open, for somebody."""
    return bool(values[GATE] and (values[HEURISTIC] or values[BACKGROUND]))


def check(before: Mapping[str, Any] | Any, after: Mapping[str, Any] | Any) -> None:
    """Raise `CommandError` 20 where low priority ends although its pools serve nobody."""
    if is_in_use(before) and not is_in_use(after) and 0 in (after[LOW_READ], after[LOW_WRITE]):
        raise CommandError(
            ErrorCode.ILLEGAL_OPERATION,
            "Cannot transition to not use prioritization when low-priority read or write tickets are set"
            " to 0",
        )


class PrioritizedClient(Protocol):
    """A connection, as far as its operations may be lowered."""

    @property
    def has_priority(self) -> bool:
        """Whether it came by a port whose operations are never lowered."""

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """The metadata of its handshake."""


class Prioritization:
    """The tickets of low priority, and who has to take them."""

    def __init__(self, own: Mapping[str, Any] | Any, *, cores: int) -> None:
        self._cores = cores
        self.read = TicketHolder(0)
        self.write = TicketHolder(0)
        self.lowered = 0
        """Operations that asked for a ticket of low priority."""
        self.spared = 0
        """Operations that never would."""
        self.reconfigure(own, 0.0)

    def __repr__(self) -> str:
        return f"<Prioritization {'on' if self.in_use else 'off'}, read {self.read!r}, write {self.write!r}>"

    def reconfigure(self, own: Mapping[str, Any] | Any, now: float) -> None:
        """Take changed parameters into account."""
        self.in_use = is_in_use(own)
        self._own = {name: own[name] for name in (GATE, HEURISTIC, BACKGROUND, THRESHOLD)}
        self.turn: float = own[_YIELD_PERIOD] / 1000
        """Seconds between two tickets of an operation."""
        exempt = own[EXEMPT_NAMES]
        self._names = ApplicationNames(tuple(exempt["appNames"] if exempt else ()))
        for holder, size, depth in (
            (self.read, LOW_READ, LOW_READ_DEPTH),
            (self.write, LOW_WRITE, LOW_WRITE_DEPTH),
        ):
            holder.max_queue_depth = own[depth]
            holder.resize(self._cores if own[size] < 0 else own[size], now)

    def holder(self, pool: TicketPool) -> TicketHolder:
        """Return the tickets of low priority for reads or for writes."""
        return self.read if pool == "read" else self.write

    def spares(self, connection: PrioritizedClient | None, *, in_transaction: bool) -> bool:
        """Return whether an operation is never lowered; without a connection, of any client."""
        if in_transaction or connection is None or connection.has_priority:
            return in_transaction or connection is not None
        return bool(self._names.prefixes) and self._names.match(connection.metadata)

    def lowers(self, command: str, admissions: int) -> bool:
        """Return whether an operation that was admitted so often has low priority from now on."""
        if not self.in_use:
            return False
        if command in _BACKGROUND and self._own[BACKGROUND]:
            return True
        return bool(self._own[HEURISTIC]) and admissions >= self._own[THRESHOLD]

    def stats(self) -> dict[str, Any]:
        """Return its fields of `queues.execution`."""
        return {
            "usesPrioritization": self.in_use,
            "deprioritizationGate": self._own[GATE],
            "heuristicDeprioritization": self._own[HEURISTIC],
            "backgroundTasksDeprioritization": self._own[BACKGROUND],
            "heuristicDeprioritizationThreshold": self._own[THRESHOLD],
            "totalDeprioritizations": Int64(self.lowered),
            "totalMarkedNonDeprioritizable": Int64(self.spared),
        }

    def pool_stats(self, normal: Mapping[str, Any], pool: TicketPool) -> dict[str, Any]:
        """Return a pool's section with both priorities; its sums are of both while there are two."""
        low = self.holder(pool).stats()
        sizes = ("out", "available", "totalTickets")
        sums = {name: normal[name] + (low[name] if self.in_use else 0) for name in sizes}
        return {
            **sums,
            "normalPriority": {**{name: normal[name] for name in sizes}, **normal["normalPriority"]},
            "lowPriority": {**{name: low[name] for name in sizes}, **low["normalPriority"]},
            "exempt": normal["exempt"],
        }


# Exemptions from the limiters: addresses by CIDR range, applications and drivers by the start of a name.


_Network: TypeAlias = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class AddressRanges:
    """A list of CIDR ranges, as `{ranges: [...]}` gives it. What is no range is the name of a Unix socket."""

    networks: tuple[_Network, ...] = ()
    names: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return whether anybody can be in them."""
        return bool(self.networks or self.names)

    @classmethod
    def of(cls, ranges: Sequence[str]) -> AddressRanges:
        """Read a list of ranges, addresses and names of sockets."""
        networks: list[_Network] = []
        names: set[str] = set()
        for each in ranges:
            try:
                networks.append(ip_network(each, strict=False))
            except ValueError:
                # As on a server: an entry that is no range is kept as the name of a socket, and no error.
                names.add(each)
        return cls(tuple(networks), frozenset(names))

    def __contains__(self, peer: str) -> bool:
        """Return whether a peer, `address:port`, is in one of the ranges."""
        if not self.networks:
            return peer in self.names
        try:
            address = ip_address(peer.rpartition(":")[0].split("%")[0])
        except ValueError:
            return peer in self.names
        # A listener for both families sees an IPv4 client as `::ffff:a.b.c.d`; IPv4 ranges match it.
        mapped = getattr(address, "ipv4_mapped", None) or address
        return any(mapped.version == network.version and mapped in network for network in self.networks)


@dataclass(frozen=True, slots=True)
class ApplicationNames:
    """Beginnings of names of applications and drivers, as `{appNames: [...]}` gives them."""

    prefixes: tuple[str, ...] = ()

    def match(self, metadata: Mapping[str, Any] | None) -> bool:
        """Return whether the `client` document of a handshake names one of them. Case matters."""
        if metadata is None or not self.prefixes:
            return False
        names = [_name_in(metadata, part) for part in ("application", "driver")]
        return any(name.startswith(self.prefixes) for name in names if name is not None)


def _name_in(metadata: Mapping[str, Any], part: str) -> str | None:
    described = metadata.get(part)
    name = described.get("name") if isinstance(described, dict) else None
    return name if isinstance(name, str) else None
