"""`assertRetryTokens`: the number of tokens in a client's retry token bucket. Our own.

Client Backpressure: Token Bucket. The commands that the runner sends through the client count, too:
`failPoint` succeeds, and returns 0.1. Null stands for a client without a bucket.
"""

from __future__ import annotations

from math import isclose
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import EntityKind, Feature
from harness.unified.arguments import signature
from harness.unified.errors import ScenarioError
from harness.unified.operations.spec import OperationSpec, ResultComparison
from harness.unified.outcome import CaseFailedError

if TYPE_CHECKING:
    from harness.adapters.base import Invocation
    from harness.unified.operations.spec import Context

_TOLERANCE: Final = 1e-6
"""Tokens by which sums of 0.1 may differ, whatever type of number a driver counts in."""


async def _assert_retry_tokens(context: Context, call: Invocation[Any]) -> None:
    expected = _tokens(call.arguments["tokens"])
    name = call.arguments["client"]
    tokens = await context.adapter.retry_tokens(context.entities.client(name).handle)
    if expected is None and tokens is not None:
        raise CaseFailedError(f"expected no token bucket, client {name!r} has one with {tokens:.10g} tokens")
    if expected is None:
        return
    if tokens is None:
        raise CaseFailedError(
            f"expected {expected:g} retry tokens, client {name!r} has no token bucket (adaptiveRetries)"
        )
    if not isclose(tokens, expected, rel_tol=0, abs_tol=_TOLERANCE):
        raise CaseFailedError(f"expected {expected:g} retry tokens, client {name!r} has {tokens:.10g}")


def _tokens(value: Any) -> float | None:
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value < 0:
        raise ScenarioError(f"tokens must be a number from 0 on, or null for no token bucket, is {value!r}")
    return value


TABLE = (
    OperationSpec(
        "assertRetryTokens",
        (EntityKind.TEST_RUNNER,),
        signature("client tokens"),
        _assert_retry_tokens,
        frozenset({Feature.RETRY_TOKENS}),
        result=ResultComparison.NOTHING,
    ),
)
