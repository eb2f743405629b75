"""A rule: conditions, effects, and how often and how long it holds."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mongowire.documents.occurrence import Occurrence

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from fakeserver.errors import CommandError


@dataclass(frozen=True, slots=True)
class Asked:
    """The facts of a request that conditions compare."""

    command: str
    """The command's canonical name."""
    db: str
    namespaces: tuple[str, ...]
    """The collections that it is about, `db.collection` each; a `bulkWrite` may have several."""
    app_name: str
    node: str
    """The server's name."""
    address: str
    role: str
    """The server's role when the request came: `primary`, `secondary`, `arbiter`, `mongos` …"""
    connection: int
    """The `connectionId` of the connection, which counts by server."""
    document: Mapping[str, Any]
    """The command."""
    operation: OperationAttempt

    @property
    def namespace(self) -> str:
        """Its collection, or its database where it is about none."""
        return self.namespaces[0] if self.namespaces else self.db

    def __str__(self) -> str:
        return f"{self.command} on {', '.join(self.namespaces) or self.db}"


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer with an error. `labels` replace the computed ones; None leaves those."""

    error: CommandError
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class RuleReply:
    """Answer with a document."""

    document: Mapping[str, Any]


class Ending(Enum):
    """The answers that need no more words; the value is the effect's name."""

    CLOSE = "close"
    """Close the connection."""
    SILENCE = "silence"
    """Give no answer."""
    PASS = "pass"  # noqa: S105 - no password
    """Let the request pass."""
    HOLD = "hold"
    """Hold it until a test says what becomes of it."""


Answer: TypeAlias = Fail | RuleReply | Ending


@dataclass(frozen=True, slots=True)
class Effects:
    """What one match of a rule does."""

    delay: float = 0.0
    """Seconds."""
    answer: Answer | None = None
    labels: tuple[str, ...] = ()
    """Labels that are added to the reply."""
    write_concern_error: Mapping[str, Any] | None = None
    replacing_labels: tuple[str, ...] | None = None
    """The labels of the reply with that write concern error, in place of the computed ones."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the reply, beside those of the server or in their place."""
    name: str = ""
    """The effects in words, for the journal: `delay+error`."""

    @property
    def is_nothing(self) -> bool:
        """Whether it does nothing."""
        return not self.name


CONNECTING: Final = frozenset({"hello", "isMaster", "saslStart", "saslContinue", "authenticate", "getnonce"})
"""The commands by which drivers connect and monitor. A rule covers them only by name: one that fails every
command would cut the application off instead."""

CONTROLLING: Final = frozenset({"pushbackd", "configureFailPoint"})
"""The commands that end faults. No rule covers them, or it could not be removed."""

_APART: Final = CONNECTING | CONTROLLING


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a rule; None for one that it does not state."""

    commands: frozenset[str] | None = None
    namespace: str | None = None
    """`db.collection`, or `db.*`."""
    app_name: str | None = None
    node: str | None = None
    """A name, an address or a role."""
    connection: int | None = None
    attempt: int | None = None
    meets_document: Callable[[Any], bool] | None = None
    document: Any = None
    """The filter of `meets_document`, for texts."""

    def met_by(self, asked: Asked) -> bool:
        """Return whether a request meets the conditions.

        Raises what the filter on the document raises.
        """
        commands = self.commands
        if asked.command in _APART if commands is None else asked.command not in commands:
            return False
        return next(self._differences(asked), None) is None

    def differences(self, asked: Asked) -> list[str]:
        """Return how a request differs from the conditions, a text for each; none if it meets them."""
        found = list(self._differences(asked))
        if self.commands is not None and asked.command not in self.commands:
            found.insert(0, f"command is {asked.command}, expected {' or '.join(sorted(self.commands))}")
        return found

    def _differences(self, asked: Asked) -> Iterator[str]:
        if self.namespace is not None and not _covers(self.namespace, asked):
            yield f"namespace is {', '.join(asked.namespaces) or asked.db}, expected {self.namespace}"
        if self.app_name is not None and asked.app_name != self.app_name:
            yield f"appName is {asked.app_name!r}, expected {self.app_name!r}"
        if self.node is not None and self.node not in {asked.node, asked.address, asked.role}:
            yield f"node is {asked.node} ({asked.role}), expected {self.node}"
        if self.connection is not None and asked.connection != self.connection:
            yield f"connection is {asked.connection}, expected {self.connection}"
        if self.attempt is not None and asked.operation.attempt != self.attempt:
            yield f"attempt is {asked.operation.attempt}, expected {self.attempt}"
        if self.meets_document is not None and not self.meets_document(asked.document):
            yield f"the command does not meet the filter {self.document!r}"


def _covers(namespace: str, asked: Asked) -> bool:
    if not namespace.endswith(".*"):
        return namespace in asked.namespaces
    db = namespace[:-2]
    return any(each.startswith(f"{db}.") for each in asked.namespaces) or (
        not asked.namespaces and asked.db == db
    )


PER: Final = ("operation", "connection", "application", "rule")
"""What a sequence counts by."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Effects of which each match takes the next; `per` says what has a count of its own."""

    steps: tuple[Effects, ...]
    per: str = "rule"

    def key(self, asked: Asked) -> Hashable:
        """Return what a request is counted by."""
        if self.per == "operation":
            return asked.operation.number
        if self.per == "connection":
            return asked.node, asked.connection
        return asked.app_name if self.per == "application" else None


@dataclass(frozen=True, slots=True)
class Expectation:
    """The number of matches that a rule expects; `most` is None for no upper bound."""

    least: int
    most: int | None

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {times(self.least)}"
        if self.least == self.most:
            return times(self.least)
        return f"{self.least} to {times(self.most)}" if self.least else f"at most {times(self.most)}"

    def met_by(self, count: int) -> bool:
        """Return whether so many matches are as expected."""
        return count >= self.least and (self.most is None or count <= self.most)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, as it was added."""

    when: Conditions
    then: Effects = field(default_factory=Effects)
    sequence: Sequence | None = None
    name: str | None = None
    occurrence: Occurrence = field(default_factory=Occurrence)
    expect: Expectation | None = None
    document: Mapping[str, Any] = field(default_factory=dict)
    """The document that it was made of."""

    @property
    def only_watches(self) -> bool:
        """Whether it has no effect: such a rule sees requests that another one answers."""
        return self.sequence is None and self.then.is_nothing


def times(count: int) -> str:
    """Return a count of times in words."""
    return "once" if count == 1 else f"{count} times"


# The operation that a request belongs to, and the number of its attempt.
#
# A server is not told which requests are attempts of one operation. It concludes it:
#
# * With a transaction number, outside of a transaction, and for commit and abort: the requests of one session
#   with the same number and command are attempts of one operation.
# * Otherwise a request is a further attempt if the last request of its session was the same command, but for
#   the fields that a driver writes anew (cluster time, read concern, read preference, `maxTimeMS`), and did
#   not succeed. The same read after a success is another operation. For a command without a session, its
#   connection stands for the session.
#
# Attempts that admission control or a fail point ended are not seen here, and do not count.


MOST: Final = 10_000
"""The operations that are remembered; beyond that the oldest are forgotten."""

_ENDS: Final = frozenset({"commitTransaction", "abortTransaction"})
_WRITTEN_ANEW: Final = frozenset(
    {"$clusterTime", "$configTime", "$readPreference", "$topologyTime", "maxTimeMS", "readConcern", "lsid"}
)


@dataclass(frozen=True, slots=True)
class OperationAttempt:
    """One attempt of an operation: `number` tells the operation from others, `attempt` counts from 1."""

    number: int
    attempt: int


@dataclass(slots=True)
class _Known:
    number: int
    attempt: int
    command: Mapping[str, Any] | None
    """The command of an operation without a transaction number, which it is known by."""


class Attempts:
    """Counts the attempts of operations."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()
        self._keys: dict[int, Hashable] = {}
        """The keys of operations that are known by their command, which success ends."""
        self._count = 0

    def of(
        self, name: str, document: Mapping[str, Any], *, session: Hashable, txn_number: int | None
    ) -> OperationAttempt:
        """Return the operation of a request, and count the attempt.

        `session` is the session's id, or what stands for it.
        """
        in_transaction = txn_number is not None and "autocommit" in document and name not in _ENDS
        if txn_number is not None and not in_transaction:
            return self._next((session, txn_number, name), None)
        return self._next(
            session, {key: value for key, value in document.items() if key not in _WRITTEN_ANEW}
        )

    def _next(self, key: Hashable, command: Mapping[str, Any] | None) -> OperationAttempt:
        known = self._known.get(key)
        if known is None or known.command != command:
            self._count += 1
            if known is not None:
                self._keys.pop(known.number, None)
            known = self._known[key] = _Known(self._count, 0, command)
            if command is not None:
                self._keys[known.number] = key
        self._known.move_to_end(key)
        known.attempt += 1
        if len(self._known) > MOST:
            _, oldest = self._known.popitem(last=False)
            self._keys.pop(oldest.number, None)
        return OperationAttempt(known.number, known.attempt)

    def succeeded(self, operation: OperationAttempt) -> None:
        """Take note that an attempt succeeded: the same command is another operation from now on."""
        key = self._keys.pop(operation.number, None)
        if key is not None:
            del self._known[key]
