"""Who reads a rule of the specifications and searches the driver for its words finds the function."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

DRIVER = Path(__file__).parents[2] / "driver"

MOST = 6
"""As many places a reader looks through, and no more."""

RULES = [
    # Connection Monitoring and Pooling
    (["maxPoolSize", "maxConnecting"], "PoolState._may_connect"),
    (["minPoolSize"], "PoolState._may_populate"),
    (["maxIdleTimeMS"], "PoolState._perished"),
    (["waitQueueTimeoutMS"], "Pool.check_out"),
    (["pendingConnectionCount"], "PoolState.pending"),
    (["interruptInUseConnections"], "PoolState.clear"),
    (["PoolReadyEvent"], "PoolState.ready"),
    (["Background Thread"], "PoolState.tick"),
    (["serviceId", "generation"], "Generations"),
    (["fork", "child"], "AsyncClient._reset_after_fork"),
    (["withConnection"], "Lease"),
    # Retryable Writes
    (["logicalSessionTimeoutMinutes"], "ServerDescription.supports_retryable_writes"),
    (["Transaction numbers"], "actionable"),
    (["writeErrors", "writeConcernError", "mongos"], "_has_retryable_code"),
    (["RetryableWriteError", "label"], "deserves_write_label"),
    (["txnNumber", "larger"], "ServerSession.next_transaction_number"),
    (["NoWritesPerformed"], "worse"),
    (["runCommand", "transaction id"], "run_command"),
    (["operationId"], "RequestIds.next_operation"),
    (["gossip", "retry"], "assemble"),
    # Client Backpressure
    (["SystemOverloadedError"], "is_overload"),
    (["Retryable Overload Error"], "is_retryable_overload"),
    (["MAX_RETRIES"], "RetryPolicy._following"),
    (["jitter", "base", "2^"], "Backoff"),
    (["RETRY_TOKEN_RETURN_RATE"], "deposit_of_success"),
    (["adaptiveRetries"], "retry_budget"),
    (["runCommand", "both"], "Executor._retries_overload"),
    (["backpressure", "compression"], "Handshake.document"),
]


@cache
def texts() -> dict[str, str]:
    """Return the text of every function, and of every class without its functions."""
    found: dict[str, str] = {}
    for path in sorted(DRIVER.rglob("*.py")):
        source = path.read_text()
        for name, node in definitions(ast.parse(source)):
            segment = ast.get_source_segment(source, node) or ""
            if isinstance(node, ast.ClassDef):
                segment = f"{node.name} {ast.get_docstring(node) or ''}"
            found[f"{path.relative_to(DRIVER)}:{name}"] = segment
    return found


def definitions(
    tree: ast.Module | ast.ClassDef, within: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield within + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from definitions(node, f"{within}{node.name}.")


def search(words: list[str]) -> list[str]:
    """Return the places that hold all words, whatever their case."""
    patterns = [re.compile(re.escape(word), re.IGNORECASE) for word in words]
    return [place for place, text in texts().items() if all(pattern.search(text) for pattern in patterns)]


@pytest.mark.parametrize(("words", "function"), RULES, ids=[function for _, function in RULES])
def test_the_words_of_a_rule_lead_to_its_function(words: list[str], function: str) -> None:
    places = search(words)
    assert function in {place.rpartition(":")[2] for place in places}, f"{words} lead to {places}"
    assert len(places) <= MOST, f"{words} lead to {len(places)} places: {places}"


def test_a_search_for_what_is_not_there_finds_nothing() -> None:
    assert search(["waitQueueMultiple"]) == []
