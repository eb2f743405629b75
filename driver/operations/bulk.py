"""Collection.bulk_write: a bulk write of one namespace, as insert, update and delete commands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import bson

from driver.cursor import Cursor
from driver.errors import BulkWriteError, ClientBulkWriteError, DriverError, InvalidArgumentError
from driver.operations.base import Command, Kind, Operation
from driver.operations.models import DeleteOne, InsertOne, has_hint, operation, statement
from driver.operations.options import checked, refuse_unheard_hint, without_timeout
from driver.operations.writes import STATEMENTS, check_size, concern_failure
from driver.results import BulkWriteResult, DeleteResult, InsertOneResult, UpdateResult
from driver.run import Reply
from mongowire.messages import DocumentSequence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from driver.execute import Executor
    from driver.operations.base import Target
    from driver.operations.models import WriteModel
    from driver.policy.deadline import Deadline
    from driver.sdam.description import Limits, ServerDescription
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


# The split of a bulk write into commands: by kind, by number, and by size (CRUD: Bulk Write; Splitting).


ROOM_FOR_THE_BODY = 1000
"""Bytes of a message kept for what drivers add to a command: session, cluster time, database."""


def runs(models: Sequence[WriteModel], *, ordered: bool) -> Iterator[list[tuple[int, WriteModel]]]:
    """Yield runs of models that one kind of command carries, each model with its index in the request.

    An ordered bulk write keeps the order, so a run ends where the kind changes; an unordered one has at most
    three runs. Whether a model is retryable plays no part.
    """
    indexed = list(enumerate(models))
    if not ordered:
        kinds = list(dict.fromkeys(model.verb for model in models))
        indexed.sort(key=lambda entry: kinds.index(entry[1].verb))
    for _, run in groupby(indexed, key=lambda entry: entry[1].verb):
        yield list(run)


def fitting(sizes: Sequence[int], limits: Limits, *, body_size: int = 0) -> int:
    """Return how many of the documents, from the first, one command may carry. Raises InvalidArgumentError.

    `body_size` is the size of the command without them.
    """
    # Beyond this size a server does not answer: it closes the connection.
    room = limits.max_message_size - ROOM_FOR_THE_BODY - body_size
    taken = 0
    for size in sizes[: limits.max_write_batch_size]:
        room -= size
        if room < 0:
            break
        taken += 1
    if taken == 0:
        raise InvalidArgumentError(
            f"a document of {sizes[0]} bytes does not fit into a message to this server"
        )
    return taken


# AsyncClient.bulk_write: a bulk write over several namespaces, as `bulkWrite` commands (Bulk Write).


BULK_WRITE_WIRE_VERSION = 25
COUNTS = {
    "nInserted": "inserted_count",
    "nMatched": "matched_count",
    "nModified": "modified_count",
    "nDeleted": "deleted_count",
    "nUpserted": "upserted_count",
}


@dataclass(slots=True)
class ClientTally:
    """What the commands have come to; indexes are those of the request."""

    models: Sequence[WriteModel]
    verbose: bool
    acknowledged: bool
    timed: bool = False
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS.values(), 0))
    inserts: dict[int, InsertOneResult] = field(default_factory=dict)
    updates: dict[int, UpdateResult] = field(default_factory=dict)
    deletes: dict[int, DeleteResult] = field(default_factory=dict)
    write_errors: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    write_concern_errors: list[Mapping[str, Any]] = field(default_factory=list)
    succeeded: bool = False
    labels: list[str] = field(default_factory=list)

    def merge(self, reply: Mapping[str, Any]) -> None:
        """Take in the summary of a reply."""
        for name, field_name in COUNTS.items():
            self.counts[field_name] += reply.get(name, 0)
        if "writeConcernError" in reply:
            self.write_concern_errors.append(reply["writeConcernError"])
        self.labels += reply.get("errorLabels", ())

    def merge_item(self, item: Mapping[str, Any], offset: int) -> None:
        """Take in the result of one model."""
        index = item["idx"] + offset
        if item.get("ok") != 1:
            self.write_errors[index] = item
            return
        self.succeeded = True
        match self.models[index]:
            case InsertOne(document=document):
                self.inserts[index] = InsertOneResult(document["_id"])
            case DeleteOne():
                self.deletes[index] = DeleteResult(item.get("n", 0))
            case _:
                upserted = "upserted" in item
                self.updates[index] = UpdateResult(
                    item.get("n", 0),
                    item.get("nModified", 0),
                    item["upserted"].get("_id") if upserted else None,
                    upserted=upserted,
                )

    def result(self) -> BulkWriteResult:
        """Return what was done so far."""
        sums = BulkWriteResult(acknowledged=self.acknowledged)
        counts: Mapping[str, Any] = self.counts
        return replace(
            sums,
            **counts,
            insert_results=self.inserts if self.verbose else None,
            update_results=self.updates if self.verbose else None,
            delete_results=self.deletes if self.verbose else None,
        )

    def partial(self) -> BulkWriteResult | None:
        """Return what was done before an error, None if nothing was."""
        done = any(self.counts.values()) or self.succeeded
        return self.result() if done and self.acknowledged else None

    def error(self, cause: DriverError | None) -> ClientBulkWriteError:
        """Return the error that reports all that went wrong."""
        labels = (*self.labels, *(cause.labels if cause is not None else ()))
        causes = f"{len(self.write_errors)} writes failed" if cause is None else str(cause)
        return ClientBulkWriteError(
            f"the bulk write did not run to its end: {causes}",
            partial=self.partial(),
            write_errors=self.write_errors,
            write_concern_errors=self.write_concern_errors,
            cause=cause,
            labels=dict.fromkeys(labels),
            address=None if cause is None else cause.address,
            timed=self.timed,
        )


class ClientBatch:
    """One `bulkWrite` command: as many operations, with their namespaces, as fit."""

    def __init__(self, models: Sequence[WriteModel], head: Mapping[str, Any]) -> None:
        self.taken: Sequence[WriteModel] = ()
        self._models = models
        self._head = head

    def prepare(self, server: ServerDescription) -> Command:
        """Take what fits. Raises InvalidArgumentError for a server before 8.0."""
        if server.max_wire_version < BULK_WRITE_WIRE_VERSION and server.hello:
            raise InvalidArgumentError("AsyncClient.bulk_write needs a server of version 8.0 or newer")
        operations, infos, sizes = self._encoded(server.limits.max_write_batch_size)
        size = fitting(sizes, server.limits)
        self.taken = self._models[:size]
        used = len(dict.fromkeys(model.namespace for model in self.taken))
        return Command(
            self._head,
            (
                DocumentSequence("ops", tuple(operations[:size])),
                DocumentSequence("nsInfo", tuple(infos[:used])),
            ),
            retryable=not any(model.multi for model in self.taken),
        )

    def _encoded(self, maximum: int) -> tuple[list[bytes], list[bytes], list[int]]:
        """Return operations and namespaces as bytes, and the bytes that each operation adds to a message."""
        numbers: dict[str, int] = {}
        operations: list[bytes] = []
        infos: list[bytes] = []
        sizes: list[int] = []
        for model in self._models[:maximum]:
            namespace = str(model.namespace)
            added = 0
            if namespace not in numbers:
                numbers[namespace] = len(infos)
                infos.append(bson.encode({"ns": namespace}))
                added = len(infos[-1])
            operations.append(bson.encode(operation(model, numbers[namespace])))
            sizes.append(len(operations[-1]) + added)
        return operations, infos, sizes


@dataclass(slots=True)
class ClientBulkWrite:
    """A client bulk write on its way. All its commands share an operation id and a deadline."""

    executor: Executor
    session: ClientSession
    head: Mapping[str, Any]
    ordered: bool
    tally: ClientTally
    operation_id: int
    deadline: Deadline

    async def run(self) -> BulkWriteResult:
        """Send command after command. Raises ClientBulkWriteError."""
        models, done = self.tally.models, 0
        while done < len(models):
            batch = ClientBatch(models[done:], self.head)
            await self._send(batch, done)
            if self.ordered and self.tally.write_errors:
                break
            done += len(batch.taken)
        if self.tally.write_errors or self.tally.write_concern_errors:
            raise self.tally.error(None)
        return self.tally.result()

    async def _send(self, batch: ClientBatch, offset: int) -> None:
        reply = await self._reply(batch)
        self.tally.merge(reply.document)
        if not self.tally.acknowledged:
            return
        # The results of single models are in a cursor, which is read to its end; one that fails ends it all,
        # as nobody could say which models have succeeded.
        try:
            async with Cursor(self.executor, reply, self.session, keeps_session=False) as results:
                async for item in results:
                    self.tally.merge_item(item, offset)
        except DriverError as error:
            raise self.tally.error(error) from error

    async def _reply(self, batch: ClientBatch) -> Reply:
        acknowledged = self.tally.acknowledged
        command = Operation("admin", Kind.WRITE, batch.prepare, acknowledged=acknowledged, name="bulkWrite")
        try:
            return await self.executor.execute(
                command,
                self.session,
                operation_id=self.operation_id,
                opens_cursor=True,
                deadline=self.deadline,
            )
        except InvalidArgumentError:
            raise
        except DriverError as error:
            failure = concern_failure(error)
            if failure is None:
                raise self.tally.error(error) from error
            return Reply(dict(failure.response), str(failure.address), deadline=self.deadline)


async def client_bulk_write(
    executor: Executor,
    models: Sequence[WriteModel],
    options: Mapping[str, Any],
    target: Target,
    *,
    session: ClientSession,
) -> BulkWriteResult:
    """Run a client bulk write. Raises ClientBulkWriteError, InvalidArgumentError before anything is sent."""
    fields, timeout = without_timeout(checked("clientBulkWrite", options), target.concerns.timeout)
    ordered, verbose = fields.pop("ordered", True), fields.pop("verboseResults", False)
    _refuse_bad_model(models, ordered=ordered, verbose=verbose, acknowledged=target.acknowledged)
    deadline = executor.deadline_of(timeout, session)
    head = {"bulkWrite": 1, "errorsOnly": not verbose, "ordered": ordered, **fields}
    write = ClientBulkWrite(
        executor=executor,
        session=session,
        head={**head, **target.write_concern_field},
        ordered=ordered,
        tally=ClientTally(models, verbose, target.acknowledged, timed=deadline.is_set),
        operation_id=executor.request_ids.next_operation(),
        deadline=deadline,
    )
    with executor.span("bulkWrite", "admin", None, session):
        return await write.run()


def _refuse_bad_model(
    models: Sequence[WriteModel], *, ordered: bool, verbose: bool, acknowledged: bool
) -> None:
    if not models:
        raise InvalidArgumentError("a bulk write needs at least one model")
    if not acknowledged and verbose:
        raise InvalidArgumentError("Cannot request unacknowledged write concern and verbose results")
    if not acknowledged and ordered:
        raise InvalidArgumentError("Cannot request unacknowledged write concern and ordered writes")
    for model in models:
        if model.namespace is None:
            raise InvalidArgumentError("a model of AsyncClient.bulk_write names its namespace")
        operation(model, 0)
