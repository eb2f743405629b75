"""The virtual loop: time jumps to deadlines, and a run that can never go on says so."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import random
import signal
from typing import TYPE_CHECKING

import pytest

from harness.sim import NothingScheduled, RealWorldError, VirtualLoop, World, run_virtual
from harness.testing.clock import check_clock
from harness.testing.worlds import run_in_memory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


def test_the_virtual_clock_is_a_clock() -> None:
    check_clock(run_in_memory)


def test_time_begins_at_zero_and_on_the_first_of_2026() -> None:
    async def main(world: World) -> tuple[float, dt.datetime]:
        return world.clock.now(), dt.datetime.fromtimestamp(world.clock.utc(), dt.UTC)

    assert run_virtual(main) == (0.0, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))


def test_an_hour_passes_at_once_and_exactly() -> None:
    async def main(world: World) -> float:
        await world.clock.sleep_until(3600.0)
        return world.clock.now()

    assert run_virtual(main) == 3600.0


def test_deadlines_are_reached_to_the_bit() -> None:
    dice = random.Random(5)

    async def main(world: World, instants: list[float]) -> list[float]:
        reached = []
        for instant in instants:
            await world.clock.sleep_until(instant)
            reached.append(world.clock.now())
        return reached

    # Differences of near numbers are exact, those of a small and a large one are not.
    for _ in range(50):
        instants = [dice.uniform(0, 10.0**magnitude) + 10.0**magnitude for magnitude in range(-3, 9)]
        assert run_virtual(functools.partial(main, instants=instants)) == instants


def test_timers_of_one_instant_are_called_in_the_order_in_which_they_were_set() -> None:
    async def main(world: World) -> list[int]:
        called: list[int] = []
        loop = asyncio.get_running_loop()
        for number in range(50):
            loop.call_at(1.0, called.append, number)
            loop.call_at(0.5, called.append, 100 + number)
        await world.clock.sleep_until(2.0)
        return called

    assert run_virtual(main) == [*range(100, 150), *range(50)]


def test_timers_closer_than_a_nanosecond_are_called_at_their_own_instants() -> None:
    async def main(world: World) -> list[float]:
        loop, called = asyncio.get_running_loop(), list[float]()
        for when in (1.0, 1.0 + 1e-12):
            loop.call_at(when, lambda: called.append(world.clock.now()))
        await world.clock.sleep_until(2.0)
        return called

    assert run_virtual(main) == [1.0, 1.0 + 1e-12]


def test_asyncio_s_own_timeouts_run_in_virtual_time() -> None:
    async def main(world: World) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7200):
                await asyncio.Event().wait()
        return world.clock.now()

    assert run_virtual(main) == 7200.0


def test_a_cancelled_timer_does_not_move_time() -> None:
    async def main(world: World) -> float:
        loop = asyncio.get_running_loop()
        loop.call_at(10.0, print).cancel()
        await world.clock.sleep_until(20.0)
        return world.clock.now()

    assert run_virtual(main) == 20.0


def test_a_run_that_can_never_go_on_names_who_waits_and_where() -> None:
    async def innermost() -> None:
        await asyncio.Event().wait()

    async def worker() -> None:
        await innermost()

    async def main(world: World) -> None:
        await asyncio.create_task(worker(), name="the worker")

    with pytest.raises(NothingScheduled) as caught:
        run_virtual(main)
    text = str(caught.value)
    assert "nothing is scheduled at 0.000000 s" in text
    assert "task-1: " in text
    assert "the worker: " in text
    assert "worker > " in text
    assert f"{__file__}:" in text
    assert text.index(" worker > ") < text.index(" innermost > ") < text.index("locks.py")


def test_who_waits_in_a_generator_is_named_too() -> None:
    async def endless() -> AsyncIterator[int]:
        await asyncio.get_running_loop().create_future()
        yield 1

    async def main(world: World) -> None:
        async for _ in endless():
            raise AssertionError

    with pytest.raises(NothingScheduled, match="main"):
        run_virtual(main)


def test_what_is_left_of_a_run_is_cancelled_and_drained() -> None:
    ended: list[str] = []

    async def background(world: World) -> None:
        try:
            await world.clock.sleep_until(1e9)
        finally:
            await world.clock.sleep_until(world.clock.now() + 1)
            ended.append(f"cleaned up at {world.clock.now()}")

    async def main(world: World) -> str:
        task = asyncio.create_task(background(world))
        await world.clock.sleep_until(5)
        return task.get_name()

    assert run_virtual(main) == "task-2"
    assert ended == ["cleaned up at 6.0"]


def test_a_stuck_run_still_cleans_up() -> None:
    ended: list[str] = []

    async def main(world: World) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("yes")

    with pytest.raises(NothingScheduled):
        run_virtual(main)
    assert ended == ["yes"]


def test_an_error_of_the_run_is_the_run_s() -> None:
    async def main(world: World) -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        run_virtual(main)


def test_task_names_are_the_same_in_every_run() -> None:
    async def main(world: World) -> list[str]:
        tasks = [asyncio.create_task(world.clock.sleep_until(0)) for _ in range(3)]
        await asyncio.gather(*tasks)
        return [task.get_name() for task in tasks]

    assert run_virtual(main) == run_virtual(main) == ["task-2", "task-3", "task-4"]


_CALLS: dict[str, Callable[[VirtualLoop], object]] = {
    "run_in_executor": lambda loop: loop.run_in_executor(None, print),
    "getaddrinfo": lambda loop: loop.getaddrinfo("localhost", 80),
    "add_signal_handler": lambda loop: loop.add_signal_handler(signal.SIGTERM, print),
    "add_reader": lambda loop: loop.add_reader(0, print),
    "create_connection": lambda loop: loop.create_connection(asyncio.Protocol, "localhost", 80),
    "create_server": lambda loop: loop.create_server(asyncio.Protocol, "localhost", 80),
    "subprocess_shell": lambda loop: loop.subprocess_shell(asyncio.SubprocessProtocol, "true"),
}


@pytest.mark.parametrize("name", _CALLS)
def test_threads_sockets_and_signals_are_refused_by_name(name: str) -> None:
    async def main(world: World) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        with pytest.raises(RealWorldError, match=f"{name} is not available in virtual time"):
            _CALLS[name](loop)

    run_virtual(main)


def test_to_thread_is_refused() -> None:
    async def main(world: World) -> None:
        with pytest.raises(RealWorldError, match="run_in_executor"):
            await asyncio.to_thread(print)

    run_virtual(main)


def test_callbacks_from_the_same_thread_may_use_the_thread_safe_call() -> None:
    async def main(world: World) -> list[int]:
        called: list[int] = []
        asyncio.get_running_loop().call_soon_threadsafe(called.append, 1)
        await world.clock.sleep_until(1)
        return called

    assert run_virtual(main) == [1]


def test_a_closed_loop_takes_no_timers() -> None:
    loop = VirtualLoop()
    loop.close()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_at(1.0, print)
