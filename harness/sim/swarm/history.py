"""The history of a schedule: operations, records of clients and servers, the ending; rules about it. Values.

Workloads write a history and checkers decide about it. Neither knows the other; what they agree on is this:

**Keys.** A key is `collection:number`. Its document has that number as `_id`, and its value in the member's
documents of the `FinalState` depends on the collection alone:

| key           | value at the end                    | kinds of operations                             |
|---------------|-------------------------------------|-------------------------------------------------|
| `document:17` | 1 for each document with this `_id` | `insert`: `_id` is its number; `delete`          |
| `list:3`      | numbers of operations, oldest first | `push`, `batch`: `$push` of it; `read_list`, `scan` |
| `counter:3`   | a number                            | `increment` by `argument`                       |
| `register:3`  | the number of an operation, or None | `write` sets its number, `swap` too; `read`     |
| `account:3`   | a balance                           | `transfer`: `argument` is (from, to, amount)    |

Lists, counters, registers and accounts exist before the first operation: empty, 0, None and
`INITIAL_BALANCE`. A `swap` returns the number that it replaced. An operation has one of these kinds; its
number is unique within the history, and its writes carry it. A `delete` follows the insert of its key in the
same task, whatever came of that.

**Transactions.** `mark` pushes its number to the lists in `argument` (a tuple of keys) within one
transaction. `transfer` moves units between two accounts, and pushes its number to the list in `key` within
the same transaction, so that one can tell whether it took place. `read_accounts` is a transaction with read
concern `snapshot`; its result maps every account to its balance. Each of the three is one operation, however
often `with_transaction` runs it.

**Scans.** `scan` is an ordinary read of all lists, whose cursor has several batches. Its result is a tuple of
pairs, each of a key and what `read_list` returns of it, in the order in which they came; its own key is that
of a list.

**Batches.** `batch` is a bulk write of several models: it pushes its number to the lists in `argument`, and
inserts the document among them. Each of its writes stands for itself.

**Sessions.** Operations that name the same session run one after the other. `causal` operations are promised
what causally consistent sessions are promised. `read_list` and `read` may go to any member.

**Events.** Every write of a list, a counter or a register also sets the field `last` of its document to its
number, so that change streams tell whose it is. `FinalState.log` is the order of all writes, oldest first.
Deletions of documents have the number `DELETION` in both, as nothing in them tells whose they are. The log is
that of the last primary. What others wrote and rolled back is in `FinalState.rolled_back`;
`FinalState.majority` is how far the majority had come, on replica sets.

**Requests.** Each command carries `comment_of` its operation as its `comment`, the commands of a transaction
with the number of their step. Commits and aborts, which have no comment, belong to the operation of their
session's transaction. All instants are in seconds of the one clock on which clients and servers run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from driver.events import DriverEvent
    from harness.unified.server_side.seen import SeenRequest

INITIAL_BALANCE: Final = 100
"""Units on each account before the first operation."""

DELETION: Final = -1
"""Stands for the number of an operation where a document was deleted; a document is deleted once."""

Kind: TypeAlias = Literal[
    "insert",
    "delete",
    "push",
    "read_list",
    "increment",
    "write",
    "swap",
    "read",
    "mark",
    "transfer",
    "read_accounts",
    "batch",
    "scan",
]
READS: Final = frozenset({"read_list", "read", "read_accounts", "scan"})
TRANSACTIONS: Final = frozenset({"mark", "transfer", "read_accounts"})


def comment_of(number: int, step: int | None = None) -> int | dict[str, int]:
    """Return the comment of a command of an operation; those of a transaction have a step each."""
    return number if step is None else {"operation": number, "step": step}


def number_of(comment: Any) -> int | None:
    """Return the number of the operation of a command with this comment, None for another's command."""
    number = comment.get("operation") if isinstance(comment, dict) else comment
    return number if isinstance(number, int) else None


Outcome: TypeAlias = Literal["ok", "failed", "unknown"]
"""Whether the caller was told of success, of an error, or of nothing: `w: 0`, or cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOperation:
    """One call of a client, with what came of it.

    `invoked` and `completed` are instants, the latter infinite where the call never returned. `deadline` is
    the instant up to which `timeoutMS` allowed it, infinite without. `error` is one line, `labels` are those
    of the error; it is `attempted` unless it says that no command has reached a server. `read_preference` is
    a mode, `write_concern` the value of `w`; None is the default of both concerns.
    """

    number: int
    client: int
    kind: Kind
    key: str
    invoked: float
    completed: float = inf
    outcome: Outcome = "ok"
    argument: Any = None
    result: Any = None
    error: str | None = None
    labels: frozenset[str] = frozenset()
    attempted: bool = True
    session: int | None = None
    causal: bool = False
    read_concern: str | None = None
    write_concern: int | str | None = None
    read_preference: str = "primary"
    deadline: float = inf

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that it writes its number to, or that it reads."""
        return tuple(self.argument) if self.kind in ("mark", "batch") else (self.key,)

    @property
    def collection(self) -> str:
        """The collection of its key."""
        return self.key.partition(":")[0]

    @property
    def seen(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Each key that a read of lists or registers has returned, with the numbers of the writes in it."""
        if self.kind == "scan":
            return tuple(self.result)
        if self.kind == "read_list":
            return ((self.key, tuple(self.result)),)
        return () if self.result is None or self.kind != "read" else ((self.key, (self.result,)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSetup:
    """The options of a client. Sizes and times as in the URI, but in seconds."""

    number: int
    edition: str
    max_pool_size: int = 100
    max_connecting: int = 2
    retry_reads: bool = True
    retry_writes: bool = True
    max_adaptive_retries: int | None = None
    app_name: str | None = None


class Heard(NamedTuple):
    """An event of a client's driver; `operation` is the number of the call in whose task it was told."""

    at: float
    client: int
    event: DriverEvent
    operation: int | None = None


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """A change as a stream returned it: the number of the operation that wrote the key."""

    at: float
    operation: int
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedStream:
    """A change stream of a client on the database.

    It is promised all writes of operations that were invoked after `opened`, the instant when the call that
    opened it had returned. `drained` says that it was read until nothing more came after the last operation
    and the last fault; `error` is what ended it before, in one line.
    """

    number: int
    client: int
    opened: float
    events: tuple[StreamEvent, ...] = ()
    drained: bool = False
    error: str | None = None


Time: TypeAlias = "tuple[int, ...]"
"""The time of a write in the order of all, which can be compared."""


@dataclass(frozen=True, slots=True)
class Logged:
    """One write in the order of all writes: the operation, the key that it wrote, and the time of it."""

    operation: int
    key: str
    time: Time = ()


class MajorityReached(NamedTuple):
    """From an instant on, the majority had all writes up to a time."""

    at: float
    time: Time


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A rollback of a member: it had the first `kept` writes of the log, and `log` in place of the others."""

    kept: int
    log: tuple[Logged, ...]


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that should be gone at the end; `kind` is a word of `checkers.leftovers`."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFault:
    """A disturbance as it took place: `end` is infinite for one that nothing ended, equal for an instant."""

    kind: str
    start: float
    end: float
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The work of a server's rate limiter while its rate was the same: `kind` is "requests" or "connections".

    `rate` is in tokens a second. `admitted` counts those who wait for a token, too, as it is theirs; `credit`
    is how many may be taken before they have accrued.
    """

    kind: str
    server: str
    rate: float
    start: float
    end: float
    available_at_start: float
    available_at_end: float
    admitted: int
    credit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalState:
    """The facts after the last operation, with all faults ended and all members caught up.

    `documents` maps a member's name to the values by key. `leftovers` were looked for after the clients had
    been closed. `requests` are those of the workload that servers received, in order: a command needs its
    name, `comment`, `lsid`, `txnNumber` and `autocommit`, a reply `ok`, `code`, `errorLabels`,
    `writeConcernError` and `baseBackoffMS`. `tokens` are the levels of the clients' retry token buckets.
    `sessions` and `cursors` are those that servers still know: the ids of sessions that did not end, server
    and id of each open cursor. `lonely` are the clients that knew no server when they were closed, and could
    tell nobody. `rolled_back` is what members took back; `parted` says that there were two primaries once,
    one of an earlier term. `majority` is empty where nobody looked.
    """

    at: float
    documents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    log: tuple[Logged, ...] = ()
    rolled_back: tuple[RolledBack, ...] = ()
    parted: bool = False
    majority: tuple[MajorityReached, ...] = ()
    requests: tuple[SeenRequest, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    tokens: Mapping[int, float] = field(default_factory=dict)
    sessions: tuple[bytes, ...] = ()
    cursors: tuple[tuple[str, int], ...] = ()
    lonely: frozenset[int] = frozenset()

    @property
    def taken_back(self) -> frozenset[tuple[int, str]]:
        """The operation and the key of each write that a member rolled back."""
        return frozenset((each.operation, each.key) for one in self.rolled_back for each in one.log)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHistory:
    """All of one schedule.

    `operations` are in the order of their invocation. `calm_from` is the instant from which on nothing
    disturbs: the end of the last fault. `recovery` is the number of seconds after it within which the
    deployment has to serve again, by what the schedule drew (heartbeats, elections, timeouts). `latency` is
    the longest that a message travels while nothing disturbs, in seconds.
    """

    operations: tuple[WorkloadOperation, ...]
    ending: FinalState
    clients: tuple[ClientSetup, ...] = ()
    events: tuple[Heard, ...] = ()
    streams: tuple[WatchedStream, ...] = ()
    faults: tuple[PastFault, ...] = ()
    limits: tuple[Limit, ...] = ()
    calm_from: float = 0.0
    recovery: float = inf
    latency: float = 0.0


# --- rules about a history ---

Check: TypeAlias = "Callable[[RunHistory], Iterator[Violation]]"


@dataclass(frozen=True, slots=True)
class Violation:
    """One line on what contradicts a rule, and the numbers of the operations that it is about.

    `checker` is the name of the rule; `violations` fills it in.
    """

    text: str
    operations: tuple[int, ...] = ()
    checker: str = ""

    def __str__(self) -> str:
        return f"{self.checker}: {self.text}" if self.checker else self.text


@dataclass(frozen=True, slots=True)
class Checker:
    """A rule: its name, its sentence, and the function that decides about it."""

    name: str
    rule: str
    check: Check


def checker(name: str, rule: str) -> Callable[[Check], Checker]:
    """Return the decorator that makes a checker of the function that decides about a rule."""
    return lambda check: Checker(name, rule, check)
