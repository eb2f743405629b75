"""The numbered prose tests of Client Backpressure, of both editions. The newer one has no number 2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from against_the_fake import Scene, act, elapsed

from driver import EDITION_2026_02_20, EDITION_2026_07_08
from driver.errors import ServerError
from driver.policy.backpressure import RETRY_TOKEN_CAPACITY, TokenBucket
from fakeserver import ClusterSpec
from mongowire.codes import Label

if TYPE_CHECKING:
    from driver import Edition

ONE = ClusterSpec.replica_set(1)
OVERLOAD = (Label.SYSTEM_OVERLOADED, Label.RETRYABLE)
RATE_LIMITED = 462


def seconds_of_a_failing_insert(edition: Edition, jitter: float) -> float:
    async def scenario(scene: Scene) -> float:
        await scene.client.command("admin", {"ping": 1})
        scene.fail("insert", "alwaysOn", *OVERLOAD, errorCode=2)
        took, raised = await elapsed(scene, scene.collection.insert_one({"a": 1}))
        assert isinstance(raised, ServerError)
        return took

    return float(act(ONE, scenario, edition=edition, jitter=jitter))


@pytest.mark.parametrize(
    ("edition", "backoffs"),
    [(EDITION_2026_02_20, 0.1 + 0.2 + 0.4 + 0.8 + 1.6), (EDITION_2026_07_08, 0.2 + 0.4)],
    ids=["2026-02-20", "2026-07-08"],
)
def test_client_backpressure_prose_1_retries_back_off_exponentially(
    edition: Edition, backoffs: float
) -> None:
    without = seconds_of_a_failing_insert(edition, jitter=0.0)
    waited = seconds_of_a_failing_insert(edition, jitter=1.0)
    assert waited - without == pytest.approx(backoffs, abs=1e-6)


def bucket_of(scene: Scene) -> TokenBucket:
    bucket = scene.client.executor.budget
    assert isinstance(bucket, TokenBucket)
    return bucket


def test_client_backpressure_prose_2_2026_02_20_the_capacity_of_the_token_bucket_is_kept() -> None:
    async def scenario(scene: Scene) -> None:
        bucket = bucket_of(scene)
        assert bucket.tokens == bucket.capacity == RETRY_TOKEN_CAPACITY == 1000
        await scene.client.command("admin", {"ping": 1})
        assert bucket.tokens == RETRY_TOKEN_CAPACITY

    act(ONE, scenario, "adaptiveRetries=true")


async def finds(scene: Scene) -> tuple[int, Any]:
    """Return how many finds a failing one takes, and its error."""
    scene.fail("find", "alwaysOn", *OVERLOAD, errorCode=RATE_LIMITED)
    _, raised = await elapsed(scene, scene.collection.find_one({}))
    return len(scene.of_kind("commandStartedEvent", "find")), raised


@pytest.mark.parametrize(
    ("edition", "sent"), [(EDITION_2026_02_20, 6), (EDITION_2026_07_08, 3)], ids=["2026-02-20", "2026-07-08"]
)
def test_client_backpressure_prose_3_overload_errors_are_retried_up_to_the_limit(
    edition: Edition, sent: int
) -> None:
    async def scenario(scene: Scene) -> None:
        count, raised = await finds(scene)
        assert isinstance(raised, ServerError)
        assert all(raised.has_label(label) for label in OVERLOAD)
        assert count == sent == edition.max_adaptive_retries + 1

    act(ONE, scenario, edition=edition)


def test_client_backpressure_prose_4_2026_02_20_adaptive_retries_are_limited_by_tokens() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.client.command("admin", {"ping": 1})
        bucket_of(scene).tokens = 2
        count, raised = await finds(scene)
        assert all(raised.has_label(label) for label in OVERLOAD)
        assert count == 3

    act(ONE, scenario, "adaptiveRetries=true")


def test_client_backpressure_prose_4_2026_07_08_the_limit_of_retries_can_be_configured() -> None:
    async def scenario(scene: Scene) -> None:
        count, raised = await finds(scene)
        assert all(raised.has_label(label) for label in OVERLOAD)
        assert count == 2

    act(ONE, scenario, "maxAdaptiveRetries=1", edition=EDITION_2026_07_08)


def test_client_backpressure_prose_5_2026_07_08_the_server_s_base_backoff_replaces_the_driver_s() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.client.command("admin", {"ping": 1})
        scene.fail("insert", "alwaysOn", *OVERLOAD, errorCode=RATE_LIMITED)
        ours, _ = await elapsed(scene, scene.collection.insert_one({"a": 1}))
        await scene.client.command("admin", {"setParameter": 1, "externalClientBaseBackoffMS": 50})
        theirs, raised = await elapsed(scene, scene.collection.insert_one({"a": 1}))
        assert raised.response["baseBackoffMS"] == 50
        await scene.client.command("admin", {"setParameter": 1, "externalClientBaseBackoffMS": 0})
        assert ours == pytest.approx(0.2 + 0.4, abs=0.05)
        assert theirs == pytest.approx(0.1 + 0.2, abs=0.05)

    act(ClusterSpec.replica_set(1, profile="9.0"), scenario, edition=EDITION_2026_07_08, jitter=1.0)
