from __future__ import annotations

from math import inf

import pytest

from driver.editions import EDITION_2026_02_20, EDITION_2026_07_08
from driver.errors import (
    DriverError,
    NetworkError,
    PoolClearedError,
    ServerError,
    ServerSelectionError,
    WriteConcernError,
    WriteError,
)
from driver.policy.backpressure import Backoff, NoBudget, TokenBucket
from driver.policy.classification import (
    RETRYABLE_READ_CODES,
    RETRYABLE_WRITE_CODES,
    deserves_write_label,
    is_retryable_read,
)
from driver.policy.retry import (
    Failure,
    GiveUp,
    RetryAt,
    RetryPolicy,
    RetryState,
    deposit_of_failure,
    deposit_of_success,
    worse,
)
from driver.sdam.description import ServerDescription, ServerType

OLD = RetryPolicy.of(EDITION_2026_02_20)
NEW = RetryPolicy.of(EDITION_2026_07_08)

NETWORK = Failure(retryable=True, server="a:1")
OVERLOAD = Failure(overloaded=True, retryable=True, server="a:1")
FATAL = Failure(server="a:1")


def decide(
    policy: RetryPolicy, state: RetryState, failure: Failure, *, deadline: float = inf, jitter: float = 1.0
) -> RetryAt | GiveUp:
    return policy.decide(state, failure, now=100.0, deadline=deadline, jitter=jitter)


def retried(policy: RetryPolicy, failures: list[Failure], *, deadline: float = inf) -> list[float] | str:
    """Return the backoffs of a chain of failures, or the reason to give up."""
    state = RetryState.initial(timed=deadline < inf)
    backoffs = []
    for failure in failures:
        decision = decide(policy, state, failure, deadline=deadline)
        if isinstance(decision, GiveUp):
            return decision.reason
        backoffs.append(decision.backoff)
        state = decision.state
    return backoffs


def test_an_error_that_is_not_retryable_is_never_retried() -> None:
    assert decide(OLD, RetryState(), FATAL) == GiveUp("the error is not retryable")


@pytest.mark.spec("RW-65")
def test_without_a_deadline_one_retry_is_made_and_at_once() -> None:
    decision = decide(OLD, RetryState.initial(timed=False), NETWORK)
    assert isinstance(decision, RetryAt)
    assert (decision.when, decision.backoff, decision.cost) == (100.0, 0.0, 0.0)
    assert retried(OLD, [NETWORK, NETWORK]) == "1 retries have been made"


@pytest.mark.spec("RW-65")
def test_with_a_deadline_retries_go_on_until_it_has_passed() -> None:
    assert retried(OLD, [NETWORK] * 50, deadline=101.0) == [0.0] * 50
    assert decide(OLD, RetryState(allowed=inf), NETWORK, deadline=100.0) == GiveUp(
        "the deadline has passed", late=True
    )


@pytest.mark.spec("CB-2", "CB-13", "CB-42")
@pytest.mark.parametrize(
    ("policy", "backoffs"),
    [(OLD, [0.1, 0.2, 0.4, 0.8, 1.6]), (NEW, [0.2, 0.4])],
    ids=["2026-02-20", "2026-07-08"],
)
def test_overload_errors_back_off_exponentially_up_to_the_edition_s_maximum(
    policy: RetryPolicy, backoffs: list[float]
) -> None:
    assert retried(policy, [OVERLOAD] * len(backoffs)) == pytest.approx(backoffs)
    assert retried(policy, [OVERLOAD] * (len(backoffs) + 1)) == f"{len(backoffs)} retries have been made"


@pytest.mark.spec("CB-2")
def test_jitter_scales_the_backoff_from_nothing_to_all() -> None:
    none, all_ = (decide(OLD, RetryState(), OVERLOAD, jitter=jitter) for jitter in (0.0, 1.0))
    assert isinstance(none, RetryAt)
    assert isinstance(all_, RetryAt)
    assert (none.when, all_.when) == (100.0, 100.1)


@pytest.mark.spec("CB-2")
def test_the_backoff_never_exceeds_ten_seconds() -> None:
    assert [Backoff().before(retry, 1.0) for retry in (50, 5000)] == [10.0, 10.0]


@pytest.mark.spec("CB-28", "CB-36", "CB-43")
def test_an_overload_after_another_error_raises_the_limit_and_counts_that_attempt() -> None:
    assert retried(OLD, [NETWORK, *[OVERLOAD] * 4]) == pytest.approx([0.0, 0.2, 0.4, 0.8, 1.6])
    assert retried(OLD, [NETWORK, *[OVERLOAD] * 5]) == "5 retries have been made"


@pytest.mark.spec("CB-12", "CB-13", "CB-36")
def test_once_an_overload_was_seen_the_maximum_holds_for_other_errors_too() -> None:
    assert retried(OLD, [OVERLOAD, *[NETWORK] * 4]) == pytest.approx([0.1, 0.0, 0.0, 0.0, 0.0])
    assert retried(OLD, [OVERLOAD, *[NETWORK] * 5]) == "5 retries have been made"


@pytest.mark.spec("CB-13", "CB-43")
def test_an_overload_ends_the_unlimited_retries_of_a_deadline() -> None:
    assert retried(OLD, [OVERLOAD] * 6, deadline=1000.0) == "5 retries have been made"


@pytest.mark.spec("CB-31", "CB-39")
def test_a_backoff_that_would_end_after_the_deadline_is_not_begun() -> None:
    late = decide(OLD, RetryState(allowed=inf), OVERLOAD, deadline=100.05)
    assert late == GiveUp("the backoff ends after the deadline", late=True)


@pytest.mark.spec("CB-11", "CB-35")
def test_only_overload_retries_cost_a_token() -> None:
    costs = [decide(OLD, RetryState(), failure) for failure in (NETWORK, OVERLOAD)]
    assert [decision.cost for decision in costs if isinstance(decision, RetryAt)] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("policy", "failure", "avoided"),
    [
        (OLD, OVERLOAD, ("a:1",)),
        (OLD, NETWORK, ()),
        (OLD, Failure(retryable=True, server="a:1", sharded=True), ("a:1",)),
        (OLD, Failure(overloaded=True, retryable=True), ()),
        (NEW, OVERLOAD, ()),
        (NEW, Failure(overloaded=True, retryable=True, server="a:1", sharded=True), ("a:1",)),
        (RetryPolicy.of(EDITION_2026_07_08, retargeting=True), OVERLOAD, ("a:1",)),
    ],
)
def test_the_failed_server_is_avoided_after_overload_and_always_in_a_sharded_cluster(
    policy: RetryPolicy, failure: Failure, avoided: tuple[str, ...]
) -> None:
    decision = decide(policy, RetryState(), failure)
    assert isinstance(decision, RetryAt)
    assert decision.state.deprioritized == avoided


def test_every_server_that_failed_is_avoided_and_named_once() -> None:
    state = RetryState(deprioritized=("a:1",), allowed=inf)
    for server in ("a:1", "b:2"):
        decision = decide(OLD, state, Failure(overloaded=True, retryable=True, server=server))
        assert isinstance(decision, RetryAt)
        state = decision.state
    assert state.deprioritized == ("a:1", "b:2")


@pytest.mark.parametrize(
    ("policy", "advice", "backoff"),
    [(OLD, 0.5, 0.1), (NEW, 0.5, 1.0), (NEW, 0.0, 0.2), (NEW, None, 0.2), (NEW, 30.0, 10.0)],
)
def test_the_server_s_base_backoff_counts_where_the_edition_knows_it(
    policy: RetryPolicy, advice: float | None, backoff: float
) -> None:
    decision = decide(policy, RetryState(), Failure(overloaded=True, retryable=True, base_backoff=advice))
    assert isinstance(decision, RetryAt)
    assert decision.backoff == pytest.approx(backoff)


def test_max_adaptive_retries_can_be_set_in_the_edition_that_has_it_only() -> None:
    assert RetryPolicy.of(EDITION_2026_02_20, retries=1).max_adaptive_retries == 5
    assert RetryPolicy.of(EDITION_2026_07_08, retries=1).max_adaptive_retries == 1
    none = RetryPolicy.of(EDITION_2026_07_08, retries=0)
    assert retried(none, [OVERLOAD]) == "0 retries have been made"


@pytest.mark.spec("CB-8", "CB-9")
@pytest.mark.parametrize(
    ("attempt", "deposit"), [(0, 0.1), (1, 1.1), (4, 1.1)], ids=["first", "a retry", "a late retry"]
)
def test_a_success_returns_tokens(attempt: int, deposit: float) -> None:
    assert deposit_of_success(RetryState(attempt=attempt)) == pytest.approx(deposit)


@pytest.mark.spec("CB-10")
@pytest.mark.parametrize(
    ("attempt", "failure", "deposit"),
    [(0, NETWORK, 0.0), (0, OVERLOAD, 0.0), (1, OVERLOAD, 0.0), (1, NETWORK, 1.0), (1, FATAL, 1.0)],
)
def test_a_retry_that_fails_for_another_reason_than_overload_returns_a_token(
    attempt: int, failure: Failure, deposit: float
) -> None:
    assert deposit_of_failure(RetryState(attempt=attempt), failure) == deposit


@pytest.mark.spec("CB-37", "CB-38")
def test_the_token_bucket_starts_full_and_never_overflows() -> None:
    bucket = TokenBucket()
    bucket.deposit(5)
    assert bucket.tokens == 1000.0


@pytest.mark.spec("CB-34")
def test_a_token_is_taken_only_when_a_whole_one_is_there() -> None:
    bucket = TokenBucket(capacity=1.5)
    assert [bucket.consume(1), bucket.consume(1)] == [True, False]
    assert repr(bucket) == "<TokenBucket 0.5 of 1.5>"


def test_without_adaptive_retries_every_retry_is_paid_for() -> None:
    budget = NoBudget()
    budget.deposit(-1e9)
    assert budget.consume(1e9)


# --- which error survives ---


def server_error(*labels: str) -> ServerError:
    return ServerError("refused", code=91, labels=labels)


APPLIED = server_error("RetryableWriteError")
NOTHING_WRITTEN = server_error("RetryableWriteError", "NoWritesPerformed")
NOTHING_WRITTEN_AGAIN = server_error("NoWritesPerformed")
LOST = NetworkError("lost")
CLEARED = PoolClearedError("a:1")
NO_SERVER = ServerSelectionError("none")


@pytest.mark.spec("CB-6", "RW-61", "RW-62")
@pytest.mark.parametrize(
    ("errors", "survivor"),
    [
        ([APPLIED], APPLIED),
        ([LOST, APPLIED], APPLIED),
        ([APPLIED, LOST], LOST),
        ([APPLIED, NOTHING_WRITTEN], APPLIED),
        ([NOTHING_WRITTEN, APPLIED], APPLIED),
        ([NOTHING_WRITTEN, NOTHING_WRITTEN_AGAIN], NOTHING_WRITTEN),
        ([APPLIED, CLEARED], APPLIED),
        ([APPLIED, NO_SERVER], APPLIED),
        ([CLEARED, APPLIED], APPLIED),
        ([CLEARED, NO_SERVER], CLEARED),
        ([LOST, NOTHING_WRITTEN, CLEARED], LOST),
        ([NO_SERVER], NO_SERVER),
    ],
)
def test_the_error_that_tells_most_about_what_was_written_is_raised(
    errors: list[ServerError | NetworkError], survivor: ServerError
) -> None:
    current = None
    for error in errors:
        current = worse(current, error)
    assert current is survivor


def test_an_error_while_establishing_a_connection_lets_nobody_infer_an_attempt() -> None:
    establishing = NetworkError("refused", establishing=True)
    establishing.attempted = False
    assert worse(APPLIED, establishing) is APPLIED


# --- labels that the driver adds ---


def server(wire_version: int, kind: ServerType = ServerType.RS_PRIMARY) -> ServerDescription:
    return ServerDescription("a:1", kind, max_wire_version=wire_version, logical_session_timeout_minutes=30)


OLD_PRIMARY, NEW_PRIMARY, OLD_MONGOS = server(8), server(9), server(8, ServerType.MONGOS)
REFUSED = {"writeErrors": [{"code": 91}]}


@pytest.mark.spec("RW-25", "RW-26", "RW-27", "RW-28", "RW-29", "RW-30")
@pytest.mark.parametrize(
    ("error", "known", "labelled"),
    [
        (NetworkError("lost"), NEW_PRIMARY, True),
        (NetworkError("lost"), server(5), False),
        (NetworkError("refused", establishing=True), ServerDescription("a:1"), True),
        (PoolClearedError("a:1"), NEW_PRIMARY, True),
        (ServerSelectionError("none"), NEW_PRIMARY, False),
        (ServerError("going", code=91), OLD_PRIMARY, True),
        (ServerError("going", code=91), OLD_MONGOS, True),
        (ServerError("going", code=91), NEW_PRIMARY, False),
        (ServerError("going", code=91), server(5), False),
        (ServerError("going", code=64), OLD_PRIMARY, False),
        (WriteConcernError("going", code=91), OLD_PRIMARY, True),
        (WriteConcernError("going", code=91), OLD_MONGOS, False),
        (WriteError("going", code=91, response=REFUSED), OLD_PRIMARY, False),
    ],
)
def test_the_driver_labels_what_servers_cannot_or_do_not_label(
    error: DriverError, known: ServerDescription, *, labelled: bool
) -> None:
    assert deserves_write_label(error, known) is labelled


def test_every_retryable_write_code_is_a_retryable_read_code_too() -> None:
    assert len(RETRYABLE_WRITE_CODES) == 12
    assert {134} == RETRYABLE_READ_CODES - RETRYABLE_WRITE_CODES
    assert is_retryable_read(ServerError("not yet", code=134))
    assert not is_retryable_read(ServerSelectionError("none"))
