"""Oracles of data: nothing that was acknowledged is lost, and nothing is applied twice.

A case counts in documents: each insert has an `_id` of its own, each increment adds to `n` of one document.

Drawn cases of the swarm are written so. The number of a document must lie between what was acknowledged and
that plus what is uncertain: a write whose reply was lost may have been applied, once. So a lost write shows
as a number that is too small, and a retry that was applied twice as one that is too large. A case with a
write that is not counted this way (a delete, a transaction, a command of the user's) is not judged at all,
for it may explain any number.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.unified.account import PerformedOperation
    from harness.unified.model import Operation
    from harness.unified.server_side.oracles.trace import Trace


@dataclass(slots=True)
class _Written:
    """The writes that operations told of: documents by `_id` and increments, acknowledged and uncertain."""

    inserted: Counter[Any] = field(default_factory=Counter)
    perhaps_inserted: set[Any] = field(default_factory=set)
    added: Counter[Any] = field(default_factory=Counter)
    perhaps_added: Counter[Any] = field(default_factory=Counter)


def what_was_acknowledged_is_there_once(trace: Trace) -> Iterator[str]:
    """CRUD: Write Results; Retryable Writes: a write is applied once."""
    if any(
        step.operation.name not in _KNOWN and not _is_runner(step) for step in trace.steps if _writes(step)
    ):
        return
    written = _written(trace)
    # Read at the end by the deployment's own client (`making.ending_of`), after all threads have ended.
    documents = [each for stored in trace.stored.values() for each in stored]
    there = Counter(
        document.get("_id") for document in documents if not isinstance(document.get("_id"), dict)
    )
    for number, count in written.inserted.items():
        if there[number] < count:
            yield f"the insert of document {number} was acknowledged, and it is not there"
    before = {each["_id"]: each.get("n", 0) for held in trace.initial.values() for each in held}
    for document in documents:
        number = document.get("_id")
        # Documents that the case inserted have no count to begin with.
        if "n" not in document or number not in before:
            continue
        least = before[number] + written.added[number]
        most = least + written.perhaps_added[number]
        if document["n"] < least:
            yield (
                f"document {number} was incremented {least} times as"
                f" far as was acknowledged, and has {document['n']}"
            )
        if document["n"] > most:
            yield f"document {number} was incremented {most} times at most, and has {document['n']}"


_KNOWN = frozenset({"insertOne", "insertMany", "updateOne", "updateMany", "findOneAndUpdate", "bulkWrite"})
"""Writes that are counted."""


def _writes(step: PerformedOperation) -> bool:
    return step.operation.name in (
        *_KNOWN,
        "deleteOne",
        "deleteMany",
        "replaceOne",
        "findOneAndDelete",
        "findOneAndReplace",
        "clientBulkWrite",
        "withTransaction",
        "commitTransaction",
        "drop",
        "rename",
    ) or (
        step.operation.name == "runCommand" and bool(_changed_by(step.operation.arguments.get("command", {})))
    )


def _changed_by(command: Mapping[str, Any]) -> bool:
    return any(name in command for name in ("insert", "update", "delete", "findAndModify"))


def _is_runner(step: PerformedOperation) -> bool:
    return step.operation.object == "testRunner"


def _written(trace: Trace) -> _Written:
    written = _Written()
    for step in trace.steps:
        if step.operation.name in _KNOWN:
            # In an explicit session a write may be part of a transaction, which may have been aborted.
            within = "session" in step.operation.arguments
            sure = step.error is None and not within and _is_acknowledged(step)
            for model, arguments in _models(step.operation):
                _count(written, model, arguments, sure=sure, trace=trace)
    return written


def _is_acknowledged(step: PerformedOperation) -> bool:
    return step.ended is not None and step.result != {"acknowledged": False}


def _models(operation: Operation) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if operation.name == "bulkWrite":
        for request in operation.arguments["requests"]:
            yield from request.items()
    elif operation.name == "insertMany":
        for document in operation.arguments["documents"]:
            yield "insertOne", {"document": document}
    else:
        yield operation.name, operation.arguments


def _count(written: _Written, model: str, arguments: Mapping[str, Any], *, sure: bool, trace: Trace) -> None:
    if model == "insertOne":
        number = arguments["document"].get("_id")
        if sure:
            written.inserted[number] += 1
        else:
            written.perhaps_inserted.add(number)
        return
    add = arguments.get("update", {}).get("$inc", {}).get("n", 0) if "update" in arguments else 0
    chosen = arguments.get("filter", {}).get("_id")
    # A filter by anything but one _id counts for every document of the beginning, as in an updateMany of all.
    numbers = [chosen] if not isinstance(chosen, (dict, type(None))) else _all_initial(trace)
    for number in numbers:
        (written.added if sure else written.perhaps_added)[number] += add


def _all_initial(trace: Trace) -> list[Any]:
    return [each["_id"] for held in trace.initial.values() for each in held]
