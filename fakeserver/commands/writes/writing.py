"""Functions that the commands which write share: the statements of a batch, and the documents in them.

Retryable Writes, server side: a statement that was executed answers with its record and does nothing. A
server does not look whether the retry is the same statement; it answers by what the oplog says was done. So
the record is made with the entry in the oplog, not at the end of the statement, let alone of the command:
whatever fails behind the write, and however often the command is sent, it is written once. A command that
has to wait in the middle runs again from the start, so what its statements came to is kept with the command,
errors too, and none runs twice.

Before a document is inserted, a server puts a missing `_id` in front, moves another there, and sets empty
timestamps of the top level, but for `_id` itself, to the present time. What is refused there is an error of
one document, a write error, not of the command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, TypeVar

import bson
from bson import Binary, Int64, ObjectId, Regex, Timestamp

from fakeserver.errors import CommandError, WriteError
from fakeserver.profile import WIRE_50
from fakeserver.storage.port.engine import Namespace
from fakeserver.storage.values.limits import MAX_USER_BYTES
from fakeserver.storage.values.stored import stored
from fakeserver.storage.values.types import MISSING, is_object, order, type_name
from fakeserver.waiting.interrupts import check_for_interrupt
from mongowire.codes import Category, ErrorCode, is_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from fakeserver.commands.context import CommandContext
    from fakeserver.sessions.transactions import Transaction
    from fakeserver.storage.port.engine import Accept, Changed, Document
    from fakeserver.storage.store.catalog import Collection
    from fakeserver.storage.values.stored import Stored

    Write: TypeAlias = Callable[[Accept], Document]
    Replay: TypeAlias = Callable[[Mapping[str, Any]], Document]


T = TypeVar("T")

MAX_BATCH = 100_000
_MAX_TEXT_BYTES = 1024 * 1024
_MIN_WHOLE = 2
_NOWHERE = Namespace("", "")
_UNUSUAL: Final = frozenset({"bypassDocumentValidation", "stmtId", "stmtIds", "bypassEmptyTsReplacement"})
"""The fields that change how a batch is run, besides `ordered`."""


def numbered(items: Sequence[T]) -> Iterable[tuple[int, T]]:
    """Return what iterates over items and their indexes, with a yield point between two."""
    return enumerate(items) if len(items) == 1 else _numbered(items)


def _numbered(items: Sequence[T]) -> Iterator[tuple[int, T]]:
    for index, item in enumerate(items):
        if index:
            check_for_interrupt()
        yield index, item


def _counted(_recorded: Mapping[str, Any]) -> Document:
    """Return the result of an insert or a delete that was executed before."""
    return {"n": 1}


class Batch:
    """The statements of one command: which ran, which failed, which had been executed before.

    Class attributes hold until the command says something else.
    """

    ordered: bool = True
    validated: bool = True
    first_id: int = 0
    ids: Sequence[int] | None = None
    """The statements' numbers, where the command gives them."""
    keep_times: bool = False
    """Empty timestamps are stored as they are."""
    image: str = ""
    """The image of a document that the command returns, `before` or `after`; recorded with the write."""
    _running: int = 0
    """The number of the statement that runs."""
    _ns: Namespace = _NOWHERE
    """The collection that it writes to."""

    def __init__(self, ctx: CommandContext) -> None:
        self.ctx = ctx
        self.errors: list[Document] = []
        self.retried: list[int] = []

    @classmethod
    def of(cls, ctx: CommandContext, request: Mapping[str, Any], count: int) -> Batch:
        """Return the batch of a command of `count` statements. Raises `CommandError` for a bad number."""
        if not 1 <= count <= MAX_BATCH:
            raise CommandError(
                ErrorCode.INVALID_LENGTH,
                f"Write batch sizes must be between 1 and {MAX_BATCH}. Got {count} operations.",
            )
        batch = cls(ctx)
        if "ordered" in request:
            batch.ordered = request["ordered"]
        if not _UNUSUAL.isdisjoint(request):
            ids = request.get("stmtIds")
            if ids is not None and len(ids) != count:
                raise CommandError(
                    ErrorCode.INVALID_LENGTH, "Number of statement ids must match the number of batch entries"
                )
            batch.ids = ids
            batch.first_id = int(request.get("stmtId", 0))
            batch.validated = not request.get("bypassDocumentValidation", False)
            batch.keep_times = request.get("bypassEmptyTsReplacement", False)
        return batch

    def run(self, index: int, ns: Namespace, write: Write, replay: Replay = _counted) -> Document | None:
        """Run a statement and return its result, recorded or new; None if it failed, which is entered.

        `write` takes the function that the engine calls before each change, and returns the result; `replay`
        makes a result of what is recorded.
        """
        try:
            return self.attempt(index, ns, write, replay)
        except CommandError as error:
            if not is_statement_error(error):
                raise
            self.errors.append(write_error(index, error))
            # The reply is ok and holds a write error, so nobody else notices: any error ends the transaction,
            # and this is where.
            if self.ctx.in_transaction and self.ctx.transaction is not None:
                self.ctx.node.transactions.abort(self.ctx.transaction)
            return None

    def attempt(self, index: int, ns: Namespace, write: Write, replay: Replay = _counted) -> Document:
        """Run a statement and return its result. Raises `CommandError` if it fails."""
        ctx, number = self.ctx, self.number(index)
        if number in ctx.finished:
            return self._finished(number)
        statements = ctx.statements
        recorded = None if statements is None else statements.executed(number)
        if recorded is not None:
            result = replay(recorded)
            self.retried.append(number)
            return result
        self._running, self._ns = number, ns
        try:
            result = write(self._accept)
        except CommandError as error:
            # Not the error itself, whose frames hold the command.
            ctx.statement_done(number, error.copy())
            raise
        ctx.statement_done(number, result)
        return result

    def _finished(self, number: int) -> Document:
        """Return or raise again what a statement came to before the command had to wait."""
        outcome = self.ctx.finished[number]
        if isinstance(outcome, CommandError):
            raise outcome
        result: Document = outcome
        return result

    def _accept(self, change: Changed) -> None:
        """Let a change be stored, which happens at once: it is in the oplog before anybody can see it.

        Raises `Park` for one that an open transaction has claimed: the command is run again when one has
        ended, and goes on with this change.
        """
        ctx, ns = self.ctx, self._ns
        target = ctx.catalog.get(ns)
        if target is not None:
            if ctx.transaction is not None:
                _claim(ctx, ctx.transaction, target, change)
            elif ctx.node.transactions.holders and ctx.node.transactions.holds(ns, change):
                raise ctx.waits()
            if change.after is not None and target.restricts:
                target.validate(
                    change.after, change.before, bypassing=not self.validated, builtins=ctx.builtins
                )
        # Before the first change of a statement: the fail point can prevent the write, or let it happen and
        # keep the reply.
        if ctx.statements is not None and not ctx.changes:
            ctx.statements.before_write(self._running)
        ctx.changes += 1
        if target is not None:
            ctx.applied(ns, change, target)
        # What changed nothing is not in the oplog, so a server has no record of it and runs a retry anew.
        if ctx.statements is not None:
            # As in the oplog: `op` is `i`, `u` or `d`, beside the `_id` of its document; and `document`,
            # which is its `image` of `before` or `after`, where the statement returns one.
            kept = change.before if change.after is None else change.after
            op = "i" if change.before is None else "d" if change.after is None else "u"
            record = {"op": op, "_id": None if kept is None else kept.get("_id"), "image": self.image}
            ctx.statements.record(
                self._running, {**record, "document": getattr(change, self.image)} if self.image else record
            )

    def number(self, index: int) -> int:
        """Return the number by which a retry names the statement at `index`."""
        return int(self.ids[index]) if self.ids is not None else self.first_id + index

    @property
    def stopped(self) -> bool:
        """Whether the remaining statements do not run; in a transaction any error ends the batch."""
        return bool(self.errors) and (self.ordered or self.ctx.in_transaction)

    def finish(self, reply: Document) -> Document:
        """Return a reply with what went wrong, and what had been executed before.

        A client that does not want to hear of the write (`w: 0`) and asks all the same hears nothing of it.
        """
        acknowledgement = self.ctx.request.execution.acknowledgement
        if acknowledgement is not None and not acknowledgement.concern.is_acknowledged:
            return dict.fromkeys(reply.keys() & {"n", "nModified"}, 0)
        if self.errors:
            reply["writeErrors"] = _shortened(self.errors)
        if self.retried:
            reply["retriedStmtIds"] = self.retried
        if self.ctx.node.profile.max_wire_version <= WIRE_50:
            self.ctx.connection.last_error = {"command": self.ctx.request.name, **reply}
        return reply


def _claim(ctx: CommandContext, transaction: Transaction, target: Collection, change: Changed) -> None:
    """Claim what a change is about. Raises `CommandError` 263 for collections no transaction may write to."""
    if ctx.in_transaction:
        if target.is_capped:
            raise CommandError(
                ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                f"Collection '{target.ns}' is a capped collection. Writes in transactions are not allowed on"
                " capped collections.",
            )
        if target.kind == "timeseries":
            raise CommandError(
                ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                f"Cannot insert into a time-series collection in a multi-document transaction: {target.ns}",
            )
    transaction.claim(target.ns, change)


def is_statement_error(error: CommandError) -> bool:
    """Return whether an error belongs to one statement; interruptions and conflicts end the command."""
    # A server retries a conflict itself outside transactions, and within one it ends the transaction.
    if error.code == ErrorCode.WRITE_CONFLICT:
        return False
    return not is_in(error.code, Category.INTERRUPTION) and not is_in(error.code, Category.NOT_PRIMARY)


def write_error(index: int, error: CommandError) -> Document:
    """Return an element of `writeErrors`."""
    return {"index": index, "code": int(error.code), "errmsg": error.message, **error.extra}


def _shortened(errors: Sequence[Document]) -> list[Document]:
    """Return errors of which the many and long ones lose their texts, so that a reply holds them."""
    shown: list[Document] = []
    size = 0
    for error in errors:
        # 100,000 errors of one statement each would not fit into a reply; codes and indexes do.
        if size >= _MAX_TEXT_BYTES and len(shown) >= _MIN_WHOLE:
            shown.append({**error, "errmsg": ""})
        else:
            size += len(error["errmsg"])
            shown.append(error)
    return shown


def refuse_retryable_multi(ctx: CommandContext, *, multi: bool, message: str) -> None:
    """Refuse a statement that may touch many documents in a retryable write. Raises `CommandError` 72."""
    if multi and ctx.statements is not None:
        raise CommandError(ErrorCode.INVALID_OPTIONS, message)


MAX_DEPTH: Final = 180
_NO_TIME: Final = Timestamp(0, 0)
_SURELY_SHALLOW: Final = 1024
_TIMESTAMP: Final = b"\x11"
"""The type of a timestamp: a document whose bytes do not have it holds none."""
_PLAIN_IDS: Final = frozenset({ObjectId, int, Int64, str, Binary})
"""The types of most `_id`s, which need no check."""


def prepare(ctx: CommandContext, document: Document, *, keep_times: bool = False) -> Stored:
    """Return the document to store, its `_id` made if it is missing and moved to the front.

    `keep_times` leaves empty timestamps as they are. What the document holds is handed over, not copied.
    Raises `WriteError` for one that a server refuses.
    """
    encoded = check_limits(document, too_large=ctx.node.profile.too_large)
    has_times = not keep_times and _TIMESTAMP in encoded
    raw: bytes | None = encoded
    if not ctx.node.profile.stores_dollar_fields:
        check_insert(document)
    # The order of fields is part of a document, and `_id` is the first of every stored one.
    if "_id" not in document:
        document, raw = {"_id": ctx.object_id(), **document}, None
    else:
        check_id(document["_id"])
        if next(iter(document)) != "_id":
            # The library has put it there in what it encoded.
            document = {"_id": document["_id"], **document}
    if has_times:
        document, raw = with_times(ctx, document), None
    return stored(document, raw)


def with_times(ctx: CommandContext, document: Document) -> Document:
    """Return a document whose empty timestamps, but for those inside other values, are the present time."""
    if Timestamp not in map(type, document.values()):
        return document
    return {
        name: ctx.timestamp() if name != "_id" and value == _NO_TIME else value
        for name, value in document.items()
    }


def check_id(value: Any) -> None:
    """Refuse what cannot be an `_id`. Raises `WriteError`."""
    if type(value) in _PLAIN_IDS:
        return
    if isinstance(value, list):
        raise WriteError(ErrorCode.INVALID_ID_FIELD, "The '_id' value cannot be of type array")
    if isinstance(value, Regex):
        raise WriteError(ErrorCode.INVALID_ID_FIELD, "The '_id' value cannot be of type regex")
    if is_object(value):
        names = list(value)
        if names[:2] == ["$ref", "$id"] and isinstance(value["$ref"], str):  # a DBRef
            names = names[3 if names[2:3] == ["$db"] and isinstance(value["$db"], str) else 2 :]
        for name in names:
            if name.startswith("$"):
                raise WriteError(
                    ErrorCode.DOLLAR_PREFIXED_FIELD_NAME,
                    f"_id fields may not contain '$'-prefixed fields: {name} is not valid for storage.",
                )


def check_limits(document: Document, *, too_large: int = ErrorCode.BSON_OBJECT_TOO_LARGE) -> bytes:
    """Refuse to insert what is too large, or nested too deep, and return its BSON.

    Raises `WriteError` with the code `too_large`, or 15.
    """
    raw = bson.encode(document)
    size = len(raw)
    if size > MAX_USER_BYTES:
        raise WriteError(
            too_large,
            f"object to insert too large. size in bytes: {size}, max size: {MAX_USER_BYTES}",
        )
    if size > _SURELY_SHALLOW and depth(document) > MAX_DEPTH:
        raise WriteError(
            ErrorCode.OVERFLOW, f"cannot insert document because it exceeds {MAX_DEPTH} levels of nesting"
        )
    return raw


def depth(value: Any) -> int:
    """Return how deep documents and arrays are nested in a value; one that holds none is at depth 1."""
    deepest = 0
    level: list[Any] = [value]
    while level:
        deepest += 1
        children = (child for each in level for child in (each.values() if isinstance(each, dict) else each))
        level = [child for child in children if isinstance(child, dict | list)]
    return deepest


# Names of fields that servers before 5.0 do not store: those that begin with a dollar sign.


def check_insert(document: Mapping[str, Any]) -> None:
    """Refuse to insert a document with such a name; values may hold any. Raises `WriteError`."""
    for name in document:
        if name.startswith("$"):
            raise WriteError(ErrorCode.BAD_VALUE, f"Document can't have $ prefixed field names: {name}")


def check_update(after: Any, before: Any, path: str = "") -> None:
    """Refuse what an update puts into a document; what it leaves alone is not looked at. Raises `WriteError`.

    The fields of a DBRef may have such names: `$ref`, `$id` and perhaps `$db`, in this order.
    """
    if isinstance(after, list):
        for index, value in enumerate(after):
            known = isinstance(before, list) and index < len(before)
            _check_value(value, before[index] if known else MISSING, f"{path}.{index}")
        return
    names = list(after)
    for index, name in enumerate(names):
        full = f"{path}.{name}" if path else name
        known = isinstance(before, dict) and name in before
        earlier = before[name] if known else MISSING
        if name.startswith("$") and not (known and _same(after[name], earlier)):
            _check_name(after, names, index, full)
        _check_value(after[name], earlier, full)


def _check_value(after: Any, before: Any, path: str) -> None:
    if isinstance(after, dict | list) and not _same(after, before):
        check_update(after, before, path)


def _same(after: Any, before: Any) -> bool:
    return before is not MISSING and order(after) == order(before)


def _check_name(document: Mapping[str, Any], names: Sequence[str], index: int, path: str) -> None:
    """Refuse a name with a dollar sign, unless it has its place in a DBRef."""
    name, left = names[index], names[index - 1] if index else ""
    right = names[index + 1] if index + 1 < len(names) else ""
    if name == "$db":
        _check_text(document, name)
        if left != "$id":
            _refuse_reference("Found $db field without a $id before it, which is invalid.")
    elif name == "$id":
        if left != "$ref":
            _refuse_reference("Found $id field without a $ref before it, which is invalid.")
    elif name == "$ref":
        _check_text(document, name)
        if right != "$id":
            _refuse_reference("The DBRef $ref field must be following by a $id field")
    else:
        raise WriteError(
            ErrorCode.DOLLAR_PREFIXED_FIELD_NAME,
            f"The dollar ($) prefixed field '{name}' in '{path}' is not valid for storage.",
        )


def _check_text(document: Mapping[str, Any], name: str) -> None:
    if type(document[name]) is not str:
        _refuse_reference(f"The DBRef {name} field must be a String, not a {type_name(document[name])}")


def _refuse_reference(message: str) -> NoReturn:
    raise WriteError(ErrorCode.INVALID_DB_REF, message)
