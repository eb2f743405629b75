"""CMAP on the pure state machine: threads are waiters, time is a number."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest
from bson import ObjectId
from driven_pool import Driven
from hypothesis import given
from hypothesis import strategies as st

from driver.cmap.member import PoolMode
from driver.cmap.state import PoolOptions
from driver.errors import (
    NetworkError,
    PoolClearedError,
    PoolClosedError,
    PoolError,
    WaitQueueTimeoutError,
    is_timeout,
)
from driver.policy.classification import is_retryable_read
from driver.policy.deadline import after

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from driver.cmap.state import Effect


@pytest.mark.spec("CMAP-37", "CMAP-40", "CMAP-66", "CMAP-165")
def test_a_pool_starts_paused_and_says_so_to_who_checks_out() -> None:
    pool = Driven()
    pool.ask(1)
    assert isinstance(pool.refused[1], PoolClearedError)
    assert pool.events == ["connectionCheckOutStarted", "connectionCheckOutFailed"]
    assert pool.reasons("connectionCheckOutFailedEvent") == ["connectionError"]


@pytest.mark.spec("CMAP-33", "CMAP-49", "CMAP-61", "CMAP-108", "CMAP-110", "CMAP-113", "CMAP-159", "CMAP-169")
def test_a_checkout_of_a_new_connection_is_started_created_ready_and_checked_out() -> None:
    pool = Driven().ready()
    pool.ask(1)
    pool.now = 2.0
    pool.establish()
    assert pool.events == [
        "poolReady",
        "connectionCheckOutStarted",
        "connectionCreated#1",
        "connectionReady#1",
        "connectionCheckedOut#1",
    ]
    assert [event.duration for event in pool.details[-2:]] == [2.0, 2.0]


@pytest.mark.spec("CMAP-163")
def test_the_repr_is_a_snapshot_of_the_counts() -> None:
    pool = Driven(PoolOptions(max_size=1)).ready()
    pool.lend(1)
    pool.ask(2)
    assert repr(pool.state) == "<PoolState a:1 ready generation=0 total=1 available=0 pending=0 waiting=1>"
    assert (pool.state.in_use, pool.state.waiting) == (1, (2,))


@pytest.mark.spec("CMAP-166")
def test_the_created_event_reports_options_that_are_not_the_defaults() -> None:
    pool = Driven(PoolOptions(max_size=50, min_size=5, max_idle=0.1))
    pool.do(pool.state.create())
    assert pool.details[0].options == {"maxPoolSize": 50, "minPoolSize": 5, "maxIdleTimeMS": 100}


@pytest.mark.spec("CMAP-45")
def test_ready_is_said_once() -> None:
    pool = Driven().ready().ready()
    assert pool.events == ["poolReady"]


@pytest.mark.spec("CMAP-3", "CMAP-57", "CMAP-59", "CMAP-74", "CMAP-160")
def test_a_returned_connection_is_used_again() -> None:
    pool = Driven().ready()
    pool.give_back(pool.lend(1))
    assert pool.lend(2) == 1


@pytest.mark.spec("CMAP-24", "CMAP-25")
def test_ids_count_from_one_in_the_order_of_creation() -> None:
    pool = Driven().ready()
    assert [pool.lend(1), pool.lend(2), pool.lend(3)] == [1, 2, 3]


@pytest.mark.spec("CMAP-27", "CMAP-64")
def test_waiters_are_served_in_the_order_in_which_they_came() -> None:
    pool = Driven(PoolOptions(max_size=1)).ready()
    number = pool.lend(1)
    for waiter in (2, 3, 4):
        pool.ask(waiter)
    for _ in range(3):
        pool.give_back(number)
    assert pool.order == [1, 2, 3, 4]


@pytest.mark.spec("CMAP-39", "CMAP-62")
def test_no_more_than_max_connecting_are_established_at_a_time() -> None:
    pool = Driven().ready()
    for waiter in (1, 2, 3):
        pool.ask(waiter)
    assert pool.establishing == [1, 2]
    pool.establish()
    assert pool.establishing == [2, 3]


@pytest.mark.spec("CMAP-62", "CMAP-63", "CMAP-71")
def test_who_waits_for_max_connecting_takes_a_connection_that_is_returned() -> None:
    pool = Driven().ready()
    number = pool.lend(1)
    for waiter in (2, 3, 4):
        pool.ask(waiter)
    pool.give_back(number)
    assert pool.granted[4] == number


@pytest.mark.spec("CMAP-165")
def test_a_waiter_leaves_at_its_deadline_and_not_before() -> None:
    pool = Driven(PoolOptions(max_size=1)).ready()
    pool.lend(1)
    pool.ask(2, deadline=5.0)
    assert pool.state.next_deadline(0.0) == 5.0
    pool.now = 4.9
    pool.tick()
    assert not pool.refused
    pool.now = 5.0
    pool.tick()
    assert isinstance(pool.refused[2], WaitQueueTimeoutError)
    assert pool.reasons("connectionCheckOutFailedEvent") == ["timeout"]


@pytest.mark.spec("CMAP-36", "CMAP-79", "CMAP-81", "CMAP-84")
def test_clearing_refuses_all_waiters_after_the_event_and_pauses() -> None:
    pool = Driven(PoolOptions(max_size=1)).ready()
    pool.lend(1)
    pool.ask(2)
    pool.ask(3)
    pool.events.clear()
    pool.clear()
    assert pool.events == ["poolCleared", "connectionCheckOutFailed", "connectionCheckOutFailed"]
    assert str(pool.refused[2]) == (
        "Connection pool for a:1 was cleared because another operation failed with: boom"
    )


@pytest.mark.spec("CMAP-80", "CMAP-162")
def test_clearing_a_paused_pool_says_nothing_and_still_makes_connections_stale() -> None:
    pool = Driven()
    pool.clear()
    assert pool.events == []
    assert pool.state.generations.current == 1


@pytest.mark.spec("CMAP-76", "CMAP-78", "CMAP-155")
def test_a_stale_connection_is_closed_when_it_comes_back() -> None:
    pool = Driven().ready()
    number = pool.lend(1)
    pool.clear()
    pool.give_back(number)
    assert pool.events[-2:] == ["connectionCheckedIn#1", "connectionClosed#1"]
    assert pool.reasons("connectionClosedEvent") == ["stale"]


def test_the_run_after_a_clear_closes_available_stale_connections() -> None:
    pool = Driven().ready()
    pool.give_back(pool.lend(1))
    pool.clear()
    pool.tick()
    assert pool.reasons("connectionClosedEvent") == ["stale"]


@pytest.mark.spec("CMAP-60", "CMAP-155")
def test_a_stale_connection_is_closed_on_the_way_to_a_fresh_one() -> None:
    pool = Driven().ready()
    pool.give_back(pool.lend(1))
    pool.clear()
    pool.ready()
    assert pool.lend(2) == 2
    assert pool.closed == [1]


def test_the_next_deadline_is_of_whoever_still_waits_and_gives_up_first() -> None:
    pool = Driven(PoolOptions(max_size=1)).ready()
    number = pool.lend(1)
    for waiter, deadline in ((2, 5.0), (3, 4.0), (4, inf), (5, 3.0)):
        pool.ask(waiter, deadline=deadline)
    pool.do(pool.state.cancel(5, 0.0))
    assert pool.state.next_deadline(0.0) == 4.0
    pool.give_back(number)
    assert pool.state.waiting == (3, 4)
    pool.now = 4.0
    pool.tick()
    assert list(pool.refused) == [3]
    assert pool.state.next_deadline(4.0) == inf


@pytest.mark.spec("CMAP-60", "CMAP-154", "CMAP-168")
def test_an_idle_connection_is_closed_at_its_time_and_before_it_is_lent() -> None:
    pool = Driven(PoolOptions(max_idle=10.0)).ready()
    pool.give_back(pool.lend(1))
    assert pool.state.next_deadline(0.0) == 10.0
    pool.now = 10.0
    assert pool.lend(2) == 2
    assert pool.reasons("connectionClosedEvent") == ["idle"]


def test_an_idle_connection_is_closed_at_its_time_however_the_sum_is_rounded() -> None:
    pool = Driven(PoolOptions(max_idle=5.3), now=0.48).ready()
    pool.give_back(pool.lend(1))
    pool.now = pool.state.next_deadline(pool.now)
    assert pool.now - 0.48 < 5.3
    pool.tick()
    assert pool.reasons("connectionClosedEvent") == ["idle"]


@pytest.mark.spec("CMAP-168")
def test_a_broken_connection_is_closed_on_check_in() -> None:
    pool = Driven().ready()
    pool.give_back(pool.lend(1), errored=True)
    assert pool.reasons("connectionClosedEvent") == ["error"]


@pytest.mark.spec("CMAP-164")
def test_a_failure_to_establish_reaches_the_waiter_it_was_for() -> None:
    pool = Driven().ready()
    pool.ask(1)
    error = NetworkError("refused")
    pool.fail(error)
    assert pool.refused[1] is error
    assert pool.events[-2:] == ["connectionClosed#1", "connectionCheckOutFailed"]
    assert pool.state.total == 0


def test_a_connection_that_became_stale_while_it_was_established_is_never_lent() -> None:
    pool = Driven().ready()
    pool.ask(1)
    pool.clear()
    pool.establish()
    assert isinstance(pool.refused[1], PoolClearedError)
    assert pool.reasons("connectionClosedEvent") == ["stale"]


@pytest.mark.spec("CMAP-85", "CMAP-90", "CMAP-167")
def test_an_interrupting_clear_cuts_off_what_is_in_use_and_abandons_what_is_pending() -> None:
    pool = Driven().ready()
    pool.lend(1)
    pool.ask(2)
    pool.clear(interrupt=True)
    assert (pool.interrupted, pool.closed) == ([1], [2])
    assert str(pool.refused[2]) == "Connection to a:1 interrupted due to server monitor timeout"
    assert pool.details[-3].interrupt_in_use_connections is True


@pytest.mark.parametrize("errored", [True, False], ids=["broken by the interruption", "done before it came"])
def test_what_a_clear_interrupts_is_stale_whether_it_was_in_use_or_pending(*, errored: bool) -> None:
    pool = Driven().ready()
    number = pool.lend(1)
    pool.ask(2)
    pool.clear(interrupt=True)
    pool.give_back(number, errored=errored)
    assert pool.reasons("connectionClosedEvent") == ["stale", "stale"]


def test_what_breaks_by_itself_is_an_error_though_the_pool_was_cleared_meanwhile() -> None:
    pool = Driven().ready()
    number = pool.lend(1)
    pool.clear()
    pool.give_back(number, errored=True)
    assert pool.reasons("connectionClosedEvent") == ["error"]


@pytest.mark.spec("CMAP-8", "CMAP-41", "CMAP-52", "CMAP-54", "CMAP-55")
def test_the_pool_is_populated_when_ready_and_never_before() -> None:
    pool = Driven(PoolOptions(min_size=3))
    pool.tick()
    assert pool.establishing == []
    assert pool.state.next_deadline(0.0) == inf
    pool.ready()
    assert pool.state.next_deadline(0.0) == 0.0
    pool.tick()
    for number in (1, 2, 3):
        assert (pool.state.available, pool.establishing) == (number - 1, [number])
        pool.establish()
        pool.tick()
    assert (pool.state.available, pool.establishing) == (3, [])


@pytest.mark.spec("CMAP-56")
def test_waiters_take_what_was_established_to_populate_the_pool() -> None:
    pool = Driven(PoolOptions(min_size=2, max_connecting=1)).ready()
    pool.tick()
    pool.ask(1)
    pool.establish()
    assert pool.granted == {1: 1}


@pytest.mark.spec("CMAP-56", "CMAP-62")
def test_of_max_connecting_the_background_takes_one_and_threads_have_the_rest() -> None:
    """Two threads come while the pool is populated: the first connects, the second has what is made first."""
    pool = Driven(PoolOptions(min_size=2, max_size=3)).ready()
    pool.tick()
    pool.ask(1)
    pool.ask(2)
    assert (pool.establishing, pool.state.waiting) == ([1, 2], (2,))
    pool.establish(1)
    assert (pool.granted, pool.establishing) == ({2: 1}, [2])
    pool.establish(2)
    pool.tick()
    assert pool.granted == {2: 1, 1: 2}
    assert [event for event in pool.events if event.startswith("connectionCreated")] == [
        "connectionCreated#1",
        "connectionCreated#2",
    ]


def test_the_connection_of_a_waiter_that_went_away_counts_as_populating_the_pool() -> None:
    pool = Driven(PoolOptions(min_size=2)).ready()
    pool.ask(1)
    pool.do(pool.state.cancel(1, 0.0))
    pool.tick()
    assert (pool.establishing, pool.state.next_deadline(0.0)) == ([1], inf)


def test_what_is_idle_is_closed_at_its_time_though_population_rests() -> None:
    pool = Driven(PoolOptions(min_size=2, max_idle=0.5)).ready()
    pool.give_back(pool.lend(1))
    pool.tick()
    pool.fail(NetworkError("refused"))
    assert pool.state.next_deadline(0.0) == 0.5


def test_population_rests_for_a_while_after_a_failure() -> None:
    pool = Driven(PoolOptions(min_size=1)).ready()
    pool.tick()
    pool.fail(NetworkError("refused"))
    pool.tick()
    assert pool.establishing == []
    assert pool.state.next_deadline(0.0) == 1.0
    pool.now = 1.0
    pool.tick()
    assert pool.establishing == [2]


def test_who_waits_is_not_kept_waiting_by_a_failure_to_populate() -> None:
    pool = Driven(PoolOptions(min_size=1)).ready()
    pool.tick()
    pool.fail(NetworkError("refused"))
    assert pool.lend(1) == 2


@pytest.mark.spec("CMAP-35", "CMAP-42", "CMAP-43", "CMAP-168")
def test_closing_closes_available_connections_before_it_says_so() -> None:
    pool = Driven().ready()
    pool.lend(1)
    pool.give_back(pool.lend(2))
    pool.do(pool.state.close(0.0))
    assert pool.events[-2:] == ["connectionClosed#2", "poolClosed"]
    pool.give_back(1)
    assert pool.events[-2:] == ["connectionCheckedIn#1", "connectionClosed#1"]
    assert pool.reasons("connectionClosedEvent") == ["poolClosed", "poolClosed"]


@pytest.mark.spec("CMAP-44", "CMAP-165")
def test_nothing_can_be_checked_out_of_a_closed_pool() -> None:
    pool = Driven().ready()
    pool.do(pool.state.close(0.0))
    pool.ask(1)
    assert isinstance(pool.refused[1], PoolClosedError)
    assert pool.reasons("connectionCheckOutFailedEvent") == ["poolClosed"]


@pytest.mark.spec("CMAP-158")
@pytest.mark.parametrize("step", ["ready", "clear", "interrupting clear", "close", "tick"])
@pytest.mark.parametrize("options", [PoolOptions(min_size=2), PoolOptions(min_size=2, load_balanced=True)])
def test_a_closed_pool_stays_closed_and_says_nothing_more(step: str, options: PoolOptions) -> None:
    state = Driven(options).ready().state
    state.close(0.0)
    steps: dict[str, Callable[[], Sequence[Effect]]] = {
        "ready": state.ready,
        "clear": lambda: state.clear(0.0),
        "interrupting clear": lambda: state.clear(0.0, interrupt_in_use=True),
        "close": lambda: state.close(0.0),
        "tick": lambda: state.tick(0.0),
    }
    assert list(steps[step]()) == []
    assert state.mode is PoolMode.CLOSED
    assert state.total == 0


def test_closing_refuses_whoever_waits_for_a_connection_in_the_making() -> None:
    pool = Driven(PoolOptions(max_connecting=1)).ready()
    pool.ask(1)
    pool.ask(2)
    pool.do(pool.state.close(0.0))
    assert {type(error) for error in pool.refused.values()} == {PoolClosedError}
    assert sorted(pool.refused) == [1, 2]


def test_the_connection_of_a_waiter_that_went_away_serves_the_next() -> None:
    pool = Driven(PoolOptions(max_connecting=1)).ready()
    pool.ask(1)
    pool.ask(2)
    pool.do(pool.state.cancel(1, 0.0))
    pool.establish()
    assert pool.granted == {2: 1}
    assert pool.reasons("connectionCheckOutFailedEvent") == ["connectionError"]


def test_a_waiter_that_was_served_cannot_be_cancelled() -> None:
    pool = Driven().ready()
    pool.lend(1)
    assert pool.state.cancel(1, 0.0) == []


@pytest.mark.spec("CMAP-75")
def test_a_foreign_connection_cannot_be_checked_in() -> None:
    pool = Driven().ready()
    with pytest.raises(PoolError, match="not checked out of this pool"):
        pool.give_back(7)


def test_what_arrives_for_a_forgotten_connection_is_ignored() -> None:
    pool = Driven().ready()
    assert pool.state.established(9, 0.0) == []
    assert pool.state.failed(9, 0.0, NetworkError("late")) == []


SERVICES = [ObjectId(f"{n:024x}") for n in (1, 2)]


@pytest.mark.spec("CMAP-77", "CMAP-91", "CMAP-93", "CMAP-94", "CMAP-95", "CMAP-167")
def test_behind_a_load_balancer_a_clear_touches_one_service_and_pauses_nothing() -> None:
    pool = Driven(PoolOptions(load_balanced=True)).ready()
    for waiter, service in enumerate(SERVICES, 1):
        pool.ask(waiter)
        pool.do(pool.state.established(pool.establishing.pop(), 0.0, service_id=service))
    pool.do(pool.state.clear(0.0, service_id=SERVICES[0]))
    assert pool.state.mode is PoolMode.READY
    assert pool.details[-1].service_id == SERVICES[0]
    pool.give_back(1)
    pool.give_back(2)
    assert pool.closed == [1]
    assert list(pool.state.generations.services) == [SERVICES[1]]


def test_behind_a_load_balancer_a_clear_without_a_service_does_nothing() -> None:
    pool = Driven(PoolOptions(load_balanced=True)).ready()
    assert pool.state.clear(0.0) == []


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12))
def test_the_counts_of_services_never_go_below_zero(numbers: list[int]) -> None:
    pool = Driven(PoolOptions(load_balanced=True, max_connecting=100)).ready()
    for waiter, number in enumerate(numbers, 1):
        pool.ask(waiter)
        pool.do(pool.state.established(pool.establishing.pop(), 0.0, service_id=ObjectId(f"{number:024x}")))
    for connection_id in list(pool.granted.values()):
        pool.give_back(connection_id, errored=True)
    assert pool.state.generations.services == {}


@pytest.mark.spec("CMAP-152")
def test_a_limit_of_zero_is_none() -> None:
    pool = Driven(PoolOptions(max_size=0, max_idle=0.0, max_connecting=1000)).ready()
    lent = [pool.lend(waiter) for waiter in range(1, 501)]
    assert pool.state.total == 500
    pool.give_back(lent[0])
    pool.now = 1e9
    pool.tick()
    assert pool.closed == []
    assert pool.state.next_deadline(pool.now) == inf
    assert after(pool.now, pool.state.options.wait_queue_timeout) == inf


@pytest.mark.spec("CMAP-156")
def test_the_errors_of_a_pool_that_was_cleared_are_like_lost_connections_and_no_timeouts() -> None:
    pool = Driven(PoolOptions(max_size=1)).ready()
    pool.lend(1)
    pool.ask(2)
    pool.clear()
    pool.ask(3)
    for waiter in (2, 3):
        error = pool.refused[waiter]
        assert isinstance(error, PoolClearedError)
        assert is_retryable_read(error)
        assert not is_timeout(error)


@pytest.mark.spec("CMAP-157", "CMAP-161")
def test_a_cleared_pool_rests_until_it_is_ready_and_leaves_what_is_in_use_alone() -> None:
    pool = Driven(PoolOptions(min_size=2)).ready()
    pool.lend(1)
    pool.do(pool.state.clear(0.0))
    pool.tick()
    assert pool.state.mode is PoolMode.PAUSED
    assert pool.interrupted == []
    assert pool.state.in_use == 1
    assert pool.state.pending == 0
    pool.ready()
    assert pool.lend(2) > 1
