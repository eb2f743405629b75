"""No command is attempted more often than the edition of the specification allows.

Counted is what servers have received. The numbers are those of `harness.unified.server_side.rules`.
"""

from __future__ import annotations

from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from driver.events import ConnectionCheckOutFailedEvent
from harness.sim.swarm.checkers.violation import Violation
from harness.sim.swarm.history import READS, TRANSACTIONS, number_of
from harness.unified.server_side.rules import EDITIONS
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from harness.sim.swarm.history import ClientSetup, RunHistory, WorkloadOperation
    from harness.unified.server_side.seen import SeenRequest

UNCOUNTED: Final = frozenset({"getMore", "killCursors", "commitTransaction"})
"""Commands that an operation sends again without retrying: withTransaction commits until it knows."""

_Command: TypeAlias = "tuple[int, Hashable, str, Hashable]"


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield each command that servers have received too often."""
    operations = {operation.number: operation for operation in history.operations}
    clients = {client.number: client for client in history.clients}
    refused = {
        heard.operation for heard in history.events if isinstance(heard.event, ConnectionCheckOutFailedEvent)
    }
    for (number, _, name, _), requests in _commands(history.ending.requests).items():
        operation = operations.get(number)
        client = None if operation is None else clients.get(operation.client)
        if operation is None or client is None:
            continue
        most = most_attempts(operation, client, name, requests, refused=number in refused)
        if len(requests) > most:
            what = f"{name} of operation {number} ({operation.kind}) was attempted {len(requests)} times"
            yield Violation(f"{what}, {most:g} allowed by {client.edition}", (number,))


def most_attempts(
    operation: WorkloadOperation,
    client: ClientSetup,
    name: str,
    requests: Sequence[SeenRequest],
    *,
    refused: bool,
) -> float:
    """Return how often a command may be attempted (Client Backpressure: Overload retry policy, rule 2).

    `refused` says that the operation got no connection once, which may have been an overload error too.
    """
    ends = name == "abortTransaction"
    enabled = ends or (client.retry_reads if operation.kind in READS else client.retry_writes)
    if not enabled:
        return 1
    overload = 1 + overload_retries(client)
    if any(is_overloaded(request.reply) for request in requests):
        return overload
    within = operation.kind in TRANSACTIONS and not ends
    ordinary = 1 if within else inf if operation.deadline < inf else 2
    return max(ordinary, overload) if refused else ordinary


def overload_retries(client: ClientSetup) -> int:
    """Return how many retries an operation has once it has met an overload."""
    edition = EDITIONS[client.edition]
    configured = client.max_adaptive_retries if edition.retries_configurable else None
    return edition.overload_retries if configured is None else configured


def is_overloaded(reply: Mapping[str, Any] | None) -> bool:
    """Return whether a reply says that its server was overloaded."""
    return Label.SYSTEM_OVERLOADED in (reply or {}).get("errorLabels", ())


def _commands(requests: Sequence[SeenRequest]) -> Mapping[_Command, list[SeenRequest]]:
    """Return the attempts of each command: of one operation, step and transaction."""
    commands: dict[_Command, list[SeenRequest]] = defaultdict(list)
    owners: dict[Hashable, int] = {}
    for request in requests:
        command = request.command
        transaction = (_session(command), command.get("txnNumber"))
        number = number_of(command.get("comment"))
        if number is not None and "autocommit" in command:
            owners[transaction] = number
        number = owners.get(transaction) if number is None else number
        if number is not None and request.name not in UNCOUNTED:
            step = repr(command.get("comment"))
            within = transaction if "autocommit" in command else None
            commands[number, step, request.name, within].append(request)
    return commands


def _session(command: Mapping[str, Any]) -> Hashable:
    lsid = command.get("lsid")
    return bytes(lsid["id"]) if isinstance(lsid, dict) else None
