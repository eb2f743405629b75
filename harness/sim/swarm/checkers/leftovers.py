"""Nothing is left at the end: no task, connection, session, cursor, ticket or token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.sim.swarm.checkers.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import History

KINDS: Final = {
    "task": "a task still runs",
    "connection": "a client still holds a connection",
    "server connection": "a server still holds a connection",
    "session": "a server still knows a session in use",
    "cursor": "a server still holds a cursor",
    "ticket": "a server still holds a ticket",
    "token": "a server still owes tokens",
    "waiter": "an operation still waits for a connection",
}
"""What may be left, with the sentence about it."""

TOKEN_CAPACITY: Final = 1000.0
"""The most tokens of a client's bucket (Client Backpressure: Token Bucket)."""


def check(history: History) -> Iterator[Violation]:
    """Yield everything that is left, and each client whose tokens are beyond the bucket."""
    for leftover in history.ending.leftovers:
        yield Violation(f"{KINDS.get(leftover.kind, leftover.kind)}: {leftover.name}")
    for client, tokens in history.ending.tokens.items():
        if not 0 <= tokens <= TOKEN_CAPACITY:
            yield Violation(f"client {client} has {tokens:g} tokens, of 0 to {TOKEN_CAPACITY:g}")
