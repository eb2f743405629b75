"""Histories written by hand: operations, a log, and the documents that it leaves on each member."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.sim.swarm.checkers import CHECKERS
from harness.sim.swarm.history import (
    INITIAL_BALANCE,
    ClientSetup,
    FinalState,
    Heard,
    Logged,
    RunHistory,
    WorkloadOperation,
)
from harness.unified.server_side.seen import SeenRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from driver.events import DriverEvent

MEMBERS = ("node0", "node1")
ACCOUNTS = ("account:1", "account:2")
ADDRESS = "node0:1"
_ENDING = (
    *("requests", "leftovers", "tokens", "sessions", "cursors", "lonely"),
    *("rolled_back", "parted", "majority"),
)


def op(number: int, kind: Any = "push", key: str = "list:1", **more: Any) -> WorkloadOperation:
    """Return an operation that takes the second with its number, and half of it."""
    times = {"invoked": float(number), "completed": number + 0.5}
    return WorkloadOperation(**({"number": number, "client": 1, "kind": kind, "key": key} | times | more))


def past(
    *operations: WorkloadOperation,
    log: Iterable[tuple[int, str]] | None = None,
    documents: Mapping[str, Mapping[str, Any]] | None = None,
    **more: Any,
) -> RunHistory:
    """Return a history whose members hold what the log says, by default each write that was acknowledged.

    `documents` replaces values of members by key.
    """
    if log is None:
        log = [
            (each.number, key)
            for each in operations
            if each.outcome == "ok" and not each.kind.startswith(("read", "delete", "scan"))
            for key in each.keys
        ]
    entries = tuple(Logged(number, key, (place,)) for place, (number, key) in enumerate(log, 1))
    left = _left(operations, entries)
    ending = FinalState(
        at=100.0,
        log=entries,
        documents={member: left | dict((documents or {}).get(member, {})) for member in MEMBERS},
    )
    facts = {key: more.pop(key) for key in _ENDING if key in more}
    defaults = {"clients": (ClientSetup(number=1, edition="2026-02-20", max_pool_size=2),)}
    return RunHistory(operations=operations, ending=replace(ending, **facts), **(defaults | more))


def _left(operations: Iterable[WorkloadOperation], log: Iterable[Logged]) -> dict[str, Any]:
    by_number = {each.number: each for each in operations}
    left: dict[str, Any] = dict.fromkeys(ACCOUNTS, INITIAL_BALANCE)
    for entry in log:
        operation = by_number.get(entry.operation)
        match entry.key.partition(":")[0]:
            case "list":
                left[entry.key] = (*left.get(entry.key, ()), entry.operation)
            case "counter":
                left[entry.key] = left.get(entry.key, 0) + (operation.argument if operation else 0)
            case "register":
                left[entry.key] = entry.operation
            case "document":
                left[entry.key] = 1
        if operation is not None and operation.kind == "transfer":
            source, target, amount = operation.argument
            left[source], left[target] = left[source] - amount, left[target] + amount
    for operation in by_number.values():
        if operation.kind == "delete":
            left.pop(operation.key, None)
    return left


def told(name: str, history: RunHistory) -> list[str]:
    """Return what one checker says of a history."""
    return [violation.text for violation in CHECKERS[name].check(history)]


def heard(
    *events: tuple[float, DriverEvent] | tuple[float, DriverEvent, int], client: int = 1
) -> tuple[Heard, ...]:
    """Return events of a client: instant, event, and the operation that it was told in."""
    return tuple(Heard(each[0], client, each[1], each[2] if len(each) > 2 else None) for each in events)


def seen(
    at: float, name: str, comment: Any, reply: Mapping[str, Any] | None = None, **fields: Any
) -> SeenRequest:
    """Return a request that a server received, with its reply a tenth of a second later."""
    command = {name: 1} | ({} if comment is None else {"comment": comment}) | fields
    end = {"reply": reply, "end": "reply", "ended": at + 0.1} if reply is not None else {"end": "client"}
    return SeenRequest(int(at * 1000), at, 1, "node0", "primary", int(at * 1000), 100, command, **end)
