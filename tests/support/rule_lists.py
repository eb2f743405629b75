"""Scenarios that hold every operation to rules: how long it waits after overload, and all that oracles ask.

    python tests/support/rule_lists.py        writes four files of spec_tests

A test of tests/tidy compares them with what would be written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from operation_lists import (
    DOCUMENTS,
    EVERYWHERE,
    FOLDER,
    GROUPS,
    STOCK,
    Row,
    attempts_of,
    failing,
    refusing,
    titled,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

WAITS: Final = FOLDER / "waits-of-every-operation.yml"
SOME_WAIT: Final = FOLDER / "some-wait-of-every-operation.yml"
RULES: Final = FOLDER / "rules-of-every-operation.yml"
OPTIONS: Final = FOLDER / "options-of-every-operation.yml"
SLOW: Final = FOLDER.parent / "retryable-writes" / "slow-replies.yml"

_WRITTEN: Final = "# `python tests/support/rule_lists.py` writes this file from a table of operations."

_WAITS_HEAD: Final = f"""\
# Every command that met overload waits before it is sent again, whatever it is, by its own error's advice
# where the edition has it: with a jitter of 1 for exactly as long as the backoff says.
{_WRITTEN}
# Client Backpressure: Overload retry policy
description: waits-of-every-operation
{EVERYWHERE}\
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

_SOME_WAIT_HEAD: Final = f"""\
# Every command that met overload waits before it is sent again, whatever it is, where nobody can set jitter:
# of six waits, up to 200 and 400 ms, the sum is less than 85 ms in one of a million runs.
{_WRITTEN}
# Client Backpressure: Overload retry policy
description: some-wait-of-every-operation
{EVERYWHERE}\
  - client: {{ id: &operator operator, useMultipleMongoses: false }}
  - client: {{ id: &client client, useMultipleMongoses: false, uriOptions: {{ appName: &appName patient }} }}
{STOCK}\
  - session: {{ id: &session session, client: *client }}

{DOCUMENTS}
tests:
"""

_OPERATOR: Final = """\
  - client: { id: &operator operator, useMultipleMongoses: false }
  - database: { id: &operatorAdmin operatorAdmin, client: *operator, databaseName: admin }
"""

_BUSY: Final = "  busy: &busy { error: 462, labels: [SystemOverloadedError, RetryableError] }\n"

_MET: Final = """\
  labelled: &labelled { error: 11602, labels: [RetryableWriteError] }
  lost: &lost { close: true }
  forget: &forget
    name: runCommand
    object: *operatorAdmin
    arguments: { commandName: pushbackd, command: { pushbackd: removeRule, id: all } }
"""

RULES_ASKED: Final = (
    *("retried", "limit", "given-up", "avoided", "transaction-id", "new-number", "numbered", "start"),
    *("commit", "dirty-session", "cursor-server", "commit-result", "cluster-time", "backoff", "no-wait"),
    *("ends-at-once", "outcome", "error", "labels", "transient", "ended-commands", "told-attempts"),
    *("operation-id", "error-address"),
)
"""The oracles that every operation is held to."""


ASKED_IN_REAL_TIME: Final = tuple(
    name
    for name in RULES_ASKED
    if name not in {"cluster-time", "cursor-server", "backoff", "no-wait", "ends-at-once"}
)
"""Those whose answer is the same each time: a driver that gossips too little, or kills a cursor on any
mongos, is found by chance there, and how long a wait takes is the machine's word."""


def _asked(names: Iterable[str]) -> str:
    return "    expectRules:\n" + "".join(f"      - {name}\n" for name in names)


_RULES_HEAD: Final = f"""\
# Every operation meets one failure after the other, alone and mixed, with and without a session of its own:
# oracles ask whether any rule was broken.
{_WRITTEN}
# Client Backpressure: Overload retry policy; Retryable Writes; Retryable Reads; Sessions
description: rules-of-every-operation
{EVERYWHERE}\
{_OPERATOR}\
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
{_BUSY}\
  busyUnwritten: &busyUnwritten
    {{ error: 462, labels: [SystemOverloadedError, RetryableError, NoWritesPerformed] }}
  overloaded: &overloaded {{ error: 462, labels: [SystemOverloadedError] }}
  retryable: &retryable {{ error: 8000, labels: [RetryableError] }}
  unwritten: &unwritten {{ error: 11600, labels: [RetryableWriteError, NoWritesPerformed] }}
  again: &again {{ error: 134, labels: [RetryableWriteError] }} # which no server is Unknown for
  refusedUnwritten: &refusedUnwritten {{ error: 8000, labels: [NoWritesPerformed] }}
  # The cluster's time goes on, so that what each attempt says of it can be told apart.
  goesOn: &goesOn {{ name: insertOne, object: *elsewhere, arguments: {{ document: {{ x: 1 }} }} }}
{_MET}\
  kept: &kept
    runOn: {{ time: virtual }}
{_asked(RULES_ASKED)}\
  # What is left to chance or to a busy machine on the wall clock is asked in virtual time.
  keptInRealTime: &keptInRealTime
    runOn: {{ time: real }}
{_asked(ASKED_IN_REAL_TIME)}
tests:
"""

_OPTIONS_HEAD: Final = f"""\
# What retryReads=false and retryWrites=false keep from being sent again, and what not, operation by
# operation: oracles ask whether any rule was broken.
{_WRITTEN}
# Client Backpressure: Overload retry policy; Retryable Writes: retryWrites; Retryable Reads: retryReads
description: options-of-every-operation
{EVERYWHERE}\
{_OPERATOR}\
  - client:
      id: &noReads noReads
      useMultipleMongoses: true
      uriOptions: {{ appName: &noReadsName noReads, heartbeatFrequencyMS: 500, retryReads: false }}
  - database:
      {{ id: &noReadsDatabase noReadsDatabase, client: *noReads, databaseName: &databaseName pushbackd }}
  - collection:
      id: &noReadsCollection noReadsCollection
      database: *noReadsDatabase
      collectionName: &collectionName stock
  - session: {{ id: &noReadsSession noReadsSession, client: *noReads }}
  - client:
      id: &noWrites noWrites
      useMultipleMongoses: true
      uriOptions: {{ appName: &noWritesName noWrites, heartbeatFrequencyMS: 500, retryWrites: false }}
  - database: {{ id: &noWritesDatabase noWritesDatabase, client: *noWrites, databaseName: *databaseName }}
  - collection:
      id: &noWritesCollection noWritesCollection
      database: *noWritesDatabase
      collectionName: *collectionName
  - session: {{ id: &noWritesSession noWritesSession, client: *noWrites }}

{DOCUMENTS}
_yamlAnchors:
{_BUSY}\
  refused: &refused {{ error: 8000, labels: [] }}
{_MET}\
  kept: &kept
{_asked(ASKED_IN_REAL_TIME)}
tests:
"""

_SLOW_HEAD: Final = f"""\
# A reply that does not come within socketTimeoutMS is a network error: reads and the writes that may be
# retried are sent again, others not, operation by operation.
{_WRITTEN}
# Retryable Writes: RetryableWriteError Labels; Retryable Reads: Retryable Error; Transactions: Error Labels
description: slow-replies
{EVERYWHERE}\
  - client: {{ id: &operator operator, useMultipleMongoses: false }}
  - client:
      id: &client client
      useMultipleMongoses: false
      uriOptions: {{ appName: &appName slowReplies, socketTimeoutMS: 250 }}
{STOCK}\
  - session: {{ id: &session session, client: *client }}

{DOCUMENTS}
_yamlAnchors:
  lost: &lost {{ isClientError: true, errorLabelsOmit: [TransientTransactionError] }}
  transient: &transient
    isClientError: true
    errorLabelsContain: [TransientTransactionError]
    errorLabelsOmit: [RetryableWriteError]

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
    "*busy, *again, *busyUnwritten",
    "*busy, *lost, *busy, *labelled",
)
"""What the attempts of an operation meet, in turn; those that follow succeed."""

STATEMENTS: Final = (
    Row("insertOne", "collection", "{ document: { x: 1 } }", avoids="insert"),
    Row("find", "collection", "{ filter: { _id: 1 } }", avoids="find", reads=True),
    Row("updateMany", "collection", "{ filter: {}, update: { $set: { x: 1 } } }", avoids="update"),
    Row("findOneAndDelete", "collection", "{ filter: { _id: 1 } }", avoids="findAndModify"),
    Row("aggregate", "collection", "{ pipeline: [{ $match: {} }] }", avoids="aggregate", reads=True),
    Row("distinct", "collection", "{ fieldName: x, filter: {} }", avoids="distinct", reads=True),
)

_UPDATED: Final = "{ filter: { _id: 1 }, update: { $set: { x: 1 } } }"

RULES_KEPT: Final = (
    "CB-1, CB-2, CB-3, CB-6, CB-29, CB-32, CB-33, CB-36, "
    "RW-24, RW-42, RW-49, RW-51, RW-52, RW-57, RW-61, RW-62"
)

UNCERTAIN: Final = tuple(each for each in SEQUENCES if "nwritten" not in each)
"""What commands that write nothing meet: no server says of them that they have written nothing."""

MET_WITHOUT: Final = ("*busy", "*lost", "*labelled", "*busy, *refused")
"""What an operation meets that is not to be sent again, or is, by an option of its client."""

IN_REAL_TIME: Final = (
    "*busy, *busy",
    "*overloaded",
    "*retryable",
    "*busy, *busyUnwritten, *refusedUnwritten",
    "*busy, *again, *busy",
    "*busy, *again, *busyUnwritten",
    "*lost",
    "*labelled",
    "*busy, *lost, *busy, *labelled",
    "*lost, *busy, *busy",
)
"""The same in another order: no monitor is about to tell of a lost server when the others are met."""

ENOUGH: Final = (*STATEMENTS[:3], Row("findOneAndUpdate", "collection", _UPDATED, avoids="findAndModify"))
"""Operations that are enough for drivers whose waits take their time."""

_NO_SESSION: Final = frozenset({"listDatabases", "runCursorCommand"})


def texts() -> dict[Path, str]:
    """Return the files' texts."""
    rows = [row for rows in GROUPS.values() for row in rows if row.avoids]
    waiting = [*_waiting(rows)]
    rules = [
        *(line for row in rows for line in _kept(row)),
        *_kept_by_batches(),
        *_kept_by_closed_cursors(),
        *(line for row in STATEMENTS for line in _kept_in_a_transaction(row)),
        *_kept_by_ends(),
        *_kept_in_real_time(),
    ]
    options = [
        *(line for row in rows for line in _kept_without(row)),
        *_kept_without_by_cursors(),
        *(line for row in STATEMENTS for line in _kept_without_in_a_transaction(row)),
        *_kept_without_by_ends(),
    ]
    return {
        WAITS: _WAITS_HEAD + "\n".join(line for each in waiting for line in _waits(each)),
        SOME_WAIT: _SOME_WAIT_HEAD + "\n".join(line for each in waiting for line in _some_wait(each)),
        RULES: _RULES_HEAD + "\n".join(rules),
        OPTIONS: _OPTIONS_HEAD + "\n".join(options),
        SLOW: _SLOW_HEAD + "\n".join(_slow_replies(rows)),
    }


def _call(row: Row, *, session: str = "", more: str = "", client: str = "client") -> str:
    arguments = row.arguments or "{}"
    if session:
        arguments = (
            f"{{ session: *{session} }}" if arguments == "{}" else f"{{ session: *{session}, {arguments[2:]}"
        )
    of_another = {"client": client, "database": f"{client}Database", "collection": f"{client}Collection"}
    on = row.on if client == "client" else of_another[row.on]
    return f"{{ name: {row.operation}, object: *{on}, arguments: {arguments}{more} }}"


# --- waits ---


class Waiting(NamedTuple):
    """What waits before it is sent again: its title, the steps of a case, and its command.

    `is_last` says that the command is sent before, too, so that only its last attempt is known.
    """

    what: str
    steps: tuple[str, ...]
    command: str
    is_last: bool = False


def _refuse(command: str) -> Iterator[str]:
    yield from refusing(command, mode="{ times: 2 }")


def _waiting(rows: Iterable[Row]) -> Iterator[Waiting]:
    for row in rows:
        yield Waiting(titled(row), (*_refuse(row.avoids), f"      - {_call(row)}"), row.avoids)
    yield Waiting(
        "the next batch of a cursor",
        (
            *_refuse("getMore"),
            "      - { name: find, object: *collection, arguments: { filter: {}, batchSize: 2 } }",
        ),
        "getMore",
    )
    yield Waiting(
        _CLOSED,
        (
            *_refuse("killCursors"),
            "      - name: createFindCursor",
            "        object: *collection",
            "        arguments: { filter: {}, batchSize: 2 }",
            "        saveResultAsEntity: &cursor cursor",
            "      - { name: close, object: *cursor }",
        ),
        "killCursors",
    )
    for row in STATEMENTS:
        yield from _waiting_in_a_transaction(row)
    for command in ("commitTransaction", "abortTransaction"):
        yield Waiting(
            command,
            (
                "      - { name: startTransaction, object: *session }",
                f"      - {_call(STATEMENTS[0], session='session')}",
                *_refuse(command),
                f"      - {{ name: {command}, object: *session }}",
            ),
            command,
        )


_CLOSED: Final = "the end of a cursor that is closed"


def _waiting_in_a_transaction(row: Row) -> Iterator[Waiting]:
    begin = "      - { name: startTransaction, object: *session }"
    statement = f"      - {_call(row, session='session')}"
    end = "      - { name: abortTransaction, object: *session }"
    before = (
        "      - name: findOneAndUpdate",
        "        object: *collection",
        "        arguments: { session: *session, filter: { _id: 3 }, update: { $set: { y: 1 } } }",
    )
    title = f"{row.operation} as a {{}} statement of a transaction"
    refused = tuple(_refuse(row.avoids))
    yield Waiting(title.format("first"), (begin, *refused, statement, end), row.avoids)
    is_last = row.avoids == "findAndModify"
    yield Waiting(title.format("later"), (begin, *before, *refused, statement, end), row.avoids, is_last)


def _waits(waiting: Waiting) -> Iterator[str]:
    yield f"  - description: {waiting.what} waits before each retry after overload"
    yield '    # Rules: CB-2; "Client Backpressure 2026-07-08: Overload retry policy"'
    yield "    # Wrong driver: sends it again at once, or without hearing what the server advises."
    yield "    operations:"
    for line in waiting.steps:
        yield line
        if line.startswith("              errorLabels:"):
            yield "              errorExtraInfo: { baseBackoffMS: 300 }"
    attempts = "last: { meets: ok }" if waiting.is_last else "attempts: *twice"
    yield "    pushbackd:"
    yield "      runOn: *runOn"
    yield f"      expectAttempts: [{{ command: {waiting.command}, appName: *appName, {attempts} }}]"
    yield ""


def _some_wait(waiting: Waiting) -> Iterator[str]:
    yield f"  - description: {waiting.what} waits at least some of the time"
    yield "    # Rules: CB-2"
    yield "    # Wrong driver: sends it again at once."
    yield "    operations:"
    if waiting.what == _CLOSED:  # each cursor has a name of its own
        for number in "123":
            for line in waiting.steps:
                yield line.replace("&cursor cursor", f"&cursor{number} cursor{number}").replace(
                    "*cursor", f"*cursor{number}"
                )
    else:
        yield "      - name: repeat"
        yield "        object: testRunner"
        yield "        arguments:"
        yield "          times: 3"
        yield "          operations:"
        yield from (f"      {line}" for line in waiting.steps)
    sent = "last: { meets: ok }" if waiting.is_last else "operations: 3, count: 3"
    yield "    pushbackd:"
    yield "      expectRules: [some-wait]"
    yield f"      expectAttempts: [{{ command: {waiting.command}, appName: *appName, {sent} }}]"
    yield ""


# --- rules ---


def _meets(command: str, sequence: str, *, app_name: str = "appName") -> Iterator[str]:
    yield "      - name: runCommand"
    yield "        object: *operatorAdmin"
    yield "        arguments:"
    yield "          commandName: pushbackd"
    rule = f"{{ when: {{ command: {command}, appName: *{app_name} }}, sequence: [{sequence}] }}"
    yield f"          command: {{ pushbackd: addRule, rule: {rule} }}"


_IGNORED: Final = ", ignoreResultAndError: true"


def _kept_head(what: str) -> Iterator[str]:
    yield f"  - description: {what} keeps the rules whatever it meets"
    yield f"    # Rules: {RULES_KEPT}"
    yield "    # Wrong driver: breaks for this operation, or after this failure, what it keeps elsewhere."
    yield "    operations:"


def _kept_foot(anchor: str = "kept") -> Iterator[str]:
    yield f"    pushbackd: *{anchor}"
    yield ""


def _kept(row: Row) -> Iterator[str]:
    yield from _kept_head(titled(row))
    for number, sequence in enumerate(
        UNCERTAIN if row.reads or row.operation.startswith("list") else SEQUENCES
    ):
        session = "session" if number % 2 == 1 and row.operation not in _NO_SESSION else ""
        yield "      - *goesOn"
        yield from _meets(row.avoids, sequence)
        yield f"      - {_call(row, session=session, more=_IGNORED)}"
        yield "      - *forget"
    yield from _kept_foot()


def _kept_by_batches() -> Iterator[str]:
    row = Row("find", "collection", "{ filter: {}, batchSize: 1 }")
    yield from _kept_head("the next batch of a cursor")
    for number, sequence in enumerate(UNCERTAIN):
        yield "      - *goesOn"
        yield from _meets("getMore", sequence)
        yield f"      - {_call(row, session='session' if number % 2 else '', more=_IGNORED)}"
        yield "      - *forget"
    yield from _kept_foot()


def _kept_by_closed_cursors() -> Iterator[str]:
    yield from _kept_head("the end of a cursor that is closed")
    for number, sequence in enumerate(UNCERTAIN):
        yield "      - *goesOn"
        yield from _opened_and_closed("collection", f"cursor{number}", _meets("killCursors", sequence))
    yield from _kept_foot()


def _opened_and_closed(collection: str, cursor: str, meets: Iterable[str]) -> Iterator[str]:
    yield "      - name: createFindCursor"
    yield f"        object: *{collection}"
    yield "        arguments: { filter: {}, batchSize: 1 }"
    yield f"        saveResultAsEntity: &{cursor} {cursor}"
    yield from meets
    yield f"      - {{ name: close, object: *{cursor} }}"
    yield "      - *forget"


def _kept_in_a_transaction(row: Row) -> Iterator[str]:
    yield from _kept_head(f"{row.operation} in a transaction")
    for number, sequence in enumerate(UNCERTAIN if row.reads else SEQUENCES):
        yield "      - *goesOn"
        yield "      - { name: startTransaction, object: *session }"
        if number % 2:
            yield "      - name: countDocuments"
            yield "        object: *collection"
            yield "        arguments: { session: *session, filter: {} }"
        yield from _meets(row.avoids, sequence)
        yield f"      - {_call(row, session='session', more=_IGNORED)}"
        yield "      - { name: abortTransaction, object: *session }"
        yield "      - *forget"
    yield from _kept_foot()


def _kept_by_ends() -> Iterator[str]:
    for command in ("commitTransaction", "abortTransaction"):
        yield from _kept_head(command)
        for sequence in SEQUENCES:
            yield "      - *goesOn"
            yield "      - { name: startTransaction, object: *session }"
            yield f"      - {_call(STATEMENTS[0], session='session')}"
            yield from _meets(command, sequence)
            yield f"      - {{ name: {command}, object: *session, ignoreResultAndError: true }}"
            yield "      - *forget"
        yield from _kept_foot()


def _kept_in_real_time() -> Iterator[str]:
    for row in ENOUGH:
        yield from _kept_head(f"in real time {row.operation}")
        for number, sequence in enumerate(IN_REAL_TIME):
            if row.reads and "nwritten" in sequence:
                continue
            yield from _meets(row.avoids, sequence)
            yield f"      - {_call(row, session='session' if number % 2 else '', more=_IGNORED)}"
            yield "      - *forget"
        yield from _kept_foot("keptInRealTime")
    for row in ENOUGH[:3]:
        yield from _kept_head(f"in real time {row.operation} in a transaction")
        for sequence in IN_REAL_TIME:
            if row.reads and "nwritten" in sequence:
                continue
            yield "      - { name: startTransaction, object: *session }"
            yield from _meets(row.avoids, sequence)
            yield f"      - {_call(row, session='session', more=_IGNORED)}"
            yield "      - { name: abortTransaction, object: *session }"
            yield "      - *forget"
        yield from _kept_foot("keptInRealTime")
    for command in ("commitTransaction", "abortTransaction"):
        yield from _kept_head(f"in real time {command}")
        for sequence in IN_REAL_TIME:
            yield "      - { name: startTransaction, object: *session }"
            yield f"      - {_call(STATEMENTS[0], session='session')}"
            yield from _meets(command, sequence)
            yield f"      - {{ name: {command}, object: *session, ignoreResultAndError: true }}"
            yield "      - *forget"
        yield from _kept_foot("keptInRealTime")


# --- options ---


CLIENTS: Final = ("noReads", "noWrites")


def _options_head(what: str) -> Iterator[str]:
    yield f"  - description: {what} is sent again by the option that it goes by, and not by the other"
    yield "    # Rules: CB-1, CB-6, CB-32, RW-26, RW-39, RW-60"
    yield "    # Wrong driver: asks the other option, both or none for this operation."
    yield "    operations:"


def _kept_without(row: Row) -> Iterator[str]:
    yield from _options_head(titled(row))
    for client in CLIENTS:
        for number, sequence in enumerate(MET_WITHOUT):
            own = number % 2 == 1 and row.operation not in _NO_SESSION
            session = f"{client}Session" if own else ""
            yield from _meets(row.avoids, sequence, app_name=f"{client}Name")
            yield f"      - {_call(row, session=session, more=_IGNORED, client=client)}"
            yield "      - *forget"
    yield from _kept_foot()


def _kept_without_by_cursors() -> Iterator[str]:
    row = Row("find", "collection", "{ filter: {}, batchSize: 1 }")
    yield from _options_head("the next batch of a cursor")
    for client in CLIENTS:
        for sequence in MET_WITHOUT:
            yield from _meets("getMore", sequence, app_name=f"{client}Name")
            yield f"      - {_call(row, more=_IGNORED, client=client)}"
            yield "      - *forget"
    yield from _kept_foot()
    yield from _options_head("the end of a cursor that is closed")
    for client in CLIENTS:
        for number, sequence in enumerate(MET_WITHOUT):
            meets = _meets("killCursors", sequence, app_name=f"{client}Name")
            yield from _opened_and_closed(f"{client}Collection", f"{client}Cursor{number}", meets)
    yield from _kept_foot()


def _kept_without_in_a_transaction(row: Row) -> Iterator[str]:
    yield from _options_head(f"{row.operation} in a transaction")
    for client in CLIENTS:
        for sequence in MET_WITHOUT:
            yield f"      - {{ name: startTransaction, object: *{client}Session }}"
            yield from _meets(row.avoids, sequence, app_name=f"{client}Name")
            yield f"      - {_call(row, session=f'{client}Session', more=_IGNORED, client=client)}"
            yield f"      - {{ name: abortTransaction, object: *{client}Session }}"
            yield "      - *forget"
    yield from _kept_foot()


def _kept_without_by_ends() -> Iterator[str]:
    for command in ("commitTransaction", "abortTransaction"):
        yield f"  - description: {command} is sent again whatever the options say"
        yield "    # Rules: CB-6, RW-22, RW-60"
        yield "    # Wrong driver: asks retryWrites for the end of a transaction too."
        yield "    operations:"
        for client in CLIENTS:
            for sequence in MET_WITHOUT:
                yield f"      - {{ name: startTransaction, object: *{client}Session }}"
                yield f"      - {_call(STATEMENTS[0], session=f'{client}Session', client=client)}"
                yield from _meets(command, sequence, app_name=f"{client}Name")
                yield f"      - {{ name: {command}, object: *{client}Session, ignoreResultAndError: true }}"
                yield "      - *forget"
        yield from _kept_foot()


# --- slow replies ---

_ONCE: Final = frozenset({"updateMany", "deleteMany"})
_SLOW_TWICE: Final = frozenset({"find", "insertOne"})
_LATE: Final = "blockConnection: true, blockTimeMS: 600"


def _slow_replies(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        reads = row in GROUPS["reads"] or row in GROUPS["cursors"]
        writes = row in GROUPS["writes"] and row.operation not in _ONCE and "$out" not in row.arguments
        again = reads or writes
        yield from _slow_head(f"{titled(row)} is sent {'again' if again else 'once'}", reads=reads)
        yield from failing(row.avoids, _LATE)
        yield f"      - {_call(row, more='' if again else ', expectError: *lost')}"
        same = "[lsid, txnNumber]" if writes else "[lsid]"
        yield from attempts_of(row.avoids, *_silent(f"{{ meets: ok, same: {same} }}" if again else ""))
    for row in (row for row in rows if row.operation in _SLOW_TWICE and row.commands == 1):
        yield from _slow_head(f"{titled(row)} is sent again, and fails if that is as slow", reads=row.reads)
        yield from failing(row.avoids, _LATE, times=2)
        yield f"      - {_call(row, more=', expectError: *lost')}"
        yield from attempts_of(row.avoids, "{ meets: silence }", "{ meets: silence }")
    yield from _slow_head("the next batch of a cursor is asked for once", reads=True)
    yield from failing("getMore", _LATE)
    more = "arguments: { filter: {}, batchSize: 2 }, expectError: *lost"
    yield f"      - {{ name: find, object: *collection, {more} }}"
    yield from attempts_of("getMore", *_silent())
    for row in STATEMENTS:
        yield from _slow_head(
            f"{row.operation} in a transaction is sent once, and is transient", reads=row.reads
        )
        yield "      - { name: startTransaction, object: *session }"
        yield from failing(row.avoids, _LATE)
        yield f"      - {_call(row, session='session', more=', expectError: *transient')}"
        yield "      - { name: abortTransaction, object: *session }"
        yield from attempts_of(row.avoids, *_silent())
    for command in ("commitTransaction", "abortTransaction"):
        yield from _slow_head(f"{command} is sent again", reads=False)
        yield "      - { name: startTransaction, object: *session }"
        yield f"      - {_call(STATEMENTS[0], session='session')}"
        yield from failing(command, _LATE)
        yield f"      - {{ name: {command}, object: *session }}"
        yield from attempts_of(command, *_silent("{ meets: ok, same: [lsid, txnNumber] }"))


def _slow_head(what: str, *, reads: bool) -> Iterator[str]:
    yield f"  - description: after a reply that did not come in time {what}"
    rules = '"Retryable Reads: Retryable Error"' if reads else "RW-19, RW-22, RW-26, RW-51"
    yield f"    # Rules: {rules}"
    yield "    # Wrong driver: takes a time-out of the socket for another error than a lost connection."
    yield "    operations:"


def _silent(following: str = "") -> tuple[str, ...]:
    return ("{ meets: silence }", following) if following else ("{ meets: silence }",)


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
