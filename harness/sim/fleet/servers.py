"""The servers of a fleet: they admit requests, work on them, answer; pause, crash and come back.

A request is on its way through gate, backlog, limiters, queue and work. Whoever has gone while the server
does not notice is a count, so that a server buried under abandoned requests costs neither memory nor time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.sim.fleet import columns as c
from harness.sim.fleet.dice import exponential
from harness.sim.fleet.limits import (
    REJECTED,
    acquire_connection,
    acquire_request,
    give_back_connection,
    give_back_request,
)
from harness.sim.fleet.lists import (
    append,
    bound,
    deadline,
    dequeue,
    enqueue,
    expect,
    leave,
    lift,
    note,
    remove,
)
from harness.sim.fleet.retries import fail, succeed

if TYPE_CHECKING:
    from harness.sim.fleet.columns import FleetWorld


def member_of(w: FleetWorld, client: int) -> int:
    """Return the member that a client asks."""
    return w.clients[client * c.ROW + c.AT] % c.GATE


def gate_of(w: FleetWorld, client: int) -> int:
    """Return the gate that a client asks it through."""
    return w.clients[client * c.ROW + c.AT] // c.GATE


def at(member: int) -> int:
    """Return where the numbers of a member, or of a gate, begin."""
    return c.MEMBERS_AT + member * c.MEMBER


# --- into a server ---


def knock(w: FleetWorld, client: int) -> None:
    """Bring a client's request to its gate."""
    numbers = w.numbers
    gate = gate_of(w, client)
    if not numbers[c.MONGOS] and stands_in_the_way(w, client, gate):
        return
    if numbers[c.LIMITS_CONNECTIONS] and not w.clients[client * c.ROW + c.CONNECTED] >> gate & 1:
        wait = acquire_connection(w, gate)
        if wait != 0:
            hold(w, client, wait, c.CONNECT, c.UNCONNECTED)
            return
        w.clients[client * c.ROW + c.CONNECTED] |= 1 << gate
    ask(w, client)


def stands_in_the_way(w: FleetWorld, client: int, member: int) -> bool:
    """Return whether a member is down or stands still, having seen to the request if so."""
    numbers = w.numbers
    own = at(member)
    if numbers[own + c.DOWN_UNTIL] > numbers[c.NOW]:
        note(w, client, c.ERRORS)
        fail(w, client, 0)
        return True
    if numbers[own + c.PAUSED_UNTIL] <= numbers[c.NOW]:
        return False
    enqueue(w, own + c.BACKLOG_QUEUE, client)
    bound(w, client, c.BACKLOG)
    return True


def hold(w: FleetWorld, client: int, wait: int, then: int, late: int) -> None:
    """Let a client wait for a token for so many ticks, or reject it."""
    if wait == REJECTED:
        note(w, client, c.REJECTED)
        note(w, client, c.ERRORS)
        fail(w, client, 1)
        return
    due = w.numbers[c.NOW] + wait
    w.numbers[c.WAITED] += wait
    wait_until(w, client, due, then, late)


def wait_until(w: FleetWorld, client: int, due: int, then: int, late: int) -> None:
    """Let something come to a client at a tick, or let it give up before that."""
    by = deadline(w, client)
    w.clients[client * c.ROW + c.EXTRA] = min(due, w.numbers[c.TICKS])
    if due <= by:
        expect(w, client, due, then)
    else:
        expect(w, client, by, late)


def ask(w: FleetWorld, client: int) -> None:
    """Ask the gate's request limiter."""
    if w.numbers[c.LIMITS_REQUESTS]:
        wait = acquire_request(w, gate_of(w, client))
        if wait == REJECTED:
            pay_rejection(w, gate_of(w, client))
        if wait != 0:
            hold(w, client, wait, c.READY, c.UNREADY)
            return
    enter(w, client)


def pay_rejection(w: FleetWorld, gate: int) -> None:
    """Have a worker of a gate that is a member do what a rejection takes."""
    if w.reals[c.REJECTION] > 0.0 and not w.numbers[c.MONGOS]:
        occupy(w, gate, w.reals[c.REJECTION])


def enter(w: FleetWorld, client: int) -> None:
    """Bring a request from its gate to its member."""
    member = member_of(w, client)
    if w.numbers[c.MONGOS] and stands_in_the_way(w, client, member):
        return
    queue = at(member) + c.TICKET_QUEUE
    if has_ticket(w, member):
        begin(w, member, client)
    else:
        enqueue(w, queue, client)
        bound(w, client, c.QUEUED)


def has_ticket(w: FleetWorld, member: int) -> bool:
    """Return whether a request may begin: nobody is before it, and there is a ticket."""
    tickets = w.numbers[c.TICKETS]
    own = at(member)
    if tickets == 0:
        return True
    return w.numbers[own + c.CONCURRENCY] < tickets and w.numbers[own + c.TICKET_QUEUE + c.LENGTH] == 0


# --- work ---


def begin(w: FleetWorld, member: int, client: int) -> None:
    """Begin to work on a request; of one who has gone, if `client` is `NOBODY`."""
    numbers, slots = w.numbers, w.slots
    own = at(member)
    numbers[own + c.CONCURRENCY] += 1
    numbers[c.AT_WORK] += 1
    numbers[c.PEAK] = max(numbers[c.PEAK], numbers[c.AT_WORK])
    now = numbers[c.NOW]
    if numbers[c.SERVICE] == c.LOOKS:
        if client == c.NOBODY:
            slots[numbers[c.GONE_AT] + member * numbers[c.TICKS] + now] += 1
            return
        listed = numbers[c.CLASSES_AT] + member * numbers[c.TICKS] + now
        slots[listed] = append(w.clients, slots[listed], client, c.BEHIND)
        w.clients[client * c.ROW + c.BEGUN] = now
        w.clients[client * c.ROW + c.EVENT] = c.EXAMINED
        if w.clients[client * c.ROW + c.STARTED] != now:
            # Those who came straight in give up as a class (`give_up`).
            bound(w, client, c.EXAMINED)
        return
    done = now + service_ticks(w, numbers[own + c.CONCURRENCY])
    if numbers[c.SERVICE] == c.WORKS:
        done = book(w, member)
    if client == c.NOBODY:
        go_at(w, member, done)
        return
    w.clients[client * c.ROW + c.BEGUN] = now
    wait_until(w, client, done, c.ANSWER, c.DECIDED)


def go_at(w: FleetWorld, member: int, tick: int) -> None:
    """Let one who has gone be off a member's hands at a tick."""
    if tick < w.numbers[c.TICKS]:
        mask = w.numbers[c.WHEEL]
        w.slots[w.numbers[c.LEAVING_AT] + member * (mask + 1) + (tick & mask)] += 1


def service_ticks(w: FleetWorld, concurrency: int) -> int:
    """Return how many ticks a request takes when there are so many."""
    return w.slots[w.numbers[c.TABLE_AT] + min(concurrency, w.numbers[c.TABLE_SIZE] - 1)]


def book(w: FleetWorld, member: int) -> int:
    """Book the first of a member's workers that is free for a request, and return when it is done."""
    numbers = w.numbers
    length = w.reals[c.WORK]
    if numbers[c.EXPONENTIAL_SERVICE]:
        numbers[c.SERVED] += 1
        length *= exponential(numbers[c.SEED], c.NO_CLIENT, c.DRAW_WORK, numbers[c.SERVED])
    first = numbers[numbers[c.WORKERS_AT] + member * numbers[c.WORKERS]]
    numbers[c.WAITED] += max(first - numbers[c.NOW], 0)
    return occupy(w, member, length)


def occupy(w: FleetWorld, member: int, length: float) -> int:
    """Give the first of a member's workers that is free so many ticks of work; return when it is done."""
    numbers = w.numbers
    # A heap of the ticks at which the workers are free: the first is replaced, and sinks.
    heap = numbers[c.WORKERS_AT] + member * numbers[c.WORKERS]
    done = max(numbers[heap], numbers[c.NOW]) + max(int(length + 0.5), 1)
    place = 0
    while True:
        lower = 2 * place + 1
        if lower >= numbers[c.WORKERS]:
            break
        if lower + 1 < numbers[c.WORKERS] and numbers[heap + lower + 1] < numbers[heap + lower]:
            lower += 1
        if numbers[heap + lower] >= done:
            break
        numbers[heap + place] = numbers[heap + lower]
        place = lower
    numbers[heap + place] = done
    return done


def finish(w: FleetWorld, member: int) -> None:
    """End the work on a request; a ticket may be free."""
    own = at(member)
    w.numbers[own + c.CONCURRENCY] -= 1
    w.numbers[c.AT_WORK] -= 1
    if w.numbers[c.TICKETS]:
        hand_out(w, member)


def hand_out(w: FleetWorld, member: int) -> None:
    """Hand free tickets to those who wait."""
    numbers = w.numbers
    own = at(member)
    queue = own + c.TICKET_QUEUE
    while numbers[own + c.CONCURRENCY] < numbers[c.TICKETS] and numbers[queue + c.LENGTH] > 0:
        client = dequeue(w, queue)
        if client != c.NOBODY:
            numbers[c.WAITED] += numbers[c.NOW] - w.clients[client * c.ROW + c.STARTED]
            lift(w, client)
            begin(w, member, client)
        elif numbers[c.ABANDONED] == c.NEVER:
            begin(w, member, c.NOBODY)


def complete(w: FleetWorld, member: int) -> None:
    """Count a request whose work is done."""
    note(w, c.NO_CLIENT - member, c.COMPLETED)
    finish(w, member)


def answer(w: FleetWorld, client: int) -> None:
    """Answer a request."""
    complete(w, member_of(w, client))
    succeed(w, client)


def look(w: FleetWorld, member: int) -> None:
    """Look at the requests that began a whole number of periods ago, the oldest first, and answer some.

    Of those that began in one tick, those who have gone came earlier than those who still wait.
    """
    numbers, slots = w.numbers, w.slots
    now, period = numbers[c.NOW], numbers[c.PERIOD]
    own = at(member)
    if numbers[own + c.PAUSED_UNTIL] > now:
        return
    oldest = numbers[c.OLDEST_AT] + member * period + now % period
    listed = numbers[c.CLASSES_AT] + member * numbers[c.TICKS]
    gone = numbers[c.GONE_AT] + member * numbers[c.TICKS]
    tick = slots[oldest]
    while tick < now:
        if slots[listed + tick] == c.NOBODY and slots[gone + tick] == 0:
            tick += period
        elif now - tick < service_ticks(w, numbers[own + c.CONCURRENCY]):
            break
        elif slots[gone + tick] > 0:
            slots[gone + tick] -= 1
            complete(w, member)
        else:
            client = slots[listed + tick] + 0
            slots[listed + tick] = remove(w.clients, client, client, c.BEHIND)
            if w.clients[client * c.ROW + c.STARTED] != tick:
                lift(w, client)
            answer(w, client)
    slots[oldest] = tick


# --- those who go ---


def abandon(w: FleetWorld, client: int, stage: int) -> None:
    """Let a client give up and close its connection, at the stage that its request has reached."""
    numbers = w.numbers
    w.clients[client * c.ROW + c.CONNECTED] &= ~(1 << gate_of(w, client))
    own = at(member_of(w, client))
    stays = 0 if numbers[c.ABANDONED] == c.AT_ONCE else 1
    note(w, client, c.GONE)
    if stage == c.BACKLOG:
        kept = stays if numbers[own + c.BACKLOG_GONE] < numbers[c.MOST_BACKLOG] else 0
        numbers[own + c.BACKLOG_GONE] += kept
        leave(w, own + c.BACKLOG_QUEUE, client, kept)
    elif stage == c.QUEUED:
        leave(w, own + c.TICKET_QUEUE, client, stays)
    elif stage == c.UNCONNECTED:
        give_back_connection(w, gate_of(w, client))
    elif stage == c.UNREADY and not stays:
        give_back_request(w, gate_of(w, client))
    elif stage == c.UNREADY:
        mature_at(w, client)
    else:
        abandon_work(w, client, stage)


def mature_at(w: FleetWorld, client: int) -> None:
    """Leave one who waits for a token behind, until the token has accrued."""
    tick = w.clients[client * c.ROW + c.EXTRA]
    if tick < w.numbers[c.TICKS]:
        mask = w.numbers[c.WHEEL]
        w.slots[w.numbers[c.MATURING_AT] + gate_of(w, client) * (mask + 1) + (tick & mask)] += 1


def abandon_work(w: FleetWorld, client: int, stage: int) -> None:
    """Leave work behind that has begun."""
    numbers = w.numbers
    row = client * c.ROW
    member = member_of(w, client)
    begun = w.clients[row + c.BEGUN]
    if stage == c.EXAMINED:
        listed = numbers[c.CLASSES_AT] + member * numbers[c.TICKS] + begun
        w.slots[listed] = remove(w.clients, w.slots[listed], client, c.BEHIND)
    if numbers[c.ABANDONED] == c.AT_ONCE:
        finish(w, member)
    elif numbers[c.ABANDONED] == c.NEVER:
        if stage == c.DECIDED:
            go_at(w, member, w.clients[row + c.EXTRA] + 0)
        else:
            w.slots[numbers[c.GONE_AT] + member * numbers[c.TICKS] + begun] += 1
    else:
        looks = begun + ((numbers[c.NOW] - begun) // numbers[c.PERIOD] + 1) * numbers[c.PERIOD]
        if stage == c.DECIDED:
            looks = min(looks, w.clients[row + c.EXTRA])
        go_at(w, member, looks)


def take_leave(w: FleetWorld, member: int) -> None:
    """Let those who have gone be off a member's hands whose tick has come."""
    numbers = w.numbers
    mask, now = numbers[c.WHEEL], numbers[c.NOW]
    place = numbers[c.LEAVING_AT] + member * (mask + 1) + (now & mask)
    count = w.slots[place]
    if count == 0:
        return
    w.slots[place] = 0
    until = numbers[at(member) + c.PAUSED_UNTIL]
    if until > now:
        if until < numbers[c.TICKS]:
            w.slots[numbers[c.LEAVING_AT] + member * (mask + 1) + (until & mask)] += count
        return
    for _ in range(count):
        complete(w, member)
