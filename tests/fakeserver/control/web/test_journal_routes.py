"""`GET /journal` and `GET /journal/stream`."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from asking import HttpDoor
from pymongo import MongoClient

from fakeserver import BackgroundCluster, ClusterSpec
from fakeserver.deployment.records.events import FailPointHit

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def alone() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(ClusterSpec.standalone()) as running:
        yield running


@pytest.fixture(scope="module")
def own(alone: BackgroundCluster) -> HttpDoor:
    with MongoClient[dict[str, object]](alone.uri) as client:
        client["<script>alert(1)<script>"]["orders"].insert_one({"_id": 1})
    return HttpDoor(alone.serve_ui())


def enter(alone: BackgroundCluster, *names: str) -> int:
    """Enter a record for each name, and return the number of the last one before."""

    def act() -> int:
        before = alone.cluster.journal.last_seq
        for name in names:
            alone.cluster.nodes[0].record(FailPointHit(name, "find", 1, "error"))
        return before

    return alone.call(act)


def test_records_come_oldest_first_with_their_numbers(own: HttpDoor) -> None:
    answered = own.get("/journal").document
    numbers = [record["seq"] for record in answered["records"]]
    assert numbers == sorted(numbers)
    assert numbers[-1] == answered["lastSeq"]
    inserted = [each for each in answered["records"] if each.get("command") == "insert"]
    assert [each["db"] for each in inserted] == ["<script>alert(1)<script>"]


def test_the_documents_of_requests_can_be_asked_for(own: HttpDoor) -> None:
    records = own.get("/journal?kind=commandFinished&documents=true").document["records"]
    inserted = next(each for each in records if each["command"] == "insert")
    assert inserted["request"]["documents"] == [{"_id": 1}]
    assert inserted["reply"]["n"] == 1
    assert "request" not in own.get("/journal?limit=1").document["records"][0]


def test_since_and_limit_lead_through_the_journal_page_by_page(own: HttpDoor) -> None:
    first = own.get("/journal?since=0&limit=2").document["records"]
    second = own.get("/journal?since=2&limit=2").document["records"]
    assert [record["seq"] for record in first + second] == [1, 2, 3, 4]
    newest = own.get("/journal?limit=1").document
    assert [record["seq"] for record in newest["records"]] == [newest["lastSeq"]]


def test_kinds_can_be_chosen(own: HttpDoor) -> None:
    answered = own.get("/journal?kind=connectionAccepted,connectionClosed&limit=3").document["records"]
    assert {record["kind"] for record in answered} <= {"connectionAccepted", "connectionClosed"}
    assert answered


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("sinc=1", "did you mean 'since'?"),
        ("limit=-1", "is negative"),
        ("since=x", "is no number"),
        ("kind=comandFinished", "did you mean 'commandFinished'?"),
    ],
)
def test_a_wrong_query_is_named(own: HttpDoor, query: str, sentence: str) -> None:
    answer = own.get(f"/journal?{query}")
    assert answer.status == 400
    assert sentence in answer.document["error"]


def test_a_stream_sends_what_is_entered_from_now_on(alone: BackgroundCluster, own: HttpDoor) -> None:
    with own.stream("/journal/stream?kind=failPointHit") as events:
        assert next(events) == {"retry": "1000"}
        before = enter(alone, "a", "b")
        sent = list(islice((event for event in events if "data" in event), 2))
    assert [json.loads(event["data"])["failPoint"] for event in sent] == ["a", "b"]
    assert [int(event["id"]) for event in sent] == [before + 1, before + 2]


def test_a_stream_goes_on_where_its_client_lost_it(alone: BackgroundCluster, own: HttpDoor) -> None:
    before = enter(alone, "c", "d", "e")
    with own.stream("/journal/stream", last_event_id=str(before + 1)) as events:
        sent = list(islice((event for event in events if "data" in event), 2))
    assert [int(event["id"]) for event in sent] == [before + 2, before + 3]


def test_a_stream_ends_with_its_deployment() -> None:
    with BackgroundCluster(ClusterSpec.standalone()) as running:
        door = HttpDoor(running.serve_ui())
        with door.stream("/journal/stream") as events:
            next(events)
            running.stop()
            assert [event for event in events if "data" not in event] == []
