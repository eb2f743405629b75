"""Scenarios that are lists: every error code of the table, retried or not.

    python tests/support/scenario_lists.py        writes spec_tests/retryable-writes/every-code.yml

A test of tests/tidy compares the file with what would be written: a new code of the table is judged at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from driver.policy.classification import RETRYABLE_READ_CODES, RETRYABLE_WRITE_CODES
from mongowire.codes import Category, ErrorCode, is_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FILE: Final = Path(__file__).parents[2] / "spec_tests" / "retryable-writes" / "every-code.yml"

LEFT_OUT: Final = {
    ErrorCode.OK: "no error",
    ErrorCode.ILLEGAL_OPERATION: "what it says is not always the server's (RW-8)",
    ErrorCode.LEGACY_NOT_PRIMARY: "a state change (SDAM), of which the retry specifications say nothing",
    ErrorCode.REAUTHENTICATION_REQUIRED: "its command is sent again after authentication (Auth)",
    ErrorCode.INGRESS_REQUEST_RATE_LIMIT_EXCEEDED: "labelled as overload by the server",
}
"""Codes that are in no list, and why."""

CODES_OF_A_CASE: Final = 90
"""So that a failure is found in a list that can be read."""

_BOTH: Final = "topologies: [replicaset, sharded]"

HEAD: Final = """\
# Every code that a server has: those after which a read or a write is sent again, and all others.
# `python tests/support/scenario_lists.py` writes this file from the table of codes.
# Retryable Reads: Retryable Error; Retryable Writes: RetryableWriteError Labels
description: every-code
schemaVersion: "1.0"

runOnRequirements:
  - topologies: [replicaset, sharded]

createEntities:
  - client: { id: &operator operator, useMultipleMongoses: false }
  - client: { id: &client client, useMultipleMongoses: false, uriOptions: { appName: &appName everyCode } }
  - database: { id: &database database, client: *client, databaseName: &databaseName pushbackd }
  - collection: { id: &collection collection, database: *database, collectionName: &collectionName stock }

initialData:
  - { collectionName: *collectionName, databaseName: *databaseName, documents: [{ _id: 1 }] }

tests:
"""


def text() -> str:
    """Return the file's text."""
    return HEAD + "\n".join(_cases())


def _cases() -> Iterator[str]:
    for code in sorted(RETRYABLE_READ_CODES):
        yield from _retried_read(code)
    for code in sorted(RETRYABLE_WRITE_CODES):
        yield from _retried_write(code)
    yield from _withheld(sorted(RETRYABLE_WRITE_CODES))
    yield from _read_code()
    closing = {code for code in ErrorCode if is_in(code, Category.CLOSE_CONNECTION)}  # no reply carries them
    others = sorted(set(ErrorCode) - RETRYABLE_READ_CODES - LEFT_OUT.keys() - closing)
    for start in range(0, len(others), CODES_OF_A_CASE):
        yield from _refused(others[start : start + CODES_OF_A_CASE])


def _fails(command: str, code: int, *, times: int = 1, more: str = "") -> str:
    data = f"{{ failCommands: [{command}], appName: *appName, errorCode: {code}{more} }}"
    point = f"{{ configureFailPoint: failCommand, mode: {{ times: {times} }}, data: {data} }}"
    return (
        "      - name: failPoint\n        object: testRunner\n"
        f"        arguments: {{ client: *operator, failPoint: {point} }}"
    )


def _find(expected: str) -> str:
    return f"      - {{ name: find, object: *collection, arguments: {{ filter: {{}} }}, {expected} }}"


def _insert(number: int, expected: str = "") -> str:
    arguments = f"{{ document: {{ _id: {number} }} }}"
    return f"      - {{ name: insertOne, object: *collection, arguments: {arguments}{expected} }}"


def _attempts(command: str, meets: Iterable[object]) -> str:
    each = ", ".join(f"{{ meets: {end} }}" for end in meets)
    return (
        "    pushbackd:\n"
        f"      expectAttempts: [{{ command: {command}, appName: *appName, attempts: [{each}] }}]\n"
    )


def _retried_read(code: ErrorCode) -> Iterator[str]:
    yield f"  - description: a read is sent again after {code.code_name}"
    yield "    # Rules: Retryable Reads: Retryable Error"
    yield f"    # Wrong driver: has no code {code:d} in its list."
    yield "    operations:"
    yield _fails("find", code)
    yield _find("expectResult: [{ _id: 1 }]")
    yield _attempts("find", (code.value, "ok"))


def _retried_write(code: ErrorCode) -> Iterator[str]:
    yield f"  - description: a write is sent again after {code.code_name}"
    yield "    # Rules: RW-24, RW-29"
    yield f"    # Wrong driver: before 4.4 lacks code {code:d}, or from 4.4 on ignores the label."
    yield "    runOnRequirements: [{ topologies: [replicaset] }] # a mongos labels nothing by itself"
    yield "    operations:"
    yield _fails("insert", code)
    yield _insert(2)
    yield _attempts("insert", (code.value, "ok"))


def _withheld(codes: Sequence[ErrorCode]) -> Iterator[str]:
    yield "  - description: no write is sent again after these codes when the server withholds the label"
    yield "    # Rules: RW-28"
    yield "    # Wrong driver: goes by codes though servers from 4.4 on label their errors."
    yield f'    runOnRequirements: [{{ minServerVersion: "4.4", {_BOTH} }}]'
    yield "    operations:"
    for code in codes:
        yield _fails("insert", code, more=", errorLabels: []")
        yield _insert(2, f", expectError: {{ errorCode: {code:d}, errorLabelsOmit: [RetryableWriteError] }}")
    yield _counts("insert", len(codes))


def _read_code() -> Iterator[str]:
    code = ErrorCode.READ_CONCERN_MAJORITY_NOT_AVAILABLE_YET
    yield f"  - description: no write is sent again after {code.code_name}"
    yield "    # Rules: RW-29"
    # From 4.4 on the server labels it for writes too.
    yield "    # Wrong driver: has one list for reads and writes."
    yield f'    runOnRequirements: [{{ maxServerVersion: "4.2.99", {_BOTH} }}]'
    yield "    operations:"
    yield _fails("insert", code)
    yield _insert(2, f", expectError: {{ errorCode: {code:d}, errorLabelsOmit: [RetryableWriteError] }}")
    yield _counts("insert", 1)


def _refused(codes: Sequence[ErrorCode]) -> Iterator[str]:
    span = f"from {codes[0]:d} to {codes[-1]:d}"
    yield f"  - description: of the codes {span} no other is a reason to send again"
    yield "    # Rules: RW-28, RW-29; Retryable Reads: Retryable Error"
    yield "    # Wrong driver: has one of these codes in its list, or tries again after every error."
    yield "    operations:"
    for code in codes:
        yield _fails("find, insert", code, times=2, more=", errorLabels: []")
        yield _find("expectError: { isClientError: false }")
        yield _insert(2, ", expectError: { isClientError: false, errorLabelsOmit: [RetryableWriteError] }")
    yield _counts("[find, insert]", 2 * len(codes))


def _counts(command: str, operations: int) -> str:
    return (
        "    pushbackd:\n"
        "      expectAttempts:\n"
        f"        - {{ command: {command}, appName: *appName, operations: {operations}, count: 1 }}\n"
    )


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
