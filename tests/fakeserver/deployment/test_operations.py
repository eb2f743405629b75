"""Requests are folded into operations, with their attempts and the errors that reached the application."""

from __future__ import annotations

from itertools import count
from math import inf
from typing import Any

import pytest

from fakeserver.deployment.records.operations import LOST, CommandTotals, OperationTotals

RETRYABLE = ["SystemOverloadedError", "RetryableError", "NoWritesPerformed"]
LSID = {"id": b"0123456789abcdef"}


class Talk:
    """A client on one connection that sends requests and gets replies, each a tenth of a second later."""

    def __init__(self) -> None:
        self.totals = OperationTotals()
        self.ids = count(1)
        self.now = 0.0

    def ask(self, **command: Any) -> int:
        request_id = next(self.ids)
        self.now += 0.1
        self.totals.asked(1, request_id, {**command, "$db": "shop"}, self.now)
        return request_id

    def reply(self, request_id: int, **document: Any) -> None:
        self.now += 0.1
        self.totals.answered(1, request_id, document, self.now)

    def say(self, reply: dict[str, Any], **command: Any) -> None:
        self.reply(self.ask(**command), **reply)

    def end(self) -> CommandTotals:
        self.totals.finish()
        return self.totals.total


OK: dict[str, Any] = {"ok": 1}
OVERLOADED = {"ok": 0, "code": 462, "errorLabels": RETRYABLE}
TERMINATED = {"ok": 0, "code": 473, "errorLabels": ["SystemOverloadedError"]}


def test_a_write_that_is_refused_and_sent_again_is_one_operation() -> None:
    talk = Talk()
    insert = {"insert": "orders", "lsid": LSID, "txnNumber": 1}
    talk.say(OVERLOADED, **insert)
    talk.say(OVERLOADED, **insert)
    talk.say(OK, **insert)
    total = talk.end()
    assert (total.operations, total.succeeded, total.errors, total.attempts) == (1, 1, 0, 3)
    assert total.attempts_per_success == 3
    assert total.longest_wait == pytest.approx(0.5)
    assert (talk.totals.requests, talk.totals.overloaded, talk.totals.retryable) == (3, 2, 2)


def test_a_write_with_the_next_number_is_another_operation_and_the_first_one_failed() -> None:
    talk = Talk()
    talk.say(OVERLOADED, insert="orders", lsid=LSID, txnNumber=1)
    talk.say(OK, insert="orders", lsid=LSID, txnNumber=2)
    total = talk.end()
    assert (total.operations, total.succeeded, total.errors, total.overload_errors) == (2, 1, 1, 1)


def test_an_overload_error_that_must_not_be_retried_reached_the_application() -> None:
    talk = Talk()
    talk.say(TERMINATED, find="orders", lsid=LSID)
    talk.say(OK, find="orders", lsid=LSID)
    total = talk.end()
    assert (total.operations, total.errors, talk.totals.overloaded, talk.totals.retryable) == (2, 1, 1, 0)


@pytest.mark.parametrize(
    "reply",
    [
        {"ok": 0, "code": 2},
        {"ok": 1, "writeErrors": [{"code": 11000}]},
        {"ok": 1, "writeConcernError": {"code": 64}},
    ],
)
def test_errors_of_every_kind_reach_the_application_at_once(reply: dict[str, Any]) -> None:
    talk = Talk()
    talk.say(reply, insert="orders", lsid=LSID, txnNumber=1)
    assert (talk.totals.total.errors, talk.totals.total.overload_errors) == (1, 0)


def test_a_read_after_a_lost_connection_is_a_retry() -> None:
    talk = Talk()
    talk.ask(find="orders", lsid=LSID)
    talk.totals.lost(1, talk.now + 0.1)
    talk.say(OK, find="orders", lsid=LSID, maxTimeMS=90)
    total = talk.end()
    assert (total.operations, total.succeeded, total.attempts) == (1, 1, 2)


def test_another_command_in_the_session_means_that_the_one_before_was_given_up() -> None:
    talk = Talk()
    talk.say(OVERLOADED, find="orders", lsid=LSID)
    talk.say(OK, find="carts", lsid=LSID)
    total = talk.end()
    assert (total.operations, total.errors) == (2, 1)


def test_what_failed_last_is_an_error_and_what_has_no_reply_is_nothing() -> None:
    talk = Talk()
    talk.say(OVERLOADED, find="orders", lsid=LSID)
    talk.ask(ping=1)
    assert talk.totals.total.operations == 0
    assert talk.end().errors == 1
    assert talk.totals.total.attempts_per_success == inf


def test_what_drivers_send_on_their_own_is_no_operation() -> None:
    talk = Talk()
    for name in ("hello", "saslStart", "endSessions"):
        talk.say(OK, **{name: 1})
    assert (talk.end().operations, talk.totals.requests) == (0, 0)


def test_a_write_that_wants_no_reply_has_succeeded() -> None:
    talk = Talk()
    talk.ask(insert="orders", writeConcern={"w": 0})
    assert talk.end().succeeded == 1


def test_commands_are_counted_by_their_names() -> None:
    talk = Talk()
    talk.say(OK, find="orders", lsid=LSID)
    talk.say(OK, insert="orders", lsid=LSID, txnNumber=1)
    talk.say(OK, find="orders", lsid=LSID)
    talk.end()
    assert {name: each.operations for name, each in talk.totals.commands.items()} == {"find": 2, "insert": 1}


def test_what_failed_is_counted_by_command_and_error() -> None:
    talk = Talk()
    talk.say({"ok": 1, "writeErrors": [{"code": 11000}]}, insert="orders", lsid=LSID, txnNumber=1)
    talk.say({"ok": 1, "writeErrors": [{"code": 11000}]}, insert="orders", lsid=LSID, txnNumber=2)
    talk.ask(insert="orders", lsid=LSID, txnNumber=3)
    talk.totals.lost(1, talk.now + 0.1)
    talk.end()
    assert talk.totals.failures == {("insert", 11000): 2, ("insert", LOST): 1}
    assert talk.totals.to_document()["failed"] == [
        {"command": "insert", "code": 11000, "error": "DuplicateKey", "count": 2},
        {"command": "insert", "code": None, "error": "connection lost", "count": 1},
    ]


@pytest.mark.parametrize(
    "opening",
    [{"aggregate": "orders", "pipeline": [{"$changeStream": {}}]}, {"find": "queue", "awaitData": True}],
)
def test_a_get_more_that_awaits_data_is_counted_apart(opening: dict[str, Any]) -> None:
    talk = Talk()
    talk.say({"ok": 1, "cursor": {"id": 7}}, **opening, lsid=LSID)
    talk.say({"ok": 1, "cursor": {"id": 7}}, getMore=7, collection="orders", lsid=LSID)
    talk.say({"ok": 0, "code": 11600}, getMore=7, collection="orders", lsid=LSID)
    assert talk.end().errors == 0
    assert (talk.totals.awaiting.operations, talk.totals.awaiting.errors) == (2, 1)
    assert "getMore" not in talk.totals.commands


def test_a_get_more_of_another_cursor_is_an_operation() -> None:
    talk = Talk()
    talk.say({"ok": 1, "cursor": {"id": 7}}, find="orders", lsid=LSID)
    talk.say({"ok": 0, "code": 11600}, getMore=7, collection="orders", lsid=LSID)
    assert talk.end().errors == 1
