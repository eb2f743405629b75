"""Scenarios that are lists of operations: what each earns, whom its retry avoids, and what that says.

    python tests/support/operation_lists.py        writes four files of spec_tests

A test of tests/tidy compares them with what would be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER: Final = Path(__file__).parents[2] / "spec_tests" / "client-backpressure"
TOKENS: Final = FOLDER / "tokens-of-every-operation.yml"
ELSEWHERE: Final = FOLDER / "elsewhere.yml"
READS: Final = FOLDER.parent / "retryable-reads" / "every-read.yml"
CONCERNS: Final = FOLDER.parent / "read-write-concern" / "retried-concerns.yml"

_WRITTEN: Final = "# `python tests/support/operation_lists.py` writes this file from a table of operations."


@dataclass(frozen=True, slots=True)
class Row:
    """An operation with the commands that it sends, each of which succeeds once.

    `avoids` is the command that a fail point refuses; `reads` says that it goes where the read preference of
    its collection or database says, with arguments of their own if need be.
    """

    operation: str
    on: str
    arguments: str = "{}"
    commands: int = 1
    avoids: str = ""
    reads: bool = False
    more: str = ""


_SET: Final = "update: { $set: { x: 1 } }"
_ONE: Final = "{ filter: { _id: 1 } }"
_UPDATE: Final = f"{{ filter: {{ _id: 1 }}, {_SET} }}"
_REPLACE: Final = "{ filter: { _id: 1 }, replacement: { x: 1 } }"
_INSERT: Final = "{ insertOne: { document: { x: 1 } } }"
_MANY: Final = f"{{ updateOne: {_UPDATE} }}"
_SENT: Final = "commandName: distinct, command: { distinct: stock, key: x }"

GROUPS: Final[dict[str, tuple[Row, ...]]] = {
    "reads": (
        Row("find", "collection", "{ filter: {} }", avoids="find", reads=True),
        Row("findOne", "collection", "{ filter: {} }", avoids="find", reads=True),
        Row("aggregate", "collection", "{ pipeline: [{ $match: {} }] }", avoids="aggregate", reads=True),
        Row("countDocuments", "collection", "{ filter: {} }", avoids="aggregate", reads=True),
        Row("estimatedDocumentCount", "collection", avoids="count", reads=True),
        Row("distinct", "collection", "{ fieldName: x, filter: {} }", avoids="distinct", reads=True),
        Row("listIndexes", "collection", avoids="listIndexes"),
        Row("listCollections", "database", avoids="listCollections"),
        Row("listDatabases", "client", avoids="listDatabases"),
    ),
    "commands of the program": (
        Row("runCommand", "database", "{ commandName: ping, command: { ping: 1 } }", avoids="ping"),
        Row("runCommand", "database", f"{{ {_SENT} }}", avoids="distinct"),
        Row(
            "runCursorCommand",
            "database",
            "{ commandName: find, command: { find: stock, filter: {} } }",
            avoids="find",
        ),
    ),
    "cursors": (
        # Three documents: a find, and a getMore that brings the last of them and ends the cursor.
        Row("find", "collection", "{ filter: {}, batchSize: 2 }", 2, avoids="find", reads=True),
        Row(
            "aggregate",
            "collection",
            "{ pipeline: [{ $match: {} }], batchSize: 2 }",
            2,
            avoids="aggregate",
            reads=True,
        ),
        Row(
            "createFindCursor",
            "collection",
            "{ filter: {}, batchSize: 2 }",
            more="saveResultAsEntity: &cursor cursor",
        ),
        Row("close", "cursor", ""),
    ),
    "writes": (
        Row("updateOne", "collection", _UPDATE, avoids="update"),
        Row("updateMany", "collection", f"{{ filter: {{}}, {_SET} }}", avoids="update"),
        Row("replaceOne", "collection", _REPLACE, avoids="update"),
        Row("findOneAndUpdate", "collection", _UPDATE, avoids="findAndModify"),
        Row("findOneAndReplace", "collection", _REPLACE, avoids="findAndModify"),
        Row("insertOne", "collection", "{ document: { x: 1 } }", avoids="insert"),
        Row("insertMany", "collection", "{ documents: [{ x: 1 }, { x: 2 }] }", avoids="insert"),
        Row("bulkWrite", "collection", f"{{ requests: [{_MANY}] }}", avoids="update"),
        # One command for each kind of write.
        Row("bulkWrite", "collection", f"{{ requests: [{_INSERT}, {_MANY}, {{ deleteOne: {_ONE} }}] }}", 3),
        Row("findOneAndDelete", "collection", _ONE, avoids="findAndModify"),
        Row("deleteOne", "collection", _ONE, avoids="delete"),
        Row("deleteMany", "collection", _ONE, avoids="delete"),
        Row("aggregate", "collection", "{ pipeline: [{ $match: {} }, { $out: copy }] }", avoids="aggregate"),
    ),
    "commands about collections and indexes": (
        Row("createIndex", "collection", "{ keys: { x: 1 }, name: x_1 }", avoids="createIndexes"),
        Row("dropIndex", "collection", "{ name: x_1 }"),
        Row("dropIndexes", "collection", avoids="dropIndexes"),
        Row("createCollection", "database", "{ collection: another }"),
        Row("modifyCollection", "database", "{ collection: another, validator: { x: 1 } }"),
        Row("dropCollection", "database", "{ collection: another }"),
        Row("drop", "collection", avoids="drop"),
    ),
    "transactions": (
        Row("startTransaction", "session", "", 0),
        Row("insertOne", "collection", "{ session: *session, document: { x: 1 } }"),
        Row("find", "collection", "{ session: *session, filter: { _id: 1 } }"),
        Row("commitTransaction", "session", ""),
        Row("startTransaction", "session", "", 0),
        Row("updateOne", "collection", f"{{ session: *session, filter: {{ _id: 1 }}, {_SET} }}"),
        Row("abortTransaction", "session", ""),
    ),
}
"""The operations, in the order in which they run. The start of a transaction sends nothing."""

STOCK: Final = """\
  - database: { id: &database database, client: *client, databaseName: &databaseName pushbackd }
  - collection: { id: &collection collection, database: *database, collectionName: &collectionName stock }
"""
EVERYWHERE: Final = """\
schemaVersion: "1.3"

runOnRequirements:
  - minServerVersion: "4.4"
    topologies: [replicaset, sharded, load-balanced]

createEntities:
"""
"""Where every list of operations runs; entities follow."""
DOCUMENTS: Final = """\
initialData:
  - collectionName: *collectionName
    databaseName: *databaseName
    documents: [{ _id: 1 }, { _id: 2 }, { _id: 3 }]
"""

_TOKENS_HEAD: Final = f"""\
# What succeeds earns a tenth of a token, whatever it is: each command of each operation.
{_WRITTEN}
# Client Backpressure 2026-02-20: Adaptive retry policy
description: tokens-of-every-operation
{EVERYWHERE}\
  - client: {{ id: &operator operator, useMultipleMongoses: false }}
  - client:
      id: &client client
      useMultipleMongoses: false
      uriOptions: {{ adaptiveRetries: true, appName: &appName earner }}
{STOCK}\
  - session: {{ id: &session session, client: *client }}

{DOCUMENTS}
_yamlAnchors:
  operations:
    - &refuseSix
      name: failPoint
      object: testRunner
      arguments:
        client: *operator
        failPoint:
          configureFailPoint: failCommand
          mode: {{ times: 6 }}
          data:
            failCommands: [find]
            appName: *appName
            errorCode: 462
            errorLabels: [SystemOverloadedError, RetryableError]
    - &refused
      name: find
      object: *collection
      arguments: {{ filter: {{}} }}
      expectError: {{ errorCode: 462 }}

tests:
"""

_ELSEWHERE_HEAD: Final = f"""\
# After overload the retry of every operation goes to another server where there is one that will do: that of
# a read to another member of a replica set, that of any operation to another mongos.
{_WRITTEN}
# Client Backpressure: Overload retry policy, rule 4; Server Selection: Deprioritized Servers
description: elsewhere
schemaVersion: "1.10"

runOnRequirements:
  - minServerVersion: "4.4"
    topologies: [replicaset, sharded]

createEntities:
  - client: {{ id: &operator operator, useMultipleMongoses: false }}
  - client:
      id: &client client
      useMultipleMongoses: true
      uriOptions: {{ appName: &appName elsewhere, enableOverloadRetargeting: true }}
      observeEvents: [serverDescriptionChangedEvent]
{STOCK}\
  - collection:
      id: &preferred preferred
      database: *database
      collectionName: *collectionName
      collectionOptions: {{ readPreference: &primaryPreferred {{ mode: primaryPreferred }} }}
  - database: {{ id: &operatorAdmin operatorAdmin, client: *operator, databaseName: admin }}

{DOCUMENTS}
_yamlAnchors:
  operations:
    - &primaryIsKnown
      name: waitForEvent
      object: testRunner
      arguments:
        client: *client
        event: {{ serverDescriptionChangedEvent: {{ newDescription: {{ type: RSPrimary }} }} }}
        count: 1
    - &secondariesAreKnown
      name: waitForEvent
      object: testRunner
      arguments:
        client: *client
        event: {{ serverDescriptionChangedEvent: {{ newDescription: {{ type: RSSecondary }} }} }}
        count: 2
    - &bothMongosAreKnown
      name: waitForEvent
      object: testRunner
      arguments:
        client: *client
        event: {{ serverDescriptionChangedEvent: {{ newDescription: {{ type: Mongos }} }} }}
        count: 2

tests:
"""

_READS_HEAD: Final = f"""\
# After a lost connection each read is sent once more, whatever command it is: not with retryReads=false, and
# not in a transaction, which is run again as a whole.
{_WRITTEN}
# Retryable Reads: Supported Read Operations; Transactions: Interaction with Retryable Reads
description: every-read
schemaVersion: "1.3"

runOnRequirements:
  - minServerVersion: "4.4"
    topologies: [single, replicaset, sharded, load-balanced]

createEntities:
  - client: {{ id: &operator operator, useMultipleMongoses: false }}
  - client:
      id: &client client
      useMultipleMongoses: false
      uriOptions: {{ appName: &appName everyRead }}
{STOCK}\
  - session: {{ id: &session session, client: *client }}
  - client:
      id: &once once
      useMultipleMongoses: false
      uriOptions: {{ appName: &onceName everyReadOnce, retryReads: false }}
  - database: {{ id: &onceDatabase onceDatabase, client: *once, databaseName: *databaseName }}
  - collection:
      {{ id: &onceCollection onceCollection, database: *onceDatabase, collectionName: *collectionName }}

{DOCUMENTS}
tests:
"""

_CONCERNS_HEAD: Final = f"""\
# A retry says of its concerns what the first attempt has said: who asked for a majority gets no less for a
# lost connection or a busy server.
{_WRITTEN}
# Client Backpressure: Overload retry policy; Retryable Writes: Executing Retryable Write Commands
description: retried-concerns
{EVERYWHERE}\
  - client: {{ id: &operator operator, useMultipleMongoses: false }}
  - client:
      id: &client client
      useMultipleMongoses: false
      uriOptions: {{ appName: &appName retriedConcerns }}
  - database: {{ id: &database database, client: *client, databaseName: &databaseName pushbackd }}
  - collection:
      id: &collection collection
      database: *database
      collectionName: &collectionName stock
      collectionOptions:
        readConcern: {{ level: majority }}
        writeConcern: {{ w: majority, wtimeoutMS: 10000 }}

{DOCUMENTS}
tests:
"""


def texts() -> dict[Path, str]:
    """Return the files' texts."""
    tokens = (line for kind, rows in GROUPS.items() for line in _earned(kind, rows))
    rows = [row for rows in GROUPS.values() for row in rows if row.avoids]
    elsewhere = [
        *(line for row in rows if row.reads for line in _to_a_member(row)),
        *(line for line in _commands_to_a_member()),
        *(line for kind, meets in OTHERS.items() for line in _remembered(kind, meets)),
        *(line for row in rows for line in _to_a_mongos(row)),
    ]
    return {
        TOKENS: _TOKENS_HEAD + "\n".join(tokens),
        ELSEWHERE: _ELSEWHERE_HEAD + "\n".join(elsewhere),
        READS: _READS_HEAD + "\n".join(_every_read()),
        CONCERNS: _CONCERNS_HEAD + "\n".join(_retried_concerns()),
    }


def _call(row: Row, on: str = "", *, indent: int = 6) -> str:
    arguments = f", arguments: {row.arguments}" if row.arguments else ""
    more = f", {row.more}" if row.more else ""
    return f"{' ' * indent}- {{ name: {row.operation}, object: *{on or row.on}{arguments}{more} }}"


def _earned(kind: str, rows: tuple[Row, ...]) -> Iterator[str]:
    yield f"  - description: a tenth of a token comes of each success of {kind}"
    yield "    # Rules: CB-8"
    yield "    # Wrong driver: counts the successes of some commands only."
    yield "    operations:"
    yield "      - *refuseSix"
    yield "      - *refused"
    tenths = 9950
    for row in rows:
        yield _call(row)
        tenths += row.commands
        tokens = f"{{ client: *client, tokens: {tenths / 10:g} }}"
        yield f"      - {{ name: assertRetryTokens, object: testRunner, arguments: {tokens} }}"
    yield "    pushbackd:"
    yield '      runOn: { editions: ["2026-02-20"], features: [ADAPTIVE_RETRIES, RETRY_TOKENS] }'
    yield ""


def refusing(command: str, mode: str = "alwaysOn") -> Iterator[str]:
    """Yield a fail point that refuses a command for overload."""
    yield "      - name: failPoint"
    yield "        object: testRunner"
    yield "        arguments:"
    yield "          client: *operator"
    yield "          failPoint:"
    yield "            configureFailPoint: failCommand"
    yield f"            mode: {mode}"
    yield "            data:"
    yield f"              failCommands: [{command}]"
    yield "              appName: *appName"
    yield "              errorCode: 462"
    yield "              errorLabels: [SystemOverloadedError, RetryableError]"


def titled(row: Row) -> str:
    """Return how cases call an operation."""
    first = row.avoids if row.avoids != row.operation else ""
    written = " with $out" if "$out" in row.arguments else " of several batches" if row.commands > 1 else ""
    return row.operation + written + (f" ({first})" if first else "")


LOST: Final = "closeConnection: true"
BUSY: Final = "errorCode: 462, errorLabels: [SystemOverloadedError, RetryableError]"
_NOT_RETRYABLE: Final = ("updateMany", "deleteMany")


def failing(command: str, how: str, *, app_name: str = "appName", times: int = 1) -> Iterator[str]:
    """Yield a fail point that meets the first attempts of a command."""
    data = f"{{ failCommands: [{command}], appName: *{app_name}, {how} }}"
    yield "      - name: failPoint"
    yield "        object: testRunner"
    yield "        arguments:"
    yield "          client: *operator"
    point = f"{{ configureFailPoint: failCommand, mode: {{ times: {times} }}, data: {data} }}"
    yield f"          failPoint: {point}"


def _every_read() -> Iterator[str]:
    reads = [row for row in GROUPS["reads"] if row.avoids]
    for row in reads:
        yield f"  - description: {titled(row)} is sent again after a lost connection"
        yield '    # Rules: "Retryable Reads: Supported Read Operations"'
        yield "    # Wrong driver: knows which reads to send again from a list, which lacks this one."
        yield "    operations:"
        yield from failing(row.avoids, LOST)
        yield _call(row)
        yield from attempts_of(row.avoids, "{ meets: disconnect }", "{ meets: ok, same: [lsid] }")
    yield "  - description: with retryReads=false no read is sent again after a lost connection"
    yield '    # Rules: "Retryable Reads: retryReads"'
    yield "    # Wrong driver: asks for the option after overload only."
    yield "    operations:"
    for row in reads:
        yield from failing(row.avoids, LOST, app_name="onceName")
        on = {"collection": "onceCollection", "database": "onceDatabase", "client": "once"}[row.on]
        yield _call(row, on)[:-2] + ", expectError: { isClientError: true } }"
    yield "    pushbackd:"
    yield "      expectAttempts:"
    commands = ", ".join(dict.fromkeys(row.avoids for row in reads))
    number = f"operations: {len(reads)}, count: 1"
    expected = f"appName: *onceName, {number}, each: {{ meets: disconnect }}"
    yield f"        - {{ command: [{commands}], {expected} }}"
    yield ""
    for row in reads:
        if row.on == "collection" and row.avoids in {"find", "aggregate", "distinct"}:
            yield from _read_in_transaction(row)


def _read_in_transaction(row: Row) -> Iterator[str]:
    yield f"  - description: {titled(row)} is not sent again by itself in a transaction"
    yield '    # Rules: "Transactions: Interaction with Retryable Reads"'
    yield "    # Wrong driver: takes a read for a retryable one wherever it is."
    yield "    runOnRequirements: [{ topologies: [replicaset, sharded, load-balanced] }]"
    yield "    operations:"
    yield "      - { name: startTransaction, object: *session }"
    yield from failing(row.avoids, LOST)
    arguments = row.arguments.replace("{ ", "{ session: *session, ", 1)
    labels = "errorLabelsContain: [TransientTransactionError], errorLabelsOmit: [RetryableWriteError]"
    expected = f"expectError: {{ isClientError: true, {labels} }}"
    yield f"      - {{ name: {row.operation}, object: *collection, arguments: {arguments}, {expected} }}"
    yield "      - { name: abortTransaction, object: *session }"
    yield from attempts_of(row.avoids, "{ meets: disconnect }")


def _retried_concerns() -> Iterator[str]:
    written = [row for row in GROUPS["writes"] if row.avoids]
    for kind, rows, concern in (
        ("write", written, "{ writeConcern: { w: majority, wtimeout: 10000 } }"),
        ("read", [row for row in GROUPS["reads"] if row.reads], "{ readConcern: { level: majority } }"),
    ):
        for what, how, meets in (("overload", BUSY, "462"), ("a lost connection", LOST, "disconnect")):
            for row in rows:
                if how == LOST and (row.operation in _NOT_RETRYABLE or "$out" in row.arguments):
                    continue
                yield f"  - description: {titled(row)} has its {kind} concern again after {what}"
                yield '    # Rules: RW-51; "Client Backpressure: Overload retry policy"'
                yield "    # Wrong driver: makes the command of a retry from the operation alone."
                yield "    operations:"
                yield from failing(row.avoids, how)
                yield _call(row)
                gap = ", gap: overload backoff" if how == BUSY else ""
                yield from attempts_of(
                    row.avoids,
                    f"{{ meets: {meets}, carries: {concern} }}",
                    f"{{ meets: ok, carries: {concern}{gap} }}",
                )


def attempts_of(command: str, *attempts: str) -> Iterator[str]:
    """Yield what servers are to see of a command, which ends a case."""
    yield "    pushbackd:"
    yield "      expectAttempts:"
    yield f"        - command: {command}"
    yield "          appName: *appName"
    yield "          attempts:"
    yield from (f"            - {each}" for each in attempts)
    yield ""


_TO_A_SECONDARY: Final = (
    "{ meets: 462, on: primary }",
    "{ meets: ok, on: secondary, gap: overload backoff }",
)


def _to_a_member(row: Row) -> Iterator[str]:
    yield f"  - description: in a replica set {titled(row)} goes to a secondary after the primary's overload"
    yield "    # Rules: CB-3"
    yield "    # Wrong driver: avoids an overloaded server for some operations only."
    yield "    runOnRequirements: [{ topologies: [replicaset] }]"
    yield "    operations:"
    yield "      - *primaryIsKnown"
    yield "      - *secondariesAreKnown"
    yield from refusing(row.avoids)
    yield _call(row, "preferred")
    yield from attempts_of(row.avoids, *_TO_A_SECONDARY)


def _commands_to_a_member() -> Iterator[str]:
    for row in GROUPS["commands of the program"]:
        preferred = f"{row.arguments[:-2]}, readPreference: *primaryPreferred }}"
        where = "goes to a secondary after the primary's overload"
        yield f"  - description: in a replica set {titled(row)} {where}"
        yield "    # Rules: CB-1, CB-3"
        yield "    # Wrong driver: avoids no overloaded server for a command of the program's own."
        yield "    runOnRequirements: [{ topologies: [replicaset] }]"
        yield "    operations:"
        yield "      - *primaryIsKnown"
        yield "      - *secondariesAreKnown"
        yield from refusing(row.avoids)
        yield _call(Row(row.operation, row.on, preferred))
        yield from attempts_of(row.avoids, *_TO_A_SECONDARY)


OTHERS: Final = {
    "a read concern that is not available yet": ("errorCode: 134", 134),
    "a host that cannot be reached": ("errorCode: 6", 6),
    "too long a wait for a host": ("errorCode: 89", 89),
}
"""Errors without overload after which a read is sent again, and which make no server Unknown."""


def _remembered(kind: str, error: tuple[str, object]) -> Iterator[str]:
    yield f"  - description: after {kind} a read still avoids the member that was overloaded before"
    yield "    # Rules: CB-3"
    yield "    # Wrong driver: forgets the overloaded servers when an attempt fails for another reason."
    yield "    runOnRequirements: [{ topologies: [replicaset] }]"
    yield "    operations:"
    yield "      - *primaryIsKnown"
    yield "      - *secondariesAreKnown"
    yield from refusing("find")
    data = f"{{ failCommands: [find], appName: *appName, {error[0]} }}"
    point = f"{{ configureFailPoint: failCommand, mode: {{ times: 1 }}, data: {data} }}"
    yield "      # On one of two secondaries, which the first retries meet sooner or later."
    yield "      - name: runCommand"
    yield "        object: *operatorAdmin"
    yield "        arguments:"
    yield "          commandName: configureFailPoint"
    yield f"          command: {point} # lint: allow fail-point-left-on, it is used up"
    yield "          readPreference: { mode: secondary }"
    yield "      - name: repeat"
    yield "        object: testRunner"
    yield "        arguments:"
    yield "          times: 8"
    yield "          operations:"
    yield "            - name: find"
    yield "              object: *preferred"
    yield "              arguments: { filter: { _id: 1 } }"
    yield "              expectResult: [{ _id: 1 }]"
    yield "    pushbackd:"
    yield "      expectAttempts:"
    yield "        - command: find"
    yield "          appName: *appName"
    yield "          operations: 8"
    yield "          count: { min: 2, max: 3 }"
    yield "          first: { on: primary, meets: 462 }"
    yield f"          retries: {{ on: secondary, meets: [{error[1]}, ok] }}"
    yield "          last: { meets: ok }"
    yield ""


def _to_a_mongos(row: Row) -> Iterator[str]:
    yield f"  - description: in a sharded cluster {titled(row)} goes to the other mongos after overload"
    yield "    # Rules: CB-3"
    yield "    # Wrong driver: avoids an overloaded server for some operations only."
    yield "    runOnRequirements: [{ topologies: [sharded] }]"
    yield "    operations:"
    yield "      - *bothMongosAreKnown"
    yield from refusing(row.avoids)
    yield "      - name: repeat"
    yield "        object: testRunner"
    yield "        arguments:"
    yield "          times: 12"
    yield "          operations:"
    if row.avoids == "drop":
        yield "            - { name: insertOne, object: *collection, arguments: { document: { x: 1 } } }"
    yield _call(row, indent=12)
    yield "    pushbackd:"
    yield "      expectAttempts:"
    yield f"        - command: {row.avoids}"
    yield "          appName: *appName"
    yield "          operations: 12"
    yield "          count: { min: 1, max: 2 }"
    yield "          retries: { meets: ok, on: another, gap: overload backoff }"
    yield ""


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
