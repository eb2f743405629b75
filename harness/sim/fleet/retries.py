"""Retries of a client after an attempt: whether and when it sends again, and when something new.

The rules of Client Backpressure are those of `driver.policy.retry`; a test compares them. Every attempt ends
here, in `succeed` or `fail`, and both set what comes next: a retry, a gap, or the wait for an operation from
outside. Draws are made in the order in which the driver makes them, a backoff before its token, so that a
client with the driver's own objects rolls the same dice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.sim.fleet import columns as c
from harness.sim.fleet import strategies as s
from harness.sim.fleet.dice import exponential, normal, uniform
from harness.sim.fleet.limits import backoff, consume, deposit
from harness.sim.fleet.lists import append, expect, note, remove, roll, ticks

if TYPE_CHECKING:
    from harness.sim.fleet.columns import FleetWorld


def succeed(w: FleetWorld, client: int) -> None:
    """End an operation well."""
    row = client * c.ROW
    note(w, client, c.OK)
    took(w, w.numbers[c.NOW] - w.clients[row + c.FIRST])
    strategy = w.numbers[c.STRATEGIES_AT] + (w.clients[row + c.RULES] >> 1) * c.STRATEGY
    if w.numbers[strategy + c.HAS_BUCKET]:
        # What `deposit_of_success` says: a retry that succeeds gives back its own token, too.
        deposit(w, bucket_of(w, client, strategy), 0.1 + (1 if w.clients[row + c.RETRY] > 0 else 0))
    rest(w, client)


def took(w: FleetWorld, taken: int) -> None:
    """Count an operation that took so many ticks."""
    w.numbers[c.LATENCY_SUM] += taken
    shift = 0
    while taken >> shift >= 2 * c.FINE:
        shift += 1
    w.numbers[w.numbers[c.LATENCIES_AT] + shift * c.FINE + (taken >> shift)] += 1


def fail_for_good(w: FleetWorld, client: int) -> None:
    """End an operation with an error."""
    note(w, client, c.FAILED)
    rest(w, client)


def rest(w: FleetWorld, client: int) -> None:
    """Wait until the next operation: for a gap, or until one arrives from outside."""
    row = client * c.ROW
    if w.numbers[c.ARRIVALS] == c.OPEN:
        w.clients[row + c.EVENT] = c.IDLE
        w.numbers[c.IDLE_FIRST] = append(w.clients, w.numbers[c.IDLE_FIRST], client, c.BEHIND)
        return
    gap = exponential(w.numbers[c.SEED], client, c.DRAW_GAP, roll(w, client)) * w.reals[c.GAP]
    begin_gap(w, client, gap)


def begin_gap(w: FleetWorld, client: int, gap: float) -> None:
    """Wait so many seconds until the next operation."""
    strategy = w.numbers[c.STRATEGIES_AT] + (w.clients[client * c.ROW + c.RULES] >> 1) * c.STRATEGY
    if w.numbers[strategy + c.KIND] == s.EXPONENTIAL and w.numbers[strategy + c.FLAGS] & 1:
        w.waits[client] = gap
    w.clients[client * c.ROW + c.RETRY] = 0
    expect(w, client, w.numbers[c.NOW] + ticks(w, gap), c.WAKE)


def take_idle(w: FleetWorld) -> int:
    """Return the client that has been idle for longest, `NOBODY` if none is."""
    first = w.numbers[c.IDLE_FIRST]
    if first != c.NOBODY:
        w.numbers[c.IDLE_FIRST] = remove(w.clients, first, first, c.BEHIND)
        w.clients[first * c.ROW + c.RETRY] = 0
    return first


def fail(w: FleetWorld, client: int, overloaded: int) -> None:
    """Do what a client's strategy says about an attempt that failed; `overloaded` if a server said so."""
    number = w.clients[client * c.ROW + c.RULES] >> 1
    strategy = w.numbers[c.STRATEGIES_AT] + number * c.STRATEGY
    kind = w.numbers[strategy + c.KIND]
    if kind == s.NO_RETRY:
        fail_for_good(w, client)
    elif kind == s.FIXED:
        retry_after(w, client, w.reals[real_of(w, number) + c.INTERVAL])
    elif kind == s.EXPONENTIAL:
        retry_after(w, client, next_wait(w, client, strategy, real_of(w, number)))
    else:
        decide(w, client, strategy, overloaded)


def retry_after(w: FleetWorld, client: int, wait: float) -> None:
    """Ask again after so many seconds, in the next tick at the earliest."""
    w.clients[client * c.ROW + c.RETRY] += 1
    expect(w, client, w.numbers[c.NOW] + ticks(w, max(wait, 0.0)), c.WAKE)


def real_of(w: FleetWorld, number: int) -> int:
    """Return where the reals of a strategy begin."""
    return w.numbers[c.REAL_STRATEGIES_AT] + number * c.STRATEGY


def bucket_of(w: FleetWorld, client: int, strategy: int) -> int:
    """Return where the tokens are that a client's retries are paid with."""
    return w.numbers[strategy + c.BUCKET_AT] + client // w.numbers[strategy + c.SHARING]


def next_wait(w: FleetWorld, client: int, strategy: int, real: int) -> float:
    """Return the next wait of the strategy that is called exponential, in seconds."""
    flags = w.numbers[strategy + c.FLAGS]
    if w.clients[client * c.ROW + c.RETRY] == 0 and not flags & 1:
        wait = w.reals[real + c.INTERVAL]
    else:
        wait = min(w.waits[client] * w.reals[real + c.FACTOR], w.reals[real + c.MAXIMUM])
        spread = w.reals[real + c.JITTER] * (wait if flags & 2 else 1.0)
        wait += normal(w.numbers[c.SEED], client, c.DRAW_RETRY, roll(w, client)) * spread
    w.waits[client] = wait
    return wait


def decide(w: FleetWorld, client: int, strategy: int, overloaded: int) -> None:
    """Retry or give up as `RetryPolicy.decide` does without a deadline, and pay for it."""
    numbers, clients = w.numbers, w.clients
    row = client * c.ROW
    retry = clients[row + c.RETRY] + 1
    if numbers[strategy + c.HAS_BUCKET] and retry > 1 and not overloaded:
        deposit(w, bucket_of(w, client, strategy), 1.0)
    clients[row + c.RULES] |= overloaded
    allowed = numbers[strategy + c.MOST_RETRIES] if clients[row + c.RULES] & 1 else 1
    if retry > allowed:
        fail_for_good(w, client)
        return
    if numbers[c.MONGOS] or (overloaded and numbers[strategy + c.RETARGETS]):
        clients[row + c.AVOIDS] |= 1 << (clients[row + c.AT] // c.GATE)
    if not overloaded:
        retry_after(w, client, 0.0)
        return
    wait = backoff_of(w, client, strategy, retry)
    if numbers[strategy + c.HAS_BUCKET] and not consume(w, bucket_of(w, client, strategy)):
        fail_for_good(w, client)
        return
    retry_after(w, client, wait)


def backoff_of(w: FleetWorld, client: int, strategy: int, retry: int) -> float:
    """Return the seconds before a retry after an overload."""
    real = real_of(w, w.clients[client * c.ROW + c.RULES] >> 1)
    jitter = 1.0
    if w.numbers[strategy + c.FLAGS] & 1:
        jitter = uniform(w.numbers[c.SEED], client, c.DRAW_RETRY, roll(w, client))
    base = w.reals[real + c.INTERVAL]
    if w.numbers[strategy + c.FLAGS] & 2 and w.reals[c.TOLD] > 0.0:
        base = w.reals[c.TOLD]
    return backoff(retry, jitter, base, w.numbers[strategy + c.FLAGS] >> 2, w.reals[real + c.MAXIMUM])
