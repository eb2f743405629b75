"""The oplog, cluster time, the journal and the log, without a server."""

from __future__ import annotations

import json

import bson
import pytest
from bson import Int64, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from fakeserver.deployment.logs.server_log import ServerLog
from fakeserver.deployment.records.events import CommandFinished, PrimaryElected, to_document
from fakeserver.deployment.records.journal import COMMAND_FINISHED, Journal, Record
from fakeserver.storage.port.engine import Changed, Namespace
from fakeserver.storage.port.oplog import ClusterTime, Oplog, OpTime, Written
from mongowire.framing import extended


class _Date:
    """Seconds since the epoch, set by hand."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_operations_of_one_second_are_counted() -> None:
    oplog = Oplog(_Date(1000.9))
    assert [oplog.append()[:2] for _ in range(3)] == [(1000, 1), (1000, 2), (1000, 3)]


@given(dates=st.lists(st.floats(0, 2000), max_size=20))
def test_operation_times_only_grow_even_when_the_date_does_not(dates: list[float]) -> None:
    date = _Date()
    oplog = Oplog(date)
    times = [oplog.last]
    for date.now in dates:
        times.append(oplog.append())
    assert times == sorted(set(times))


def test_a_term_is_part_of_the_time() -> None:
    oplog = Oplog(_Date())
    oplog.term = 3
    optime = oplog.append()
    assert optime.document == {"ts": Timestamp(1000, 1), "t": Int64(3)}


def test_the_entries_after_a_time_can_be_read() -> None:
    oplog = Oplog(_Date(), capacity=2)
    written = Written(Namespace("db", "c"), Changed(None, {"_id": 1}))
    first = oplog.append((written,))
    oplog.append()
    oplog.append((written,))
    assert [(entry.optime.increment, entry.changes) for entry in oplog.since(first)] == [
        (2, ()),
        (3, (written,)),
    ]
    assert [entry.optime.increment for entry in oplog.since(OpTime(0, 0, 0))] == [2, 3]
    assert [entry.optime.increment for entry in oplog.from_time(Timestamp(1000, 3))] == [3]


def test_what_is_no_longer_kept_is_known() -> None:
    oplog = Oplog(_Date(), capacity=2)
    first = oplog.append()
    oplog.append()
    assert oplog.forgotten is None
    oplog.append()
    assert oplog.forgotten == first


def test_large_documents_make_room_for_each_other() -> None:
    oplog = Oplog(_Date(), capacity_bytes=25)
    large = Written(Namespace("db", "c"), Changed(None, {"_id": 1}, size=10))
    first, second, third = [oplog.append((large,)) for _ in range(3)]
    assert [entry.optime for entry in oplog.since(OpTime(0, 0, 0))] == [second, third]
    assert oplog.forgotten == first
    fourth = oplog.append((large._replace(change=Changed(None, {"_id": 2}, size=1000)),))
    assert [entry.optime for entry in oplog.since(OpTime(0, 0, 0))] == [fourth], "the newest is kept"
    fifth = oplog.append((large,))
    assert [entry.optime for entry in oplog.since(OpTime(0, 0, 0))] == [fifth]


def test_changes_of_one_operation_have_one_time() -> None:
    oplog = Oplog(_Date())
    changes = [Written(Namespace("db", "c"), Changed(None, {"_id": number})) for number in (1, 2)]
    optime = oplog.append(changes, session_id=b"s", txn_number=7)
    (entry,) = oplog.since(OpTime(0, 0, 0))
    assert entry.changes == tuple(changes)
    assert (entry.optime, entry.session_id, entry.txn_number) == (optime, b"s", 7)


def test_growing_rings_a_bell() -> None:
    oplog = Oplog(_Date())
    heard: list[OpTime] = []
    oplog.grown.listen(lambda: heard.append(oplog.last))
    optime = oplog.append()
    assert heard == [optime]


def test_cluster_time_is_the_latest_that_anybody_told() -> None:
    oplog = Oplog(_Date())
    time = ClusterTime(oplog)
    oplog.append()
    time.advance(Timestamp(900, 9))
    assert time.fields()["$clusterTime"]["clusterTime"] == Timestamp(1000, 1)
    time.advance(Timestamp(2000, 5))
    time.advance(Timestamp(1999, 5))
    assert time.fields()["$clusterTime"]["clusterTime"] == Timestamp(2000, 5)
    assert time.fields()["operationTime"] == Timestamp(1000, 1)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1))
def test_the_encoded_cluster_time_is_what_a_client_would_decode(now: int, told: int, increment: int) -> None:
    oplog = Oplog(_Date(float(now)))
    time = ClusterTime(oplog)
    for _ in range(2):
        oplog.append()
        time.advance(Timestamp(told, increment))
        assert bson.decode(extended(bson.encode({"ok": 1.0}), time.elements())) == {"ok": 1.0} | time.fields()


def test_a_journal_keeps_the_newest_and_counts_the_rest() -> None:
    journal = Journal(capacity=2)
    for term in range(5):
        journal.append(float(term), "node0", PrimaryElected("node0", term))
    assert [record.seq for record in journal.records] == [4, 5]
    assert journal.dropped == 3
    assert journal.of_kind("primaryElected") == journal.records
    assert journal.of_kind("bogus") == ()


def test_what_is_read_from_a_journal_is_what_was_entered() -> None:
    journal = Journal()
    finished = CommandFinished("insert", "db", 9, 4, b"\1" * 16, 3, 11000)
    elected = PrimaryElected("node0", 1)
    journal.append(0.5, "node1", finished)
    journal.append(1.5, "node0", elected)
    assert journal.records == (Record(0.5, 1, "node1", finished), Record(1.5, 2, "node0", elected))
    assert [type(record.event) for record in journal] == [CommandFinished, PrimaryElected]
    assert journal.to_json_lines().splitlines()[0].endswith('"txn_number":3,"outcome":11000}')


@pytest.mark.parametrize(("seq", "newer"), [(0, [4, 5, 6]), (3, [4, 5, 6]), (4, [5, 6]), (6, [])])
def test_a_journal_is_read_from_a_number_on(seq: int, newer: list[int]) -> None:
    journal = Journal(capacity=3)
    for term in range(6):
        journal.append(0.0, "node0", PrimaryElected("node0", term))
    assert [record.seq for record in journal.since(seq)] == newer
    assert (journal.last_seq, len(journal)) == (6, 3)


@given(
    count=st.integers(0, 30),
    large=st.sets(st.integers(1, 30)),
    seq=st.integers(0, 35),
    limit=st.integers(1, 12),
)
def test_the_first_records_from_a_number_on_are_those_of_all_of_them(
    count: int, large: set[int], seq: int, limit: int
) -> None:
    journal = Journal(capacity=20, capacity_bytes=100)
    for number in range(1, count + 1):
        payload = b"." * (30 if number in large else 5) if number % 3 else None
        entry = (number, "node0", COMMAND_FINISHED, "find", "db", number, 1, None, None, "ok", None, None)
        journal.enter_request(entry, 2013, payload)
    assert journal.since(seq, limit) == journal.since(seq)[:limit]


def test_an_event_is_a_document_without_what_it_does_not_know() -> None:
    event = CommandFinished("ping", "admin", 7, 1, None, None, "ok")
    assert to_document(event) == {
        "kind": "commandFinished",
        "name": "ping",
        "db": "admin",
        "request_id": 7,
        "connection": 1,
        "outcome": "ok",
    }


def test_a_log_line_has_the_shape_of_a_mongods() -> None:
    seen: list[str] = []
    log = ServerLog(_Date(0.5), seen.append)
    log.write("NETWORK", 23016, "Waiting for connections", context="listener", attr={"port": 1})
    log.write("CONTROL", 1, "plain", context="main", severity="W")
    assert json.loads(seen[0]) == {
        "t": {"$date": "1970-01-01T00:00:00.500+00:00"},
        "s": "I",
        "c": "NETWORK",
        "id": 23016,
        "svc": "S",
        "ctx": "listener",
        "msg": "Waiting for connections",
        "attr": {"port": 1},
    }
    assert "attr" not in json.loads(seen[1])
    assert (log.total, list(log.lines)) == (2, seen)


@pytest.mark.parametrize("count", [1024, 1030])
def test_a_log_keeps_the_newest_lines(count: int) -> None:
    log = ServerLog(_Date())
    for number in range(count):
        log.write("C", number, "m", context="x")
    assert (log.total, len(log.lines)) == (count, 1024)
