"""Scenarios that are a table: every way in which a connection fails, where it fails, and to whom it goes.

    python tests/support/connection_lists.py        writes two files of spec_tests

Connections of pools fail while they are made (accepted, greeted, authenticated) or with their first command;
those of monitors with their first hello, a later one, one that waits for news, or one that measures a round
trip. What a driver has to do is a rule of phase and failure, and not of the server. A test of tests/tidy
compares the files with what would be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER: Final = Path(__file__).parents[2] / "spec_tests"
ESTABLISHED: Final = FOLDER / "connection-monitoring-and-pooling" / "every-failed-connection.yml"
CHECKED: Final = FOLDER / "server-discovery-and-monitoring" / "every-failed-check-of-a-server.yml"

_WRITTEN: Final = (
    "# `python tests/support/connection_lists.py` writes this file from a table of phases and failures."
)


class Kind(Enum):
    """What a failure is to a client, whatever it looks like on the wire."""

    LOST = "lost"
    LATE = "late"
    REFUSED = "refused"
    """An error of the server, which is there."""
    STEPPED_DOWN = "stepped down"
    SHUT_DOWN = "shut down"
    BUSY = "busy"
    """An error that says that the server is overloaded."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure: what is done to a request, as the effect of a rule or as a fault of bytes.

    `words` say what becomes of a phase: "the hello of a pool's connection WORDS".
    """

    words: str
    kind: Kind
    rule: str = ""
    fault: str = ""


CLOSED: Final = Failure("meets a closed connection", Kind.LOST, "{ close: true }")
RESET: Final = Failure("meets a reset connection", Kind.LOST, fault="at: reply, byte: 0, do: { reset: true }")
CUT: Final = Failure("is answered by half a reply", Kind.LOST, fault="at: reply, byte: 40, do: { cut: 0 }")
SILENT: Final = Failure("is not answered in time", Kind.LATE, "{ silence: true }")
STALLED: Final = Failure(
    "is answered by half a reply and then by nothing",
    Kind.LATE,
    fault="at: reply, byte: 40, do: { halfOpen: true }",
)
_LABELS: Final = "labels: [SystemOverloadedError, RetryableError]"
REFUSED: Final = Failure("is refused", Kind.REFUSED, "{ error: 8000, message: not today }")
WORDLESS: Final = Failure(
    "is refused without a code", Kind.REFUSED, "{ reply: { ok: 0, errmsg: not today } }"
)
FORBIDDEN: Final = Failure("is refused as unauthorized", Kind.REFUSED, "{ error: 13 }")
UNKNOWN_USER: Final = Failure("is refused for its user", Kind.REFUSED, "{ error: 18 }")
_NEWS: Final = (
    'extra: { topologyVersion: { processId: { $oid: "0000000000000000000000bb" }, '
    'counter: { $numberLong: "1" } } }'
)
"""Of another process, so that nobody may take it for old."""

STEPPED_DOWN: Final = Failure("meets NotWritablePrimary", Kind.STEPPED_DOWN, f"{{ error: 10107, {_NEWS} }}")
RECOVERING: Final = Failure("meets NotPrimaryOrSecondary", Kind.STEPPED_DOWN, f"{{ error: 13436, {_NEWS} }}")
SHUT_DOWN: Final = Failure("meets ShutdownInProgress", Kind.SHUT_DOWN, f"{{ error: 91, {_NEWS} }}")
INTERRUPTED: Final = Failure("meets InterruptedAtShutdown", Kind.SHUT_DOWN, f"{{ error: 11600, {_NEWS} }}")
BUSY: Final = Failure("meets an overloaded server", Kind.BUSY, f"{{ error: 462, {_LABELS} }}")

LOSSES: Final = (CLOSED, RESET, CUT, SILENT, STALLED)

ESTABLISHING: Final = {
    "accept": (
        Failure("is closed when it is accepted", Kind.LOST, fault="at: accept, do: { cut: 0 }"),
        Failure("is reset when it is accepted", Kind.LOST, fault="at: accept, do: { reset: true }"),
        Failure("is accepted and left alone", Kind.LATE, fault="at: accept, do: { halfOpen: true }"),
    ),
    "hello": (*LOSSES, REFUSED, WORDLESS, STEPPED_DOWN, RECOVERING, SHUT_DOWN, INTERRUPTED, BUSY),
    "saslContinue": (*LOSSES, UNKNOWN_USER, REFUSED, SHUT_DOWN),
    "find": (
        *(*LOSSES, REFUSED, WORDLESS, FORBIDDEN, UNKNOWN_USER),
        *(STEPPED_DOWN, RECOVERING, SHUT_DOWN, INTERRUPTED, BUSY),
    ),
}
"""The phases of a pool's connection with what may become of each."""

_SUBJECTS: Final = {
    "accept": "a connection that",
    "hello": "a connection whose hello",
    "saslContinue": "a connection whose login",
    "find": "a connection whose first command",
}


IN_REAL_TIME: Final = (
    ("accept", ESTABLISHING["accept"][2]),
    *(("hello", failure) for failure in (CLOSED, SILENT, SHUT_DOWN)),
    *(("saslContinue", failure) for failure in (CLOSED, SILENT, UNKNOWN_USER)),
    *(("find", failure) for failure in (CLOSED, SILENT, STEPPED_DOWN, SHUT_DOWN, BUSY)),
)
CHECKED_IN_REAL_TIME: Final = (
    *((failure, "polling") for failure in (CLOSED, SILENT, REFUSED)),
    (CLOSED, "streaming"),
)
"""What every driver is asked: phases of a pool's connection, and kinds of monitors.

The rest is asked in virtual time, where nothing is left to a busy machine, and costs less.
"""


@dataclass(frozen=True, slots=True)
class Due:
    """What a failure of a pool's connection asks for, by the rules of the specifications.

    `overload`: its error has the labels of overload (Client Backpressure: Overload while establishing).
    `unknown`, `cleared`: what becomes of the server and of its pool (SDAM: Error Handling). None: nobody
    says. `again`: whether a read that met it is tried once more (Retryable Reads: Retryable Error).
    """

    overload: bool = False
    unknown: bool | None = False
    cleared: bool | None = False
    again: bool = False


def due(phase: str, failure: Failure) -> Due:
    """Return what is due."""
    match phase, failure.kind:
        case (("accept" | "hello"), (Kind.LOST | Kind.LATE)):
            return Due(overload=True, again=True)
        case "hello", Kind.BUSY:
            return Due(overload=True, unknown=None, cleared=None, again=True)
        case "find", Kind.BUSY:
            return Due(overload=True, again=True)
        case _, Kind.STEPPED_DOWN if phase != "saslContinue":
            return Due(unknown=True, again=True)
        case _, Kind.SHUT_DOWN:
            return Due(unknown=True, cleared=True, again=True)
        case "hello", Kind.REFUSED:
            return Due(unknown=None, cleared=None)
        case "saslContinue", _:
            # What one connection may not do no other one may: all of them authenticate alike.
            return Due(unknown=True, cleared=True, again=failure.kind is not Kind.REFUSED)
        case "find", Kind.LATE:
            return Due(again=True)
        case "find", Kind.LOST:
            return Due(unknown=True, cleared=True, again=True)
    return Due()


_ALLOWED: Final = {
    "*fails": " # lint: allow timed-wait, it has failed by then",
    "*isLeftAlone": " # lint: allow timed-wait, no more come",
    "*threeHeartbeats": " # lint: allow timed-wait, three heartbeats",
}
"""What linting is told beside an operation that waits."""

_IN_REAL_TIME: Final = """\
  # What a busy machine says the same of each time.
  inRealTime: &inRealTime
    runOn: { time: real }
    expectRules: [outcome, failed-handshake, handshake-once, metadata, compression]
"""

# --- connections of pools ---


NAMED: Final = """\
  client: &client { id: &clientId client, useMultipleMongoses: false, observeEvents: *events }
  database: &database { id: &databaseId database, client: *clientId, databaseName: *databaseName }
  stock: &stock { id: &stockId stock, database: *databaseId, collectionName: *collectionName }
  create: &create { name: createEntities, object: testRunner }
  awaited: &awaited { name: waitForEvent, object: testRunner }
  counted: &counted { name: assertEventCount, object: testRunner }
  command: &command { name: runCommand, object: *operatorAdmin }
"""
"""Entities and operations that the lists of cases share."""

_HEAD: Final = f"""\
# Whatever becomes of a pool's connection while it is accepted, greeted and authenticated, or with its first
# command: what the operation is told, what becomes of server and pool, and who is served next.
{_WRITTEN}
# Client Backpressure: Overload while establishing; CMAP: Establishing a Connection; SDAM: Error Handling
description: every-failed-connection
schemaVersion: "1.10"

runOnRequirements:
  - minServerVersion: "4.9"
    topologies: [single, replicaset, sharded, load-balanced]

createEntities:
  - client: {{ id: &operator operator, useMultipleMongoses: false }}
  - database: {{ id: &operatorAdmin operatorAdmin, client: *operator, databaseName: admin }}
  - thread: {{ id: &first first }}
  - thread: {{ id: &second second }}

initialData:
  - collectionName: &collectionName stock
    databaseName: &databaseName pushbackd
    documents: [{{ _id: 1 }}]

_yamlAnchors:
  # Monitors ask once, so that what is added afterwards meets connections of pools.
  quiet: &quiet
    appName: &appName everyConnection
    connectTimeoutMS: 400
  # One server, so that the one connection of its monitor is the first.
  direct: &direct
    <<: *quiet
    directConnection: true
    serverMonitoringMode: poll
    heartbeatFrequencyMS: 60000
  events: &events
    - serverDescriptionChangedEvent
    - poolReadyEvent
    - poolClearedEvent
    - connectionCreatedEvent
    - connectionReadyEvent
    - connectionClosedEvent
    - connectionCheckOutStartedEvent
    - connectionCheckOutFailedEvent
{NAMED}  find: &find {{ name: find, object: *stockId, arguments: {{ filter: {{}} }} }}
  labels: &labels [SystemOverloadedError, RetryableError]
  started: &started {{ connectionCheckOutStartedEvent: {{}} }}
  failed: &failed {{ connectionCheckOutFailedEvent: {{}} }}
  notEstablished: &notEstablished {{ connectionCheckOutFailedEvent: {{ reason: connectionError }} }}
  broken: &broken {{ connectionClosedEvent: {{ reason: error }} }}
  cleared: &cleared {{ poolClearedEvent: {{}} }}
  unknown: &unknown {{ serverDescriptionChangedEvent: {{ newDescription: {{ type: Unknown }} }} }}
  operations:
{{operations}}
  single: &single [{{ topologies: [single, replicaset, sharded] }}]
  singleAuth: &singleAuth [{{ topologies: [single, replicaset, sharded], auth: true }}]
  balanced: &balanced [{{ topologies: [load-balanced] }}]
  balancedAuth: &balancedAuth [{{ topologies: [load-balanced], auth: true }}]
  inVirtualTime: &inVirtualTime {{ time: virtual }}
  ruled: &ruled {{ runOn: *inVirtualTime, expectRules: all }}
{_IN_REAL_TIME}
tests:
"""

_CLIENTS: Final = {
    "impatient": ", retryReads: false",
    "patient": "",
    "small": ", retryReads: false, maxPoolSize: 1, waitQueueTimeoutMS: 5000",
    "filling": ", retryReads: false, minPoolSize: 2",
}
"""The clients of cases, with the options of each."""
_TIMED: Final = ", socketTimeoutMS: 400"
"""What ends the wait for a reply: of some drivers, connectTimeoutMS ends connecting alone."""


class Place(Enum):
    """Where a case runs."""

    SINGLE = "single"
    BALANCED = "balanced"


_ALSO: Final = {Place.SINGLE: "", Place.BALANCED: " behind a load balancer"}
_OF_CLIENT: Final = {Place.SINGLE: "direct", Place.BALANCED: "quiet"}


def _anchors() -> Iterator[str]:
    """Yield the operations that many cases have."""
    for place in Place:
        timed = {f"{name}Timed": options + _TIMED for name, options in _CLIENTS.items()}
        for name, options in (_CLIENTS | timed).items():
            uri = f"uriOptions: {{ <<: *{_OF_CLIENT[place]}{options} }}"
            entities = f"[client: {{ <<: *client, {uri} }}, database: *database, collection: *stock]"
            anchor = f"&{name}{place.value.capitalize()}"
            yield f"    - {anchor} {{ <<: *create, arguments: {{ entities: {entities} }} }}"
    ready = "{ client: *clientId, event: { poolReadyEvent: {} }, count: 1 }"
    yield f"    - &ready {{ <<: *awaited, arguments: {ready} }}"
    yield "    - &served { <<: *find, expectResult: [{ _id: 1 }] }"
    for name, error in _ERRORS.items():
        yield f"    - &{name} {{ <<: *find, expectError: {{ {error} }} }}"
    for event in ("unknown", "cleared", "broken", "failed", "notEstablished"):
        for count in (0, 1):
            arguments = f"{{ client: *clientId, event: *{event}, count: {count} }}"
            yield f"    - &{event}{count} {{ <<: *counted, arguments: {arguments} }}"
            if count and event in ("unknown", "cleared", "broken"):  # some tell of it a little later
                yield f"    - &{event}Soon {{ <<: *awaited, arguments: {arguments} }}"
    for count, thread in enumerate(("first", "second"), 1):
        arguments = f"{{ client: *clientId, event: *started, count: {count} }}"
        yield f"    - &{thread}Asks {{ <<: *awaited, arguments: {arguments} }}"
        waits = f"{{ name: waitForThread, object: testRunner, arguments: {{ thread: *{thread} }} }}"
        yield f"    - &{thread}Waits {waits}"
    for event, count in (("connectionReadyEvent", _LEAST), ("connectionCreatedEvent", 1)):
        arguments = f"{{ client: *clientId, event: {{ {event}: {{}} }}, count: {count} }}"
        name = "filled" if count == _LEAST else "createdOne"
        for way in ("awaited", "counted") if count == _LEAST else ("counted",):
            yield f"    - &{name}{way.capitalize()} {{ <<: *{way}, arguments: {arguments} }}"
    for name, milliseconds in (("fails", 600), ("isLeftAlone", 2500)):
        waits = f"{{ name: wait, object: testRunner, arguments: {{ ms: {milliseconds} }} }}"
        yield f"    - &{name} {waits} # lint: allow timed-wait, in virtual time"


_ERRORS: Final = {
    "lost": "isClientError: true, errorLabelsOmit: *labels",
    "lostForOverload": "isClientError: true, errorLabelsContain: *labels",
    "refused": "isClientError: false, errorLabelsOmit: *labels",
    "refusedForOverload": "isClientError: false, errorLabelsContain: *labels",
    "forbidden": "isError: true, errorLabelsOmit: *labels",
}
"""What an operation raises. Whether the answer to a handshake is an error of the server, is each driver's."""


_LEAST: Final = 2
_SAID: Final = {"hello": "[hello, isMaster, ismaster]"}
"""How faults of bytes, which know no aliases, name a command."""


def _happens(phase: str, failure: Failure, *, nth: int = 1) -> str:
    """Return the operation that has a phase fail once, the n-th time that it is come to."""
    skipped = f", nth: {nth}" if nth > 1 else ""
    if failure.rule:
        when = f"{{ command: {phase}, appName: *appName{skipped} }}"
        made = f"pushbackd: addRule, rule: {{ when: {when}, then: {failure.rule}, times: 1 }}"
    else:
        only = "" if phase == "accept" else f"command: {_SAID.get(phase, phase)}, appName: *appName, "
        made = f"pushbackd: addFault, fault: {{ {only}{failure.fault}{skipped}, times: 1 }}"
    return f"{{ <<: *command, arguments: {{ commandName: pushbackd, command: {{ {made} }} }} }}"


def _case(
    what: str,
    phase: str,
    failure: Failure,
    place: Place,
    wrong: str,
    *operations: str,
    rules: str = "ruled",
    more: str = "",
) -> Iterator[str]:
    subject = f"{_SUBJECTS[phase]} {failure.words}"
    yield f"  - description: {what.format(subject)}{_ALSO[place]}"
    yield f"    # Rules: {_RULES}"
    yield f"    # Wrong driver: {wrong}"
    yield f"    runOnRequirements: *{place.value}{'Auth' if phase == 'saslContinue' else ''}"
    yield "    operations:"
    yield from (f"      - {each}{_ALLOWED.get(each, '')}" for each in operations)
    yield f"    pushbackd: {{ <<: *{rules}, {more} }}" if more else f"    pushbackd: *{rules}"
    yield ""


_RULES: Final = "CB-6, CB-27, CB-29, CMAP-68, CMAP-140; CMAP: Establishing a Connection; SDAM: Error Handling"


def _created(client: str, failure: Failure, place: Place) -> tuple[str, ...]:
    ready = () if place is Place.BALANCED else ("*ready",)
    timed = "Timed" if failure.kind is Kind.LATE else ""
    return (f"*{client}{timed}{place.value.capitalize()}", *ready)


def _raised(phase: str, failure: Failure) -> str:
    """Return the operation that met a failure, with what it raises."""
    is_lost = failure.kind in (Kind.LOST, Kind.LATE)
    if phase in ("hello", "saslContinue") and not is_lost and not due(phase, failure).overload:
        return "forbidden"
    return f"{'lost' if is_lost else 'refused'}{'ForOverload' if due(phase, failure).overload else ''}"


def _condemned(phase: str, failure: Failure, place: Place) -> Iterator[str]:
    """Yield what is told of server and pool. A load balancer is never Unknown, nor is what it hides."""
    asked, is_balanced = due(phase, failure), place is Place.BALANCED
    unknown = asked.unknown and not is_balanced
    # Before its hello is answered nobody knows which service it is.
    cleared = asked.cleared and not (is_balanced and phase == "hello")
    for event, is_due in (("unknown", unknown), ("cleared", cleared)):
        if is_due:
            yield f"*{event}Soon"
        if is_due is not None:
            yield f"*{event}{int(is_due)}"


def _told(phase: str, failure: Failure, place: Place, *, rules: str = "ruled") -> Iterator[str]:
    """Yield a case: what an application that does not retry is told, and what follows."""
    not_established = int(phase != "find")
    is_broken = not_established or failure.kind in (Kind.LOST, Kind.LATE)
    yield from _case(
        f"{'in real time ' if rules == 'inRealTime' else ''}{{}} is told of as what it is",
        phase,
        failure,
        place,
        "takes it for another failure, of which server, pool or application are told otherwise.",
        *_created("impatient", failure, place),
        _happens(phase, failure),
        f"*{_raised(phase, failure)}",
        *_condemned(phase, failure, place),
        *(("*brokenSoon", "*broken1") if is_broken else ("*broken0",)),
        f"*notEstablished{not_established}",
        f"*failed{not_established}",
        "*served",
        rules=rules,
    )


def _again(phase: str, failure: Failure, place: Place) -> Iterator[str]:
    """Yield a case: a read that may be tried again is, and its command is sent as often as it has to be."""
    count = 1 + (phase == "find")
    yield from _case(
        "{} costs a read nothing but time",
        phase,
        failure,
        place,
        "raises what another connection would have spared the application, or tries again at once.",
        *_created("patient", failure, place),
        _happens(phase, failure),
        "*served",
        *_condemned(phase, failure, place),
        more=f"expectAttempts: [{{ command: find, appName: *appName, count: {count} }}]",
    )


def _once(phase: str, failure: Failure, place: Place) -> Iterator[str]:
    """Yield a case: what no other connection would change is told at once."""
    sent = int(phase == "find")
    yield from _case(
        "{} is told of at once",
        phase,
        failure,
        place,
        "tries again whatever went wrong with a connection.",
        *_created("patient", failure, place),
        _happens(phase, failure),
        f"*{_raised(phase, failure)}",
        "*createdOneCounted",
        more=f"expectAttempts: [{{ command: find, appName: *appName, operations: {sent} }}]",
    )


# Others wait for a connection of the same pool, which has room for one.

WAITED_FOR: Final = {
    "hello": (CLOSED, SILENT, STEPPED_DOWN, SHUT_DOWN),
    "saslContinue": (CLOSED, SILENT, UNKNOWN_USER),
    "find": (CLOSED, SILENT, REFUSED, STEPPED_DOWN, SHUT_DOWN, BUSY),
}


def _waiting(phase: str, failure: Failure, place: Place) -> Iterator[str]:
    """Yield a case: who waits is served by the next connection, or told that the pool was cleared."""
    cleared = due(phase, failure).cleared and place is not Place.BALANCED
    late = Failure(failure.words, failure.kind, f"[{{ delay: 200ms }}, {failure.rule}]")
    on_threads: list[str] = []
    for thread, operation in (
        ("first", _raised(phase, failure)),
        ("second", "lost" if cleared else "served"),
    ):
        arguments = f"{{ thread: *{thread}, operation: *{operation} }}"
        on_threads += [
            f"{{ name: runOnThread, object: testRunner, arguments: {arguments} }}",
            f"*{thread}Asks",
        ]
    yield from _case(
        f"who waits behind {{}} {'is told so' if cleared else 'is served'}",
        phase,
        failure,
        place,
        "leaves the queue as it is, or has it pay for what met another.",
        *_created("small", failure, place),
        _happens(phase, late),
        *on_threads,
        "*firstWaits",
        "*secondWaits",
        *_condemned(phase, failure, place),
        "*served",
    )


# Nobody waits for what fills a pool.

FILLS: Final = {
    "accept": ESTABLISHING["accept"],
    "hello": (CLOSED, RESET, CUT, SILENT, STALLED, STEPPED_DOWN, SHUT_DOWN),
    "saslContinue": (CLOSED, SILENT, CUT, UNKNOWN_USER),
}


def _filling(phase: str, failure: Failure, place: Place) -> Iterator[str]:
    """Yield a case: a connection that was to fill the pool fails, and the pool is filled all the same."""
    is_second = phase != "saslContinue" and place is not Place.BALANCED  # the monitor's own is the first
    yield from _case(
        "{} is made anew to fill the pool",
        phase,
        failure,
        place,
        "fills no further, in a loop, or more than asked for, or tells those of it who wait for nothing.",
        _happens(phase, failure, nth=1 + is_second),
        *_created("filling", failure, place),
        "*fails",
        "*served",
        "*filledAwaited",
        "*isLeftAlone",
        "*filledCounted",
        "*broken1",
        "*failed0",
        *_condemned(phase, failure, place),
    )


def established() -> str:
    """Return the text of the scenarios of pools' connections."""
    return _HEAD.replace("{operations}", "\n".join(_anchors())) + "\n".join(_established()) + "\n"


def _established() -> Iterator[str]:
    for place in Place:
        for phase, failures in ESTABLISHING.items():
            for failure in failures:
                yield from _told(phase, failure, place)
                if place is Place.SINGLE and (phase, failure) in IN_REAL_TIME:
                    yield from _told(phase, failure, place, rules="inRealTime")
                # Whether a refused hello is tried again is nobody's rule.
                if due(phase, failure).again:
                    yield from _again(phase, failure, place)
                elif (phase, failure.kind) != ("hello", Kind.REFUSED):
                    yield from _once(phase, failure, place)
        for phase, failures in WAITED_FOR.items():
            for failure in failures:
                yield from _waiting(phase, failure, place)
        for phase, failures in FILLS.items():
            for failure in failures:
                yield from _filling(phase, failure, place)


# --- connections of monitors ---


_CHECKS_HEAD: Final = f"""\
# Whatever becomes of a check, the first, a later one, one that waits for news or one that measures a round
# trip: what the monitor tells and when it asks again, what becomes of server, pool and of what runs on it.
{_WRITTEN}
# Server Monitoring: Network or command error during server check, Measuring RTT;
# CMAP: Clearing a Connection Pool
description: every-failed-check-of-a-server
schemaVersion: "1.10"

runOnRequirements:
  - minServerVersion: "4.9"
    topologies: [single, replicaset, sharded]

createEntities:
  - client: {{ id: &operator operator, useMultipleMongoses: false }}
  - database: {{ id: &operatorAdmin operatorAdmin, client: *operator, databaseName: admin }}
  - thread: {{ id: &thread thread }}

initialData:
  - collectionName: &collectionName stock
    databaseName: &databaseName pushbackd
    documents: [{{ _id: 1 }}]

_yamlAnchors:
  asks: &asks {{ appName: &appName everyCheck, heartbeatFrequencyMS: 1000, connectTimeoutMS: 500 }}
  events: &events
    - serverHeartbeatStartedEvent
    - serverHeartbeatSucceededEvent
    - serverHeartbeatFailedEvent
    - serverDescriptionChangedEvent
    - topologyDescriptionChangedEvent
    - poolReadyEvent
    - poolClearedEvent
    - connectionClosedEvent
    - commandStartedEvent
{NAMED}  operations:
{{operations}}
  single: &single [{{ topologies: [single, replicaset, sharded] }}]
  inSet: &inSet [{{ topologies: [replicaset] }}]
  inVirtualTime: &inVirtualTime {{ time: virtual }}
  ruled: &ruled {{ runOn: *inVirtualTime, expectRules: all }}
{_IN_REAL_TIME}  measured: &measured {{ runOn: {{ time: real }}, expectRules: [round-trips] }}

tests:
"""

_WATCHERS: Final = {
    "polling": "directConnection: true, serverMonitoringMode: poll",
    "streaming": "directConnection: true, serverMonitoringMode: stream",
    "pollingSet": "serverMonitoringMode: poll",
    "streamingSet": "serverMonitoringMode: stream",
}
"""The clients of cases, with the options of each."""

_COUNTED: Final = {
    "failed": "serverHeartbeatFailedEvent: {}",
    "failedCheck": "serverHeartbeatFailedEvent: { awaited: false }",
    "failedNews": "serverHeartbeatFailedEvent: { awaited: true }",
    "news": "serverHeartbeatSucceededEvent: { awaited: true }",
    "unknown": "serverDescriptionChangedEvent: { newDescription: { type: Unknown } }",
    "primary": "serverDescriptionChangedEvent: { newDescription: { type: RSPrimary } }",
    "secondary": "serverDescriptionChangedEvent: { newDescription: { type: RSSecondary } }",
    "primaryLost": "topologyDescriptionChangedEvent: { previousDescription: { type: ReplicaSetWithPrimary }, "
    "newDescription: { type: ReplicaSetNoPrimary } }",
    "ready": "poolReadyEvent: {}",
    "cleared": "poolClearedEvent: {}",
    "clearedAlone": "poolClearedEvent: { interruptInUseConnections: false }",
    "interrupted": "poolClearedEvent: { interruptInUseConnections: true }",
    "stale": "connectionClosedEvent: { reason: stale }",
    "gone": "connectionClosedEvent: {}",
    "asked": "commandStartedEvent: { commandName: find }",
}
"""Events that cases wait for or count."""


def _watching() -> Iterator[str]:
    """Yield the operations that many cases have."""
    for name, options in _WATCHERS.items():
        uri = f"uriOptions: {{ <<: *asks, {options} }}"
        entities = f"[client: {{ <<: *client, {uri} }}, database: *database, collection: *stock]"
        yield f"    - &{name} {{ <<: *create, arguments: {{ entities: {entities} }} }}"
    find = "name: find, object: *stockId, arguments: { filter: {} }, expectResult: [{ _id: 1 }]"
    yield f"    - &served {{ {find} }}"
    runs = f"{{ thread: *thread, operation: {{ {find} }} }}"
    yield f"    - &runs {{ name: runOnThread, object: testRunner, arguments: {runs} }}"
    yield "    - &ends { name: waitForThread, object: testRunner, arguments: { thread: *thread } }"
    yield "    - &written { name: insertOne, object: *stockId, arguments: { document: { _id: 2 } } }"
    slow = "when: { command: find, appName: *appName }, then: { delay: 1500ms }, times: 1"
    added = f"{{ commandName: pushbackd, command: {{ pushbackd: addRule, rule: {{ {slow} }} }} }}"
    yield f"    - &findIsSlow {{ <<: *command, arguments: {added} }}"
    waits = "{ name: wait, object: testRunner, arguments: { ms: 3500 } }"
    yield f"    - &threeHeartbeats {waits} # lint: allow timed-wait, in virtual time"


def _soon(event: str, count: int = 1) -> str:
    arguments = f"{{ client: *clientId, event: {{ {_COUNTED[event]} }}, count: {count} }}"
    return f"{{ <<: *awaited, arguments: {arguments} }}"


def _times(event: str, count: int) -> str:
    arguments = f"{{ client: *clientId, event: {{ {_COUNTED[event]} }}, count: {count} }}"
    return f"{{ <<: *counted, arguments: {arguments} }}"


_ANSWERED: Final = (REFUSED, WORDLESS, STEPPED_DOWN, SHUT_DOWN, BUSY)
_AWAITS: Final = "document: { topologyVersion: { $exists: true } }"
_MEASURES: Final = "document: { topologyVersion: { $exists: false }, client: { $exists: false } }"
_CHECKS: Final = (
    "Server Monitoring: Network or command error during server check; SDAM: Connection Pool Management"
)


def _meets(failure: Failure, *, only: str = "", node: str = "") -> str:
    """Return the operation that has the next hello fail."""
    where = "".join(f", {each}" for each in (node and f"node: {node}", only) if each)
    if failure.rule:
        when = f"{{ command: hello, appName: *appName{where} }}"
        made = f"pushbackd: addRule, rule: {{ when: {when}, then: {failure.rule}, times: 1 }}"
    elif failure.fault.startswith("at: accept"):
        made = f"pushbackd: addFault, fault: {{ {failure.fault}, times: 1 }}"
    else:
        made = (
            f"pushbackd: addFault, fault: {{ command: {_SAID['hello']}, appName: *appName,"
            f" {failure.fault}{where}, times: 1 }}"
        )
    return f"{{ <<: *command, arguments: {{ commandName: pushbackd, command: {{ {made} }} }} }}"


def _check(
    what: str,
    wrong: str,
    *operations: str,
    where: str = "single",
    rules: str = "ruled",
    more: str = "",
) -> Iterator[str]:
    yield f"  - description: {what}"
    yield f"    # Rules: {_CHECKS}"
    yield f"    # Wrong driver: {wrong}"
    yield f"    runOnRequirements: *{where}"
    yield "    operations:"
    yield from (f"      - {each}{_ALLOWED.get(each, '')}" for each in operations)
    yield f"    pushbackd: {{ <<: *{rules}, {more} }}" if more else f"    pushbackd: *{rules}"
    yield ""


def _first(failure: Failure) -> Iterator[str]:
    """Yield a case: the first check of a server fails, and nothing was known that could be lost."""
    accepted = "a monitor's connection" if "accept" in failure.fault else "a first check that"
    yield from _check(
        f"{accepted} {failure.words} is repeated, and costs nothing but time",
        "tells of a clear of a pool that was never ready, asks in a loop, or not before the next heartbeat.",
        _meets(failure),
        "*polling",
        "*served",
        _times("failedCheck", 1),
        _times("failed", 1),
        _times("cleared", 0),
        _times("ready", 1),
    )


def _later(failure: Failure, client: str, *, rules: str = "ruled") -> Iterator[str]:
    """Yield a case: a server was known, and a command runs on it, when a check of it fails."""
    awaits = client == "streaming"
    late = failure.kind is Kind.LATE
    ends = "is interrupted and tried again" if late else "ends as it would have"
    when = "in real time " if rules == "inRealTime" else ""
    yield from _check(
        f"{when}a check that {'waits for news and ' if awaits else ''}{failure.words}"
        f" has its server found anew, and what runs there {ends}",
        "keeps server or pool, interrupts without a cause, or asks again too soon or too late.",
        f"*{client}",
        "*served",
        *((_soon("news"),) if awaits else ()),
        "*findIsSlow",
        "*runs",
        _soon("asked", 2),
        _meets(failure, only=_AWAITS if awaits else ""),
        _soon("failedNews" if awaits else "failedCheck"),
        _soon("cleared" if rules == "inRealTime" else "interrupted" if late else "clearedAlone"),
        _soon("unknown"),
        "*ends",
        _soon("ready", 2),
        "*served",
        _times("failed", 1),
        _times("unknown", 1),
        _times("cleared", 1),
        _soon("gone"),
        _times("gone" if late else "stale", 1),
        rules=rules,
        more=f"expectAttempts: [{{ command: find, appName: *appName, operations: 3,"
        f" count: {{ max: {1 + late} }} }}]",
    )


def _round_trip(failure: Failure, *, rules: str = "ruled") -> Iterator[str]:
    """Yield a case: what measures round trips fails, which says nothing of the server, and goes on."""
    yield from _check(
        f"{'in real time ' if rules == 'measured' else ''}a measure of the round trip that {failure.words}"
        " says nothing of its server",
        "takes what measures round trips for a check.",
        "*streaming",
        "*served",
        _soon("news"),
        _meets(failure, only=_MEASURES),
        *(["*threeHeartbeats"] * (2 if rules == "measured" else 1)),
        "*served",
        _times("failed", 0),
        _times("unknown", 0),
        _times("cleared", 0),
        _times("gone", 0),
        rules=rules,
    )


def _member(failure: Failure, client: str, *, primary: bool) -> Iterator[str]:
    """Yield a case: a check of one member of a set fails, and the others are as they were."""
    awaits = client.startswith("streaming")
    who, waits = "the primary" if primary else "a secondary", "waits for news and " if awaits else ""
    yield from _check(
        f"a check of {who} that {waits}{failure.words} is about nobody else",
        "has other members pay for it, or takes the set for one without a primary, or with one.",
        f"*{client}",
        _soon("primary"),
        _soon("secondary", 2),
        *((_soon("news", 3),) if awaits else ()),
        _meets(failure, only=_AWAITS if awaits else "", node="primary" if primary else "node1"),
        _soon("unknown"),
        "*written",
        _soon("primary" if primary else "secondary", 2 if primary else 3),
        "*threeHeartbeats",
        _times("failed", 1),
        _times("unknown", 1),
        _times("cleared", 1),
        _times("primaryLost", int(primary)),
        _times("primary", 1 + primary),
        where="inSet",
    )


def checked() -> str:
    """Return the text of the scenarios of monitors' connections."""
    return _CHECKS_HEAD.replace("{operations}", "\n".join(_watching())) + "\n".join(_checked()) + "\n"


def _checked() -> Iterator[str]:
    for failure in (*ESTABLISHING["accept"], *LOSSES, *_ANSWERED):
        yield from _first(failure)
    for failure in (*LOSSES, *_ANSWERED):
        yield from _later(failure, "polling")
    for failure in (CLOSED, SILENT, *_ANSWERED):
        yield from _later(failure, "streaming")
    for failure, client in CHECKED_IN_REAL_TIME:
        yield from _later(failure, client, rules="inRealTime")
    for failure in (CLOSED, SILENT, REFUSED, BUSY):
        yield from _round_trip(failure)
    yield from _round_trip(CLOSED, rules="measured")
    for client in ("pollingSet", "streamingSet"):
        for failure in (CLOSED, SILENT, REFUSED):
            yield from _member(failure, client, primary=True)
            yield from _member(failure, client, primary=False)


def texts() -> dict[Path, str]:
    """Return the files with their texts."""
    return {
        ESTABLISHED: established().rstrip("\n") + "\n",
        CHECKED: checked().rstrip("\n") + "\n",
    }


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
