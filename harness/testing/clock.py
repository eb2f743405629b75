"""The contract of every `Clock`.

Deadlines are instants of `now()`. Whoever compares them relies on three things: time never runs backwards,
nobody wakes before the instant that was asked for, and sleepers wake in the order of their instants. A
clock that broke one of these would send a retry too early, or let a monitor time out before its answer. The
contract takes a few milliseconds in real time, and none in virtual time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from harness.testing.verdict import raises

if TYPE_CHECKING:
    from harness.testing.worlds import Run
    from mongowire.ports import Clock, Network

# Seconds, longer than the resolution of any loop's timers, so that an early waking shows.
_MOMENT: Final = 0.002
_SKEW: Final = 0.2
"""By how many seconds the date may differ from the time that has passed: the system's is set now and then."""


async def _time_does_not_run_backwards(clock: Clock, network: Network) -> None:
    instants = [clock.now() for _ in range(100)]
    assert instants == sorted(instants)


# A loop may run a timer when it is due within its clock's resolution. A caller who looked at the time again
# would find its deadline not reached, and wait once more for next to nothing.
async def _waking_is_never_early(clock: Clock, network: Network) -> None:
    for _ in range(3):
        when = clock.now() + _MOMENT
        await clock.sleep_until(when)
        assert clock.now() >= when


# A backoff may be computed before the work that it follows has ended, so that its end lies in the past.
async def _an_instant_that_has_passed_does_not_wait(clock: Clock, network: Network) -> None:
    async with asyncio.timeout(1):
        await clock.sleep_until(clock.now() - 3600)


# A loop that is always late would else never give way, and the tasks that it waits for would starve.
async def _a_sleeper_who_is_late_lets_others_run(clock: Clock, network: Network) -> None:
    ran: list[int] = []
    asyncio.get_running_loop().call_soon(ran.append, 1)
    await clock.sleep_until(0.0)
    assert ran == [1]


async def _sleepers_wake_in_the_order_of_their_instants(clock: Clock, network: Network) -> None:
    start, woken = clock.now(), []

    async def sleeper(number: int) -> None:
        await clock.sleep_until(start + number * _MOMENT)
        woken.append(number)

    await asyncio.gather(*(sleeper(number) for number in (3, 1, 2)))
    assert woken == [1, 2, 3]


# Closing a client cancels its monitors, most of which sleep; a sleep of eleven days must not outlive them.
async def _a_sleep_can_be_cancelled(clock: Clock, network: Network) -> None:
    sleeper = asyncio.ensure_future(clock.sleep_until(clock.now() + 1e6))
    await clock.sleep_until(clock.now() + _MOMENT)
    sleeper.cancel()
    with raises(asyncio.CancelledError):
        await sleeper


# Dates are what peers see. In virtual time one that was read from the system would stand still while hours
# pass in the world, and would make runs differ.
async def _the_date_moves_with_the_time(clock: Clock, network: Network) -> None:
    now, utc = clock.now(), clock.utc()
    await clock.sleep_until(now + _MOMENT)
    assert abs((clock.utc() - utc) - (clock.now() - now)) <= _SKEW


def check_clock(run: Run) -> None:
    """Raise `AssertionError` unless the clock of the world that `run` makes is a `Clock`."""
    run(_time_does_not_run_backwards)
    run(_waking_is_never_early)
    run(_an_instant_that_has_passed_does_not_wait)
    run(_a_sleeper_who_is_late_lets_others_run)
    run(_sleepers_wake_in_the_order_of_their_instants)
    run(_a_sleep_can_be_cancelled)
    run(_the_date_moves_with_the_time)
