"""The record of a trial: what an application asked and was answered, and the faults that strike it.

It stands where the record of the wire stands, between clients and servers. A request gets its name when it
arrives, before the server reads it; if a fault is meant for it, the deployment's own rules, faults of bytes
and verbs are set for its connection at that moment, so that they meet this request and no other.

It runs on the deployment's loop, between reading a request and handing it on: nothing may wait here, and
what fails is kept in `failures`, for an exception would end the server's connection and look like a fault of
the trial.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fakeserver.network.wire_entries import Accepted, Closed, Received, Sent
from fakeserver.network.wire_record import WireRecord
from harness.hunt.faults import OUTAGE_SECONDS, UNDONE_AFTER, Fault, Reach
from harness.hunt.places import ENDS, Namer, Numbers, Place, Request
from harness.unified.server_side.seen import document_of
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fakeserver.deployment.cluster import Cluster
    from fakeserver.network.wire_entries import Entry


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault that is meant for a place."""

    fault: Fault
    place: Place

    def __str__(self) -> str:
        return f"{self.fault.name} @ {self.place}"


@dataclass(slots=True)
class _Aim:
    """A strike of this run: how often it hit, and on which operation first."""

    strike: Strike
    hits: int = 0
    operation: int | None = None
    since: float = 0.0

    def meets(self, request: Request, now: float, outage: float) -> bool:
        fault = self.strike.fault
        if self.operation is None:
            return request.place == self.strike.place
        if fault.reach is Reach.ONCE or (fault.most is not None and self.hits >= fault.most):
            return False
        if fault.reach is Reach.SHAPE:
            return request.place.kind == self.strike.place.kind and (
                fault.endless or now - self.since < outage
            )
        return request.operation == self.operation


@dataclass(slots=True)
class HuntRecord(WireRecord):
    """A record of requests by their names; `aims` are the strikes of the run."""

    cluster: Cluster | None = None
    outage: float = OUTAGE_SECONDS
    """The seconds for which an outage lasts."""
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    """The connections that clients have opened."""
    open: set[int] = field(default_factory=set)
    """The connections that are open."""
    closed_at: float = 0.0
    """When the last one was closed."""
    failures: list[Exception] = field(default_factory=list)
    """Exceptions raised in here, for the hunt to report."""
    _aims: list[_Aim] = field(default_factory=list)
    _namer: Namer = field(default_factory=Namer)
    _peers: dict[int, tuple[str, str]] = field(default_factory=dict)
    """The server and the client's address of each connection."""

    def aim(self, strikes: Iterable[Strike], numbers: Numbers | None = None) -> None:
        """Strike these places from now on, and name the requests from the beginning."""
        self._aims = [_Aim(strike) for strike in strikes]
        self._namer = self._namer.anew(numbers or Numbers())
        self.requests = []

    @property
    def unreached(self) -> list[Strike]:
        """The strikes whose place never came."""
        return [aim.strike for aim in self._aims if not aim.hits]

    def enter(self, entry: Entry) -> None:
        """Take the next entry. What fails in here fails the trial, and not the server."""
        try:
            if isinstance(entry, Accepted):
                self.connections += 1
                self._peers[entry.connection] = (entry.server, entry.peer)
                self.open.add(entry.connection)
            elif isinstance(entry, Closed):
                self.open.discard(entry.connection)
                self.closed_at = entry.at
            elif isinstance(entry, Received):
                self._received(entry)
            elif isinstance(entry, Sent):
                document = document_of(entry.envelope)
                self._namer.answered(entry.connection, entry.envelope.response_to, document, entry.at)
        except Exception as error:  # noqa: BLE001 - the server's connection must not notice
            self.failures.append(error)

    def _received(self, entry: Received) -> None:
        command = document_of(entry.envelope)
        request = self._namer.asked(
            entry.connection, entry.envelope.request_id, command, entry.at, entry.role
        )
        if request is None:
            return
        self.requests.append(request)
        for aim in self._aims:
            if aim.meets(request, entry.at, self.outage):
                self._hit(aim, request)

    def _hit(self, aim: _Aim, request: Request) -> None:
        if aim.operation is None:
            aim.operation, aim.since = request.operation, request.at
        try:
            self._strike(aim.strike.fault, request, first=aim.hits == 0)
        except ControlError:
            return  # the deployment cannot do it as it stands: there is no primary to step down
        aim.hits += 1
        request.struck = aim.strike.fault.name

    def _strike(self, fault: Fault, request: Request, *, first: bool) -> None:
        cluster = self.cluster
        assert cluster is not None
        if request.name in ENDS:
            _end_soon(cluster, request)
        server, peer = self._peers[request.connection]
        known = (each.state for each in cluster.node(server).connections.values())
        connection = next((each.id for each in known if each.peer == peer), None)
        if connection is None:
            raise LookupError(f"{server} has no connection of {peer}")
        only = {"node": server, "connection": connection, "command": request.name}
        if effects := fault.effects(request):
            rule = {"when": only, "then": effects, "times": 1}
            cluster.control.perform("addRule", {"rule": rule})
        if fault.bytes is not None:
            cluster.control.perform("addFault", {"fault": {**fault.bytes, **only, "times": 1}})
        for verb, arguments in fault.steps(request) if first else ():
            cluster.control.perform(verb, arguments)
        if first and fault.undone_by is not None:
            cluster.spawn(_undo(cluster, *fault.undone_by))


def attempts_of(requests: Iterable[Request], operation: int) -> list[Request]:
    """Return the attempts of an operation."""
    return [each for each in requests if each.operation == operation]


def numbered(place: Place, number: int) -> Place:
    """Return the place of that number among those of one name."""
    return replace(place, number=number)


def _end_soon(cluster: Cluster, request: Request) -> None:
    """Let a transaction whose end meets a fault be over in a second, and not in a minute.

    Drivers do not ask again for what an application gave up, so the transaction stays open on the server, and
    keeps its locks. Whoever tries again waits for that, as it should, but no hunt has the minute.
    """
    number = request.command.get("txnNumber")
    for key, transaction in cluster.transactions.open.items():
        if request.session is not None and key.startswith(request.session) and transaction.number == number:
            transaction.expires = min(transaction.expires, cluster.clock.now() + UNDONE_AFTER)


async def _undo(cluster: Cluster, verb: str, arguments: Mapping[str, Any]) -> None:
    await cluster.clock.sleep_until(cluster.clock.now() + UNDONE_AFTER)
    cluster.control.perform(verb, arguments)
