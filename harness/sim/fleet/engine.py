"""The loop: tick by tick, and within a tick in a fixed order.

1. Outages begin and end; what waited for a paused server comes in.
2. Servers let go of those who have gone, and whom they have noticed; tokens of those who have gone accrue.
3. Servers look at the requests whose turn it is, the oldest first.
4. Clients give up: those in queues, then those at work, each in the order in which they came.
5. What else was to come to clients happens, what was set last first.
6. Operations arrive from outside.
7. A window may end.

The order is a part of the model: answers come before timeouts, so that a client which is answered in the
tick of its deadline succeeds, and arrivals come last, so that they meet what the tick has left. Another
order is another trace, and the pinned ones of the tests say so.

This module and those that it imports are in the part of Python that Numba compiles, and run without it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.sim.fleet import columns as c
from harness.sim.fleet.clients import arrive, happen, settle
from harness.sim.fleet.limits import balance
from harness.sim.fleet.lists import remove
from harness.sim.fleet.outages import change, ripen
from harness.sim.fleet.servers import at, look, service_ticks, take_leave

if TYPE_CHECKING:
    from harness.sim.fleet.columns import FleetWorld


def advance(w: FleetWorld, until: int) -> None:
    """Go on until a tick; from the first one on, settle first."""
    numbers = w.numbers
    if numbers[c.NOW] == 0:
        settle(w)
    looks = numbers[c.SERVICE] == c.LOOKS
    for now in range(numbers[c.NOW], until):
        numbers[c.NOW] = now
        if now == numbers[c.NEXT_CHANGE]:
            change(w)
        if numbers[c.HAS_RINGS]:
            let_go(w)
        if looks:
            for member in range(numbers[c.MEMBERS]):
                look(w, member)
        if numbers[c.HAS_RINGS]:
            give_up(w, looks)
        if w.slots[now & numbers[c.WHEEL]] != c.NOBODY:
            turn(w, now & numbers[c.WHEEL])
        if numbers[c.ARRIVALS] == c.OPEN:
            arrive(w)
        if (now + 1) % numbers[c.WINDOW] == 0 or now + 1 == numbers[c.TICKS]:
            close_window(w)
    numbers[c.NOW] = until


def let_go(w: FleetWorld) -> None:
    """Let servers be rid of those who have gone."""
    for member in range(w.numbers[c.MEMBERS]):
        take_leave(w, member)
    if w.numbers[c.LIMITS_REQUESTS]:
        for gate in range(w.numbers[c.GATES]):
            ripen(w, gate)


def give_up(w: FleetWorld, looks: bool) -> None:  # noqa: FBT001 - compiled code has no keywords
    """Let clients give up whose deadline has come: in queues, and at work."""
    numbers, slots, clients = w.numbers, w.slots, w.clients
    bounds = numbers[c.BOUNDS_AT] + numbers[c.NOW]
    while slots[bounds] != c.NOBODY:
        client = slots[bounds] + 0
        slots[bounds] = remove(clients, client, client, c.NEXT)
        happen(w, client, clients[client * c.ROW + c.EVENT] + 0)
    started = numbers[c.NOW] - numbers[c.TIMEOUT]
    if looks and started >= 0:
        for member in range(numbers[c.MEMBERS]):
            listed = numbers[c.CLASSES_AT] + member * numbers[c.TICKS] + started
            while slots[listed] != c.NOBODY:
                happen(w, slots[listed] + 0, c.EXAMINED)


def turn(w: FleetWorld, slot: int) -> None:
    """Let all that is due in a slot of the wheel happen; what is due in a later round stays."""
    clients, now = w.clients, w.numbers[c.NOW]
    client = w.slots[slot] + 0
    due = clients[client * c.ROW + c.DUE]
    w.slots[slot] = c.NOBODY
    while client != c.NOBODY:
        row = client * c.ROW
        following = clients[row + c.NEXT] + 0
        # The next row is read before it is needed, so that the processor fetches it meanwhile. At the end of
        # the list that is the last row of all, by its negative place, and is not used.
        is_due, due = due == now, clients[following * c.ROW + c.DUE]
        if is_due:
            happen(w, client, clients[row + c.EVENT] + 0)
        else:
            clients[row + c.NEXT] = w.slots[slot]
            w.slots[slot] = client
        client = following


def close_window(w: FleetWorld) -> None:
    """Write down how things stand at the end of a window."""
    numbers, reals = w.numbers, w.reals
    level = numbers[c.LEVEL_AT]
    slowest = 0
    for member in range(numbers[c.MEMBERS]):
        own = at(member)
        at_work = numbers[own + c.CONCURRENCY]
        reals[level] += at_work
        slowest = max(slowest, service_ticks(w, at_work))
        waiting = numbers[own + c.TICKET_QUEUE + c.LENGTH] + numbers[own + c.BACKLOG_QUEUE + c.LENGTH]
        if numbers[c.SERVICE] == c.WORKS:
            waiting += max(at_work - numbers[c.WORKERS], 0)
        reals[level + 2] += waiting
    reals[level + 1] = slowest * reals[c.TICK]
    now = (numbers[c.NOW] + 1) * reals[c.TICK]
    for gate in range(numbers[c.GATES]):
        reals[level + 2] += numbers[at(gate) + c.WAIT_REQUEST] + numbers[at(gate) + c.WAIT_CONNECTION]
        if numbers[c.LIMITS_REQUESTS]:
            zero = reals[c.ZEROS_AT + 2 * gate]
            held = balance(zero, reals[c.REQUEST_RATE], reals[c.REQUEST_BURST], now)
            reals[level + 3] += max(held, 0.0)
    for bucket in range(numbers[c.BUCKETS]):
        reals[level + 4] += reals[numbers[c.RETRY_TOKENS_AT] + bucket] / numbers[c.BUCKETS]
    reals[level + 5] = numbers[c.PEAK]
    numbers[c.PEAK] = numbers[c.AT_WORK]
    numbers[c.LEVEL_AT] += c.LEVELS
    numbers[c.WINDOW_AT] += c.COUNTED
