"""Token buckets in the columns, with the arithmetic of `fakeserver.admission` and of `driver.policy`.

A test compares them with the real ones, decision by decision.

A bucket is one number, its zero time: the instant at which it held nothing. What it holds now follows from
that, so no tick has to fill it; a zero time in the future is a debt to those who wait. Waits are whole
milliseconds, as the fake's limiter gives them, and become ticks after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.sim.fleet import columns as c

if TYPE_CHECKING:
    from collections.abc import MutableSequence

    from harness.sim.fleet.columns import FleetWorld

REJECTED: Final = -1
_MILLISECOND: Final = 1000
_ROUNDING: Final = 1e-6


def balance(zero: float, rate: float, burst: float, now: float) -> float:
    """Return what a bucket holds that held nothing at `zero`."""
    return min((now - zero) * rate, burst)


def full(rate: float, burst: float, now: float) -> float:
    """Return the zero time of a bucket that is full."""
    return now - burst / rate


def acquire(
    reals: MutableSequence[float], zero: int, rate: float, burst: float, now: float, room: int
) -> int:
    """Take a token of the bucket whose zero time is `reals[zero]`.

    `room` is how many more may wait. Return `REJECTED`, 0 for at once, or how many milliseconds it takes
    until the token accrues.
    """
    held = balance(reals[zero], rate, burst, now)
    if room <= 0:
        if held < 1:
            return REJECTED
        reals[zero] = now - (held - 1) / rate
        return 0
    if burst < 1:
        return 0
    reals[zero] = now - (held - 1) / rate
    return int((max(reals[zero], now) - now) * _MILLISECOND + _ROUNDING)


def acquire_request(w: FleetWorld, gate: int) -> int:
    """Ask a gate's request limiter; return as `acquire` does, in ticks, and count who has to wait."""
    queue = c.MEMBERS_AT + gate * c.MEMBER + c.WAIT_REQUEST
    wait = acquire(
        w.reals,
        c.ZEROS_AT + 2 * gate,
        w.reals[c.REQUEST_RATE],
        w.reals[c.REQUEST_BURST],
        w.numbers[c.NOW] * w.reals[c.TICK],
        w.numbers[c.REQUEST_DEPTH] - w.numbers[queue],
    )
    if wait <= 0:
        return wait
    w.numbers[queue] += 1
    return max(int(wait / _MILLISECOND / w.reals[c.TICK] + 0.5), 1)


def acquire_connection(w: FleetWorld, gate: int) -> int:
    """Ask a gate's connection limiter; return as `acquire_request` does."""
    queue = c.MEMBERS_AT + gate * c.MEMBER + c.WAIT_CONNECTION
    wait = acquire(
        w.reals,
        c.ZEROS_AT + 2 * gate + 1,
        w.reals[c.CONNECTION_RATE],
        w.reals[c.CONNECTION_BURST],
        w.numbers[c.NOW] * w.reals[c.TICK],
        w.numbers[c.CONNECTION_DEPTH] - w.numbers[queue],
    )
    if wait <= 0:
        return wait
    w.numbers[queue] += 1
    return max(int(wait / _MILLISECOND / w.reals[c.TICK] + 0.5), 1)


def give_back_request(w: FleetWorld, gate: int) -> None:
    """Let one who waited for a request's token leave; the token goes back."""
    w.numbers[c.MEMBERS_AT + gate * c.MEMBER + c.WAIT_REQUEST] -= 1
    w.reals[c.ZEROS_AT + 2 * gate] -= 1 / w.reals[c.REQUEST_RATE]


def give_back_connection(w: FleetWorld, gate: int) -> None:
    """Let one who waited for a connection's token leave; the token goes back."""
    w.numbers[c.MEMBERS_AT + gate * c.MEMBER + c.WAIT_CONNECTION] -= 1
    w.reals[c.ZEROS_AT + 2 * gate + 1] -= 1 / w.reals[c.CONNECTION_RATE]


def fill(w: FleetWorld, gate: int) -> None:
    """Fill a gate's buckets, as at its start."""
    now = w.numbers[c.NOW] * w.reals[c.TICK]
    zero = c.ZEROS_AT + 2 * gate
    w.reals[zero] = full(w.reals[c.REQUEST_RATE], w.reals[c.REQUEST_BURST], now)
    w.reals[zero + 1] = full(w.reals[c.CONNECTION_RATE], w.reals[c.CONNECTION_BURST], now)


def backoff(retry: int, jitter: float, base: float, first_exponent: int, maximum: float) -> float:
    """Return the seconds before a retry (the first is 1), as `driver.policy.backpressure.Backoff` does."""
    power = 1.0
    for _ in range(min(retry - 1 + first_exponent, 64)):
        power *= 2.0
    return jitter * min(maximum, base * power)


def consume(w: FleetWorld, bucket: int) -> bool:
    """Take a token of a driver's bucket, if there is a whole one."""
    if w.reals[bucket] < 1.0:
        return False
    w.reals[bucket] -= 1.0
    return True


def deposit(w: FleetWorld, bucket: int, tokens: float) -> None:
    """Put tokens into a driver's bucket; what exceeds its capacity is lost."""
    w.reals[bucket] = min(w.reals[c.CAPACITY], w.reals[bucket] + tokens)
