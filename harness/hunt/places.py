"""Places: a stable name for each request of an application.

    shop: shop.orders insert {_id, customer} [2 of a transaction] #3

The name has the application, the collection, the command, the shape of its statement, its position in its
transaction, and its number among the requests of that name; the route too (`of POST /orders`), if its comment
says one. It holds no id and no value, so it survives another order and other ids. Further attempts of an
operation are the same request, and are not counted.

`Namer` gives the names, to the recording and to the trials alike: a fault is where the recording says. What a
request says in every clean run has the number that it has there, whichever thread is faster today.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fakeserver.rules.rule import Attempts, OperationAttempt
from harness.hunt.documents import said_by
from harness.hunt.shapes import handler_of, ids_of, namespace_of, shape_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

BESIDES: Final = frozenset(
    {
        *("hello", "isMaster", "ismaster", "saslStart", "saslContinue", "authenticate", "getnonce"),
        *("endSessions", "killCursors", "buildInfo", "buildinfo", "configureFailPoint", "pushbackd", "ping"),
        *("refreshSessions", "getParameter", "logout", "getLastError", "whatsmyuri", "connectionStatus"),
    }
)
"""Commands that drivers and tools send on their own: they are no places."""

_READS: Final = frozenset(
    {"find", "aggregate", "count", "distinct", "listCollections", "listDatabases", "listIndexes"}
)
_WRITES: Final = frozenset({"insert", "update", "delete", "findAndModify", "findandmodify", "bulkWrite"})
ENDS: Final = frozenset({"commitTransaction", "abortTransaction"})
_WRITTEN: Final = re.compile(r"(?:(?P<app>[^:{]*): )?(?P<shape>.+) #(?P<number>[1-9]\d*)")
_BATCHES: Final = "getMore of "


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """The name of a request."""

    app: str
    shape: str
    """Its collection, command and statement, and its position in a transaction."""
    number: int
    """Its number among the requests of that name, from 1."""

    def __str__(self) -> str:
        return f"{self.app}: {self.shape} #{self.number}" if self.app else f"{self.shape} #{self.number}"

    @property
    def kind(self) -> tuple[str, str]:
        """The name without the number: what places of one shape share."""
        return self.app, self.shape

    @classmethod
    def parse(cls, text: str) -> Place:
        """Return the place that a text names. Raises `ValueError`."""
        found = _WRITTEN.fullmatch(text.strip())
        if found is None:
            raise ValueError(
                f"{text!r} is no place; write it as a hunt prints it: application: collection command #1"
            )
        return cls(found["app"] or "", found["shape"], int(found["number"]))


@dataclass(slots=True)
class Request:
    """A request of an application, and what became of it."""

    place: Place
    command: Mapping[str, Any]
    connection: int
    at: float
    """Seconds of the deployment's clock."""
    operation: int
    attempt: int
    role: str = ""
    """The role of its server at that moment."""
    knows_backpressure: bool = False
    """The driver has said in its handshake that it retries after overload."""
    streams: bool = False
    """It opens or continues a change stream."""
    struck: str = ""
    """The name of the fault that it met."""
    reply: Mapping[str, Any] | None = None
    replied_at: float | None = None
    said: tuple[str, int] = ("", 0)
    """Its words up to ids and times, and how many requests of its name have said them so far."""

    @property
    def name(self) -> str:
        """The command's name."""
        return next(iter(self.command), "")

    @property
    def namespace(self) -> str:
        """The collection that it is about."""
        return namespace_of(self.command)

    @property
    def session(self) -> bytes | None:
        """The id of its session, None without one; another one in every run."""
        return _session(self.command)

    @property
    def documents(self) -> frozenset[tuple[str, str]]:
        """The documents that it names by their `_id`, each with its collection."""
        return frozenset((self.namespace, repr(each)) for each in ids_of(self.command))

    @property
    def in_transaction(self) -> bool:
        """Whether it is a statement of a transaction; commit and abort are none."""
        return "autocommit" in self.command and self.name not in ENDS

    @property
    def may_read_secondaries(self) -> bool:
        """Whether it was read from a secondary, or would be if there were no primary."""
        mode = (self.command.get("$readPreference") or {}).get("mode", "primary")
        return self.role == "secondary" or mode != "primary"

    @property
    def is_write(self) -> bool:
        """Whether it writes documents."""
        return self.name in _WRITES or (self.name == "aggregate" and _puts_out(self.command))

    @property
    def is_retried(self) -> bool:
        """Whether a driver sends it again by itself (retryable reads and writes, commit and abort)."""
        if self.name in ENDS:
            return True
        if self.in_transaction:
            return False
        if self.name == "getMore":
            return self.streams
        if self.name in _WRITES:
            return "txnNumber" in self.command
        return self.name in _READS and not _puts_out(self.command)

    @property
    def is_ok(self) -> bool:
        """Whether it was answered without any error."""
        reply = self.reply
        return (
            reply is not None
            and bool(reply.get("ok"))
            and not reply.get("writeErrors")
            and not reply.get("writeConcernError")
        )


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers that requests of several threads have in clean runs, by what they say."""

    known: Mapping[tuple[tuple[str, str], tuple[str, int]], int] = field(default_factory=dict)
    """By the name and what is said there."""

    @classmethod
    def of(cls, runs: Sequence[Sequence[Request]]) -> Numbers:
        """Return the numbers of the first run, for what is said as often in all of them."""
        first, *others = ([(each.place.kind, each.said) for each in run if each.attempt == 1] for run in runs)
        said = [Counter((kind, words) for kind, (words, _) in run) for run in (first, *others)]
        numbers = {(each.place.kind, each.said): each.place.number for each in runs[0] if each.attempt == 1}
        return cls(
            {
                (kind, (words, turn)): number
                for (kind, (words, turn)), number in numbers.items()
                if all(run[kind, words] == said[0][kind, words] for run in said)
            }
        )

    def taken(self) -> frozenset[tuple[tuple[str, str], int]]:
        """Return the names and numbers that belong to what is said."""
        return frozenset((kind, number) for (kind, _), number in self.known.items())


@dataclass(slots=True)
class _Client:
    """Facts that a connection has told of its application."""

    app: str = ""
    knows_backpressure: bool = False


@dataclass(slots=True)
class Namer:
    """Names the requests of one run, in the order in which they come."""

    numbers: Numbers = field(default_factory=Numbers)
    _clients: dict[int, _Client] = field(default_factory=dict)
    _attempts: Attempts = field(default_factory=Attempts)
    _operations: dict[int, tuple[Place, tuple[str, int]]] = field(default_factory=dict)
    """The place of each operation, and what it said there."""
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _said: Counter[tuple[tuple[str, str], str]] = field(default_factory=Counter)
    _taken: frozenset[tuple[tuple[str, str], int]] = frozenset()
    """Numbers that are kept for what says the same as in clean runs."""
    _statements: Counter[Hashable] = field(default_factory=Counter)
    """The statements of each transaction so far."""
    _begun_by: dict[Hashable, str] = field(default_factory=dict)
    """The shape of the first statement of each transaction."""
    _cursors: dict[int, tuple[str, bool]] = field(default_factory=dict)
    """The shape that opened each cursor, and whether it is a change stream."""
    _waiting: dict[tuple[int, int], Request] = field(default_factory=dict)

    def anew(self, numbers: Numbers) -> Namer:
        """Return a namer that counts from the beginning, and knows the clients that are connected."""
        return Namer(numbers, self._clients, _cursors=dict(self._cursors))

    def __post_init__(self) -> None:
        self._taken = self.numbers.taken()

    def asked(
        self, connection: int, request_id: int, command: Mapping[str, Any], at: float, role: str
    ) -> Request | None:
        """Return the request that has come; None for what a driver sends on its own."""
        name = next(iter(command), "")
        if name in {"hello", "isMaster", "ismaster"}:
            client = self._clients.setdefault(connection, _Client())
            about = command.get("client")
            if isinstance(about, dict):
                client.app = str((about.get("application") or {}).get("name", ""))
            client.knows_backpressure |= bool(command.get("backpressure"))
        if not name or name in BESIDES:
            return None
        client = self._clients.setdefault(connection, _Client())
        attempt = self._attempts.of(
            name, command, session=_session(command) or connection, txn_number=command.get("txnNumber")
        )
        if attempt.number not in self._operations:
            self._operations[attempt.number] = self._place(client.app, command)
        place, said = self._operations[attempt.number]
        request = Request(place, command, connection, at, attempt.number, attempt.attempt, role, said=said)
        request.knows_backpressure = client.knows_backpressure
        pipeline = command.get("pipeline")
        request.streams = bool(isinstance(pipeline, list) and pipeline and "$changeStream" in pipeline[0])
        if name == "getMore":
            request.streams = self._cursors.get(int(command["getMore"]), ("", False))[1]
        self._waiting[connection, request_id] = request
        return request

    def answered(self, connection: int, response_to: int, reply: Mapping[str, Any], at: float) -> None:
        """Take the reply to a request."""
        request = self._waiting.pop((connection, response_to), None)
        if request is None:
            return
        request.reply, request.replied_at = reply, at
        cursor = reply.get("cursor")
        if isinstance(cursor, dict) and cursor.get("id") and request.name != "getMore":
            self._cursors[int(cursor["id"])] = (request.place.shape, request.streams)
        if request.is_ok:
            self._attempts.succeeded(OperationAttempt(request.operation, request.attempt))

    def _place(self, app: str, command: Mapping[str, Any]) -> tuple[Place, tuple[str, int]]:
        kind = (app, self._shape(command))
        words = said_by(command)
        self._said[kind, words] += 1
        said = (words, self._said[kind, words])
        number = self.numbers.known.get((kind, said))
        if number is None:
            # The next one that belongs to nothing that is known.
            self._counts[kind] += 1
            while (kind, self._counts[kind]) in self._taken:
                self._counts[kind] += 1
            number = self._counts[kind]
        return Place(*kind, number), said

    def _shape(self, command: Mapping[str, Any]) -> str:
        name = next(iter(command))
        key = (_session(command) or 0, command.get("txnNumber"))
        if name in ENDS:
            return f"{name} of {self._begun_by.get(key, 'nothing')}"
        if name == "getMore":
            opened = self._cursors.get(int(command[name]))
            return f"{_BATCHES}{opened[0] if opened else namespace_of(command)}"
        statement = shape_of(command)
        shape = f"{namespace_of(command)} {name} {statement}".rstrip()
        if handler := handler_of(command):
            shape += f" of {handler}"
        if "autocommit" in command:
            self._statements[key] += 1
            self._begun_by.setdefault(key, shape)
            shape += f" [{self._statements[key]} of a transaction]"
        return shape


def _session(command: Mapping[str, Any]) -> bytes | None:
    lsid = command.get("lsid")
    return bytes(lsid["id"]) if isinstance(lsid, dict) and "id" in lsid else None


def _puts_out(command: Mapping[str, Any]) -> bool:
    pipeline = command.get("pipeline")
    last = pipeline[-1] if isinstance(pipeline, list) and pipeline else {}
    return "$out" in last or "$merge" in last
