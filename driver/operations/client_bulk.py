"""AsyncClient.bulk_write: a bulk write over several namespaces, as `bulkWrite` commands (Bulk Write)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import bson

from driver.cursor import Cursor
from driver.errors import ClientBulkWriteError, DriverError, InvalidArgumentError
from driver.operations.base import Command, Kind, Operation
from driver.operations.batches import fitting
from driver.operations.models import DeleteOne, InsertOne, operation
from driver.operations.options import checked, without_timeout
from driver.operations.writes import concern_failure
from driver.results import BulkWriteResult, DeleteResult, InsertOneResult, UpdateResult
from driver.run import Reply
from mongowire.messages import DocumentSequence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from driver.execute import Executor
    from driver.operations.base import Target
    from driver.operations.models import WriteModel
    from driver.policy.deadline import Deadline
    from driver.sdam.description import ServerDescription
    from driver.session import ClientSession

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
    _refuse_bad(models, ordered=ordered, verbose=verbose, acknowledged=target.acknowledged)
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


def _refuse_bad(models: Sequence[WriteModel], *, ordered: bool, verbose: bool, acknowledged: bool) -> None:
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
