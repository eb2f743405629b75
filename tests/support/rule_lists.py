"""Scenarios that hold every operation to rules: how long it waits after overload, and all that oracles ask.

    python tests/support/rule_lists.py        writes two files of spec_tests

A test of tests/tidy compares them with what would be written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from operation_lists import DOCUMENTS, FOLDER, GROUPS, STOCK, Row, refusing, titled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAITS: Final = FOLDER / "waits-of-every-operation.yml"
RULES: Final = FOLDER / "rules-of-every-operation.yml"

_WRITTEN: Final = "# `python tests/support/rule_lists.py` writes this file from a table of operations."

_WAITS_HEAD: Final = f"""\
# Every command that met overload waits before it is sent again, whatever it is, by its own error's advice
# where the edition has it: with a jitter of 1 for exactly as long as the backoff says.
{_WRITTEN}
# Client Backpressure: Overload retry policy
description: waits-of-every-operation
schemaVersion: "1.3"

runOnRequirements:
  - minServerVersion: "4.4"
    topologies: [replicaset, sharded, load-balanced]

createEntities:
  - client: {{ id: &operator operator, useMultipleMongoses: false }}
  - client:
      id: &client client
      useMultipleMongoses: false
      uriOptions: {{ appName: &appName patient }}
      pushbackd: {{ jitter: 1 }}
{STOCK}\
  - session: {{ id: &session session, client: *client }}

{DOCUMENTS}
_yamlAnchors:
  runOn: &runOn {{ features: [JITTER] }}
  twice: &twice
    - {{ meets: 462 }}
    - {{ meets: 462, gap: "full overload backoff, attempt 1" }}
    - {{ meets: ok, gap: "full overload backoff, attempt 2" }}

tests:
"""

_RULES_HEAD: Final = f"""\
# Every operation meets one failure after the other, alone and mixed, with and without a session of its own:
# oracles ask whether any rule was broken.
{_WRITTEN}
# Client Backpressure: Overload retry policy; Retryable Writes; Retryable Reads; Sessions
description: rules-of-every-operation
schemaVersion: "1.3"

runOnRequirements:
  - minServerVersion: "4.4"
    topologies: [replicaset, sharded, load-balanced]

createEntities:
  - client: {{ id: &operator operator, useMultipleMongoses: false }}
  - database: {{ id: &operatorAdmin operatorAdmin, client: *operator, databaseName: admin }}
  - database:
      {{ id: &operatorDatabase operatorDatabase, client: *operator, databaseName: &databaseName pushbackd }}
  - collection:
      {{ id: &elsewhere elsewhere, database: *operatorDatabase, collectionName: elsewhere }}
  - client:
      id: &client client
      useMultipleMongoses: true
      uriOptions: {{ appName: &appName ruled, heartbeatFrequencyMS: 500 }}
      observeEvents: [commandStartedEvent, commandSucceededEvent, commandFailedEvent]
  - database: {{ id: &database database, client: *client, databaseName: *databaseName }}
  - collection: {{ id: &collection collection, database: *database, collectionName: &collectionName stock }}
  - session: {{ id: &session session, client: *client }}

{DOCUMENTS}
_yamlAnchors:
  busy: &busy {{ error: 462, labels: [SystemOverloadedError, RetryableError] }}
  busyUnwritten: &busyUnwritten
    {{ error: 462, labels: [SystemOverloadedError, RetryableError, NoWritesPerformed] }}
  overloaded: &overloaded {{ error: 462, labels: [SystemOverloadedError] }}
  retryable: &retryable {{ error: 8000, labels: [RetryableError] }}
  unwritten: &unwritten {{ error: 11600, labels: [RetryableWriteError, NoWritesPerformed] }}
  labelled: &labelled {{ error: 11602, labels: [RetryableWriteError] }}
  again: &again {{ error: 134, labels: [RetryableWriteError] }} # which no server is Unknown for
  refusedUnwritten: &refusedUnwritten {{ error: 8000, labels: [NoWritesPerformed] }}
  lost: &lost {{ close: true }}
  # The cluster's time goes on, so that what each attempt says of it can be told apart.
  goesOn: &goesOn {{ name: insertOne, object: *elsewhere, arguments: {{ document: {{ x: 1 }} }} }}
  forget: &forget
    name: runCommand
    object: *operatorAdmin
    arguments: {{ commandName: pushbackd, command: {{ pushbackd: removeRule, id: all }} }}
  # Replies of monitors tell of the cluster's time too: when, only virtual time knows.
  kept: &kept
    runOn: {{ time: virtual }}
    expectRules:
      - retried
      - limit
      - given-up
      - avoided
      - transaction-id
      - new-number
      - numbered
      - start
      - commit
      - dirty-session
      - cursor-server
      - commit-result
      - cluster-time
      - backoff
      - no-wait
      - outcome
      - error
      - labels
      - transient
      - ended-commands
      - told-attempts
      - operation-id
      - error-address

tests:
"""

SEQUENCES: Final = (
    "*busy, *busy",
    "*overloaded",
    "*retryable",
    "*lost",
    "*labelled",
    "*busy, *busyUnwritten, *refusedUnwritten",
    "*unwritten, *busyUnwritten, *busyUnwritten, *busyUnwritten, *busyUnwritten, *busyUnwritten",
    "*busy, *again, *busy",
    "*busy, *lost, *busy, *labelled",
)
"""What the attempts of an operation meet, in turn; those that follow succeed."""

STATEMENTS: Final = (
    Row("insertOne", "collection", "{ document: { x: 1 } }", avoids="insert"),
    Row("find", "collection", "{ filter: { _id: 1 } }", avoids="find"),
    Row("updateMany", "collection", "{ filter: {}, update: { $set: { x: 1 } } }", avoids="update"),
    Row("findOneAndDelete", "collection", "{ filter: { _id: 1 } }", avoids="findAndModify"),
    Row("aggregate", "collection", "{ pipeline: [{ $match: {} }] }", avoids="aggregate"),
    Row("distinct", "collection", "{ fieldName: x, filter: {} }", avoids="distinct"),
)

RULES_KEPT: Final = (
    "CB-1, CB-2, CB-3, CB-6, CB-29, CB-32, CB-33, CB-36, "
    "RW-24, RW-42, RW-49, RW-51, RW-52, RW-57, RW-61, RW-62"
)

UNCERTAIN: Final = tuple(each for each in SEQUENCES if "nwritten" not in each)
"""What commands that write nothing meet: no server says of them that they have written nothing."""

_NO_SESSION: Final = frozenset({"listDatabases", "runCursorCommand"})


def texts() -> dict[Path, str]:
    """Return the files' texts."""
    rows = [row for rows in GROUPS.values() for row in rows if row.avoids]
    waits = [
        *(line for row in rows for line in _waits(row)),
        *_waits_of_cursors(),
        *(line for row in STATEMENTS for line in _waits_in_a_transaction(row)),
        *_waits_of_ends(),
    ]
    rules = [
        *(line for row in rows for line in _kept(row)),
        *_kept_by_batches(),
        *(line for row in STATEMENTS for line in _kept_in_a_transaction(row)),
        *_kept_by_ends(),
    ]
    return {WAITS: _WAITS_HEAD + "\n".join(waits), RULES: _RULES_HEAD + "\n".join(rules)}


def _call(row: Row, *, session: bool = False, more: str = "") -> str:
    arguments = row.arguments or "{}"
    if session:
        arguments = "{ session: *session }" if arguments == "{}" else f"{{ session: *session, {arguments[2:]}"
    return f"{{ name: {row.operation}, object: *{row.on}, arguments: {arguments}{more} }}"


# --- waits ---


def _refuse(command: str) -> Iterator[str]:
    yield from refusing(command, mode="{ times: 2 }")
    yield "              errorExtraInfo: { baseBackoffMS: 300 }"


def _waits_head(what: str) -> Iterator[str]:
    yield f"  - description: {what} waits before each retry after overload"
    yield '    # Rules: CB-2; "Client Backpressure 2026-07-08: Overload retry policy"'
    yield "    # Wrong driver: sends it again at once, or without hearing what the server advises."
    yield "    operations:"


def _waited(command: str) -> Iterator[str]:
    yield "    pushbackd:"
    yield "      runOn: *runOn"
    yield f"      expectAttempts: [{{ command: {command}, appName: *appName, attempts: *twice }}]"
    yield ""


def _waits(row: Row) -> Iterator[str]:
    yield from _waits_head(titled(row))
    yield from _refuse(row.avoids)
    yield f"      - {_call(row)}"
    yield from _waited(row.avoids)


def _waits_of_cursors() -> Iterator[str]:
    yield from _waits_head("the next batch of a cursor")
    yield from _refuse("getMore")
    yield "      - { name: find, object: *collection, arguments: { filter: {}, batchSize: 2 } }"
    yield from _waited("getMore")
    yield from _waits_head("the end of a cursor that is closed")
    yield from _refuse("killCursors")
    yield "      - name: createFindCursor"
    yield "        object: *collection"
    yield "        arguments: { filter: {}, batchSize: 2 }"
    yield "        saveResultAsEntity: &cursor cursor"
    yield "      - { name: close, object: *cursor }"
    yield from _waited("killCursors")


def _waits_in_a_transaction(row: Row) -> Iterator[str]:
    for place in ("first", "later"):
        yield from _waits_head(f"{row.operation} as a {place} statement of a transaction")
        yield "      - { name: startTransaction, object: *session }"
        if place == "later":
            yield "      - name: findOneAndUpdate"
            yield "        object: *collection"
            yield "        arguments: { session: *session, filter: { _id: 3 }, update: { $set: { y: 1 } } }"
            if row.avoids == "findAndModify":
                yield from _refuse("findAndModify")
        if place == "first" or row.avoids != "findAndModify":
            yield from _refuse(row.avoids)
        yield f"      - {_call(row, session=True)}"
        yield "      - { name: abortTransaction, object: *session }"
        attempts = f"{{ command: {row.avoids}, appName: *appName, attempts: *twice }}"
        if place == "later" and row.avoids == "findAndModify":
            attempts = f"{{ command: {row.avoids}, appName: *appName, last: {{ meets: ok }} }}"
        yield "    pushbackd:"
        yield "      runOn: *runOn"
        yield f"      expectAttempts: [{attempts}]"
        yield ""


def _waits_of_ends() -> Iterator[str]:
    for command in ("commitTransaction", "abortTransaction"):
        yield from _waits_head(command)
        yield "      - { name: startTransaction, object: *session }"
        yield f"      - {_call(STATEMENTS[0], session=True)}"
        yield from _refuse(command)
        yield f"      - {{ name: {command}, object: *session }}"
        yield from _waited(command)


# --- rules ---


def _meets(command: str, sequence: str, *, indent: int = 6) -> Iterator[str]:
    left = " " * indent
    yield f"{left}- name: runCommand"
    yield f"{left}  object: *operatorAdmin"
    yield f"{left}  arguments:"
    yield f"{left}    commandName: pushbackd"
    rule = f"{{ when: {{ command: {command}, appName: *appName }}, sequence: [{sequence}] }}"
    yield f"{left}    command: {{ pushbackd: addRule, rule: {rule} }}"


def _kept_head(what: str) -> Iterator[str]:
    yield f"  - description: {what} keeps the rules whatever it meets"
    yield f"    # Rules: {RULES_KEPT}"
    yield "    # Wrong driver: breaks for this operation, or after this failure, what it keeps elsewhere."
    yield "    operations:"


def _kept_foot() -> Iterator[str]:
    yield "    pushbackd: *kept"
    yield ""


def _kept(row: Row) -> Iterator[str]:
    yield from _kept_head(titled(row))
    reads = row.reads or row.operation.startswith("list")
    for number, sequence in enumerate(UNCERTAIN if reads else SEQUENCES):
        session = number % 2 == 1 and row.operation not in _NO_SESSION
        yield "      - *goesOn"
        yield from _meets(row.avoids, sequence)
        yield f"      - {_call(row, session=session, more=', ignoreResultAndError: true')}"
        yield "      - *forget"
    yield from _kept_foot()


def _kept_by_batches() -> Iterator[str]:
    row = Row("find", "collection", "{ filter: {}, batchSize: 1 }")
    yield from _kept_head("the next batch of a cursor")
    for number, sequence in enumerate(UNCERTAIN):
        yield "      - *goesOn"
        yield from _meets("getMore", sequence)
        yield f"      - {_call(row, session=number % 2 == 1, more=', ignoreResultAndError: true')}"
        yield "      - *forget"
    yield from _kept_foot()


def _kept_in_a_transaction(row: Row) -> Iterator[str]:
    yield from _kept_head(f"{row.operation} in a transaction")
    for number, sequence in enumerate(SEQUENCES):
        yield "      - *goesOn"
        yield "      - { name: startTransaction, object: *session }"
        if number % 2:
            yield "      - name: countDocuments"
            yield "        object: *collection"
            yield "        arguments: { session: *session, filter: {} }"
        yield from _meets(row.avoids, sequence)
        yield f"      - {_call(row, session=True, more=', ignoreResultAndError: true')}"
        yield "      - { name: abortTransaction, object: *session }"
        yield "      - *forget"
    yield from _kept_foot()


def _kept_by_ends() -> Iterator[str]:
    for command in ("commitTransaction", "abortTransaction"):
        yield from _kept_head(command)
        for sequence in SEQUENCES:
            yield "      - *goesOn"
            yield "      - { name: startTransaction, object: *session }"
            yield f"      - {_call(STATEMENTS[0], session=True)}"
            yield from _meets(command, sequence)
            yield f"      - {{ name: {command}, object: *session, ignoreResultAndError: true }}"
            yield "      - *forget"
        yield from _kept_foot()


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
