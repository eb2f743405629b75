"""The operation that a request belongs to, and the number of its attempt."""

from __future__ import annotations

from typing import Any

from fakeserver.rules import rule
from fakeserver.rules.rule import Attempts, OperationAttempt

FIND = {"find": "c", "filter": {"a": 1}, "$db": "db"}
INSERT = {"insert": "c", "$db": "db"}


def sent(
    counted: Attempts, command: dict[str, Any], *, txn: int | None = None, session: str = "s"
) -> OperationAttempt:
    return counted.of(next(iter(command)), command, session=session, txn_number=txn)


def test_requests_with_one_transaction_number_are_attempts_of_one_operation() -> None:
    counted = Attempts()
    first = sent(counted, INSERT, txn=1)
    counted.succeeded(first)  # its reply may be lost all the same
    assert sent(counted, INSERT, txn=1) == OperationAttempt(first.number, 2)
    assert sent(counted, INSERT, txn=2).attempt == 1
    assert sent(counted, INSERT, txn=1, session="other").attempt == 1
    assert sent(counted, {"commitTransaction": 1, "autocommit": False}, txn=1).attempt == 1
    assert sent(counted, {"commitTransaction": 1, "autocommit": False}, txn=1).attempt == 2


def test_statements_of_a_transaction_are_operations_of_their_own() -> None:
    counted, statement = Attempts(), INSERT | {"autocommit": False, "txnNumber": 1}
    first = sent(counted, statement, txn=1)
    counted.succeeded(first)
    assert sent(counted, statement, txn=1).attempt == 1


def test_the_same_read_after_a_failure_is_another_attempt() -> None:
    counted = Attempts()
    first = sent(counted, FIND | {"$clusterTime": 1, "maxTimeMS": 9})
    again = sent(counted, FIND | {"$clusterTime": 2, "readConcern": {}})
    assert again == OperationAttempt(first.number, 2)
    counted.succeeded(again)
    assert sent(counted, FIND).attempt == 1


def test_another_read_and_another_session_are_other_operations() -> None:
    counted = Attempts()
    first = sent(counted, FIND)
    assert sent(counted, FIND, session="other").attempt == 1
    assert sent(counted, FIND | {"filter": {}}).attempt == 1
    assert sent(counted, FIND).number != first.number


def test_an_operation_that_gave_way_to_another_one_succeeds_without_effect() -> None:
    counted = Attempts()
    first = sent(counted, FIND)
    second = sent(counted, INSERT)
    counted.succeeded(first)
    assert sent(counted, INSERT) == OperationAttempt(second.number, 2)


def test_the_oldest_operations_are_forgotten() -> None:
    counted = Attempts()
    for number in range(rule.MOST + 1):
        sent(counted, INSERT, txn=number)
    assert sent(counted, INSERT, txn=rule.MOST).attempt == 2
    assert sent(counted, INSERT, txn=0).attempt == 1
