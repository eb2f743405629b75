"""Operations of an application, as servers see them: requests, folded into operations with their attempts.

A server sees requests; an application sees operations, some of which its driver sends several times. A
request is another attempt of the operation before it in its session if that one failed in a way that drivers
retry, and if it is the same command: with the same `txnNumber` where it has one, which a driver counts up for
every new write. A read that an application itself sends again, on the same session and unchanged, cannot be
told from a retry of its driver.

The `getMore` of a change stream or of a tailable cursor that awaits data is counted apart: it waits for as
long as nothing happens, and a driver resumes a change stream whose `getMore` failed, so that its application
sees no error.

Requests and replies come in, one by one, and only what is under way is kept.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from itertools import islice, pairwise
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.deployment.records.events import KIND_OF, CommandFinished, FaultHit
from fakeserver.deployment.records.journal_search import BACKGROUND
from fakeserver.rules.rule import Attempts
from mongowire.codes import Category, Label, code_name

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from fakeserver.deployment.records.journal import Journal
    from fakeserver.deployment.records.record import Record


BESIDES: Final = frozenset(
    {
        *("hello", "isMaster", "ismaster", "saslStart", "saslContinue", "authenticate", "getnonce"),
        *("endSessions", "killCursors", "buildInfo", "buildinfo", "configureFailPoint", "pushbackd"),
    }
)
"""Commands that drivers and tools send on their own, which are no operations of an application."""

LOST: Final = "connection lost"
"""The error of an operation whose connection ended in front of its reply."""
NO_REPLY: Final = "no reply"
"""The error of an operation that was never answered."""

_VOLATILE: Final = frozenset({"$clusterTime", "$readPreference", "readConcern", "maxTimeMS", "lsid"})
"""Fields that may differ between the attempts of an operation."""
_MOST_CURSORS: Final = 10_000


@dataclass(slots=True)
class CommandTotals:
    """The operations of one command. `errors` reached the application; `longest_wait` is in seconds."""

    operations: int = 0
    succeeded: int = 0
    errors: int = 0
    overload_errors: int = 0
    attempts: int = 0
    longest_wait: float = 0.0

    @property
    def attempts_per_success(self) -> float:
        """The requests that one success took, those of failed operations too; infinite without one."""
        return self.attempts / self.succeeded if self.succeeded else inf if self.attempts else 0.0

    def cells(self) -> tuple[str, ...]:
        """Return the cells of its row: operations, errors, attempts per success and longest wait."""
        per_success = self.attempts_per_success
        return (
            str(self.operations),
            str(self.errors),
            "none succeeded" if per_success == inf else f"{per_success:.2f}",
            f"{self.longest_wait * 1000:.0f} ms",
        )

    def add(self, other: CommandTotals) -> None:
        """Add the totals of another command."""
        self.operations += other.operations
        self.succeeded += other.succeeded
        self.errors += other.errors
        self.overload_errors += other.overload_errors
        self.attempts += other.attempts
        self.longest_wait = max(self.longest_wait, other.longest_wait)


@dataclass(slots=True)
class _Operation:
    """An operation under way: its command, its first attempt's instant, and how the last one ended."""

    command: Mapping[str, Any]
    began: float
    attempts: int = 1
    failed_at: float | None = None
    error: int | str = 0
    """The code of the last attempt's error, or what became of it in words."""
    is_overload: bool = False

    @property
    def name(self) -> str:
        return next(iter(self.command), "")


@dataclass(slots=True)
class OperationTotals:
    """Counts operations by command. `overloaded` requests were refused, `retryable` of them to be retried.

    `failures` counts the operations that reached the application as errors, by command and by the error's
    code, or by `LOST` or `NO_REPLY`. `awaiting` are the `getMore`s that wait for data.
    """

    commands: dict[str, CommandTotals] = field(default_factory=dict)
    awaiting: CommandTotals = field(default_factory=CommandTotals)
    failures: Counter[tuple[str, int | str]] = field(default_factory=Counter)
    requests: int = 0
    overloaded: int = 0
    retryable: int = 0
    _sessions: dict[Hashable, _Operation] = field(default_factory=dict)
    """The newest operation of each session, while it may be sent again."""
    _waiting: dict[tuple[Hashable, int], tuple[Hashable, _Operation]] = field(default_factory=dict)
    """The attempts without a reply, by connection and request id."""
    _cursors: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """The cursors that await data, the newest of them."""

    def asked(self, connection: Hashable, request_id: int, command: Mapping[str, Any], at: float) -> None:
        """Take a request that came on a connection at an instant."""
        name = next(iter(command), "")
        if not name or name in BESIDES:
            return
        self.requests += 1
        lsid = command.get("lsid")
        key = bytes(lsid["id"]) if isinstance(lsid, dict) and "id" in lsid else connection
        before = self._sessions.get(key)
        if before is not None and before.failed_at is not None:
            # The same command once more is another attempt.
            fields = (before.command.keys() | command.keys()) - _VOLATILE
            if all(before.command.get(each) == command.get(each) for each in fields):
                before.attempts += 1
                before.failed_at = None
                self._waiting[connection, request_id] = (key, before)
                return
            self._failed(before)
        operation = self._sessions[key] = _Operation(command, at)
        self._waiting[connection, request_id] = (key, operation)
        if (command.get("writeConcern") or {}).get("w") == 0:  # there is no reply
            del self._waiting[connection, request_id]
            self._succeeded(key, operation, at)

    def answered(self, connection: Hashable, response_to: int, reply: Mapping[str, Any], at: float) -> None:
        """Take the reply to a request."""
        found = self._waiting.pop((connection, response_to), None)
        if found is None:
            return
        key, operation = found
        labels = frozenset(reply.get("errorLabels") or ())
        code = 0 if reply.get("ok") else int(reply.get("code", -1))
        operation.is_overload = Label.SYSTEM_OVERLOADED in labels or code in Category.SYSTEM_OVERLOADED.value
        self.overloaded += operation.is_overload
        self.retryable += operation.is_overload and Label.RETRYABLE in labels
        error = code or _error_of_write(reply)
        if not error:
            self._heed_cursor(operation.command, reply)
            self._succeeded(key, operation, at)
            return
        operation.failed_at, operation.error = at, error
        concern = (reply.get("writeConcernError") or {}).get("code", 0)
        if not _is_retried(operation.command, code or concern, labels):
            self._failed(operation)
            self._drop(key, operation)

    def lost(
        self, connection: Hashable, at: float, *, request_id: int | None = None, error: str = LOST
    ) -> None:
        """Take the end of a connection, or of one request on it: what waits for a reply there gets none."""
        for waiting in [each for each in self._waiting if each[0] == connection]:
            if request_id in {None, waiting[1]}:
                _, operation = self._waiting.pop(waiting)
                operation.failed_at, operation.error, operation.is_overload = at, error, False

    def finish(self) -> None:
        """Count what failed last as errors: nobody sends it again. What has no reply is left out."""
        for operation in list(self._sessions.values()):
            if operation.failed_at is not None:
                self._failed(operation)
        self._sessions.clear()

    @property
    def total(self) -> CommandTotals:
        """All commands together."""
        total = CommandTotals()
        for each in self.commands.values():
            total.add(each)
        return total

    def rows(self) -> list[tuple[str, ...]]:
        """Return a table: headings, a row for each command and one for all; empty without an operation."""
        if not self.commands:
            return []
        named = [*sorted(self.commands.items()), ("all", self.total)]
        return [_HEADINGS, *((name, *each.cells()) for name, each in named)]

    def to_document(self) -> dict[str, Any]:
        """Return the operations, those that failed by command and error, and those that await data."""
        failed = [
            {
                "command": command,
                "code": error if isinstance(error, int) else None,
                "error": code_name(error) if isinstance(error, int) else error,
                "count": count,
            }
            for (command, error), count in self.failures.most_common()
        ]
        return {
            "operations": self.total.operations,
            "errors": self.total.errors,
            "failed": failed,
            "awaiting": {"operations": self.awaiting.operations, "errors": self.awaiting.errors},
        }

    def _heed_cursor(self, command: Mapping[str, Any], reply: Mapping[str, Any]) -> None:
        """Keep the cursors that await data."""
        cursor = reply.get("cursor")
        number = cursor.get("id", 0) if isinstance(cursor, dict) else 0
        pipeline = command.get("pipeline")
        first = pipeline[0] if isinstance(pipeline, list) and pipeline else None
        is_change_stream = isinstance(first, dict) and "$changeStream" in first
        if number and (is_change_stream or command.get("awaitData")):
            self._cursors[number] = None
            if len(self._cursors) > _MOST_CURSORS:
                self._cursors.popitem(last=False)

    def _succeeded(self, key: Hashable, operation: _Operation, now: float) -> None:
        totals = self._count(operation, now)
        totals.succeeded += 1
        self._drop(key, operation)

    def _failed(self, operation: _Operation) -> None:
        assert operation.failed_at is not None
        totals = self._count(operation, operation.failed_at)
        totals.errors += 1
        totals.overload_errors += operation.is_overload
        if totals is not self.awaiting:
            self.failures[operation.name, operation.error] += 1

    def _count(self, operation: _Operation, now: float) -> CommandTotals:
        if operation.name == "getMore" and operation.command["getMore"] in self._cursors:
            totals = self.awaiting
        else:
            totals = self.commands.setdefault(operation.name, CommandTotals())
        totals.operations += 1
        totals.attempts += operation.attempts
        totals.longest_wait = max(totals.longest_wait, now - operation.began)
        return totals

    def _drop(self, key: Hashable, operation: _Operation) -> None:
        if self._sessions.get(key) is operation:
            del self._sessions[key]


_HEADINGS: Final = ("command", "operations", "errors", "attempts per success", "longest wait")


def _error_of_write(reply: Mapping[str, Any]) -> int:
    """Return the code of the first write error of a reply, else of its write concern error; 0 for none."""
    for each in reply.get("writeErrors") or ():
        return int(each.get("code", -1))
    return int((reply.get("writeConcernError") or {}).get("code", 0))


def _is_retried(command: Mapping[str, Any], code: int, labels: frozenset[str]) -> bool:
    """Return whether a driver may send a command again after this error (retryable reads and writes)."""
    if Label.RETRYABLE_WRITE in labels or {Label.SYSTEM_OVERLOADED, Label.RETRYABLE} <= labels:
        return True
    is_write = "txnNumber" in command
    return not is_write and not labels and code in Category.RETRIABLE.value


# The operations in a journal.

_SENT: Final = "ok"
_SILENCE: Final = "silence"


def operations_in(journal: Journal, *, most: int) -> OperationTotals:
    """Return the operations that the newest requests of a journal are attempts of, `most` requests at most.

    Of a request whose document is kept no more there are the facts of its record alone. A reply that a fault
    of bytes broke did not arrive, whatever the server made of its request.
    """
    totals = OperationTotals()
    newest = list(islice(journal.select(kinds={_FINISHED}, newest_first=True), most))[::-1]
    broken = _broken(journal, newest)
    for record in newest:
        event = record.event
        assert isinstance(event, CommandFinished)
        if event.name in BESIDES:
            continue
        connection, number = (record.source, event.connection), event.request_id
        arrived = record.at if record.details is None else record.details.arrived
        totals.asked(connection, number, _request_of(record, event), arrived)
        if record.seq in broken:
            totals.lost(connection, record.at, request_id=number)
        elif isinstance(event.outcome, str) and event.outcome != _SENT:
            error = NO_REPLY if event.outcome == _SILENCE else LOST
            totals.lost(connection, record.at, request_id=number, error=error)
        else:
            totals.answered(connection, number, _reply_of(record, event), record.at)
    totals.finish()
    return totals


_FINISHED: Final = KIND_OF[CommandFinished.__name__]
_FAULT: Final = KIND_OF[FaultHit.__name__]
_HARMLESS: Final = frozenset({"delay", "jitter", "bandwidth", "split", "duplicate"})
"""The effects of faults of bytes after which a reply arrives all the same."""


def _broken(journal: Journal, requests: Sequence[Record]) -> set[int]:
    """Return the numbers of requests whose replies a fault of bytes broke: the last of their connections."""
    hit = set()
    for record in journal.select(kinds={_FAULT}):
        event = record.event
        if isinstance(event, FaultHit) and not _HARMLESS.issuperset(event.effect.split("+")):
            hit.add((record.source, event.connection))
    last = {}
    for record in requests:
        assert isinstance(record.event, CommandFinished)
        last[record.source, record.event.connection] = record.seq
    return {last[connection] for connection in hit if connection in last}


def _request_of(record: Record, event: CommandFinished) -> Mapping[str, Any]:
    command = None if record.exchange is None else record.exchange.request
    if command is not None:
        return command
    found: dict[str, Any] = {event.name: 1} if event.name else {}
    found |= {} if event.lsid is None else {"lsid": {"id": event.lsid}}
    return found if event.txn_number is None else {**found, "txnNumber": event.txn_number}


def _reply_of(record: Record, event: CommandFinished) -> Mapping[str, Any]:
    answer = None if record.exchange is None else record.exchange.answer
    if answer is not None:
        return answer
    if isinstance(event.outcome, int):
        return {"ok": 0, "code": event.outcome}
    found: dict[str, Any] = {"ok": 1}
    found |= {} if event.write_error is None else {"writeErrors": [{"code": event.write_error}]}
    concern = event.write_concern_error
    return found if concern is None else {**found, "writeConcernError": {"code": concern}}


# The operations of clients, with their attempts, as a journal shows them.
#
# A server sees requests and no operations; `fakeserver.rules.rule` says which requests are attempts of one.
# A read that an application repeats by itself after an error looks the same, and counts as another attempt.


class Attempt(NamedTuple):
    """One request of an operation; `arrived` and `ended` are instants, `outcome` is `CommandFinished`'s."""

    seq: int
    node: str
    connection: int
    arrived: float
    ended: float
    outcome: str | int


@dataclass(slots=True)
class ClientOperation:
    """An operation of a client, with its attempts in order."""

    command: str
    namespace: str | None
    app_name: str | None
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def gaps(self) -> list[float]:
        """The seconds from the end of each attempt to the arrival of the next."""
        return [round(later.arrived - earlier.ended, 6) for earlier, later in pairwise(self.attempts)]

    def to_document(self, began: float) -> dict[str, Any]:
        """Return it as a document; instants are seconds since `began`."""
        gaps = [None, *self.gaps]
        return {
            "command": self.command,
            "namespace": self.namespace,
            "appName": self.app_name,
            "outcome": self.attempts[-1].outcome,
            "gaps": self.gaps,
            "attempts": [
                {
                    "seq": each.seq,
                    "at": round(each.arrived - began, 6),
                    "node": each.node,
                    "connection": each.connection,
                    "outcome": each.outcome,
                    "gap": gap,
                }
                for each, gap in zip(self.attempts, gaps, strict=True)
            ],
        }


def operations_of(records: Iterable[Record]) -> list[ClientOperation]:
    """Return the operations that requests are attempts of, in the order of their first attempts.

    Left out are drivers' own commands, and requests whose documents are not kept.
    """
    attempts = Attempts()
    found: dict[int, ClientOperation] = {}
    for record in records:
        event = record.event
        command = None if record.exchange is None else record.exchange.request
        if command is None or not isinstance(event, CommandFinished):
            continue
        name = next(iter(command), "")
        if name in BACKGROUND:
            continue
        document = record.to_document()
        session = document.get("lsid", (record.source, event.connection))
        counted = attempts.of(name, command, session=session, txn_number=command.get("txnNumber"))
        operation = found.setdefault(
            counted.number, ClientOperation(name, document.get("namespace"), document.get("appName"))
        )
        arrived = record.at if record.details is None else record.details.arrived
        operation.attempts.append(
            Attempt(record.seq, record.source, event.connection, arrived, record.at, event.outcome)
        )
        if not _failed(event):
            attempts.succeeded(counted)
    return list(found.values())


def retried(records: Sequence[Record]) -> Sequence[Record]:
    """Return the requests that may be attempts of operations with several, without decoding any.

    Left out are the commands of a session that all succeeded and have no number.
    """
    groups: dict[Any, list[CommandFinished]] = {}
    for record in records:
        groups.setdefault(_group(record), []).append(_finished(record))
    if any(not event.name for group in groups.values() for event in group):
        return records  # what was not read may belong to any of them
    again = {
        key
        for key, group in groups.items()
        if len(group) > 1 and any(_failed(event) or event.txn_number is not None for event in group)
    }
    return [record for record in records if _group(record) in again]


def _group(record: Record) -> Any:
    event = _finished(record)
    return event.lsid or (record.source, event.connection), event.name


def _finished(record: Record) -> CommandFinished:
    assert isinstance(record.event, CommandFinished)
    return record.event


def _failed(event: CommandFinished) -> bool:
    return event.outcome != "ok" or event.write_concern_error is not None
