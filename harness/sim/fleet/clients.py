"""The clients of a fleet: they begin, send, wait, give up.

A client has one thing coming at a time: its `EVENT` at the tick `DUE`, or a deadline that ends a wait.
Whoever sends on a request sets the next one before it returns; a client without an event would never be
heard of again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.sim.fleet import columns as c
from harness.sim.fleet.dice import exponential, normal, threefry, uniform
from harness.sim.fleet.lists import append, note, roll
from harness.sim.fleet.retries import begin_gap, fail, take_idle
from harness.sim.fleet.servers import abandon, answer, ask, at, enter, gate_of, knock, member_of, wait_until

if TYPE_CHECKING:
    from harness.sim.fleet.columns import FleetWorld


def settle(w: FleetWorld) -> None:
    """Hand out the strategies, and let every client wait for its first operation."""
    numbers = w.numbers
    for client in range(numbers[c.CLIENTS]):
        row = client * c.ROW
        w.clients[row + c.RULES] = 2 * draw_strategy(w, client)
        if numbers[c.ARRIVALS] == c.OPEN:
            numbers[c.IDLE_FIRST] = append(w.clients, numbers[c.IDLE_FIRST], client, c.BEHIND)
        elif numbers[c.ARRIVALS] == c.CLOSED:
            gap = exponential(numbers[c.SEED], client, c.DRAW_GAP, roll(w, client))
            begin_gap(w, client, gap * w.reals[c.GAP])
        else:
            wait = uniform(numbers[c.SEED], client, c.DRAW_GAP, roll(w, client))
            begin_gap(w, client, wait * w.reals[c.WITHIN])


def draw_strategy(w: FleetWorld, client: int) -> int:
    """Return the number of a client's strategy."""
    chosen = 0
    if w.numbers[c.STRATEGIES] > 1:
        u = uniform(w.numbers[c.SEED], client, c.DRAW_FLEET, 0)
        while chosen < w.numbers[c.STRATEGIES] - 1 and u > w.reals[share_at(w, chosen)]:
            chosen += 1
    return chosen


def share_at(w: FleetWorld, strategy: int) -> int:
    """Return where the share of a strategy and of those before it is."""
    return w.numbers[c.REAL_STRATEGIES_AT] + strategy * c.STRATEGY + c.SHARE


def attempt(w: FleetWorld, client: int) -> None:
    """Ask, for the first time or again."""
    row = client * c.ROW
    w.clients[row + c.STARTED] = w.numbers[c.NOW]
    if w.clients[row + c.RETRY] == 0:
        w.clients[row + c.FIRST] = w.numbers[c.NOW]
        w.clients[row + c.AVOIDS] = 0
        w.clients[row + c.RULES] &= ~1
        note(w, client, c.OFFERED)
    note(w, client, c.ATTEMPTS)
    w.clients[row + c.AT] = select(w, client, w.clients[row + c.AVOIDS] + 0)
    knock(w, client)


def select(w: FleetWorld, client: int, avoids: int) -> int:
    """Return the member to ask, and the gate to ask it through."""
    numbers = w.numbers
    if numbers[c.MEMBERS] == 1 and not numbers[c.MONGOS]:
        return 0
    if not numbers[c.MONGOS]:
        member = choose(w, client, up(w), avoids)
        return member + c.GATE * member
    gate = choose(w, client, (1 << numbers[c.GATES]) - 1, avoids)
    return choose(w, client, up(w), 0) + c.GATE * gate


def up(w: FleetWorld) -> int:
    """Return the members that are not down, as bits."""
    found = 0
    for member in range(w.numbers[c.MEMBERS]):
        if w.numbers[at(member) + c.DOWN_UNTIL] <= w.numbers[c.NOW]:
            found |= 1 << member
    return found or (1 << w.numbers[c.MEMBERS]) - 1


def choose(w: FleetWorld, client: int, among: int, avoids: int) -> int:
    """Return one of the bits of `among`, at even chances, that is not avoided if there is such a one."""
    if among & ~avoids:
        among &= ~avoids
    count = 0
    for bit in range(c.GATE):
        count += among >> bit & 1
    wanted = 0
    if count > 1:
        word, _ = threefry(w.numbers[c.SEED] & c.NO_CLIENT, client, c.DRAW_SERVER, roll(w, client))
        wanted = word * count >> 32
    chosen = 0
    while wanted > 0 or not among >> chosen & 1:
        wanted -= among >> chosen & 1
        chosen += 1
    return chosen


def happen(w: FleetWorld, client: int, event: int) -> None:
    """Let happen to a client what was to come."""
    if event == c.WAKE:
        attempt(w, client)
    elif event >= c.EXAMINED:
        note(w, client, c.TIMED_OUT)
        abandon(w, client, event)
        fail(w, client, 0)
    elif not stands_still(w, client, event):
        let_on(w, client, event)


def stands_still(w: FleetWorld, client: int, event: int) -> bool:
    """Return whether what a client waits for has to wait until a pause ends, and let it wait if so."""
    if event != c.ANSWER and w.numbers[c.MONGOS]:
        return False
    until = w.numbers[at(member_of(w, client)) + c.PAUSED_UNTIL]
    if until <= w.numbers[c.NOW]:
        return False
    # From DECIDED on, the kinds of giving up are in the order of these.
    late = c.DECIDED if event == c.ANSWER else c.UNREADY if event == c.READY else c.UNCONNECTED
    wait_until(w, client, until, event, late)
    return True


def let_on(w: FleetWorld, client: int, event: int) -> None:
    """Let a client have its answer or its token."""
    gate = gate_of(w, client)
    if event == c.ANSWER:
        answer(w, client)
    elif event == c.READY:
        w.numbers[at(gate) + c.WAIT_REQUEST] -= 1
        enter(w, client)
    else:
        w.numbers[at(gate) + c.WAIT_CONNECTION] -= 1
        w.clients[client * c.ROW + c.CONNECTED] |= 1 << gate
        ask(w, client)


def arrive(w: FleetWorld) -> None:
    """Let the operations of this tick arrive from outside."""
    numbers, reals = w.numbers, w.reals
    while reals[c.NEXT_ARRIVAL] < numbers[c.NOW] + 1:
        numbers[c.ARRIVED] += 1
        number = numbers[c.ARRIVED]
        if is_wanted(w, number):
            client = take_idle(w)
            if client == c.NOBODY:
                note(w, c.NO_CLIENT, c.TURNED_AWAY)
            else:
                attempt(w, client)
        gap = exponential(numbers[c.SEED], c.NO_CLIENT, c.DRAW_ARRIVAL, number)
        reals[c.NEXT_ARRIVAL] += gap * reals[c.ARRIVAL_GAP]


def is_wanted(w: FleetWorld, number: int) -> bool:
    """Return whether an arrival at the highest rate is one at the rate of now."""
    numbers = w.numbers
    if numbers[c.RATES] <= 1:
        return True
    step = numbers[c.NOW] * numbers[c.RATES] // numbers[c.TICKS]
    chance = uniform(numbers[c.SEED], c.NO_CLIENT, c.DRAW_THINNING, number)
    return chance <= w.reals[numbers[c.RATES_AT] + step]


class ClientDice:
    """The dice of a client by its number, for one that is no row: a coroutine, or a thread with a driver.

    Draw by draw they are what the client's row would roll, so it waits the same gaps.
    """

    def __init__(self, seed: int, client: int) -> None:
        self._seed = seed
        self._client = client
        self._draws = 0

    def gap(self) -> float:
        """Return an exponential variate of mean 1, for the wait before an operation."""
        return exponential(self._seed, self._client, c.DRAW_GAP, self._next())

    def start(self) -> float:
        """Return a number above 0 and at most 1, for the wait before a first operation."""
        return uniform(self._seed, self._client, c.DRAW_GAP, self._next())

    def normal(self) -> float:
        """Return a standard normal variate, for the wait before a retry."""
        return normal(self._seed, self._client, c.DRAW_RETRY, self._next())

    def jitter(self) -> float:
        """Return a number above 0 and at most 1, for the wait before a retry."""
        return uniform(self._seed, self._client, c.DRAW_RETRY, self._next())

    def _next(self) -> int:
        self._draws += 1
        return self._draws
