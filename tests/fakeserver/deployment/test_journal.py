"""The journal without a server: bounds, numbers, followers, lines of text, the search and the attempts."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson import Binary, Int64
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeserver import ClusterSpec
from fakeserver.deployment.records.events import (
    KINDS,
    ConnectionAccepted,
    ConnectionClosed,
    ConnectionQueued,
    FailPointHit,
    FailPointSet,
    FaultHit,
    MessageSent,
    ParameterSet,
    PrimaryElected,
    PrimarySteppedDown,
    RequestQueued,
    RuleHit,
    ServerChanged,
    VerbPerformed,
)
from fakeserver.deployment.records.journal import COMMAND_FINISHED, Journal, JournalFile
from fakeserver.deployment.records.journal_search import Criteria, covers, near_misses
from fakeserver.deployment.records.operations import operations_of, retried
from fakeserver.deployment.records.record import Origin
from harness.sim import run_virtual
from mongowire.connection import WireConnection
from mongowire.messages import OpCode, OpMsg

if TYPE_CHECKING:
    from pathlib import Path

    from fakeserver.deployment.records.events import Event


def enter(journal: Journal, command: dict[str, Any], outcome: str | int = "ok", **facts: Any) -> None:
    """Enter a command as a server does, at the instant `at`."""
    name = facts.get("name", next(iter(command)))
    at, node, connection = facts.get("at", 0.0), facts.get("node", "node0"), facts.get("connection", 1)
    command = {**command, "$db": "shop"}
    reply = WireConnection().send(OpMsg(bson.encode({"ok": 1.0})), request_id=1, response_to=7)
    lsid = command.get("lsid", {}).get("id")
    target = command[name] if name and isinstance(command[name], str) else ""
    enter_request(
        journal,
        (at, node, name, "shop" if name else "", 7, connection, lsid, command.get("txnNumber"), outcome),
        details=(
            facts.get("arrived", at),
            facts.get("app", ""),
            facts.get("verdict", "admitted"),
            facts.get("queue", ""),
            target if name else None,
        ),
        payload=OpMsg.of(command).to_payload(),
        reply=reply,
    )


def enter_request(
    journal: Journal,
    facts: tuple[Any, ...],
    *,
    payload: bytes,
    details: tuple[Any, ...] = (),
    reply: bytes = b"",
) -> None:
    """Enter a request without errors within its reply."""
    at, node, *finished = facts
    entry = (at, node, COMMAND_FINISHED, *finished, None, None, *details)
    journal.enter_request(entry, OpCode.MSG, payload, reply)


def session(number: int) -> dict[str, Any]:
    return {"lsid": {"id": Binary(bytes([number]) * 16, 4)}}


# Bounds and numbers.


@settings(max_examples=25)
@given(
    records=st.lists(st.one_of(st.none(), st.integers(0, 200)), max_size=40),
    capacity=st.integers(1, 12),
    capacity_bytes=st.integers(0, 600),
    cleared_after=st.integers(0, 40),
)
def test_a_journal_keeps_to_its_bounds_and_numbers_have_no_holes(
    records: list[int | None], capacity: int, capacity_bytes: int, cleared_after: int
) -> None:
    journal, cleared = Journal(capacity=capacity, capacity_bytes=capacity_bytes), 0
    for number, size in enumerate(records, 1):
        if size is None:
            journal.append(0.0, "node0", PrimaryElected("node0", number))
        else:
            facts = (0.0, "node0", "ping", "db", 1, 1, None, None, "ok")
            enter_request(journal, facts, payload=bytes(size))
        if number == cleared_after:
            cleared = journal.clear()
        kept = journal.records
        assert len(kept) <= capacity
        payloads = [each.exchange.payload for each in kept if each.exchange is not None]
        assert sum(map(len, payloads)) <= journal.bytes_kept <= capacity_bytes
        first = number - len(kept) + 1
        assert [each.seq for each in kept] == list(range(first, number + 1))
    assert journal.last_seq == len(records)
    assert journal.dropped == len(records) - len(journal) - cleared
    assert tuple(journal.newest_first()) == journal.records[::-1]


def test_large_documents_make_room_for_each_other_and_leave_the_facts() -> None:
    journal = Journal(capacity_bytes=400)
    for number in range(3):
        enter(journal, {"insert": "c", "documents": [{"_id": number, "text": "x" * 200}]})
    first, second, third = journal.records
    assert [first.exchange, second.exchange] == [None, None]
    assert third.exchange is not None
    assert first.to_document()["namespace"] == "shop.c"


def test_a_cleared_journal_goes_on_with_its_numbers() -> None:
    journal = Journal()
    enter(journal, {"ping": 1})
    enter(journal, {"ping": 1})
    assert journal.clear() == 2
    assert (journal.records, journal.dropped, journal.bytes_kept) == ((), 0, 0)
    enter(journal, {"ping": 1})
    assert [record.seq for record in journal.since(0)] == [3]


def test_a_spec_refuses_a_negative_bound() -> None:
    with pytest.raises(ValueError, match="journal_bytes must not be negative, as -1 is"):
        ClusterSpec.standalone(journal_bytes=-1)


# Documents and lines.


def test_a_request_is_told_with_its_documents() -> None:
    journal = Journal(origin=Origin(at=100.0, utc=1_000_000.0))
    enter(
        journal,
        {"find": "orders", "filter": {"a": 1}, **session(7)},
        462,
        at=100.5,
        arrived=100.25,
        app="shop",
        verdict="rejected",
        queue="executionTickets",
    )
    (record,) = journal.records
    document = record.to_document(documents=True)
    assert document.pop("date").timestamp() == 1_000_000.5
    request = document.pop("request")
    assert (request["find"], request["filter"]) == ("orders", {"a": 1})
    assert document == {
        "seq": 1,
        "at": 0.5,
        "node": "node0",
        "kind": "commandFinished",
        "command": "find",
        "db": "shop",
        "namespace": "shop.orders",
        "connection": 1,
        "requestId": 7,
        "appName": "shop",
        "lsid": "07" * 16,
        "verdict": "rejected",
        "queue": "executionTickets",
        "outcome": 462,
        "codeName": "IngressRequestRateLimitExceeded",
        "duration": 0.25,
        "reply": {"ok": 1.0},
    }
    assert "request" not in record.to_document()


def test_a_request_that_nobody_read_is_read_for_the_journal() -> None:
    journal = Journal()
    enter(journal, {"find": "orders"}, 462, name="", verdict="rejected", queue="requestRateLimiter")
    document = journal.records[0].to_document()
    assert (document["command"], document["namespace"]) == ("find", "shop.orders")


def test_bytes_that_are_no_command_make_a_record_all_the_same() -> None:
    journal = Journal()
    facts = (0.0, "node0", "", "", 1, 1, None, None, 22)
    enter_request(journal, facts, payload=b"\0\0\0\0\0rubbish", reply=b"rubbish")
    document = journal.records[0].to_document(documents=True)
    assert {"command", "request", "reply"} & set(document) == set()
    assert "an unread request" in journal.to_text()


def test_secrets_are_not_shown() -> None:
    journal = Journal()
    enter(journal, {"createUser": "ann", "pwd": "hunter2"})
    assert "hunter2" not in str(journal.records[0].to_document(documents=True))


LINES: list[tuple[Event, str]] = [
    (ConnectionAccepted(3, "127.0.0.1:5"), "conn3 from 127.0.0.1:5"),
    (ConnectionClosed(3, "peer"), "conn3 closed by the client"),
    (ConnectionClosed(3, "the server stops"), "conn3 closed (the server stops)"),
    (ConnectionQueued(3, "connectionRateLimiter"), 'connectionQueued {"connection": 3, "queue": "connectio'),
    (
        RequestQueued("find", "shop", 7, 3, "executionTickets"),
        "find shop waits for executionTickets  [conn3]",
    ),
    (FailPointHit("failCommand", "find", 3, "error"), "fail point failCommand on find: error  [conn3]"),
    (RuleHit("slow", "find", 3, "delay"), "rule slow on find: delay  [conn3]"),
    (
        FaultHit("cut", 3, "reply", "reset"),
        "fault cut at reply: reset  [conn3]",
    ),
    (
        FailPointSet("failCommand", {"times": 1}, {"a": 1}),
        'failCommand set to {"times": 1} {"a": 1}',
    ),
    (FailPointSet("failCommand", "off", None), 'fail point failCommand set to "off"'),
    (ParameterSet("logLevel", 0, 1), "parameter logLevel: 0 -> 1"),
    (ServerChanged("killed"), "killed"),
    (VerbPerformed("kill", {"node": "node1"}), 'kill {"node": "node1"}'),
    (PrimaryElected("node1", 2), "node1 elected primary in term 2"),
    (PrimarySteppedDown("node1", 2), "node1 stepped down in term 2"),
    (MessageSent("1.2.3.4:5", 1, 0, "OP_MSG", 20, "{}"), 'messageSent {"peer": "1.2.3.4:5", "requestId": 1'),
]


@pytest.mark.parametrize(("event", "words"), LINES, ids=lambda each: str(each)[:40])
def test_every_kind_of_record_is_one_line(event: Event, words: str) -> None:
    journal = Journal()
    journal.append(1.5, "node0", event)
    (line,) = journal.to_text().splitlines()
    assert line.startswith("     1.500      #1  node0         ")
    assert words in line
    assert event.kind in KINDS


def test_a_line_tells_what_became_of_a_request() -> None:
    journal = Journal()
    enter(journal, {"find": "c"}, at=1.0, arrived=0.7, verdict="queued", queue="flowControl", app="shop")
    line = "find shop.c -> ok (queued by flowControl, after 300 ms)  [conn1, shop]"
    assert journal.to_text().rstrip().endswith(line)


def test_what_a_client_sent_stays_on_its_line() -> None:
    journal = Journal()
    enter(journal, {"find": "c\n\x1b[31m" + "x" * 900}, app="evil\r\nname")
    (line,) = journal.to_text().splitlines()
    assert "\\x0a\\x1b[31mxxx" in line
    assert len(line) == 400


def test_heartbeats_that_succeed_are_left_out_of_the_text() -> None:
    journal = Journal()
    enter(journal, {"hello": 1})
    enter(journal, {"hello": 1}, 91)
    enter(journal, {"ping": 1})
    assert [line.split()[3] for line in journal.to_text().splitlines()] == ["hello", "ping"]
    assert len(journal.to_text(whole=True).splitlines()) == 3
    assert [line.split()[3] for line in journal.to_text(1).splitlines()] == ["ping"]
    assert journal.to_text(0) == ""


# Followers.


def test_a_follower_gets_what_was_and_what_comes_until_the_end() -> None:
    async def main(_: Any) -> None:
        journal = Journal()
        enter(journal, {"ping": 1})
        enter(journal, {"ping": 1})

        async def follow(since: int | None) -> list[int]:
            return [record.seq async for record in journal.follow(since)]

        tasks = [asyncio.ensure_future(follow(since)) for since in (0, 1, None)]
        await asyncio.sleep(0)
        enter(journal, {"ping": 1})
        await asyncio.sleep(0.1)
        journal.append(0.0, "node0", PrimaryElected("node0", 1))
        enter(journal, {"ping": 1})
        await asyncio.sleep(0.1)
        journal.close()
        assert await asyncio.gather(*tasks) == [[1, 2, 3, 4, 5], [2, 3, 4, 5], [3, 4, 5]]
        assert journal.changed.listeners == {}

    run_virtual(main)


def test_a_file_gets_every_record_as_a_line_of_json(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal()
    journal.sink = JournalFile(str(path))
    enter(journal, {"find": "orders", "filter": {"at": Int64(7)}})
    journal.append(0.0, "node0", PrimaryElected("node0", 1))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["commandFinished", "primaryElected"]
    assert lines[0]["request"]["filter"] == {"at": 7}
    journal.close()
    enter(journal, {"ping": 1})
    assert len(path.read_text().splitlines()) == 2


def test_a_file_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        JournalFile(str(tmp_path))


def test_a_disk_that_is_full_ends_the_file_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal()
    journal.sink = JournalFile("/dev/full")
    enter(journal, {"ping": 1})
    enter(journal, {"ping": 1})
    assert len(journal) == 2
    assert [record.message.split(":")[0] for record in caplog.records] == ["the journal's file is given up"]


# The search.


def some() -> Journal:
    journal = Journal()
    enter(journal, {"find": "orders", "filter": {"a": 1}}, app="shop")
    enter(journal, {"find": "carts"}, 462, node="node1", connection=2, verdict="rejected")
    enter(journal, {"insert": "orders", "documents": [{"a": 1}]}, "disconnect")
    enter(journal, {"hello": 1})
    journal.append(0.0, "node1", FailPointHit("failCommand", "find", 1, "error"))
    return journal


@pytest.mark.parametrize(
    ("wanted", "met"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"kinds": {"failPointHit"}}, [5]),
        ({"commands": {"find", "insert"}}, [1, 2, 3, 5]),
        ({"namespace": "shop.orders"}, [1, 3]),
        ({"namespace": "shop.*"}, [1, 2, 3]),
        ({"namespace": "sho.*"}, []),
        ({"app_name": "shop"}, [1]),
        ({"node": "node1"}, [2, 5]),
        ({"connection": 2}, [2]),
        ({"outcome": "error"}, [2]),
        ({"kinds": {"failPointHit"}, "commands": {"find"}}, [5]),
        ({"outcome": 462}, [2]),
        ({"outcome": "disconnect"}, [3]),
        ({"verdict": "rejected"}, [2]),
        ({"matches": lambda command: command.get("filter") == {"a": 1}}, [1]),
        ({"commands": {"find"}, "outcome": "ok"}, [1]),
    ],
    ids=lambda each: ",".join(map(str, each)),
)
def test_records_are_found_by_what_is_wanted(wanted: dict[str, Any], met: list[int]) -> None:
    criteria = Criteria(**wanted)
    journal = some()
    assert [record.seq for record in criteria.found_in(journal)] == met
    assert [record.seq for record in criteria.found_in(journal, newest_first=True)] == met[::-1]
    assert [record.seq for record in criteria.found_in(journal, since=2)] == [
        each for each in met if each > 2
    ]
    assert [record.seq for record in journal if criteria.meets(record)] == met


def test_a_namespace_of_another_database_is_not_covered() -> None:
    assert not covers("shop.*", "shopping.orders")
    assert not covers("shop.*", None)


def test_near_misses_are_the_requests_that_differ_least() -> None:
    criteria = Criteria(commands=frozenset({"find"}), namespace="shop.orders", outcome=91)
    assert near_misses(criteria, some()) == ["#1 find shop.orders -> ok at node0: outcome is ok"]


# Attempts.


RETRIED = {"insert": "c", "documents": [], **session(1), "txnNumber": Int64(5)}
READ = {"find": "c", "filter": {"a": 1}, **session(1)}
CHANGED = {**READ, "$clusterTime": {"clusterTime": 1}, "$readPreference": {"mode": "secondary"}}


@pytest.mark.parametrize(
    ("requests", "attempts"),
    [
        ([(RETRIED, 91), (RETRIED, "ok")], [[1, 2]]),
        ([(RETRIED, "ok"), (RETRIED, "ok")], [[1, 2]]),
        ([(RETRIED, 91), ({**RETRIED, "txnNumber": Int64(6)}, "ok")], [[1], [2]]),
        ([(READ, 91), (CHANGED, "disconnect"), (READ, "ok")], [[1, 2, 3]]),
        ([(READ, "ok"), (READ, "ok")], [[1], [2]]),
        ([(READ, 91), ({**READ, **session(2)}, "ok")], [[1], [2]]),
        ([(READ, 91), ({**READ, "filter": {"a": 2}}, "ok")], [[1], [2]]),
        ([({"find": "c"}, 91), ({"find": "c"}, "ok")], [[1, 2]]),
        ([({"hello": 1}, 91), ({"hello": 1}, "ok")], []),
    ],
)
def test_requests_are_attempts_of_operations(requests: list[Any], attempts: list[list[int]]) -> None:
    journal = Journal()
    for command, outcome in requests:
        enter(journal, command, outcome)
    found = operations_of(journal.records)
    assert [[attempt.seq for attempt in operation.attempts] for operation in found] == attempts
    several = [each for each in attempts if len(each) > 1]
    found = operations_of(retried(journal.records))
    assert [
        [attempt.seq for attempt in operation.attempts] for operation in found if len(operation.attempts) > 1
    ] == several


def test_commands_that_all_succeeded_are_no_attempts_and_are_not_decoded() -> None:
    journal = Journal()
    for command in (READ, READ, {**READ, **session(2)}, {"find": "c"}):
        enter(journal, command)
    assert retried(journal.records) == []
    enter(journal, READ, 462, name="", verdict="rejected", queue="requestRateLimiter")
    assert retried(journal.records) == journal.records


def test_gaps_are_from_the_end_of_an_attempt_to_the_arrival_of_the_next() -> None:
    journal = Journal()
    for arrived, ended, outcome in ((1.0, 1.5, 462), (1.75, 1.75, 462), (2.75, 3.0, "ok")):
        enter(journal, READ, outcome, at=ended, arrived=arrived, node="node1", app="shop")
    (operation,) = operations_of(journal.records)
    assert operation.gaps == [0.25, 1.0]
    document = operation.to_document(1.0)
    assert (document["outcome"], document["appName"]) == ("ok", "shop")
    assert document["attempts"][1] == {
        "seq": 2,
        "at": 0.75,
        "node": "node1",
        "connection": 1,
        "outcome": 462,
        "gap": 0.25,
    }
