"""Two logs of one case, put into one order: by the clock, and at one instant by what caused what.

In virtual time many things happen at one instant. A command then comes before what the server did with it,
and that before its reply; a request id ties the three together.

The times of a driver in another process are right up to the precision of a measured clock, or are those at
which the runner heard of an event, which is later. Where they contradict what caused what, the cause counts:
a command was sent before it came to the server, and answered after the server was done with it.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Mergeable(Protocol):
    """What can be merged."""

    @property
    def at(self) -> float:
        """The instant."""
        ...

    @property
    def began(self) -> float:
        """The instant at which what the event is about began: for a server's request, when it came."""
        ...

    @property
    def kind(self) -> str:
        """The name of the event."""
        ...

    @property
    def link(self) -> int | None:
        """The request id of a command, if the event is about one."""
        ...

    @property
    def command(self) -> str:
        """The name of a command, if the event is about one."""
        ...

    @property
    def is_reply(self) -> bool:
        """Whether it is a client's event about a reply that a server sent."""
        ...

    @property
    def connection(self) -> int | None:
        """The server's number of the connection, if it is a server's event about one."""
        ...


E = TypeVar("E", bound=Mergeable)

_ASKED: Final = "commandStartedEvent"
_ANSWERED: Final = frozenset({"commandSucceededEvent", "commandFailedEvent"})
_SERVED: Final = "commandFinished"
_HIT: Final = "failPointHit"


class _Service(NamedTuple):
    """What a server did with a request: the instants of its arrival and of its end."""

    arrived: float
    ended: float


def instants(client_side: Sequence[E], server_side: Iterable[E]) -> list[float]:
    """Return the instants of one client's events, which are in order, corrected by what caused what.

    An event that is put earlier takes those before it along, and one that is put later those after it.
    """
    services = _services(server_side)
    found = [entry.at for entry in client_side]
    bound = inf
    for index in range(len(found) - 1, -1, -1):
        entry = client_side[index]
        service = services.get((entry.link, entry.command))
        if service is not None and entry.kind == _ASKED:
            bound = min(bound, service.arrived)
        found[index] = min(found[index], bound)
    bound = -inf
    for index, entry in enumerate(client_side):
        service = services.get((entry.link, entry.command))
        if service is not None and entry.is_reply:
            bound = max(bound, service.ended)
        found[index] = max(found[index], bound)
    return found


def _services(server_side: Iterable[E]) -> dict[tuple[int | None, str], _Service]:
    """Return the services by request id and command, but for those that two clients' requests share."""
    arrived: dict[int | None, float] = {}
    found: dict[tuple[int | None, str], list[_Service]] = {}
    for entry in server_side:
        if entry.kind == _SERVED:
            began = min(arrived.pop(entry.connection, inf), entry.began)
            found.setdefault((entry.link, entry.command), []).append(_Service(began, entry.at))
        elif entry.kind == _HIT:
            arrived.setdefault(entry.connection, entry.at)
    return {request: services[0] for request, services in found.items() if len(services) == 1}


def merge(client_side: Iterable[E], server_side: Iterable[E]) -> Iterator[E]:
    """Yield the entries of both logs, each of which is in order."""
    both = [(entry.at, 0, entry) for entry in server_side] + [(entry.at, 1, entry) for entry in client_side]
    both.sort(key=lambda one: one[0])
    for _, group in groupby(both, key=lambda one: one[0]):
        instant = list(group)
        said = deque(entry for _, is_client, entry in instant if is_client)
        done = deque(entry for _, is_client, entry in instant if not is_client)
        yield from _merge_instant(said, done)


def _merge_instant(said: deque[E], done: deque[E]) -> Iterator[E]:
    asks: Counter[int | None] = Counter(entry.link for entry in said if entry.kind == _ASKED)
    served: Counter[int | None] = Counter(entry.link for entry in done if entry.kind == _SERVED)
    while said and done:
        request = _request_of(done)
        waits_for_question = request is not None and asks[request] > 0
        waits_for_service = said[0].kind in _ANSWERED and served[said[0].link] > 0
        if waits_for_question and not waits_for_service:
            entry = said.popleft()
            asks[entry.link] -= entry.kind == _ASKED
        else:
            entry = done.popleft()
            served[entry.link] -= entry.kind == _SERVED
        yield entry
    yield from done
    yield from said


def _request_of(done: deque[E]) -> int | None:
    """Return the request that a server's next event belongs to: what happens on its way comes first."""
    connection = done[0].connection
    if connection is None:
        return None
    served = (entry.link for entry in done if entry.kind == _SERVED and entry.connection == connection)
    return next(served, None)
