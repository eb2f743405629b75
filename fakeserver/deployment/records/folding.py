"""A journal, folded to a few lines that keep what matters.

A worker that polls writes hundreds of requests between two events, and pushes the one hit of a fault out of
the last sixty lines. So what repeats is one line with its count, and what a reader looks for is kept first:

1. *Events* are what people and faults did: verbs, hits, fail points, elections, servers that went. Each has
   its line. Of one that comes more than `FEW` times, the first two and the last stay events.
2. *Requests* between two events are folded by command, collection, server and outcome, where there are more
   than `FEW` of one kind. So are connections.
3. Where there are too many lines all the same, those of requests that succeeded go first, the oldest of them;
   then errors of a kind that has a line already; then the oldest.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.deployment.records.record import line_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

Document = dict[str, Any]

FEW: Final = 3
"""The number of equal records that have a line each."""

_ORDINARY: Final = frozenset(
    {
        *("commandFinished", "connectionAccepted", "connectionClosed", "connectionQueued", "requestQueued"),
        *("messageReceived", "messageSent"),
    }
)
_BY_COMMAND: Final = ("kind", "command", "namespace", "node", "verdict", "outcome", "writeError")
_VARYING: Final = frozenset({"seq", "at", "date", "connection", "peer", "requestId", "response_to", "text"})


class Fold(NamedTuple):
    """Records of one kind: the first of them, the last, and how many there are."""

    first: Mapping[str, Any]
    last: Mapping[str, Any]
    size: int = 1

    @property
    def is_error(self) -> bool:
        """Whether they are requests that failed."""
        return is_error(self.first)

    @property
    def is_event(self) -> bool:
        """Whether they are what a person or a fault did."""
        return self.first["kind"] not in _ORDINARY

    def to_line(self) -> str:
        """Return them as a line for a reader."""
        line = line_of(self.first)
        if self.size == 1:
            return line
        return f"{line}  ({self.size} times, the last at {self.last['at']:.3f} as #{self.last['seq']})"


def is_error(document: Mapping[str, Any]) -> bool:
    """Return whether a record is a request that failed, or was given up."""
    if document["kind"] == "requestAbandoned":
        return True
    if document["kind"] != "commandFinished":
        return False
    failed = document["outcome"] != "ok" or "writeError" in document or "writeConcernError" in document
    return failed or document["verdict"] == "rejected"


def folded(documents: Iterable[Mapping[str, Any]], most: int) -> tuple[list[Fold], int]:
    """Return the records as folds, `most` at most, and the number of records that are left out."""
    folds = list(_folds(list(documents)))
    kept = _chosen(folds, most)
    return kept, sum(fold.size for fold in folds) - sum(fold.size for fold in kept)


def lines_of(documents: Iterable[Mapping[str, Any]], most: int) -> list[str]:
    """Return the records as lines for a reader, `most` at most beside the one that says what is left out."""
    kept, left_out = folded(documents, most)
    told = [f"… {left_out} records left out, of requests that succeeded first"] if left_out else []
    return [*told, *(fold.to_line() for fold in kept)]


def _folds(documents: Sequence[Mapping[str, Any]]) -> Iterator[Fold]:
    events = _events(documents)
    waiting: list[Mapping[str, Any]] = []
    for number, document in enumerate(documents):
        if number in events:
            yield from _folded_by_key(waiting)
            yield Fold(document, document)
            waiting = []
        else:
            waiting.append(document)
    yield from _folded_by_key(waiting)


def _events(documents: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the places of the events: of one that comes often, of the first two and the last."""
    places: dict[Hashable, deque[int]] = {}
    for number, document in enumerate(documents):
        if document["kind"] not in _ORDINARY:
            found = places.setdefault(_key(document), deque())
            found.append(number)
            if len(found) > FEW:
                del found[FEW - 1]
    return {number for found in places.values() for number in found}


def _folded_by_key(documents: Sequence[Mapping[str, Any]]) -> Iterator[Fold]:
    """Yield the folds of records between two events, each at the place of its first record."""
    keys = [_key(document) for document in documents]
    counts = Counter(keys)
    last = dict(zip(keys, documents, strict=True))
    folded_already: set[Hashable] = set()
    for key, document in zip(keys, documents, strict=True):
        if counts[key] <= FEW:
            yield Fold(document, document)
        elif key not in folded_already:
            folded_already.add(key)
            yield Fold(document, last[key], counts[key])


def _key(document: Mapping[str, Any]) -> Hashable:
    if document["kind"] == "commandFinished":
        return tuple(document.get(name) for name in _BY_COMMAND)
    return tuple((name, repr(document[name])) for name in document if name not in _VARYING)


def _chosen(folds: Sequence[Fold], most: int) -> list[Fold]:
    """Return the folds that are kept: the least of them go first, and of two alike the older."""
    known: set[Hashable] = set()
    ranks = []
    for fold in folds:
        key = _key(fold.first)
        ranks.append(2 if fold.is_event or (fold.is_error and key not in known) else int(fold.is_error))
        known.add(key)
    order = sorted(range(len(folds)), key=lambda place: (ranks[place], place))
    gone = set(order[: max(len(folds) - most, 0)])
    return [fold for place, fold in enumerate(folds) if place not in gone]
