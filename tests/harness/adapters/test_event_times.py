"""The events of adapters carry the time at which they happened, on the deployment's clock."""

from __future__ import annotations

import asyncio
import shlex
import sys
import threading
from contextlib import aclosing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.adapters.base import AdapterLost, ClientSpec
from harness.adapters.child import TRANSIT_SECONDS, ClockOffset
from harness.adapters.command import Children
from harness.adapters.pymongo.blocking import PyMongoSyncAdapter
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from harness.adapters.base import Event

SPEC = ClientSpec("mongodb://localhost:1", observe_events=frozenset({"poolReadyEvent"}))
ORIGIN = 1_000_000.0
"""The clock of the test's adapters is so many seconds ahead of this process's."""

LOADED = 1.0
"""How many seconds a line may take on a machine that has much else to do."""

SPEAKER = f"""
import json, sys, time
clock = lambda: time.monotonic() + {ORIGIN}
say = lambda **message: print(json.dumps(message), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    number = request["id"]
    if request["method"] == "hello":
        said = {{"protocol": 1, "name": "x", "features": []}}
        say(id=number, result=said, **HELLO)
    elif request["method"] == "client":
        say(event={{"client": number, "kind": "poolReadyEvent", "fields": {{}}, **EVENT}})
        say(id=number, entity=True, clock=clock())
    else:
        say(id=number, result=None)
"""
SKELETON = """
import time
from harness.adapters.serving import PythonAdapter, serve

class Mine(PythonAdapter):
    name = "mine"

    def create_client(self, spec, publish):
        publish("poolReadyEvent", {}, at=time.monotonic() - 5)
        publish("poolReadyEvent", {})
        return "client"

serve(Mine())
"""


def observed(program: str) -> tuple[list[Event], float, float]:
    """Return the events of a client that a program creates, and the instants before and after."""

    async def run() -> tuple[list[Event], float, float]:
        clock = SystemClock()
        async with aclosing(Children(call_seconds=30)) as children:
            adapter = await children.adapter(shlex.join([sys.executable, "-c", program]), clock)
            before = clock.now()
            client = await adapter.create_client(SPEC)
            return list(adapter.events(client)), before, clock.now()

    return asyncio.run(run())


def speaker(*, hello: str, event: str) -> str:
    return SPEAKER.replace("**HELLO", hello).replace("**EVENT", event)


def test_a_time_by_another_clock_is_that_instant_of_the_deployment_s() -> None:
    program = speaker(hello="clock=clock()", event='"at": clock() - 5')
    (event,), before, after = observed(program)
    assert before - 5 - LOADED <= event.at <= after - 5 + LOADED


def test_an_event_without_a_time_happened_when_it_was_heard_of() -> None:
    (event,), before, after = observed(speaker(hello="", event=""))
    assert before <= event.at <= after


def test_an_event_with_a_time_needs_a_clock_to_compare_it_with() -> None:
    with pytest.raises(AdapterLost, match=r"poolReadyEvent an instant \('at'\), but none of its answers a"):
        observed(speaker(hello="", event='"at": clock()'))


@pytest.mark.parametrize("wrong", ['"now"', "True", 'float("nan")'])
def test_a_time_is_a_number_of_seconds(wrong: str) -> None:
    with pytest.raises(AdapterLost, match=r"is not a number of seconds|NaN is no JSON"):
        observed(speaker(hello="clock=clock()", event=f'"at": {wrong}'))


def test_a_class_in_python_reports_an_event_at_once_or_says_when_it_was() -> None:
    (late, at_once), before, after = observed(SKELETON)
    assert before - 5 - LOADED <= late.at <= after - 5 + LOADED
    assert before - LOADED <= at_once.at <= after


@given(
    offset=st.integers(-1000, 1000),
    exchanges=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1),
)
def test_bounds_hold_the_true_offset_whatever_the_lines_take(
    offset: int, exchanges: list[tuple[int, int]]
) -> None:
    clocks, now = ClockOffset(), 0
    for there, back in exchanges:
        reading = now + there - offset
        clocks.measure(reading, sent=now, received=now + there + back)
        now += there + back + 1
    assert clocks.least <= offset <= clocks.most
    assert clocks.most - clocks.least <= min(there + back for there, back in exchanges)


def test_a_clock_that_was_set_is_measured_anew() -> None:
    clocks = ClockOffset()
    clocks.measure(100.0, sent=10.0, received=11.0)
    clocks.measure(500.0, sent=20.0, received=21.0)
    assert (clocks.least, clocks.most) == (-480.0, -479.0)


def test_a_process_that_was_busy_before_it_read_its_clock_is_close_to_the_upper_bound() -> None:
    clocks = ClockOffset()
    clocks.measure(100.0, sent=0.0, received=20.0)  # it took 20 seconds to start
    assert clocks.instant(101.0, received=30.0) == pytest.approx(21.0 - TRANSIT_SECONDS)
    assert clocks.instant(500.0, received=30.0) == 30.0


def test_a_listener_of_pymongo_is_dated_when_it_is_called_not_when_the_loop_has_its_turn() -> None:
    async def run() -> list[Event]:
        adapter: Any = PyMongoSyncAdapter(SystemClock())
        events: list[Event] = []
        turns: list[Any] = []
        now = iter((1.0, 2.0))
        adapter._loop = SimpleNamespace(
            time=lambda: next(now),
            is_closed=lambda: False,
            call_soon_threadsafe=lambda turn, *arguments: turns.append((turn, arguments)),
        )
        publish = adapter._listening(events.append)
        thread = threading.Thread(target=lambda: [publish("poolReadyEvent", {}) for _ in range(2)])
        thread.start()
        thread.join()
        for turn, arguments in turns:
            turn(*arguments)
        await adapter.aclose()
        return events

    assert [event.at for event in asyncio.run(run())] == [1.0, 2.0]
