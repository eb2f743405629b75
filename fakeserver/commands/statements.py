"""Running the statements of a write: validation, retries, and the oplog, for one document after another.

Retryable Writes, server side: a statement that was executed answers with what is recorded of it and does
nothing. A server does not look whether it is the same statement, but at what the oplog says it did.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from fakeserver.errors import CommandError
from fakeserver.interrupts import check_for_interrupt
from fakeserver.storage.engine import Namespace
from mongowire.codes import Category, ErrorCode, is_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from fakeserver.catalog import Collection
    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.engine import Accept, Changed, Document
    from fakeserver.transactions import Transaction

    Write: TypeAlias = Callable[[Accept], Document]
    Again: TypeAlias = Callable[[Mapping[str, Any]], Document]

T = TypeVar("T")

MAX_BATCH = 100_000
_MAX_TEXT_BYTES = 1024 * 1024
_MIN_WHOLE = 2
_NOWHERE = Namespace("", "")


def numbered(items: Iterable[T]) -> Iterator[tuple[int, T]]:
    """Iterate over items and their indexes, with a yield point between two."""
    for index, item in enumerate(items):
        if index:
            check_for_interrupt()
        yield index, item


def _counted(_recorded: Mapping[str, Any]) -> Document:
    """Return the result of an insert or a delete that was executed."""
    return {"n": 1}


def _told(change: Changed) -> Document:
    """Return what a statement did as the oplog tells it: `i`, `u` or `d`, and the `_id` that it did it to."""
    kept = change.before if change.after is None else change.after
    op = "i" if change.before is None else "d" if change.after is None else "u"
    return {"op": op, "_id": None if kept is None else kept.get("_id")}


@dataclass(slots=True)
class Batch:
    """The statements of one command: which ran, which failed, which had been executed before.

    `ids` are the statements' numbers where the command gives them; `keep_times` stores empty timestamps as
    they are.
    """

    ctx: CommandContext
    ordered: bool = True
    validated: bool = True
    first_id: int = 0
    ids: Sequence[int] | None = None
    keep_times: bool = False
    image: str = ""
    """Which image of a document the command answers with, `before` or `after`; recorded with the result."""
    errors: list[Document] = field(default_factory=list)
    retried: list[int] = field(default_factory=list)
    _running: int = 0
    """The number of the statement that runs."""
    _ns: Namespace = _NOWHERE
    """The collection that it writes to."""
    _change: Changed | None = None
    """What it changed, where a retry may ask for that."""

    @classmethod
    def of(cls, ctx: CommandContext, request: Mapping[str, Any], count: int) -> Batch:
        """Return the batch of a command of `count` statements. Raises `CommandError` for a bad number."""
        if not 1 <= count <= MAX_BATCH:
            raise CommandError(
                ErrorCode.INVALID_LENGTH,
                f"Write batch sizes must be between 1 and {MAX_BATCH}. Got {count} operations.",
            )
        ids = request.get("stmtIds")
        if ids is not None and len(ids) != count:
            raise CommandError(
                ErrorCode.INVALID_LENGTH, "Number of statement ids must match the number of batch entries"
            )
        return cls(
            ctx,
            ordered=request.get("ordered", True),
            validated=not request.get("bypassDocumentValidation", False),
            first_id=int(request.get("stmtId", 0)),
            ids=ids,
            keep_times=request.get("bypassEmptyTsReplacement", False),
        )

    def run(self, index: int, ns: Namespace, write: Write, again: Again = _counted) -> Document | None:
        """Run a statement and return its result, recorded or new; None if it failed, which is entered.

        `write` is given what the engine shall call before each change, and returns the result to record;
        `again` makes a result of what is recorded.
        """
        try:
            return self.attempt(index, ns, write, again)
        except CommandError as error:
            if not is_statement_error(error):
                raise
            self.errors.append(write_error(index, error))
            if self.ctx.in_transaction and self.ctx.transaction is not None:
                self.ctx.node.transactions.abort(self.ctx.transaction)
            return None

    def attempt(self, index: int, ns: Namespace, write: Write, again: Again = _counted) -> Document:
        """Run a statement and return its result. Raises `CommandError` if it fails."""
        ctx, number = self.ctx, self.number(index)
        if number in ctx.finished:
            return self._finished(number)
        statements = ctx.statements
        recorded = None if statements is None else statements.executed(number)
        if recorded is not None:
            result = again(recorded)
            self.retried.append(number)
            return result
        self._running, self._ns = number, ns
        try:
            result = write(self._accept)
        except CommandError as error:
            # Not the error itself, whose frames hold the command.
            ctx.statement_done(number, error.copy())
            raise
        if statements is not None and ctx.changes and self._change is not None:
            statements.record(number, {**_told(self._change), "image": self.image, "result": result})
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
            if change.after is not None:
                target.validate(change.after, change.before, bypassing=not self.validated)
        if ctx.statements is not None and not ctx.changes:
            ctx.statements.before_write(self._running)
            self._change = change
        ctx.changes += 1
        if target is not None:
            ctx.applied(ns, change)

    def number(self, index: int) -> int:
        """Return the number by which a retry names the statement at `index`."""
        return int(self.ids[index]) if self.ids is not None else self.first_id + index

    @property
    def stopped(self) -> bool:
        """Whether the statements that are left shall not run; an error ends any transaction."""
        return bool(self.errors) and (self.ordered or self.ctx.in_transaction)

    def finish(self, reply: Document) -> Document:
        """Return a reply with what went wrong, and what had been executed before."""
        if self.errors:
            reply["writeErrors"] = _shortened(self.errors)
        if self.retried:
            reply["retriedStmtIds"] = self.retried
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
