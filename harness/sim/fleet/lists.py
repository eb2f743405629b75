"""Lists through the columns: who has something coming at a tick, and who waits or is worked on at a server.

Lists of which somebody may leave from the middle are doubly linked, first in first out, and a ring to the
left: ahead of the first comes the last, so that a list needs no more than its first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.sim.fleet import columns as c

if TYPE_CHECKING:
    from collections.abc import MutableSequence

    from harness.sim.fleet.columns import FleetWorld


def append(clients: MutableSequence[int], first: int, client: int, behind: int) -> int:
    """Put a client at the end of the list that begins with `first`; return the first after that.

    `behind` is the field of the link to the next; the link to the one before is in the field after it.
    """
    row = client * c.ROW + behind
    clients[row] = c.NOBODY
    if first == c.NOBODY:
        clients[row + 1] = client
        return client
    front = first * c.ROW + behind
    last = clients[front + 1]
    clients[last * c.ROW + behind] = client
    clients[row + 1] = last
    clients[front + 1] = client
    return first


def remove(clients: MutableSequence[int], first: int, client: int, behind: int) -> int:
    """Take a client out of the list that begins with `first`; return the first after that."""
    row = client * c.ROW + behind
    following = clients[row]
    before = clients[row + 1]
    if client == first:
        if following != c.NOBODY:
            clients[following * c.ROW + behind + 1] = before
        return following
    clients[before * c.ROW + behind] = following
    if following == c.NOBODY:
        clients[first * c.ROW + behind + 1] = before
    else:
        clients[following * c.ROW + behind + 1] = before
    return first


def expect(w: FleetWorld, client: int, tick: int, kind: int) -> None:
    """Let something come to a client at a tick, and nothing prevent it; beyond the last tick it never does.

    Whom something comes to at a tick is a list to one side, last in first out: it is put together and taken
    apart without a touch to anybody else's row.
    """
    row = client * c.ROW
    tick = min(tick, w.numbers[c.TICKS])
    w.clients[row + c.DUE] = tick
    w.clients[row + c.EVENT] = kind
    if tick < w.numbers[c.TICKS]:
        slot = tick & w.numbers[c.WHEEL]
        w.clients[row + c.NEXT] = w.slots[slot]
        w.slots[slot] = client


def bound(w: FleetWorld, client: int, kind: int) -> None:
    """Let a client give up at its deadline, unless that is lifted."""
    w.clients[client * c.ROW + c.EVENT] = kind
    tick = deadline(w, client)
    if tick < w.numbers[c.TICKS]:
        slot = w.numbers[c.BOUNDS_AT] + tick
        w.slots[slot] = append(w.clients, w.slots[slot], client, c.NEXT)


def lift(w: FleetWorld, client: int) -> None:
    """Lift a client's bound."""
    tick = deadline(w, client)
    if tick < w.numbers[c.TICKS]:
        slot = w.numbers[c.BOUNDS_AT] + tick
        w.slots[slot] = remove(w.clients, w.slots[slot], client, c.NEXT)


def deadline(w: FleetWorld, client: int) -> int:
    """Return the tick at which a client gives its attempt up."""
    return w.clients[client * c.ROW + c.STARTED] + w.numbers[c.TIMEOUT]


# --- the queues of a member, in which those who have gone are counts ---


def enqueue(w: FleetWorld, queue: int, client: int) -> None:
    """Put a client at the end of the queue whose numbers begin at `queue`."""
    numbers = w.numbers
    numbers[queue + c.FIRST_CLIENT] = append(w.clients, numbers[queue + c.FIRST_CLIENT], client, c.BEHIND)
    w.clients[client * c.ROW + c.EXTRA] = numbers[queue + c.GONE_LAST]
    numbers[queue + c.GONE_LAST] = 0
    numbers[queue + c.LENGTH] += 1


def leave(w: FleetWorld, queue: int, client: int, stays: int) -> None:
    """Take a client out of a queue; `stays` is 1 if the queue is not to notice, and 0 otherwise."""
    numbers, clients = w.numbers, w.clients
    row = client * c.ROW
    gone = clients[row + c.EXTRA] + stays
    following = clients[row + c.BEHIND]
    if following == c.NOBODY:
        numbers[queue + c.GONE_LAST] += gone
    else:
        clients[following * c.ROW + c.EXTRA] += gone
    numbers[queue + c.FIRST_CLIENT] = remove(clients, numbers[queue + c.FIRST_CLIENT], client, c.BEHIND)
    numbers[queue + c.LENGTH] -= 1 - stays


def dequeue(w: FleetWorld, queue: int) -> int:
    """Take the first out of a queue that has one: a client, or `NOBODY` for one who has gone."""
    numbers = w.numbers
    first = numbers[queue + c.FIRST_CLIENT]
    numbers[queue + c.LENGTH] -= 1
    if first == c.NOBODY:
        numbers[queue + c.GONE_LAST] -= 1
        return c.NOBODY
    row = first * c.ROW
    if w.clients[row + c.EXTRA] > 0:
        w.clients[row + c.EXTRA] -= 1
        return c.NOBODY
    numbers[queue + c.FIRST_CLIENT] = remove(w.clients, first, first, c.BEHIND)
    return first


# --- what is taken down ---


def note(w: FleetWorld, client: int, kind: int) -> None:
    """Count what happened, in the column `kind` of the present window, and put it into the trace."""
    numbers = w.numbers
    numbers[numbers[c.WINDOW_AT] + kind] += 1
    numbers[c.EVENTS] += 1
    # Two hashes whose products fit a signed number of 64 bits: beyond it compiled numbers wrap, and Python's
    # grow.
    word = (client * 16 + kind) & 0xFFFFFFFF
    one = ((numbers[c.TRACE] ^ word) * 0x45D9F3B + numbers[c.NOW]) & 0x7FFFFFFFFFFFFFFF
    numbers[c.TRACE] = (one ^ (one >> 29)) & 0xFFFFFFFF
    other = ((numbers[c.OTHER_TRACE] + word) & 0xFFFFFFFF) * 0x27D4EB2F + numbers[c.NOW]
    numbers[c.OTHER_TRACE] = (other ^ (other >> 31)) & 0xFFFFFFFF


def roll(w: FleetWorld, client: int) -> int:
    """Return the number of a client's next draw."""
    row = client * c.ROW + c.DRAWS
    w.clients[row] += 1
    return w.clients[row] + 0


def ticks(w: FleetWorld, seconds: float) -> int:
    """Return the whole ticks nearest to some seconds, at least one."""
    return max(int(min(seconds / w.reals[c.TICK], 2e9) + 0.5), 1)
