"""Change streams on a bare node: opened, read, and told again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bson import Timestamp

from fakeserver.storage.values.paths import split, write
from fakeserver.waiting.pause import Park

if TYPE_CHECKING:
    from collections.abc import Sequence

    from data_commands import Server

Event = dict[str, Any]


@dataclass
class Stream:
    """A stream of one server: `events` are all that it told, `token` what it said last."""

    server: Server
    target: str | int
    db: str
    id: int = 0
    token: Event = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def read(self, batch_size: int = 0) -> list[Event]:
        """Return the events of one getMore, none if it would wait. Raises `CommandError`."""
        collection = self.target if isinstance(self.target, str) else "$cmd.aggregate"
        command = {"getMore": self.id, "collection": collection, "batchSize": batch_size}
        try:
            return self.took(self.server.run(command, db=self.db)["cursor"], "nextBatch")
        except Park:
            return []

    def took(self, cursor: dict[str, Any], name: str) -> list[Event]:
        """Take note of a batch."""
        self.id, self.token = int(cursor["id"]), cursor["postBatchResumeToken"]
        batch: list[Event] = cursor[name]
        self.events += batch
        return batch


def watch(
    server: Server,
    target: str | int = "c",
    *,
    db: str = "db",
    stages: Sequence[dict[str, Any]] = (),
    batch_size: int | None = None,
    **options: Any,
) -> Stream:
    """Open a change stream and read its first batch. Raises `CommandError`."""
    cursor = {} if batch_size is None else {"batchSize": batch_size}
    pipeline = [{"$changeStream": options}, *stages]
    stream = Stream(server, target, db)
    reply = server.run({"aggregate": target, "pipeline": pipeline, "cursor": cursor}, db=db)
    stream.took(reply["cursor"], "firstBatch")
    return stream


def told(server: Server, target: str | int = "c", **options: Any) -> list[Event]:
    """Return the events of all that has happened so far."""
    return watch(server, target, startAtOperationTime=Timestamp(1, 1), batch_size=100_000, **options).events


def replayed(events: list[Event]) -> list[dict[str, Any]]:
    """Return the documents that events leave behind, ordered by `_id`."""
    documents: dict[Any, dict[str, Any]] = {}
    for event in events:
        _apply(event, documents)
    return [documents[key] for key in sorted(documents)]


def _apply(event: Event, documents: dict[Any, dict[str, Any]]) -> None:
    kind, key = event["operationType"], event.get("documentKey", {}).get("_id")
    if kind in {"insert", "replace"}:
        documents[key] = event["fullDocument"]
    elif kind == "delete":
        del documents[key]
    elif kind == "update":
        _update(documents[key], event["updateDescription"])


def _update(document: dict[str, Any], description: dict[str, Any]) -> None:
    for cut in description["truncatedArrays"]:
        del _at(document, split(cut["field"]))[cut["newSize"] :]
    for path, value in description["updatedFields"].items():
        write(document, split(path), value)
    for path in description["removedFields"]:
        parts = split(path)
        del _at(document, parts[:-1])[parts[-1]]


def _at(document: Any, parts: Sequence[str]) -> Any:
    for part in parts:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document
