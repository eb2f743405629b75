"""The rate limiter: its verdicts, its queue and what it counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fakeserver.admission.rate_limiter import ADMITTED, REJECTED, RateLimiter, Reserved

_ONE_A_SECOND = {"rate": 1.0, "burst_seconds": 1.0, "now": 0.0}


def _limiter(**changes: Any) -> RateLimiter:
    return RateLimiter("test", **(_ONE_A_SECOND | changes))


def _counts(limiter: RateLimiter) -> dict[str, int]:
    stats = limiter.stats(0.0)
    return {name: int(value) for name, value in stats.items() if value and name != "totalAvailableTokens"}


@pytest.mark.spec("SAC-33")
def test_without_a_queue_a_request_is_admitted_or_rejected_at_once() -> None:
    limiter = _limiter()
    assert [limiter.acquire(0.0) for _ in range(3)] == [ADMITTED, REJECTED, REJECTED]
    assert _counts(limiter) == {
        "attemptedAdmissions": 3,
        "successfulAdmissions": 1,
        "rejectedAdmissions": 2,
        "tokensAcquired": 1,
    }


@pytest.mark.spec("SAC-34", "SAC-36")
def test_with_a_queue_requests_are_admitted_on_credit_one_after_the_other() -> None:
    limiter = _limiter(max_queue_depth=2)
    verdicts = [limiter.acquire(0.0) for _ in range(4)]
    assert verdicts == [ADMITTED, Reserved(0.0, 1.0), Reserved(0.0, 2.0), REJECTED]
    assert limiter.queued == 2


def test_who_waits_has_attempted_and_has_not_succeeded_yet() -> None:
    limiter = _limiter(max_queue_depth=2)
    assert limiter.acquire(0.0) is ADMITTED
    reservation = limiter.acquire(0.0)
    assert isinstance(reservation, Reserved)
    assert _counts(limiter) == {
        "attemptedAdmissions": 2,
        "successfulAdmissions": 1,
        "addedToQueue": 1,
        "tokensAcquired": 1,
        "currentQueueDepth": 1,
    }
    limiter.mature(reservation)
    assert _counts(limiter) == {
        "attemptedAdmissions": 2,
        "successfulAdmissions": 2,
        "addedToQueue": 1,
        "removedFromQueue": 1,
        "averageTimeQueuedMicros": 200_000,
        "totalTimeQueuedMicros": 1_000_000,
        "tokensAcquired": 2,
    }


def test_who_takes_many_tokens_makes_the_next_one_wait_for_them() -> None:
    limiter = _limiter(max_queue_depth=2)
    assert limiter.acquire(0.0, 3) == Reserved(0.0, 2.0, 3)
    assert limiter.acquire(0.0) == Reserved(0.0, 3.0)
    limiter.mature(Reserved(0.0, 2.0, 3))
    assert _counts(limiter)["tokensAcquired"] == 3
    limiter.interrupt()
    assert limiter.acquire(2.0, 2) == Reserved(2.0, 4.0, 2)


def test_without_room_in_the_queue_many_tokens_are_had_all_or_not_at_all() -> None:
    limiter = _limiter(burst_seconds=5.0)
    assert [limiter.acquire(0.0, tokens) for tokens in (3, 3, 2)] == [ADMITTED, REJECTED, ADMITTED]
    assert _counts(limiter)["tokensAcquired"] == 5


def test_tokens_that_were_not_used_in_the_end_go_back() -> None:
    limiter = _limiter(max_queue_depth=2, burst_seconds=10.0)
    assert limiter.acquire(0.0, 10) is ADMITTED
    limiter.settle(4)
    assert limiter.available(0.0) == 4
    limiter.settle(-2)
    assert limiter.available(0.0) == 2


@pytest.mark.spec("SAC-35")
def test_a_wait_that_was_interrupted_gives_its_token_to_the_next() -> None:
    limiter = _limiter(max_queue_depth=5)
    limiter.acquire(0.0)
    limiter.acquire(0.0)
    limiter.interrupt()
    assert limiter.acquire(0.0) == Reserved(0.0, 1.0)
    assert _counts(limiter)["interruptedInQueue"] == 1
    assert _counts(limiter)["successfulAdmissions"] == 1


def test_a_request_that_fails_on_its_way_to_the_queue_gives_its_token_back() -> None:
    limiter = _limiter(max_queue_depth=5)
    limiter.acquire(0.0)
    limiter.acquire(0.0)
    limiter.drop()
    assert limiter.acquire(0.0) == Reserved(0.0, 1.0)
    assert "interruptedInQueue" not in _counts(limiter)


def test_a_limiter_switched_off_exempts_those_who_wait() -> None:
    limiter = _limiter(max_queue_depth=5)
    limiter.acquire(0.0)
    limiter.acquire(0.0)
    limiter.release()
    assert limiter.queued == 0
    assert _counts(limiter)["exemptedAdmissions"] == 1


@pytest.mark.spec("SAC-59")
def test_an_exemption_is_no_attempt() -> None:
    limiter = _limiter()
    limiter.exempt()
    assert _counts(limiter) == {"exemptedAdmissions": 1}


def test_a_wait_is_cut_to_whole_milliseconds_and_less_than_one_is_none() -> None:
    limiter = _limiter(rate=700.0, burst_seconds=1 / 700, max_queue_depth=10)
    verdicts = [limiter.acquire(0.0) for _ in range(4)]
    assert verdicts == [ADMITTED, Reserved(0.0, 0.001), Reserved(0.0, 0.002), Reserved(0.0, 0.004)]
    fast = _limiter(rate=5000.0, burst_seconds=1 / 5000, max_queue_depth=10)
    assert [fast.acquire(0.0) for _ in range(4)] == [ADMITTED] * 4


def test_a_burst_below_one_rejects_all_without_a_queue_and_admits_all_with_one() -> None:
    assert _limiter(burst_seconds=5e-6).acquire(0.0) is REJECTED
    assert _limiter(burst_seconds=5e-6, max_queue_depth=1).acquire(0.0) is ADMITTED


def test_those_who_wait_keep_their_instant_when_the_rate_changes() -> None:
    limiter = _limiter(max_queue_depth=5)
    limiter.acquire(0.0)
    waiting = limiter.acquire(0.0)
    limiter.reconfigure(0.0, rate=1000.0, burst_seconds=1.0)
    assert waiting == Reserved(0.0, 1.0)
    assert limiter.acquire(0.0) == Reserved(0.0, 0.001)


def test_while_it_hangs_everybody_who_may_queue_waits_for_an_hour_and_the_others_are_rejected() -> None:
    limiter = _limiter(burst_seconds=1000.0, max_queue_depth=1)
    limiter.hangs = True
    assert limiter.acquire(0.0) == Reserved(0.0, 3600.0)
    assert limiter.acquire(0.0) is REJECTED


def test_the_average_is_absent_until_somebody_was_admitted() -> None:
    limiter = _limiter(burst_seconds=5e-6)
    limiter.acquire(0.0)
    assert "averageTimeQueuedMicros" not in limiter.stats(0.0)


def test_a_bucket_without_bounds_shows_the_largest_number_of_tokens() -> None:
    limiter = _limiter(rate=2**31 - 1, burst_seconds=1.7976931348623157e308)
    assert limiter.stats(0.0)["totalAvailableTokens"] == float(2**63 - 1)


class RateLimiterMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order, the counters add up and no more are admitted than accrue."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.limiter = RateLimiter("machine", rate=10.0, burst_seconds=0.5, max_queue_depth=4, now=0.0)
        self.waiting: list[Reserved] = []
        self.admitted = 0

    @rule(seconds=st.integers(0, 40))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds / 100
        for each in [each for each in self.waiting if each.ready_at <= self.now]:
            self.waiting.remove(each)
            self.limiter.mature(each)
            self.admitted += 1

    @rule()
    def one_asks(self) -> None:
        verdict = self.limiter.acquire(self.now)
        if isinstance(verdict, Reserved):
            self.waiting.append(verdict)
        self.admitted += verdict is ADMITTED

    @precondition(lambda self: self.waiting)
    @rule(how=st.sampled_from(["interrupt", "drop", "release"]))
    def the_last_gives_up(self, how: str) -> None:
        self.waiting.pop()
        getattr(self.limiter, how)()

    @invariant()
    def the_counters_add_up(self) -> None:
        limiter = self.limiter
        assert limiter.queued == len(self.waiting) <= limiter.max_queue_depth
        assert limiter.successful == self.admitted
        assert limiter.attempted >= limiter.successful + limiter.rejected + limiter.queued

    @invariant()
    def no_more_are_admitted_than_accrue(self) -> None:
        assert self.admitted <= 5 + 10 * self.now + 1e-6


TestRateLimiterMachine = pytest.mark.slow(RateLimiterMachine.TestCase)
