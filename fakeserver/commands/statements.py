"""Running the statements of a write: validation, retries, and the oplog, for one document after another.

Retryable Writes, server side: a statement that was executed answers with its recorded result and does
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fakeserver.errors import CommandError
from mongowire.codes import Category, ErrorCode, is_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.catalog import Collection
    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.engine import Accept, Changed, Document

MAX_BATCH = 100_000


@dataclass(slots=True)
class Batch:
    """The statements of one command: which ran, which failed, which had been executed before.

    `ids` are the statements' numbers where the command gives them.
    """

    ctx: CommandContext
    ordered: bool = True
    validated: bool = True
    first_id: int = 0
    ids: Sequence[int] | None = None
    errors: list[Document] = field(default_factory=list)
    retried: list[int] = field(default_factory=list)

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
        )

    def run(
        self, index: int, collection: Callable[[], Collection | None], write: Callable[[Accept], Document]
    ) -> Document | None:
        """Run a statement and return its result, recorded or new; None if it failed, which is entered.

        `write` is given what the engine shall call before each change, and returns the result to record.
        """
        try:
            return self.attempt(index, collection, write)
        except CommandError as error:
            if not is_statement_error(error):
                raise
            self.errors.append(write_error(index, error))
            return None

    def attempt(
        self, index: int, collection: Callable[[], Collection | None], write: Callable[[Accept], Document]
    ) -> Document:
        """Run a statement and return its result. Raises `CommandError` if it fails."""
        statements, number = self.ctx.statements, self.number(index)
        if statements is not None:
            recorded = statements.executed(number)
            if recorded is not None:
                self.retried.append(number)
                return dict(recorded)
        changes: list[Changed] = []

        def accept(change: Changed) -> None:
            target = collection() if self.validated else None
            if target is not None and change.after is not None:
                target.validate(change.after)
            if statements is not None and not changes:
                statements.before_write(number)
            changes.append(change)

        return self._apply(number, collection, write, accept, changes)

    def _apply(
        self,
        number: int,
        collection: Callable[[], Collection | None],
        write: Callable[[Accept], Document],
        accept: Accept,
        changes: list[Changed],
    ) -> Document:
        try:
            result = write(accept)
        finally:
            target = collection() if changes else None
            if target is not None:
                for change in changes:
                    self.ctx.applied(target.ns, change)
        if changes and self.ctx.statements is not None:
            self.ctx.statements.record(number, result)
        return result

    def number(self, index: int) -> int:
        """Return the number by which a retry names the statement at `index`."""
        return int(self.ids[index]) if self.ids is not None else self.first_id + index

    @property
    def stopped(self) -> bool:
        """Whether the statements that are left shall not run."""
        return self.ordered and bool(self.errors)

    def finish(self, reply: Document) -> Document:
        """Return a reply with what went wrong, and what had been executed before."""
        if self.errors:
            reply["writeErrors"] = self.errors
        if self.retried:
            reply["retriedStmtIds"] = self.retried
        return reply


def is_statement_error(error: CommandError) -> bool:
    """Return whether an error belongs to one statement; interruptions end the command."""
    return not is_in(error.code, Category.INTERRUPTION) and not is_in(error.code, Category.NOT_PRIMARY)


def write_error(index: int, error: CommandError) -> Document:
    """Return an element of `writeErrors`."""
    return {"index": index, "code": int(error.code), "errmsg": error.message, **error.extra}


def refuse_retryable_multi(ctx: CommandContext, *, multi: bool, message: str) -> None:
    """Refuse a statement that may touch many documents in a retryable write. Raises `CommandError` 72."""
    if multi and ctx.statements is not None:
        raise CommandError(ErrorCode.INVALID_OPTIONS, message)
