"""The order of trials: each fault at each place where it applies, the most promising first; then pairs.

Places of one shape count once at first: the one in the middle, because a loop that begins anew has then
something to do twice; one that succeeds without a fault goes before one that does not. The last and the first
of each shape promise less, all others less and less.

A promise is a number without a unit: that of the fault (30 to 100), more or less for the request, less for
what was tried before, and less than 1 of chance, which decides between equals and makes the order depend on
the seed.
"""

from __future__ import annotations

from collections import Counter
from heapq import heapify, heappop, heappush
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.hunt.documents import is_id
from harness.hunt.faults import FAULTS
from harness.hunt.wire import Strike

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.hunt.baseline import Baseline
    from harness.hunt.faults import Fault
    from harness.hunt.findings import Trial
    from harness.hunt.places import Place, Request
    from mongowire.ports import Rng

_OF_WRITES: Final = 30
_OF_TRANSACTIONS: Final = 30
_OF_CURSORS: Final = 20
_OF_ADDING: Final = 20
_CARRIED_OUT: Final = frozenset({"unacknowledged", "lost-replies"})
"""Faults after which a write is done again that has been done."""
_ADDING: Final = frozenset({"$inc", "$mul", "$push", "$pop"})
_OF_ANSWERS: Final = 40
_OF_SETUP: Final = -60
_SETUP: Final = frozenset(
    {"drop", "dropDatabase", "create", "createIndexes", "listCollections", "listIndexes"}
)
_AGAIN: Final = 15
"""What a trial loses for each one before it with the same fault, and for each at the same place."""
_FEW: Final = 8
"""With more shapes than these the best faults are to meet all of them early, and other places later."""
_LATER: Final = 30
"""What a trial loses for each place of the same shape that comes before its own."""
_NEAR: Final = 3
"""So many places are near one that they follow."""
_BONDS: Final = 3
"""What two places may have in common: to be near, of one session, of one document."""
_IN_PAIRS: Final = frozenset(
    {"error", "unacknowledged", "lost-reply", "conflict", "cursor-lost", "stream-broken"}
)
_WAIT: Final = 40
"""What a fault that may take long loses, beside one that does not."""


class Facts(NamedTuple):
    """The facts about deployment and application that a plan depends on."""

    is_replica_set: bool
    reads_secondaries: bool
    must_answer: bool = False
    """The user has said by when the command must end, whatever happens."""


def singles(baseline: Baseline, facts: Facts, rng: Rng, faults: Sequence[Fault] = FAULTS) -> list[Strike]:
    """Return all single faults, in the order in which they are tried."""
    middle = dict(_waves(baseline.places))
    first = dict(_waves(baseline.places, from_the_first=True))
    promises: dict[Strike, float] = {}
    for place, request in baseline.places.items():
        for fault in faults:
            if applies(fault, request, facts):
                wave = (first if fault.lasts else middle)[place]
                promises[Strike(fault, place)] = (
                    _promise(fault, request, facts) - _LATER * wave + rng.random()
                )
    return list(_spread(promises))


def _spread(promises: Mapping[Strike, float]) -> Iterator[Strike]:
    """Yield strikes by promise, less what the same fault and the same place have had already.

    Ten trials of a small program then try ten faults at several places, and not one fault everywhere. In a
    large one a fault that has found nothing at a few shapes says nothing about the others, and one place
    stands for all of its shape: the best faults meet each shape first.
    """
    faults: Counter[str] = Counter()
    places: Counter[Place | tuple[str, str]] = Counter()
    is_large = len({strike.place.kind for strike in promises}) > _FEW

    def place_of(strike: Strike) -> Place | tuple[str, str]:
        return strike.place.kind if is_large else strike.place

    def worth(strike: Strike) -> float:
        had = places[place_of(strike)] + (0 if is_large else faults[strike.fault.name])
        return promises[strike] - _AGAIN * had

    queue = [(-promise, number, strike) for number, (strike, promise) in enumerate(promises.items())]
    heapify(queue)
    while queue:
        claimed, number, strike = heappop(queue)
        if -claimed > (now := worth(strike)):  # others came before it since it was put there
            heappush(queue, (-now, number, strike))
            continue
        faults[strike.fault.name] += 1
        places[place_of(strike)] += 1
        yield strike


def pairs(
    baseline: Baseline,
    tried: Sequence[Trial],
    facts: Facts,
    faults: Sequence[Fault] = FAULTS,
    before: Sequence[Strike] = (),
) -> Iterator[tuple[Strike, ...]]:
    """Yield pairs of faults, once every single one was tried: first within recoveries, then near ones.

    `before` are the single ones that have held in earlier hunts, of whose recovery nothing is known any more.

    A place that no clean run has belongs to the recovery from a fault: what compensates, or tries again.
    Among the others those come first that have most in common with the first place: it is just before them,
    in their session, and about one document with them.
    """
    ones = [trial for trial in tried if len(trial.strikes) == 1]
    held = [trial for trial in ones if trial.judgement.reached and not trial.judgement.findings]
    # A pair with a fault that fails alone would find the same again.
    alone = {trial.strikes for trial in tried if trial.judgement.findings}
    strong = [fault for fault in faults if fault.name in _IN_PAIRS]
    for trial in held:
        new = {each.place: each for each in trial.outcome.requests if each.place not in baseline.places}
        for place, request in new.items():
            yield from _with(trial.strikes, place, request, strong, facts)
    known = dict.fromkeys([*(trial.strikes[0] for trial in held), *before])
    firsts = [one for one in known if one.fault.name in _IN_PAIRS and one.place in baseline.places]
    bonds = {place: _bonds(baseline.places, place) for place in {first.place for first in firsts}}
    for shared in range(_BONDS, 0, -1):
        for first in firsts:
            for place in bonds[first.place][shared]:
                for both in _with((first,), place, baseline.places[place], strong, facts):
                    if both[1:] not in alone:
                        yield both


def _bonds(places: Mapping[Place, Request], first: Place) -> dict[int, list[Place]]:
    """Return the places behind one, by how much they have in common with it, the nearest first.

    Drivers lend a session to one operation after the other, so requests of one session are those of one
    thread or task; where there is only one, its session says nothing.
    """
    found: dict[int, list[Place]] = {number: [] for number in range(_BONDS + 1)}
    behind = iter(places)
    while next(behind) != first:
        pass
    request = places[first]
    sessions = len({each.session for each in places.values()})
    for distance, place in enumerate(behind, 1):
        other = places[place]
        shared = (distance <= _NEAR) + bool(request.documents & other.documents)
        shared += sessions > 1 and request.session is not None and request.session == other.session
        found[shared].append(place)
    return found


def _with(
    strikes: tuple[Strike, ...], place: Place, request: Request, faults: Sequence[Fault], facts: Facts
) -> Iterator[tuple[Strike, ...]]:
    for fault in faults:
        if applies(fault, request, facts):
            yield (*strikes, Strike(fault, place))


def applies(fault: Fault, request: Request, facts: Facts) -> bool:
    """Return whether a fault may be tried at a request."""
    if fault.replica_set and not facts.is_replica_set:
        return False
    if fault.secondaries and not facts.reads_secondaries:
        return False
    return fault.applies(request)


def _promise(fault: Fault, request: Request, facts: Facts) -> int:
    promise = fault.promise
    if request.name in _SETUP:
        promise += _OF_SETUP
    if request.is_write or request.name == "commitTransaction":
        promise += _OF_WRITES
    if "autocommit" in request.command:
        promise += _OF_TRANSACTIONS
    if request.name == "getMore":
        promise += _OF_CURSORS
    if fault.name in _CARRIED_OUT and _adds(request):
        promise += _OF_ADDING
    if fault.may_hang:
        promise += _OF_ANSWERS if facts.must_answer else -_WAIT
    return promise


def _adds(request: Request) -> bool:
    """Return whether a write that is done twice leaves something else than one that is done once."""
    command = request.command
    if request.name == "insert":
        return any(is_id(each.get("_id")) for each in command.get("documents", ()))
    changes = [each.get("u") for each in command.get("updates", ())] + [command.get("update")]
    return any(not _ADDING.isdisjoint(each) for each in changes if isinstance(each, dict))


def _waves(places: Mapping[Place, Request], *, from_the_first: bool = False) -> Iterator[tuple[Place, int]]:
    """Yield each place with its wave: 0 for the first of its shape that is tried."""
    for _, each in groupby(sorted(places, key=lambda place: (place.kind, place.number)), lambda p: p.kind):
        same = list(each)
        ok = [place for place in same if places[place].is_ok]
        best = [] if from_the_first or not ok else [ok[len(ok) // 2], ok[-1], ok[0]]
        order = dict.fromkeys([*best, *ok, *same])
        yield from ((place, wave) for wave, place in enumerate(order))
