"""Oracles of transaction numbers and sessions, as servers see them.

Retryable Writes: Generating Transaction IDs; Transactions; Sessions: Server Session Pool, Gossipping the
Cluster Time. All of it goes by `lsid`, `txnNumber` and `$clusterTime` on the wire, so it holds for every
driver. Explicit sessions (an argument `session`) and implicit ones from the driver's pool follow other rules:
the pool's are asked only of operations without that argument. A transaction that servers refused for overload
has not begun, so its number and its `startTransaction` may come again.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, pairwise
from math import inf
from typing import TYPE_CHECKING, Any, Final

from bson.int64 import Int64

from harness.adapters.deployment import Topology
from harness.unified.server_side.oracles.permits import GENERIC, WRITES, is_network_error
from harness.unified.server_side.oracles.trace import ENDS, is_failed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.unified.server_side.connection_judge import ConnectionLife
    from harness.unified.server_side.oracles.trace import SentCommand, Trace, TracedOperation
    from harness.unified.server_side.seen import SeenRequest


def one_transaction_id(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Executing (a retry has the transaction id of the first attempt)."""
    for operation, command in trace.commands():
        first = command.first.command
        for attempt in command.attempts[1:]:
            here = attempt.request.command
            for name in ("txnNumber", "lsid", "stmtIds"):
                # A read may be retried in another implicit session; a numbered write may not, for the number
                # counts within its session.
                if name == "lsid" and "txnNumber" not in first:
                    continue
                if here.get(name) != first.get(name):
                    yield (
                        f"{operation} sent {command.name} again with {name}"
                        f" {here.get(name)}, first with {first.get(name)}"
                    )


def another_number_for_each_command(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Generating Transaction IDs; Transactions: Constructing commands."""
    newest: dict[bytes, int] = {}
    for operation, command in sorted(trace.commands(), key=lambda pair: pair[1].first.seq):
        number, session = command.first.command.get("txnNumber"), _session(command.first.command)
        if number is None or session is None:
            continue
        before = newest.get(session, 0)
        within = "autocommit" in command.first.command
        starts = bool(command.first.command.get("startTransaction")) or not within
        if number < before or (starts and number == before):
            yield (
                f"{operation} sent {command.name} with txnNumber {number} after {before} in the same session"
            )
        if not (within and starts and _was_refused(command)):
            newest[session] = max(before, number)


def numbers_are_positive_longs(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Constructing Write Commands."""
    for operation, command in trace.commands():
        number = command.first.command.get("txnNumber")
        if number is not None and (not isinstance(number, Int64) or number < 1):
            yield f"{operation} sent {command.name} with txnNumber {number!r}, no positive int64"


def numbers_where_they_belong(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Supported and Unsupported Write Operations, Determining Support."""
    for operation, command in trace.commands():
        document = command.first.command
        if "autocommit" in document or command.name in ENDS:
            continue
        due = is_retryable_write(trace, operation, command)
        if due and "txnNumber" not in document:
            yield f"{operation} sent {command.name} without a transaction number"
        if not due and "txnNumber" in document:
            yield (
                f"{operation} sent {command.name} with a transaction number, though it is no retryable write"
            )


def is_retryable_write(trace: Trace, operation: TracedOperation, command: SentCommand) -> bool:
    """Return whether a command outside of transactions is to have a transaction number."""
    document = command.first.command
    # A standalone has no oplog to find a repetition in; a user's own command is sent as it was written.
    if trace.topology is Topology.SINGLE or operation.name in GENERIC or command.name not in WRITES:
        return False
    if not operation.client.options.get("retryWrites", True):
        return False
    return (document.get("writeConcern") or {}).get("w") != 0 and not _many(document)


def _many(document: Mapping[str, Any]) -> bool:
    """Return whether any statement of a write may hit many documents."""
    updates = any(update.get("multi") for update in document.get("updates", ()))
    deletes = any(delete.get("limit") == 0 for delete in document.get("deletes", ()))
    return updates or deletes or any(each.get("multi") for each in document.get("ops", ()))


def unacknowledged_writes_are_sent_once(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Unsupported Write Operations."""
    seen: set[str] = set()
    for request in trace.unacknowledged:
        # Documents have ids of their own, so equal ones are one write; other writes count once each.
        what = repr(request.command.get("documents", request.seq))
        if what in seen:
            yield f"an unacknowledged {request.name} was sent again"
        if "txnNumber" in request.command:
            yield (
                f"an unacknowledged {request.name} has the transaction number {request.command['txnNumber']}"
            )
        seen.add(what)


def a_transaction_is_started_once(trace: Trace) -> Iterator[str]:
    """Transactions: Constructing the first command; Client Backpressure: Overload retry policy, rule 6."""
    started: set[tuple[bytes, int]] = set()
    for operation, command in sorted(trace.commands(), key=lambda pair: pair[1].first.seq):
        document = command.first.command
        session = _session(document)
        if "autocommit" not in document or session is None or command.name in ENDS:
            continue
        # A transaction is a number in a session, whichever operations its statements are of.
        key = session, document["txnNumber"]
        starts = bool(document.get("startTransaction"))
        if starts and key in started:
            yield f"{operation} sent {command.name} with startTransaction in a transaction under way"
        for attempt in command.attempts[1:]:
            if bool(attempt.request.command.get("startTransaction")) != starts:
                what = "without" if starts else "with"
                yield f"{operation} sent {command.name} again {what} startTransaction"
                break
        if not _was_refused(command):
            started.add(key)


def _was_refused(command: SentCommand) -> bool:
    """Return whether no attempt was begun, for overload: then what it was to start has not started."""
    return all(attempt.is_overloaded for attempt in command.attempts)


def an_uncertain_commit_asks_for_a_majority(trace: Trace) -> Iterator[str]:
    """Transactions: Majority write concern is used when retrying commitTransaction; Client Backpressure."""
    for operation, command in trace.commands():
        if command.name != "commitTransaction":
            continue
        certain = True
        first = command.first.command.get("writeConcern")
        for before, attempt in zip(command.attempts, command.attempts[1:], strict=False):
            # An overload error says that the commit was not begun; any other leaves open whether it was.
            certain = certain and before.is_overloaded
            here = attempt.request.command.get("writeConcern")
            if not certain and (here or {}).get("w") != "majority":
                yield f"{operation} sent its commit again with the write concern {here}"
            if certain and here != first:
                yield (
                    f"{operation} sent a commit that was not begun"
                    f" again with the write concern {here}, first {first}"
                )


def a_session_that_lost_a_command_is_not_lent(trace: Trace) -> Iterator[str]:
    """Sessions: Server Session Pool (dirty sessions)."""
    dirty: dict[bytes, TracedOperation] = {}
    explicit: set[bytes] = set()
    for operation in trace.operations:
        has_own = (
            "session" in operation.step.operation.arguments
            or operation.step.operation.object.startswith("session")
        )
        for command in operation.commands:
            for attempt in command.attempts:
                session = _session(attempt.request.command)
                if session is None:
                    continue
                explicit |= {session} if has_own or "autocommit" in attempt.request.command else set()
                lost = dirty.get(session)
                if (
                    lost is not None
                    and lost is not operation
                    and session not in explicit
                    and operation.is_alone
                ):
                    yield f"{operation} uses the session in which {lost} lost a command"
                    return
                if is_network_error(attempt) and operation.is_alone:
                    dirty[session] = operation


def sessions_are_ended_once(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Overload retry policy (endSessions is not retried); Sessions: endSessions."""
    for client in trace.clients:
        ended: set[bytes] = set()
        for life in trace.connections:
            for request in life.seen.requests if life.seen.app_name == client.app_name else ():
                if request.name != "endSessions":
                    continue
                sessions = {bytes(each["id"]) for each in request.command["endSessions"]}
                if sessions & ended:
                    yield f"{client.name} ended {len(sessions & ended)} sessions twice"
                ended |= sessions


def sessions_are_not_shared(trace: Trace) -> Iterator[str]:
    """Sessions: Server Session Pool (a session is with one operation at a time)."""
    spans: dict[bytes, list[tuple[float, float, TracedOperation]]] = {}
    for operation in trace.operations:
        if "session" in operation.step.operation.arguments:
            continue
        for command in operation.commands:
            session = _session(command.first.command)
            if session is not None and command.name not in ("getMore", "killCursors"):
                spans.setdefault(session, []).append(
                    (command.first.seq, command.last.request.ended_seq, operation)
                )
    for uses in spans.values():
        uses.sort(key=lambda use: use[0])
        for (_, ended, operation), (began, _, other) in pairwise(uses):
            if began < ended and operation is not other:
                yield f"{operation} and {other} use one session at the same time"


SESSION_TIMEOUT: Final = 30 * 60
"""Seconds for which servers keep a session that is not used: logicalSessionTimeoutMinutes by default."""


def sessions_are_lent_before_they_expire(trace: Trace) -> Iterator[str]:
    """Sessions: Server Session Pool (a session with less than a minute left is neither lent nor kept)."""
    if trace.topology is Topology.LOAD_BALANCED:  # where no session expires
        return
    used: dict[bytes, float] = {}
    for operation, command in sorted(trace.commands(), key=lambda pair: pair[1].first.seq):
        session = _session(command.first.command)
        if session is None:
            continue
        rested = command.first.at - used.get(session, inf)
        lent = "session" not in operation.step.operation.arguments and command.name not in _KEPT
        if lent and rested > SESSION_TIMEOUT - _MARGIN:
            yield f"{operation} sent {command.name} in a session that had not been used for {rested:.0f} s"
        used[session] = command.last.request.at


# Seconds that must be left of a session, so that it does not expire on its way to the server.
_MARGIN: Final = 60
_KEPT: Final = frozenset({"getMore", "killCursors", "endSessions"}) | ENDS
"""Commands of a session that was taken before."""


def the_session_used_last_is_lent_first(trace: Trace) -> Iterator[str]:
    """Sessions: Server Session Pool (it is a stack, so that those that are not needed expire)."""
    if trace.timing.round_trip is None:  # on the wall clock a driver may give a session back a little later
        return
    for client in trace.clients:
        steps = [step for step in trace.steps if step.operation.object != "testRunner"]
        operations = [each for each in trace.operations if each.client.name == client.name]
        for before, after in pairwise(operations):
            if any(before.began < step.began_seq < after.began for step in steps):
                continue  # it may have given a session back, or kept one
            returned, lent = _only_session(before), _only_session(after)
            if returned is None or lent is None or returned == lent:
                continue
            if after.commands[0].first.at - before.commands[-1].last.request.at < SESSION_TIMEOUT - _MARGIN:
                yield f"{after} uses another session than {before}, which had just given one back"


def _only_session(operation: TracedOperation) -> bytes | None:
    """Return the session that an operation took from the pool and gave back, if it is clear which one."""
    called = operation.step.operation
    is_kept = "session" in called.arguments or called.object.startswith(("session", "cursor"))
    if is_kept or called.name.startswith("create") or not operation.is_alone or operation.is_disturbed:
        return None
    if operation.is_timed and operation.step.error is not None:
        return None  # its deadline may have ended its command, and with it the session
    attempts = [each for command in operation.commands for each in command.attempts]
    sessions = {_session(each.request.command) for each in attempts}
    is_clean = all(each.request.reply is not None for each in attempts)
    return sessions.pop() if len(sessions) == 1 and is_clean and operation.step.ended is not None else None


def cluster_time_is_gossiped(trace: Trace) -> Iterator[str]:
    """Sessions: Gossipping the Cluster Time."""
    if trace.topology is Topology.SINGLE:
        return
    for client in trace.clients:
        heard = sorted(
            (request.ended_seq, request.reply["$clusterTime"]["clusterTime"])
            for life in trace.connections
            if life.seen.app_name == client.app_name
            for request in _heard(life)
            if request.name not in _UNGOSSIPED and request.reply and "$clusterTime" in request.reply
        )
        ends = [ended for ended, _ in heard]
        newest = list(accumulate((time for _, time in heard), max))
        operations = [each for each in trace.operations if each.client.name == client.name]
        for operation in operations:
            place = bisect_left(ends, operation.began)
            known = newest[place - 1] if place else None
            for command in operation.commands:
                for attempt in command.attempts:
                    here = attempt.request.command.get("$clusterTime")
                    if known is not None and (here is None or here["clusterTime"] < known):
                        yield f"{operation} sent {command.name} without the newest $clusterTime, {known}"
                        return
                    # The reply of an attempt of this operation was surely read before its retry; those of
                    # others at the same time perhaps not.
                    if operation.is_alone and is_failed(attempt.request):
                        known = _newest([attempt.request.reply], known)


def _heard(life: ConnectionLife) -> Sequence[SeenRequest]:
    """Return the requests whose replies a client has read: of the last before a close nobody can tell.

    A closed connection may have lost its last reply on the way, and with it the cluster time.
    """
    return life.seen.requests if life.seen.closed == inf else life.seen.requests[:-1]


_UNGOSSIPED: Final = frozenset({"hello", "ismaster", "isMaster", "saslStart", "saslContinue"})
"""Commands of monitors and handshakes, whose replies drivers need not take a cluster time from."""


def _newest(replies: Any, known: Any = None) -> Any:
    """Return the newest cluster time of some replies."""
    for reply in replies:
        time = (reply or {}).get("$clusterTime")
        if time is not None and (known is None or time["clusterTime"] > known):
            known = time["clusterTime"]
    return known


def _session(command: Mapping[str, Any]) -> bytes | None:
    lsid = command.get("lsid")
    return bytes(lsid["id"]) if isinstance(lsid, dict) and "id" in lsid else None
