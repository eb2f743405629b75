"""Tickets: who works, who waits, and what is counted."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fakeserver.admission.execution_control import Overflow, Priority, Ticket, TicketHolder


@pytest.mark.spec("SAC-28")
def test_tickets_are_handed_out_until_none_is_left_and_then_waited_for() -> None:
    holder = TicketHolder(2)
    tickets = [holder.acquire(0.0) for _ in range(3)]
    assert [ticket.started for ticket in tickets] == [0.0, 0.0, None]
    assert (holder.out, holder.available, holder.queued) == (2, 0, 1)


def test_a_ticket_that_comes_back_goes_to_who_waited_longest() -> None:
    holder = TicketHolder(1)
    first, second, third = (holder.acquire(at) for at in (0.0, 1.0, 2.0))
    assert holder.release(first, 5.0) == [second]
    assert second.started == 5.0
    assert third.started is None


def test_a_full_queue_overflows() -> None:
    holder = TicketHolder(1, max_queue_depth=1)
    holder.acquire(0.0)
    holder.acquire(0.0)
    with pytest.raises(Overflow):
        holder.acquire(0.0)


def test_an_empty_pool_blocks_all_but_the_exempt() -> None:
    holder = TicketHolder(0)
    assert holder.acquire(0.0).started is None
    assert holder.acquire(0.0, Priority.EXEMPT).started == 0.0


@pytest.mark.spec("SAC-30")
def test_an_exempt_operation_takes_no_ticket_and_is_counted_apart() -> None:
    holder = TicketHolder(1)
    exempt = holder.acquire(0.0, Priority.EXEMPT)
    assert holder.acquire(0.0).started == 0.0
    assert holder.release(exempt, 2.0) == ()
    stats = holder.stats()
    assert stats["out"] == 1
    assert stats["exempt"]["totalTimeProcessingMicros"] == 2_000_000
    assert stats["exempt"]["finishedProcessing"] == 1
    assert stats["normalPriority"]["processing"] == 1


def test_a_larger_pool_serves_those_who_wait_at_once() -> None:
    holder = TicketHolder(0)
    waiting = [holder.acquire(0.0) for _ in range(3)]
    assert holder.resize(2, 1.0) == waiting[:2]


def test_a_smaller_pool_takes_no_ticket_away_and_hands_out_none_until_enough_are_back() -> None:
    holder = TicketHolder(2)
    first, second = holder.acquire(0.0), holder.acquire(0.0)
    waiting = holder.acquire(0.0)
    assert holder.resize(1, 0.0) == ()
    assert holder.stats()["available"] == 0
    assert holder.release(first, 1.0) == ()
    assert holder.release(second, 2.0) == [waiting]


def test_who_gives_up_is_counted_and_waits_no_more() -> None:
    holder = TicketHolder(1)
    first = holder.acquire(0.0)
    impatient = holder.acquire(1.0)
    holder.cancel(impatient, 4.0)
    assert holder.release(first, 5.0) == ()
    normal = holder.stats()["normalPriority"]
    assert (normal["canceled"], normal["queueLength"], normal["totalTimeQueuedMicros"]) == (1, 0, 3_000_000)


def test_the_peak_is_the_most_that_were_out_since_it_was_last_asked_for() -> None:
    holder = TicketHolder(5)
    tickets = [holder.acquire(0.0) for _ in range(3)]
    for ticket in tickets[:2]:
        holder.release(ticket, 0.0)
    assert holder.reset_peak() == 3
    assert holder.reset_peak() == 1


class TicketHolderMachine(RuleBasedStateMachine):
    """No more tickets are out than the pool ever had, nobody waits while one is free, and all is counted."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.holder = TicketHolder(3, max_queue_depth=4)
        self.working: list[Ticket] = []
        self.waiting: list[Ticket] = []

    @rule(priority=st.sampled_from(Priority))
    def one_asks(self, priority: Priority) -> None:
        try:
            ticket = self.holder.acquire(self.now, priority)
        except Overflow:
            assert len(self.waiting) == 4
            return
        (self.waiting if ticket.started is None else self.working).append(ticket)

    @precondition(lambda self: self.working)
    @rule(which=st.integers(0, 100))
    def one_is_done(self, which: int) -> None:
        self.now += 1
        ticket = self.working.pop(which % len(self.working))
        self._serve(self.holder.release(ticket, self.now))

    @precondition(lambda self: self.waiting)
    @rule(which=st.integers(0, 100))
    def one_gives_up(self, which: int) -> None:
        self.holder.cancel(self.waiting.pop(which % len(self.waiting)), self.now)

    @rule(size=st.integers(0, 6))
    def the_pool_changes(self, size: int) -> None:
        self._serve(self.holder.resize(size, self.now))

    def _serve(self, served: object) -> None:
        assert isinstance(served, list | tuple)
        assert list(served) == self.waiting[: len(served)]
        self.working += self.waiting[: len(served)]
        del self.waiting[: len(served)]

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        assert not self.waiting or self.holder.available <= 0

    @invariant()
    def all_are_counted(self) -> None:
        normal = [ticket for ticket in self.working if ticket.priority is Priority.NORMAL]
        assert self.holder.out == len(normal)
        stats = self.holder.stats()
        assert stats["normalPriority"]["processing"] == len(normal)
        assert stats["normalPriority"]["queueLength"] == len(self.waiting) == self.holder.queued
        assert stats["exempt"]["processing"] == len(self.working) - len(normal)


TestTicketHolderMachine = pytest.mark.slow(TicketHolderMachine.TestCase)
