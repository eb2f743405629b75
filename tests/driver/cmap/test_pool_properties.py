"""What a pool promises whatever happens, and that its shell keeps to the state machine."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from driven_pool import Driven
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pool_traces import UNHEARD, Trace, on_shell, on_state, traces
from stateful import thorough

from driver.cmap.member import Phase, PoolMode
from driver.cmap.state import Grant, PoolOptions
from driver.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from driver.cmap.state import Effect

MAX_SIZE, MAX_CONNECTING, MAX_IDLE = 4, 2, 7.0


class PoolMachine(RuleBasedStateMachine):
    """Whatever happens, in whatever order, a pool keeps its promises."""

    def __init__(self) -> None:
        super().__init__()
        options = PoolOptions(max_size=MAX_SIZE, min_size=1, max_connecting=MAX_CONNECTING, max_idle=MAX_IDLE)
        self.pool = Driven(options)
        self.asked: list[int] = []
        self.withdrawn: set[int] = set()
        self.deadlines: dict[int, float] = {}
        self.returned_at: dict[int, float] = {}

    def do(self, effects: Iterable[Effect], *, queued: tuple[int, ...] | None = None) -> None:
        """Perform effects; `queued` are those who waited before, if the step is not theirs."""
        before = self.queue if queued is None else queued
        for effect in list(effects):
            if isinstance(effect, Grant):
                self.check_grant(effect.connection_id)
            self.pool.do([effect])
        self.check_order(before)

    @property
    def queue(self) -> tuple[int, ...]:
        return self.pool.state.waiting

    def check_grant(self, number: int) -> None:
        """Neither a stale connection nor one that was idle for too long is ever granted."""
        member = next(m for m in self.pool.state.members() if m.id == number)
        assert member.phase is Phase.IN_USE
        assert member.generation == self.pool.state.generations.current
        assert self.pool.now - self.returned_at.pop(number, self.pool.now) < MAX_IDLE

    def check_order(self, before: tuple[int, ...]) -> None:
        """Whoever got a connection, or one in the making, came before all who still wait."""
        gone = set(before) - set(self.queue) - self.pool.refused.keys() - self.withdrawn
        if gone and self.queue:
            assert max(gone) < min(self.queue)

    @rule()
    def ready(self) -> None:
        self.do(self.pool.state.ready())

    @rule(interrupt=st.booleans())
    def clear(self, interrupt: bool) -> None:  # noqa: FBT001 - Hypothesis passes it by name
        queued = self.queue
        self.do(self.pool.state.clear(self.pool.now, interrupt_in_use=interrupt), queued=queued)

    @rule(patience=st.sampled_from([1.0, 5.0, inf]))
    def ask(self, patience: float) -> None:
        waiter = len(self.asked) + 1
        self.asked.append(waiter)
        self.deadlines[waiter] = self.pool.now + patience
        queued = (*self.queue, waiter)
        self.do(
            self.pool.state.check_out(waiter, self.pool.now, deadline=self.deadlines[waiter]), queued=queued
        )

    @rule(seconds=st.sampled_from([0.5, 1.0, 8.0]))
    def pass_time(self, seconds: float) -> None:
        self.pool.now += seconds
        queued = self.queue
        self.do(self.pool.state.tick(self.pool.now), queued=queued)
        assert all(self.deadlines[waiter] > self.pool.now for waiter in self.queue)

    @precondition(lambda self: self.pool.establishing)
    @rule(works=st.booleans(), data=st.data())
    def finish_establishing(self, works: bool, data: st.DataObject) -> None:  # noqa: FBT001 - as above
        number = data.draw(st.sampled_from(self.pool.establishing))
        self.pool.establishing.remove(number)
        state, now, queued = self.pool.state, self.pool.now, self.queue
        self.returned_at[number] = now
        effects = state.established(number, now) if works else state.failed(number, now, NetworkError("no"))
        self.do(effects, queued=queued)

    @precondition(lambda self: self.pool.state.in_use)
    @rule(errored=st.booleans(), data=st.data())
    def give_back(self, errored: bool, data: st.DataObject) -> None:  # noqa: FBT001 - as above
        lent = [member.id for member in self.pool.state.members() if member.phase is Phase.IN_USE]
        number, queued = data.draw(st.sampled_from(lent)), self.queue
        self.returned_at[number] = self.pool.now
        self.do(self.pool.state.check_in(number, self.pool.now, errored=errored), queued=queued)

    @precondition(lambda self: self.waiting_or_bound())
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        waiter, queued = data.draw(st.sampled_from(self.waiting_or_bound())), self.queue
        self.withdrawn.add(waiter)
        self.do(self.pool.state.cancel(waiter, self.pool.now), queued=queued)

    def waiting_or_bound(self) -> list[int]:
        return [*self.queue, *sorted(self.bound())]

    def bound(self) -> set[int]:
        return {member.waiter.id for member in self.pool.state.members() if member.waiter is not None}

    @invariant()
    def the_pool_is_never_above_its_maximum(self) -> None:
        assert self.pool.state.total <= MAX_SIZE

    @invariant()
    def no_more_than_max_connecting_are_pending(self) -> None:
        assert self.pool.state.pending <= MAX_CONNECTING
        assert self.pool.state.pending == len(self.pool.establishing)

    @invariant()
    def every_waiter_ends_exactly_once_or_still_waits(self) -> None:
        ends = [*self.pool.granted, *self.pool.refused, *self.withdrawn]
        assert sorted([*ends, *self.queue, *self.bound()]) == self.asked

    @invariant()
    def the_wait_queue_keeps_its_order(self) -> None:
        assert list(self.queue) == sorted(self.queue)

    @invariant()
    def nobody_waits_while_a_fresh_connection_is_available(self) -> None:
        if self.pool.state.mode is PoolMode.READY and self.queue:
            assert self.pool.state.available == 0

    @invariant()
    def a_pool_that_is_not_ready_has_no_queue(self) -> None:
        if self.pool.state.mode is not PoolMode.READY:
            assert not self.queue

    @invariant()
    def the_counts_are_what_the_events_say(self) -> None:
        told = Counter(event.kind.removesuffix("Event") for event in self.pool.details)
        ready = {e.connection_id for e in self.pool.details if e.kind == "connectionReadyEvent"}
        closed = {e.connection_id for e in self.pool.details if e.kind == "connectionClosedEvent"}
        state = self.pool.state
        assert told["connectionClosed"] == len(closed)
        assert state.total == told["connectionCreated"] - len(closed)
        assert state.in_use == told["connectionCheckedOut"] - told["connectionCheckedIn"]
        assert state.pending == state.total - len(ready - closed)
        assert state.available == len(ready - closed) - state.in_use
        open_ended = told["connectionCheckOutStarted"] - told["connectionCheckedOut"]
        assert open_ended - told["connectionCheckOutFailed"] == len(self.queue) + len(self.bound())


TestPoolMachine = pytest.mark.slow(PoolMachine.TestCase)
TestPoolMachine.settings = thorough()


# --- the shell ---


@pytest.mark.slow
@settings(max_examples=max(25, settings().max_examples // 4))
@given(trace=traces())
def test_the_shell_does_over_a_network_what_the_state_machine_says(trace: Trace) -> None:
    assert on_shell(trace) == on_state(trace)


def test_the_two_are_compared_by_what_they_publish_and_when() -> None:
    steps: list[Any] = [("ready",), ("ask", inf), ("ask", 0.7), ("give", 0, False), ("clear", True)]
    trace = Trace(steps, delays=(0.25,), failures=(False,), max_size=1, min_size=0)
    assert on_shell(trace) == on_state(trace)
    assert [(when, kind) for when, kind, *_ in on_state(trace)] == [
        (0.0, "poolCreated"),
        (1.0, "poolReady"),
        (2.0, "connectionCheckOutStarted"),
        (2.0, "connectionCreated"),
        (2.2501, "connectionReady"),
        (2.2501, "connectionCheckedOut"),
        (3.0, "connectionCheckOutStarted"),
        (3.7, "connectionCheckOutFailed"),
        (4.0, "connectionCheckedIn"),
        (5.0, "poolCleared"),
        (5.0, "connectionClosed"),
    ]


@pytest.mark.slow
@settings(max_examples=max(25, settings().max_examples // 4))
@given(trace=traces())
def test_a_pool_that_nobody_hears_does_the_same(trace: Trace) -> None:
    expected = [event for event in on_state(trace) if event[1] not in UNHEARD]
    assert on_shell(trace, heard=False) == expected


def test_a_pool_that_nobody_hears_lends_the_connection_used_last_and_none_that_is_idle() -> None:
    give: list[Any] = [("give", 0, False), ("give", 0, False)]
    steps: list[Any] = [("ready",), ("ask", inf), ("ask", inf), *give, ("ask", inf), ("give", 0, True)]
    trace = Trace(steps, delays=(0.1,), failures=(False,), max_size=2, min_size=0)
    heard = on_shell(trace, heard=False)
    assert [event[2:] for event in heard if event[1] == "connectionClosed"] == [(2, "error"), (1, "idle")]
