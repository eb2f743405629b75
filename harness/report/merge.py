"""Two logs of one case, put into one order: by the clock, and at one instant by what caused what.

In virtual time many things happen at one instant. A command then comes before what the server did with it,
and that before its reply; a request id ties the three together.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import groupby
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Entry(Protocol):
    """What can be merged."""

    @property
    def at(self) -> float:
        """The instant."""
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
    def connection(self) -> int | None:
        """The server's number of the connection, if it is a server's event about one."""
        ...


E = TypeVar("E", bound=Entry)

_ASKED: Final = "commandStartedEvent"
_ANSWERED: Final = frozenset({"commandSucceededEvent", "commandFailedEvent"})
_SERVED: Final = "commandFinished"


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
