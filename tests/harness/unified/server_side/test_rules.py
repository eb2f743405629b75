"""The judge's own numbers of each edition."""

from __future__ import annotations

import pytest

from driver import editions, transaction
from driver.policy import backpressure
from harness.unified.server_side.rules import EDITIONS, overload_backoff, transaction_backoff


def test_the_judge_knows_every_edition_of_the_driver() -> None:
    assert list(EDITIONS) == list(editions.EDITIONS)


@pytest.mark.parametrize("name", EDITIONS)
def test_judge_and_reference_driver_have_the_same_numbers_though_not_from_each_other(name: str) -> None:
    rules, edition = EDITIONS[name], editions.EDITIONS[name]
    assert rules.overload_retries == edition.max_adaptive_retries
    assert rules.retries_configurable is edition.retries_configurable
    assert rules.honours_base_backoff is edition.honours_base_backoff
    assert rules.backpressure == edition.backpressure
    backoff = backpressure.Backoff(first_exponent=edition.first_backoff_exponent)
    for retry in (1, 2, 7, 8, 500):
        assert overload_backoff(rules, retry, {}) == backoff.before(retry, 1.0)
        first = edition.first_transaction_exponent
        assert transaction_backoff(rules, retry) == transaction.backoff_before(retry, 1.0, first)


def test_what_is_no_retry_has_nothing_to_wait_for() -> None:
    for edition in EDITIONS.values():
        assert overload_backoff(edition, 0, {}) == transaction_backoff(edition, 0) == 0


@pytest.mark.parametrize(("advice", "seconds"), [(10, 0.02), (0, 0.2), (-1, 0.2), ("10", 0.2)])
def test_only_a_positive_base_of_the_server_counts(advice: object, seconds: float) -> None:
    assert overload_backoff(EDITIONS["2026-07-08"], 1, {"baseBackoffMS": advice}) == seconds
