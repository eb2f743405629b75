"""The operation that sent a request: by the order of events, and by session where several run.

An operation is one step of the account, with all that it sends. What is within a `withTransaction` belongs to
that one operation; what is within a loop or on a thread is an operation of its own each time. Where several
operations run at once, a session (or a connection, for commands without one) is with one of them at a time.

Three questions narrow the candidates: which operations ran when the request arrived, which of their clients
has its application name, and whose comment and session it has. What is still ambiguous goes by who holds the
session: an implicit session is lent to one operation at a time, and a connection carries one request at a
time. A wrong attribution here would accuse a driver of a retry that is another operation's first attempt, so
the oracles that count attempts or measure waits mostly ask operations that ran alone.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from harness.adapters.base import EntityKind
from harness.unified.model import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from harness.unified.account import PerformedOperation
    from harness.unified.server_side.seen import SeenRequest

CONTAINERS: Final = frozenset({"loop", "repeat", "runOnThread"})
"""Operations of the runner whose inner operations each count by themselves."""


def by_operation(
    requests: Iterable[SeenRequest],
    steps: Sequence[PerformedOperation],
    operations: Iterable[Operation],
    app_name_of: Callable[[Operation], str | None] = lambda _: None,
    fits: Callable[[Operation, SeenRequest], bool] = lambda _operation, _request: True,
) -> list[tuple[PerformedOperation, list[SeenRequest]]]:
    """Return the operations that sent any of `requests`, with these, in the order of the first of each.

    `steps` are all that were performed, `operations` those of the file. `app_name_of` returns the application
    name of the client of an operation, None where it has none; `fits` says whether a request has the comment
    and the session of an operation. A request outside of all steps is left out.
    """
    parents = _parents(operations)
    found: dict[int, tuple[PerformedOperation, list[SeenRequest]]] = {}
    holders: dict[Hashable, PerformedOperation] = {}
    for request in requests:
        candidates = _candidates(request, steps, parents)
        if len(candidates) > 1:
            of_client = [
                step for step in candidates if app_name_of(step.operation) in (None, request.app_name)
            ]
            # A client without a name excludes nothing, and where nothing is left the question was no help.
            candidates = of_client or candidates
            candidates = [step for step in candidates if fits(step.operation, request)] or candidates
        if candidates:
            step = _holder(request, candidates, holders)
            found.setdefault(id(step), (step, []))[1].append(request)
    return list(found.values())


def _parents(operations: Iterable[Operation]) -> Mapping[int, Operation]:
    """Return for each inner operation of a file the one that holds it, by identity."""
    parents: dict[int, Operation] = {}
    pending = list(operations)
    while pending:
        outer = pending.pop()
        for value in outer.arguments.values():
            inner = [
                each
                for each in (value if isinstance(value, tuple) else (value,))
                if isinstance(each, Operation)
            ]
            parents.update((id(each), outer) for each in inner)
            pending += inner
    return parents


def _candidates(
    request: SeenRequest, steps: Sequence[PerformedOperation], parents: Mapping[int, Operation]
) -> list[PerformedOperation]:
    """Return the operations that run when a request arrives; the runner's own if there is no other."""
    running = [
        step
        for step in steps
        if step.began_seq < request.seq < (inf if step.ended is None else step.ended_seq)
        and step.operation.name not in CONTAINERS
    ]
    owners = {id(owner): owner for owner in (_outermost(step, running, parents) for step in running)}
    # The runner's own operations (a wait, a fail point) run beside others and send next to nothing; they
    # count only where nobody else ran.
    own = [step for step in owners.values() if step.operation.object != EntityKind.TEST_RUNNER.value]
    return own or list(owners.values())


def _outermost(
    step: PerformedOperation, running: Sequence[PerformedOperation], parents: Mapping[int, Operation]
) -> PerformedOperation:
    """Return the step that holds a step and that is within no other, containers apart."""
    operation: Operation | None = step.operation
    while operation is not None:
        operation = parents.get(id(operation))
        outer = (each for each in reversed(running) if each.operation is operation)
        step = next(outer, step)
    return step


def _holder(
    request: SeenRequest,
    candidates: Sequence[PerformedOperation],
    holders: dict[Hashable, PerformedOperation],
) -> PerformedOperation:
    """Return the operation that has the request's session now."""
    lsid = request.command.get("lsid")
    key: Hashable = bytes(lsid["id"]) if isinstance(lsid, dict) and "id" in lsid else request.connection
    holder = holders.get(key)
    if not any(holder is step for step in candidates):
        # Sessions are lent to one at a time: who already holds another one is the less likely candidate.
        taken = [each for other, each in holders.items() if other != key]
        free = (step for step in candidates if not any(step is each for each in taken))
        holder = next(free, candidates[0])
    assert holder is not None
    holders[key] = holder
    return holder
