"""Scenarios that are lists: what each operation says of its read concern and of its write concern.

    python tests/support/concern_lists.py        writes spec_tests/read-write-concern/sent-concerns.yml

A test of tests/tidy compares the file with what would be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE: Final = Path(__file__).parents[2] / "spec_tests" / "read-write-concern" / "sent-concerns.yml"

HEAD: Final = """\
# Which concerns every operation says, and in which words: those of its database where they are set, and none
# where they are not, so that the server's own defaults hold.
# `python tests/support/concern_lists.py` writes this file from a table of operations.
# Read and Write Concern: Server's Default, On the Wire; CRUD: Read and Write Concern
description: sent-concerns
schemaVersion: "1.1"

runOnRequirements:
  - minServerVersion: "4.4"
    topologies: [replicaset, sharded]

createEntities:
  - client:
      id: &client client
      useMultipleMongoses: false
      observeEvents: [commandStartedEvent]
      ignoreCommandMonitoringEvents: [killCursors]
  - database: { id: &database database, client: *client, databaseName: &databaseName pushbackd }
  - collection: { id: &collection collection, database: *database, collectionName: &collectionName stock }
  - database:
      id: &careful careful
      client: *client
      databaseName: *databaseName
      databaseOptions:
        readConcern: { level: majority }
        writeConcern: &concern { w: majority, journal: true, wtimeoutMS: 5000 }
  - collection:
      id: &carefulCollection carefulCollection
      database: *careful
      collectionName: *collectionName
  - collection:
      id: &unjournaled unjournaled
      database: *database
      collectionName: *collectionName
      collectionOptions: { writeConcern: { w: 1, journal: false } }

initialData:
  - { collectionName: *collectionName, databaseName: *databaseName, documents: [{ _id: 1 }, { _id: 2 }] }

_yamlAnchors:
  none: &none { $$exists: false }
  sent: &sent { w: majority, j: true, wtimeout: 5000 }
  majority: &majority { level: majority }

tests:
"""

NONE: Final = "*none"
WRITE_CONCERN: Final = "*sent"
READ_CONCERN: Final = "*majority"


@dataclass(frozen=True, slots=True)
class Row:
    """An operation of a collection, or of the whole database, and the command by which it is sent.

    `reads` and `writes` say which concerns the command takes. `again` are the arguments of its second call,
    where those of the first would fail then.
    """

    operation: str
    command: str
    arguments: str
    again: str = ""
    reads: bool = False
    writes: bool = False
    on: str = "collection"
    least: str = ""


_UPDATE: Final = "{ filter: { _id: 1 }, update: { $set: { x: 1 } } }"
_BULK: Final = "insertOne: { namespace: pushbackd.stock, document: { _id: %d } }"
ROWS: Final = (
    Row("insertOne", "insert", "{ document: { _id: 3 } }", "{ document: { _id: 4 } }", writes=True),
    Row("insertMany", "insert", "{ documents: [{ _id: 3 }] }", "{ documents: [{ _id: 4 }] }", writes=True),
    Row("updateOne", "update", _UPDATE, writes=True),
    Row("updateMany", "update", _UPDATE, writes=True),
    Row("replaceOne", "update", "{ filter: { _id: 1 }, replacement: { x: 1 } }", writes=True),
    Row("deleteOne", "delete", "{ filter: { _id: 1 } }", writes=True),
    Row("deleteMany", "delete", "{ filter: { _id: 1 } }", writes=True),
    Row("findOneAndUpdate", "findAndModify", _UPDATE, writes=True),
    Row("findOneAndReplace", "findAndModify", "{ filter: { _id: 1 }, replacement: { x: 1 } }", writes=True),
    Row("findOneAndDelete", "findAndModify", "{ filter: { _id: 1 } }", writes=True),
    Row("bulkWrite", "update", f"{{ requests: [{{ updateOne: {_UPDATE} }}] }}", writes=True),
    Row("createIndex", "createIndexes", "{ keys: { x: 1 }, name: x_1 }", writes=True),
    Row("dropIndexes", "dropIndexes", "{}", writes=True),
    Row("drop", "drop", "{}", writes=True),
    Row(
        "createCollection",
        "create",
        "{ collection: one }",
        "{ collection: two }",
        writes=True,
        on="database",
    ),
    Row("dropCollection", "drop", "{ collection: one }", writes=True, on="database"),
    Row(
        "clientBulkWrite",
        "bulkWrite",
        f"{{ models: [{{ {_BULK % 3} }}] }}",
        f"{{ models: [{{ {_BULK % 4} }}], writeConcern: *concern }}",
        writes=True,
        on="client",
        least="8.0",
    ),
    Row("aggregate", "aggregate", "{ pipeline: [{ $out: copy }] }", reads=True, writes=True),
    Row("find", "find", "{ filter: {} }", reads=True),
    Row("findOne", "find", "{ filter: {} }", reads=True),
    Row("aggregate", "aggregate", "{ pipeline: [{ $match: {} }] }", reads=True),
    Row("countDocuments", "aggregate", "{ filter: {} }", reads=True),
    Row("estimatedDocumentCount", "count", "{}", reads=True),
    Row("distinct", "distinct", "{ fieldName: x, filter: {} }", reads=True),
    Row("listIndexes", "listIndexes", "{}"),
    Row("listCollections", "listCollections", "{}", on="database"),
    Row("runCommand", "ping", "{ commandName: ping, command: { ping: 1 } }", on="database"),
)
"""The operations. A command of the program's own is sent as it is, and takes neither."""

_ENTITIES: Final = {
    "collection": ("*collection", "*carefulCollection"),
    "database": ("*database", "*careful"),
    "client": ("*client", "*client"),
}
_WRONG: Final = {
    (True, True): "takes an aggregation that writes for a read, or for a write, and says one of the two.",
    (True, False): "says its read concern with some reads only, or a level that nobody has asked for.",
    (
        False,
        True,
    ): "says its write concern with some writes only, in other words, or without need.",
    (False, False): "says concerns with every command.",
}


def text() -> str:
    """Return the file's text."""
    return HEAD + "\n".join([*(line for row in ROWS for line in _case(row)), *_unjournaled(), *_batches()])


def _case(row: Row) -> Iterator[str]:
    concerns = [name for name, taken in (("read", row.reads), ("write", row.writes)) if taken]
    described = f"the {' and the '.join(concerns)} concern" if concerns else "no concern"
    name = "aggregate with $out" if row.reads and row.writes else row.operation
    plain, careful = _ENTITIES[row.on]
    yield f"  - description: {name} says {described} of its database, and none by default"
    yield "    # Rules: Read and Write Concern: On the Wire"
    yield f"    # Wrong driver: {_WRONG[row.reads, row.writes]}"
    if row.least:
        yield f'    runOnRequirements: [{{ minServerVersion: "{row.least}" }}]'
    yield "    operations:"
    yield f"      - {{ name: {row.operation}, object: {plain}, arguments: {row.arguments} }}"
    yield f"      - {{ name: {row.operation}, object: {careful}, arguments: {row.again or row.arguments} }}"
    read, write = READ_CONCERN if row.reads else NONE, WRITE_CONCERN if row.writes else NONE
    yield from _events(_event(row.command, NONE, NONE), _event(row.command, read, write))


def _unjournaled() -> Iterator[str]:
    yield "  - description: a journal of false is said too"
    yield "    # Rules: Read and Write Concern: On the Wire"
    yield "    # Wrong driver: takes false for what was not set."
    yield "    operations:"
    yield "      - { name: insertOne, object: *unjournaled, arguments: { document: { _id: 3 } } }"
    yield from _events(_event("insert", NONE, "{ w: 1, j: false }"))


def _batches() -> Iterator[str]:
    yield "  - description: the next batch of a cursor has no concern of its own"
    yield "    # Rules: Read and Write Concern: On the Wire"
    yield "    # Wrong driver: says the read concern with every command of a read."
    yield "    operations:"
    yield "      - { name: find, object: *carefulCollection, arguments: { filter: {}, batchSize: 1 } }"
    # Whether a third batch is asked for depends on whether the server knew that the second was the last.
    yield "    pushbackd:"
    yield "      expectAttempts:"
    yield "        - { command: find, each: { carries: { readConcern: *majority } } }"
    yield "        - { command: getMore, count: { min: 1 }, each: { omits: [readConcern, writeConcern] } }"
    yield ""


def _event(command: str, read: str, write: str) -> str:
    concerns = f"{{ readConcern: {read}, writeConcern: {write} }}"
    return f"          - commandStartedEvent: {{ commandName: {command}, command: {concerns} }}"


def _events(*events: str) -> Iterator[str]:
    yield "    expectEvents:"
    yield "      - client: *client"
    yield "        events:"
    yield from events
    yield ""


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
