"""How a mongos retries what an overloaded shard refused: the budget, the backoff and what is counted."""

from __future__ import annotations

from typing import Any

import pytest

from fakeserver.admission.shard_retries import RetryParameters, ShardClient


def _client(**facts: Any) -> ShardClient:
    return ShardClient(RetryParameters(**facts))


def _overloads(client: ShardClient, times: int, **facts: Any) -> list[float | None]:
    operation = client.begin()
    told = {"overloaded": True, "retryable": True, "target": "a", **facts}
    return [client.failed(operation, **told) for _ in range(times)]


@pytest.mark.parametrize(
    ("parameters", "facts", "delays"),
    [
        pytest.param({}, {}, [0.2, 0.4, 0.8, None], id="doubles, three times"),
        pytest.param({"max_attempts": 0}, {}, [None], id="no retries"),
        pytest.param({"max_backoff": 0.3}, {}, [0.2, 0.3, 0.3, None], id="bounded"),
        pytest.param({}, {"hint": 0.5}, [1.0, 2.0, 4.0, None], id="from the shard's own base"),
        pytest.param({}, {"jitter": 0.5}, [0.1, 0.2, 0.4, None], id="scaled by jitter"),
        pytest.param({}, {"retryable": False}, [None], id="never what must not be retried"),
        pytest.param({}, {"overloaded": False}, [0.0, 0.0, 0.0, None], id="other errors at once"),
        pytest.param({"capacity": 2}, {}, [0.2, 0.4, None], id="as long as the budget lasts"),
    ],
)
def test_the_delays_of_an_operation(
    parameters: dict[str, Any], facts: dict[str, Any], delays: list[float | None]
) -> None:
    assert _overloads(_client(**parameters), len(delays), **facts) == delays


def test_each_overload_costs_a_token_and_what_ends_well_gives_one_back_and_a_little_more() -> None:
    client = _client(capacity=10)
    operation = client.begin()
    client.failed(operation, overloaded=True, retryable=True, target="a")
    client.failed(operation, overloaded=True, retryable=True, target="a")
    assert client.balance == 8
    client.ended(operation, overloaded=False, failed=False)
    assert client.balance == pytest.approx(9.1)
    client.ended(client.begin(), overloaded=False, failed=False)
    assert client.balance == pytest.approx(9.2)


def test_a_full_bucket_takes_no_more_and_a_smaller_one_loses_what_does_not_fit() -> None:
    client = _client(capacity=10)
    client.ended(client.begin(), overloaded=False, failed=False)
    assert client.balance == 10
    client.reconfigure(RetryParameters(capacity=3))
    assert client.balance == 3


@pytest.mark.parametrize("counts_when_sent", [False, True])
def test_everything_is_counted(*, counts_when_sent: bool) -> None:
    client = _client(counts_when_sent=counts_when_sent)
    recovered = client.begin()
    client.failed(recovered, overloaded=True, retryable=True, target="a")
    client.sent_again(recovered)
    client.retargeted()
    client.ended(recovered, overloaded=False, failed=False)
    refused = client.begin()
    while client.failed(refused, overloaded=True, retryable=True, target="a") is not None:
        client.sent_again(refused)
    assert client.stats() == {
        "numOperationsAttempted": 2,
        "numOperationsRetriedAtLeastOnceDueToOverload": 2,
        "numOperationsRetriedAtLeastOnceDueToOverloadAndSucceeded": 1,
        "numRetriesDueToOverloadAttempted": 4,
        "numRetriesRetargetedDueToOverload": 1,
        "numOverloadErrorsReceived": 5,
        "totalBackoffTimeMillis": 200 + 200 + 400 + 800,
        "retryBudgetTokenBucketBalance": 996.0,
    }


@pytest.mark.parametrize(("counts_when_sent", "counted"), [(True, (0, 0, 0)), (False, (1, 1, 200))])
def test_a_retry_that_was_never_sent_is_none_since_9_0(
    counted: tuple[int, int, int], *, counts_when_sent: bool
) -> None:
    client = _client(counts_when_sent=counts_when_sent)
    given_up = client.begin()
    assert client.failed(given_up, overloaded=True, retryable=True, target="a") == 0.2
    client.ended(given_up, overloaded=False, failed=True)
    assert _counted(client) == counted
    assert client.stats()["numOverloadErrorsReceived"] == 1


@pytest.mark.parametrize(("counts_when_sent", "operations"), [(True, 0), (False, 1)])
def test_an_operation_that_may_not_be_retried_was_retried_only_before_9_0(
    operations: int, *, counts_when_sent: bool
) -> None:
    client = _client(max_attempts=0, counts_when_sent=counts_when_sent)
    _overloads(client, 1)
    assert _counted(client) == (0, operations, 0)


def _counted(client: ShardClient) -> tuple[int, int, int]:
    stats = client.stats()
    names = ("numRetriesDueToOverloadAttempted", "numOperationsRetriedAtLeastOnceDueToOverload")
    return stats[names[0]], stats[names[1]], stats["totalBackoffTimeMillis"]
