"""Scenarios that are a table: what becomes of a check that waits for news when a pool's connection fails.

    python tests/support/check_lists.py        writes a file of spec_tests

The phases and failures are those of connection_lists. A network error that makes a server Unknown ends the
check under way, as nothing may come of it for a whole heartbeat; whatever else an operation meets leaves it
alone, an error too that asks for a check, as one is under way. A test of tests/tidy compares the file with
what would be written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from connection_lists import (
    BUSY,
    CLOSED,
    CUT,
    FOLDER,
    INTERRUPTED,
    LOSSES,
    NAMED,
    RECOVERING,
    REFUSED,
    RESET,
    SHUT_DOWN,
    SILENT,
    STEPPED_DOWN,
    Failure,
    Kind,
    due,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE: Final = FOLDER / "server-discovery-and-monitoring" / "every-check-under-way.yml"

MET: Final = {
    # Of a hello, only rules tell whether it is a pool's: with a user to authenticate.
    "hello": (CLOSED, SILENT, BUSY),
    "saslContinue": LOSSES,
    "find": (*LOSSES, REFUSED, STEPPED_DOWN, RECOVERING, SHUT_DOWN, INTERRUPTED, BUSY),
}
"""The phases of a pool's connection with what becomes of each while a check is under way."""

IN_REAL_TIME: Final = (
    *(("hello", CLOSED), ("saslContinue", CLOSED), ("saslContinue", SILENT)),
    *(("find", CLOSED), ("find", RESET), ("find", CUT), ("find", SILENT), ("find", STEPPED_DOWN)),
)
"""What every driver is asked."""

_HEAD: Final = """\
# What becomes of a check that waits for news when a connection of a pool fails: it ends with a network error
# that makes its server Unknown, which is found anew, and goes on whatever else an operation meets.
# `python tests/support/check_lists.py` writes this file from a table of phases and failures.
# Server Monitoring: hello or legacy hello Cancellation, Requesting an immediate check; SDAM: Error Handling
description: every-check-under-way
schemaVersion: "1.10"

runOnRequirements:
  - minServerVersion: "4.9"
    topologies: [single, replicaset, sharded]

createEntities:
  - client: { id: &operator operator, useMultipleMongoses: false }
  - database: { id: &operatorAdmin operatorAdmin, client: *operator, databaseName: admin }

initialData:
  - collectionName: &collectionName stock
    databaseName: &databaseName pushbackd
    documents: [{ _id: 1 }]

_yamlAnchors:
  asks: &asks
    appName: &appName underWay
    serverMonitoringMode: stream
    heartbeatFrequencyMS: 30000
    connectTimeoutMS: 500
    serverSelectionTimeoutMS: 5000
    retryReads: false
  events: &events
    - serverHeartbeatStartedEvent
    - serverHeartbeatFailedEvent
    - serverDescriptionChangedEvent
    - poolReadyEvent
    - poolClearedEvent
{named}  find: &find { name: find, object: *stockId, arguments: { filter: {} } }
  operations:
{operations}
  single: &single [{ topologies: [single, replicaset, sharded] }]
  singleAuth: &singleAuth [{ topologies: [single, replicaset, sharded], auth: true }]
  inSet: &inSet [{ topologies: [replicaset] }]
  ruled: &ruled { runOn: { time: virtual }, expectRules: all }
  # What a busy machine says the same of each time.
  inRealTime: &inRealTime { runOn: { time: real }, expectRules: [cancelled-check] }

tests:
"""

_CLIENTS: Final = {
    "streaming": "{ <<: *asks, directConnection: true }",
    # What ends the wait for a reply: of some drivers, connectTimeoutMS ends connecting alone.
    "streamingTimed": "{ <<: *asks, directConnection: true, socketTimeoutMS: 500 }",
    "streamingSet": "*asks",
}
"""The clients of cases, with the options of each."""

_ASKED: Final = "serverHeartbeatStartedEvent: { awaited: true }"
"""News are asked for."""

_WAITED_FOR: Final = {
    "known": ("serverDescriptionChangedEvent: {}", 1),
    "allWait": (_ASKED, 3),
    "unknown": ("serverDescriptionChangedEvent: { newDescription: { type: Unknown } }", 1),
    "cleared": ("poolClearedEvent: {}", 1),
}
_COUNTED: Final = {
    "askedOneAgain": (_ASKED, 4),
    "failedNone": ("serverHeartbeatFailedEvent: {}", 0),
}
"""Events that cases wait for or count."""

_WAITS: Final = {
    "settles": (800, "the monitor waits for news by then"),
    "aSecond": (1000, "longer than between two checks"),
}


def _anchors() -> Iterator[str]:
    """Yield the operations that many cases have."""
    for name, options in _CLIENTS.items():
        entities = (
            f"[client: {{ <<: *client, uriOptions: {options} }}, database: *database, collection: *stock]"
        )
        yield f"    - &{name} {{ <<: *create, arguments: {{ entities: {entities} }} }}"
    for way, events in (("awaited", _WAITED_FOR), ("counted", _COUNTED)):
        for name, (event, number) in events.items():
            arguments = f"{{ client: *clientId, event: {{ {event} }}, count: {number} }}"
            yield f"    - &{name} {{ <<: *{way}, arguments: {arguments} }}"
    for name, (milliseconds, why) in _WAITS.items():
        waits = f"{{ name: wait, object: testRunner, arguments: {{ ms: {milliseconds} }} }}"
        yield f"    - &{name} {waits} # lint: allow timed-wait, {why}"
    yield "    - &fails { <<: *find, expectError: { isError: true } }"
    yield "    - &served { <<: *find, expectResult: [{ _id: 1 }] }"


_SUBJECTS: Final = {
    "hello": "a connection whose hello",
    "saslContinue": "a connection whose login",
    "find": "a connection whose first command",
}
_ALLOWED: Final = {f"*{name}": f" # lint: allow timed-wait, {why}" for name, (_, why) in _WAITS.items()}


def ends_the_check(phase: str, failure: Failure) -> bool:
    """Return whether a failure is a network error that makes the server Unknown."""
    return failure.kind in (Kind.LOST, Kind.LATE) and bool(due(phase, failure).unknown)


def _happens(phase: str, failure: Failure) -> str:
    """Return the operation that has a phase of a pool's connection fail once."""
    if failure.rule:
        only = ", document: { speculativeAuthenticate: { $exists: true } }" if phase == "hello" else ""
        when = f"{{ command: {phase}, appName: *appName{only} }}"
        made = f"pushbackd: addRule, rule: {{ when: {when}, then: {failure.rule}, times: 1 }}"
    else:
        where = f"command: {phase}, appName: *appName, {failure.fault}"
        made = f"pushbackd: addFault, fault: {{ {where}, times: 1 }}"
    return f"{{ <<: *command, arguments: {{ commandName: pushbackd, command: {{ {made} }} }} }}"


def _case(what: str, wrong: str, *operations: str, where: str, rules: str, more: str = "") -> Iterator[str]:
    yield f"  - description: {what}"
    yield (
        "    # Rules: Server Monitoring: hello or legacy hello Cancellation, Requesting an immediate check;"
        " SDAM: Error Handling"
    )
    yield f"    # Wrong driver: {wrong}"
    yield f"    runOnRequirements: *{where}"
    yield "    operations:"
    yield from (f"      - {each}{_ALLOWED.get(each, '')}" for each in operations)
    yield f"    pushbackd: {{ <<: *{rules}, {more} }}" if more else f"    pushbackd: *{rules}"
    yield ""


def _ended(phase: str, failure: Failure, *, rules: str) -> Iterator[str]:
    """Yield a case: the check under way ends, and the next one finds the server."""
    yield from _case(
        f"{_when(rules)}{_SUBJECTS[phase]} {failure.words} ends the check under way,"
        " and its server is found anew",
        "waits for news of a server that it takes for Unknown until the next heartbeat.",
        _client(failure),
        "*known",
        "*settles",
        _happens(phase, failure),
        "*fails",
        "*unknown",
        "*cleared",
        "*served",
        where=_where(phase),
        rules=rules,
    )


def _kept(phase: str, failure: Failure, *, rules: str) -> Iterator[str]:
    """Yield a case: the check under way goes on."""
    yield from _case(
        f"{_when(rules)}{_SUBJECTS[phase]} {failure.words} leaves the check under way alone",
        "ends a check because of an error that says nothing of its connection.",
        _client(failure),
        "*known",
        "*settles",
        _happens(phase, failure),
        "*fails",
        "*aSecond",
        "*failedNone",
        where=_where(phase),
        rules=rules,
        more="expectConnections: [{ appName: *appName, monitoring: true, each: { closedBy: nobody } }]",
    )


def _alone() -> Iterator[str]:
    """Yield a case: the checks of other members go on."""
    yield from _case(
        f"{_SUBJECTS['find']} {CLOSED.words} ends the check of its own server alone",
        "ends the checks of all members.",
        "*streamingSet",
        "*allWait",
        "*settles",
        _happens("find", CLOSED),
        "*fails",
        "*unknown",
        "*served",
        "*aSecond",
        "*askedOneAgain",
        where="inSet",
        rules="ruled",
    )


def _client(failure: Failure) -> str:
    return "*streamingTimed" if failure.kind is Kind.LATE else "*streaming"


def _when(rules: str) -> str:
    return "in real time " if rules == "inRealTime" else ""


def _where(phase: str) -> str:
    return "single" if phase == "find" else "singleAuth"


def _cases() -> Iterator[str]:
    for phase, failures in MET.items():
        for failure in failures:
            case = _ended if ends_the_check(phase, failure) else _kept
            yield from case(phase, failure, rules="ruled")
            if (phase, failure) in IN_REAL_TIME:
                yield from case(phase, failure, rules="inRealTime")
    yield from _alone()


def texts() -> dict[Path, str]:
    """Return the file with its text."""
    head = _HEAD.replace("{named}", NAMED).replace("{operations}", "\n".join(_anchors()))
    return {FILE: (head + "\n".join(_cases())).rstrip("\n") + "\n"}


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
