"""A run in virtual time that never ends by itself is ended, and says who spins."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from harness.sim import Spinning, World, run_virtual
from harness.world import clock
from harness.world.virtual import guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

SOON = 0.05
"""Seconds of the wall clock after which the tests here have had enough."""


MOST_TURNS = 2_000
"""As many as the tests have time for."""


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "MOST_TURNS", MOST_TURNS)


async def turns(count: float) -> None:
    while count > 0:
        count -= 1
        await asyncio.sleep(0)


def test_tasks_that_spin_at_one_instant_are_named_with_their_places() -> None:
    async def main(world: World) -> None:
        await world.clock.sleep_until(1.5)
        await asyncio.gather(*(asyncio.create_task(turns(float("inf")), name=name) for name in ("a", "b")))

    with pytest.raises(Spinning) as caught:
        run_virtual(main)
    first, *others = str(caught.value).splitlines()
    assert first == f"no end after {MOST_TURNS} turns at 1.500000 s, and these turn:"
    assert [line.partition(": ")[0] for line in others] == ["  a", "  b"]
    assert all(" turns > " in line and "(100 times in the last 100 turns)" in line for line in others)


def test_who_spins_is_the_same_in_every_run() -> None:
    async def main(world: World) -> None:
        tasks = [asyncio.create_task(turns(float("inf"))) for _ in range(7)]
        await asyncio.gather(*tasks)

    told = []
    for _ in range(2):
        with pytest.raises(Spinning) as caught:
            run_virtual(main)
        told.append(str(caught.value))
    assert told[0] == told[1]
    assert len(told[0].splitlines()) == 6


@pytest.mark.parametrize("at", ["soon", "now"])
def test_callbacks_that_spin_without_a_task_are_named(at: str) -> None:
    async def main(world: World) -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            loop.call_soon(again) if at == "soon" else loop.call_at(loop.time(), again)

        again()
        await world.clock.sleep_until(1.0)

    with pytest.raises(Spinning, match=r"main\.<locals>\.again \(100 times"):
        run_virtual(main)


def test_many_turns_at_each_of_many_instants_are_no_spinning() -> None:
    async def main(world: World) -> float:
        for instant in range(4):
            await world.clock.sleep_until(instant)
            await turns(MOST_TURNS * 0.4)
        return world.clock.now()

    assert run_virtual(main) == 3.0


@pytest.mark.parametrize("limit", [None, 60.0], ids=["by turns", "with a guard that has no need to act"])
def test_what_spins_is_cancelled_and_what_it_leaves_is_cleaned_up(limit: float | None) -> None:
    ended: list[str] = []

    async def main(world: World) -> None:
        try:
            await turns(float("inf"))
        finally:
            ended.append("yes")

    with pytest.raises(Spinning):
        run_virtual(main, wall_limit=limit)
    assert ended == ["yes"]


async def never_returns(world: World) -> None:
    await world.clock.sleep_until(2.0)
    while True:
        pass


async def creeps(world: World) -> None:
    while True:
        await world.clock.sleep_until(world.clock.now() + 1e-9)


async def never_returns_in_the_background(world: World) -> None:
    background = asyncio.create_task(never_returns(world), name="task-1")
    await world.clock.sleep_until(3.0)
    await background


@pytest.mark.parametrize(
    ("main", "when"),
    [(never_returns, "at 2.000000 s"), (creeps, "at 0."), (never_returns_in_the_background, "at 2.000000 s")],
)
def test_what_the_turns_do_not_show_is_found_by_the_wall_clock(
    main: Callable[[World], Coroutine[Any, Any, None]], when: str
) -> None:
    with pytest.raises(Spinning) as caught:
        run_virtual(main, wall_limit=SOON)
    text = str(caught.value)
    assert text.startswith(f"no end after {SOON:g} s of the wall clock: {when}")
    assert "task-1" in text


def test_a_run_in_time_is_left_alone_and_its_guard_goes_with_it() -> None:
    before = threading.active_count()
    assert guarded(lambda: 42, 60.0, str) == 42
    with pytest.raises(ValueError, match="none"):
        guarded(lambda: int("none"), 60.0, str)
    assert threading.active_count() == before


_TRACED = """
import sys
from harness.sim import Spinning
from harness.world.virtual import guarded


def spin():
    while True:
        pass


for run, seconds in ((lambda: None, 5.0), (spin, 0.05)):
    try:
        guarded(run, seconds, lambda: "nobody")
    except Spinning:
        print("spun")
sys.setprofile(lambda *_: None)
sorted([2, 1], key=lambda number: number)
print("traced")
"""


def test_a_guard_leaves_nothing_behind_that_a_tracer_would_loop_over() -> None:
    # CPython 3.11 looks for an interruption that was called back at every call, and under a tracer for ever.
    done = subprocess.run(
        [sys.executable, "-c", _TRACED], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "spun\ntraced\n"
