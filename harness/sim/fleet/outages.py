"""Outages of servers: they stand still and go on, or crash and come back.

Here are also the requests, at a server that never notices, of those who have gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.sim.fleet import columns as c
from harness.sim.fleet.limits import REJECTED, acquire_request, fill
from harness.sim.fleet.lists import dequeue, lift, note
from harness.sim.fleet.retries import fail
from harness.sim.fleet.servers import at, begin, enter, gate_of, has_ticket, knock, member_of

if TYPE_CHECKING:
    from harness.sim.fleet.columns import FleetWorld


def change(w: FleetWorld) -> None:
    """Begin and end the outages whose tick has come, and see when the next one does."""
    numbers = w.numbers
    now = numbers[c.NOW]
    following = numbers[c.TICKS]
    for number in range(numbers[c.OUTAGES]):
        outage = numbers[c.OUTAGES_AT] + number * c.OUTAGE
        start, end = numbers[outage + c.START], numbers[outage + c.END]
        for member in range(numbers[c.MEMBERS]):
            if numbers[outage + c.WHOM] not in (c.NOBODY, member):
                continue
            if start == now:
                befall(w, member, end, numbers[outage + c.IS_CRASH])
            elif end == now:
                recover(w, member)
        if start > now:
            following = min(following, start)
        elif end > now:
            following = min(following, end)
    numbers[c.NEXT_CHANGE] = following


def befall(w: FleetWorld, member: int, until: int, is_crash: int) -> None:
    """Pause a member, or crash it, until a tick."""
    numbers = w.numbers
    own = at(member)
    if not is_crash:
        numbers[own + c.PAUSED_UNTIL] = max(numbers[own + c.PAUSED_UNTIL], until)
        return
    numbers[own + c.DOWN_UNTIL] = max(numbers[own + c.DOWN_UNTIL], until)
    # Three passes: what was to come to those who have lost their server is taken from the lists before they
    # fail, because a failure sets something new to come in the same links.
    for client in range(numbers[c.CLIENTS]):
        if is_lost(w, client, member):
            lose(w, client)
    sweep(w)
    for client in range(numbers[c.CLIENTS]):
        if w.clients[client * c.ROW + c.EVENT] == c.LOST:
            note(w, client, c.ERRORS)
            fail(w, client, 0)
    empty(w, member)


def lose(w: FleetWorld, client: int) -> None:
    """Take the connection from a client whose server has crashed."""
    row = client * c.ROW
    event = w.clients[row + c.EVENT]
    late = event == c.EXAMINED and w.clients[row + c.BEGUN] != w.clients[row + c.STARTED]
    if late or event == c.QUEUED or event == c.BACKLOG:  # noqa: PLR1714 - a tuple costs a compilation
        lift(w, client)
    w.clients[row + c.EVENT] = c.LOST
    w.clients[row + c.CONNECTED] &= ~(1 << gate_of(w, client))


def sweep(w: FleetWorld) -> None:
    """Let nothing come to those who have lost their server."""
    clients, slots = w.clients, w.slots
    for slot in range(w.numbers[c.WHEEL] + 1):
        before = c.NOBODY
        client = slots[slot]
        while client != c.NOBODY:
            following = clients[client * c.ROW + c.NEXT]
            if clients[client * c.ROW + c.EVENT] != c.LOST:
                before = client
            elif before == c.NOBODY:
                slots[slot] = following
            else:
                clients[before * c.ROW + c.NEXT] = following
            client = following


def is_lost(w: FleetWorld, client: int, member: int) -> bool:
    """Return whether a client has a request at a member."""
    event = w.clients[client * c.ROW + c.EVENT]
    if event <= c.WAKE or member_of(w, client) != member:
        return False
    if not w.numbers[c.MONGOS]:
        return True
    return event not in (c.READY, c.CONNECT, c.UNREADY, c.UNCONNECTED)


def empty(w: FleetWorld, member: int) -> None:
    """Forget all that a member was about."""
    numbers, slots = w.numbers, w.slots
    own = at(member)
    numbers[c.AT_WORK] -= numbers[own + c.CONCURRENCY]
    numbers[own + c.CONCURRENCY] = 0
    numbers[own + c.BACKLOG_GONE] = 0
    for queue in (own + c.TICKET_QUEUE, own + c.BACKLOG_QUEUE):
        numbers[queue + c.FIRST_CLIENT] = c.NOBODY
        numbers[queue + c.LENGTH] = 0
        numbers[queue + c.GONE_LAST] = 0
    if numbers[c.SERVICE] == c.LOOKS:
        for tick in range(member * numbers[c.TICKS], (member + 1) * numbers[c.TICKS]):
            slots[numbers[c.CLASSES_AT] + tick] = c.NOBODY
            slots[numbers[c.GONE_AT] + tick] = 0
    for worker in range(member * numbers[c.WORKERS], (member + 1) * numbers[c.WORKERS]):
        numbers[numbers[c.WORKERS_AT] + worker] = numbers[c.NOW]
    if not numbers[c.MONGOS]:
        numbers[own + c.WAIT_REQUEST] = 0
        numbers[own + c.WAIT_CONNECTION] = 0
        fill(w, member)
    if numbers[c.HAS_RINGS]:
        size = numbers[c.WHEEL] + 1
        for tick in range(member * size, (member + 1) * size):
            slots[numbers[c.LEAVING_AT] + tick] = 0
            if not numbers[c.MONGOS]:
                slots[numbers[c.MATURING_AT] + tick] = 0


def recover(w: FleetWorld, member: int) -> None:
    """Let a member go on: what waited for it comes in, in order."""
    numbers = w.numbers
    queue = at(member) + c.BACKLOG_QUEUE
    if numbers[at(member) + c.PAUSED_UNTIL] > numbers[c.NOW]:
        return
    numbers[at(member) + c.BACKLOG_GONE] = 0
    for _ in range(numbers[queue + c.LENGTH]):
        client = dequeue(w, queue)
        if client == c.NOBODY:
            if numbers[c.ABANDONED] == c.NEVER:
                ask_gone(w, member)
            continue
        numbers[c.WAITED] += numbers[c.NOW] - w.clients[client * c.ROW + c.STARTED]
        lift(w, client)
        if numbers[c.MONGOS]:
            enter(w, client)
        else:
            knock(w, client)


# --- requests of those who have gone, at servers that never notice ---


def ask_gone(w: FleetWorld, member: int) -> None:
    """Bring such a request from a member's backlog past its limiter."""
    numbers = w.numbers
    if numbers[c.LIMITS_REQUESTS] and not numbers[c.MONGOS]:
        wait = acquire_request(w, member)
        if wait == REJECTED:
            return
        if wait > 0:
            mask = numbers[c.WHEEL]
            tick = numbers[c.NOW] + wait
            if tick < numbers[c.TICKS]:
                w.slots[numbers[c.MATURING_AT] + member * (mask + 1) + (tick & mask)] += 1
            return
    enter_gone(w, member)


def enter_gone(w: FleetWorld, member: int) -> None:
    """Bring such a request to a member."""
    numbers = w.numbers
    own = at(member)
    if numbers[own + c.DOWN_UNTIL] > numbers[c.NOW]:
        return
    if numbers[own + c.PAUSED_UNTIL] > numbers[c.NOW]:
        queue = own + c.BACKLOG_QUEUE
        if numbers[own + c.BACKLOG_GONE] < numbers[c.MOST_BACKLOG]:
            numbers[own + c.BACKLOG_GONE] += 1
            numbers[queue + c.LENGTH] += 1
            numbers[queue + c.GONE_LAST] += 1
    elif has_ticket(w, member):
        begin(w, member, c.NOBODY)
    else:
        numbers[own + c.TICKET_QUEUE + c.LENGTH] += 1
        numbers[own + c.TICKET_QUEUE + c.GONE_LAST] += 1


def ripen(w: FleetWorld, gate: int) -> None:
    """End the waits for a token of those who had gone; a server that never notices works for them."""
    numbers = w.numbers
    mask, now = numbers[c.WHEEL], numbers[c.NOW]
    place = numbers[c.MATURING_AT] + gate * (mask + 1) + (now & mask)
    count = w.slots[place]
    if count == 0:
        return
    w.slots[place] = 0
    numbers[at(gate) + c.WAIT_REQUEST] -= count
    if numbers[c.ABANDONED] != c.NEVER:
        return
    for number in range(count):
        # Whom a mongos would have asked is not kept: its members take turns.
        enter_gone(w, (now + number) % numbers[c.MEMBERS] if numbers[c.MONGOS] else gate)
