"""Collection.bulk_write: a bulk write of one namespace, as insert, update and delete commands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import bson

from driver.errors import BulkWriteError, DriverError, InvalidArgumentError
from driver.operations.base import Command, Kind, Operation
from driver.operations.batches import fitting, runs
from driver.operations.models import InsertOne, has_hint, statement
from driver.operations.options import checked, without_timeout
from driver.operations.releases import refuse_unheard_hint
from driver.operations.writes import STATEMENTS, check_size, concern_failure
from driver.results import BulkWriteResult
from mongowire.messages import DocumentSequence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from driver.execute import Executor
    from driver.operations.base import Target
    from driver.operations.models import WriteModel
    from driver.policy.deadline import Deadline
    from driver.sdam.description import ServerDescription
    from driver.session import ClientSession


@dataclass(slots=True)
class BulkTally:
    """What the commands of a bulk write have come to; indexes are those of the request."""

    acknowledged: bool
    timed: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    inserted_ids: dict[int, Any] = field(default_factory=dict)
    upserted_ids: dict[int, Any] = field(default_factory=dict)
    write_errors: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    write_concern_errors: list[Mapping[str, Any]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    address: str | None = None

    def count(self, name: str, number: int) -> None:
        """Add to one of the result's counts."""
        self.counts[name] = self.counts.get(name, 0) + number

    def result(self) -> BulkWriteResult:
        """Return what was done so far."""
        sums = BulkWriteResult(
            upserted_count=len(self.upserted_ids),
            inserted_ids=self.inserted_ids,
            upserted_ids=self.upserted_ids,
            acknowledged=self.acknowledged,
        )
        counts: Mapping[str, Any] = self.counts
        return replace(sums, **counts)

    def merge(self, batch: BulkBatch, reply: Mapping[str, Any]) -> None:
        """Take in the reply to a command, which may hold write errors and a write concern error."""
        indexes = [index for index, _ in batch.taken]
        for error in reply.get("writeErrors", ()):
            self.write_errors[indexes[error["index"]]] = error
        upserted = reply.get("upserted", ())
        for entry in upserted:
            self.upserted_ids[indexes[entry["index"]]] = entry["_id"]
        if "writeConcernError" in reply:
            self.write_concern_errors.append(reply["writeConcernError"])
        self.labels += reply.get("errorLabels", ())
        n = reply.get("n", 0)
        match batch.verb:
            case "insert":
                self.count("inserted_count", n)
                self.inserted_ids.update(batch.inserted_ids(self.write_errors))
            case "update":
                self.count("matched_count", n - len(upserted))
                self.count("modified_count", reply.get("nModified", 0))
            case "delete":
                self.count("deleted_count", n)

    def error(self, cause: DriverError | None) -> BulkWriteError:
        """Return the error that reports all that went wrong, with what went right as its partial result."""
        labels = (*self.labels, *(cause.labels if cause is not None else ()))
        return BulkWriteError(
            self._message(cause),
            partial=self.result(),
            write_errors=self.write_errors,
            write_concern_errors=self.write_concern_errors,
            cause=cause,
            labels=dict.fromkeys(labels),
            address=self.address if cause is None else cause.address,
            timed=self.timed,
        )

    def _message(self, cause: DriverError | None) -> str:
        if cause is not None:
            return f"the bulk write was interrupted: {cause}"
        texts = [str(e.get("errmsg", "")) for e in (*self.write_errors.values(), *self.write_concern_errors)]
        return f"{len(texts)} errors in a bulk write, the first: {texts[0]}"


class BulkBatch:
    """One command of a bulk write. How much of the run it takes is known when its server is."""

    def __init__(
        self, run: Sequence[tuple[int, WriteModel]], head: Mapping[str, Any], *, ordered: bool
    ) -> None:
        self.verb = run[0][1].verb
        self.taken: Sequence[tuple[int, WriteModel]] = ()
        self._run = run
        self._head = head
        self._ordered = ordered

    @property
    def hints(self) -> bool:
        """Whether any of it names the index to use."""
        return any(has_hint(model) for _, model in self._run)

    def prepare(self, server: ServerDescription) -> Command:
        """Take what fits, and return the command: retryable if none of it may hit many documents."""
        head_size = len(bson.encode(self._head))
        encoded = [
            bson.encode(statement(model)) for _, model in self._run[: server.limits.max_write_batch_size]
        ]
        size = fitting([len(document) for document in encoded], server.limits, body_size=head_size)
        self.taken = self._run[:size]
        for document in encoded[:size]:
            check_size(document, server)
        # Judged by what is in this command: a bulk write may hold an updateMany, and its other commands be
        # retried.
        sequence = DocumentSequence(STATEMENTS[self.verb], tuple(encoded[:size]))
        return Command(self._head, (sequence,), retryable=not any(model.multi for _, model in self.taken))

    def inserted_ids(self, errors: Mapping[int, object]) -> dict[int, Any]:
        """Return the ids of what was inserted: an ordered command stops at its first error."""
        ids: dict[int, Any] = {}
        for index, model in self.taken:
            if index in errors and self._ordered:
                break
            if index not in errors and isinstance(model, InsertOne):
                ids[index] = model.document["_id"]
        return ids


@dataclass(slots=True)
class BulkWrite:
    """A bulk write on its way. All its commands share an operation id and a deadline, however many."""

    executor: Executor
    target: Target
    session: ClientSession
    options: Mapping[str, Any]
    ordered: bool
    tally: BulkTally
    operation_id: int
    deadline: Deadline

    async def run(self, models: Sequence[WriteModel]) -> BulkWriteResult:
        """Send command after command. Raises BulkWriteError."""
        for same_kind in runs(models, ordered=self.ordered):
            left: Sequence[tuple[int, WriteModel]] = same_kind
            head = self._head(left[0][1].verb)
            while left:
                batch = BulkBatch(left, head, ordered=self.ordered)
                await self._send(batch)
                if self.ordered and self.tally.write_errors:
                    raise self.tally.error(None)
                left = left[len(batch.taken) :]
        if self.tally.write_errors or self.tally.write_concern_errors:
            raise self.tally.error(None)
        return self.tally.result()

    def _head(self, verb: str) -> dict[str, Any]:
        common = {"ordered": self.ordered, **self.options}
        return {verb: self.target.collection, **common, **self.target.write_concern_field}

    async def _send(self, batch: BulkBatch) -> None:
        """Send one command; a top-level error ends it all, a write concern error does not."""
        acknowledged = self.target.acknowledged
        unheard = batch.hints and not acknowledged
        operation = Operation(
            self.target.database,
            Kind.WRITE,
            batch.prepare,
            acknowledged=acknowledged,
            name=batch.verb,
            refuse=partial(refuse_unheard_hint, batch.verb) if unheard else None,
        )
        try:
            reply = await self.executor.execute(
                operation, self.session, operation_id=self.operation_id, deadline=self.deadline
            )
            document, self.tally.address = reply.document, reply.address
        except InvalidArgumentError:
            raise
        except DriverError as error:
            # What a write concern error reports was applied: it is counted, and the next command follows.
            failure = concern_failure(error)
            if failure is None:
                raise self.tally.error(error) from error
            document, self.tally.address = dict(failure.response), failure.address
        self.tally.merge(batch, document)


async def bulk_write(
    executor: Executor,
    target: Target,
    models: Sequence[WriteModel],
    options: Mapping[str, Any],
    *,
    session: ClientSession,
    method: str = "bulkWrite",
) -> BulkWriteResult:
    """Run a bulk write. Raises BulkWriteError, and InvalidArgumentError before anything is sent."""
    fields, timeout = without_timeout(checked(method, options), target.concerns.timeout)
    ordered = fields.pop("ordered", True)
    _refuse_bad(models)
    deadline = executor.deadline_of(timeout, session)
    write = BulkWrite(
        executor=executor,
        target=target,
        session=session,
        options=fields,
        ordered=ordered,
        tally=BulkTally(target.acknowledged, timed=deadline.is_set),
        operation_id=executor.request_ids.next_operation(),
        deadline=deadline,
    )
    name = "insert" if method == "insertMany" else "bulkWrite"
    with executor.span(name, target.database, str(target.collection), session):
        return await write.run(models)


def _refuse_bad(models: Sequence[WriteModel]) -> None:
    if not models:
        raise InvalidArgumentError("a bulk write needs at least one model")
    for model in models:
        if model.namespace is not None:
            raise InvalidArgumentError("a model with a namespace is for AsyncClient.bulk_write")
        statement(model)
