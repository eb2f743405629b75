"""A transaction stays with its mongos, and a cursor with its server.

No other mongos knows which shards are part of a transaction (Sharded Transactions: Pinning), and no other
server knows a cursor. After an error a transaction ends wherever there is a mongos: so commits and aborts are
left out, and nothing is said of what follows an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.sim.swarm.checkers.violation import Violation
from harness.sim.swarm.history import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import RunHistory
    from harness.unified.server_side.seen import SeenRequest


_ENDS: Final = ("commitTransaction", "abortTransaction")


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield each command of a transaction, and each getMore, that came to another server."""
    transactions: dict[Any, SeenRequest | None] = {}
    cursors: dict[int, str] = {}
    for request in history.ending.requests:
        command, reply = request.command, request.reply or {}
        if "autocommit" in command and request.server.startswith("mongos") and request.name not in _ENDS:
            key = bytes(command["lsid"]["id"]), command["txnNumber"]
            first = transactions.setdefault(key, request)
            if first is not None and first.server != request.server:
                text = f"{request.name} of transaction {command['txnNumber']} came to {request.server}"
                yield Violation(
                    f"{text} at {request.at:g} s, and {first.name} to {first.server}", _of(request)
                )
            if not reply.get("ok") or "writeConcernError" in reply:
                transactions[key] = None
        home = cursors.get(command.get("getMore", 0))
        if home is not None and home != request.server:
            text = f"getMore of cursor {command['getMore']} came to {request.server} at {request.at:g} s"
            yield Violation(f"{text}, and the cursor is on {home}", _of(request))
        cursor = reply.get("cursor")
        if isinstance(cursor, dict) and cursor.get("id"):
            cursors[cursor["id"]] = request.server


def _of(request: SeenRequest) -> tuple[int, ...]:
    number = number_of(request.command.get("comment"))
    return () if number is None else (number,)
