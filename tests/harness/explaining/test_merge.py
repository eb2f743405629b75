"""Two logs of one case become one: by the clock, and at one instant by what caused what."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fakeserver.deployment.records.events import CommandFinished, ConnectionAccepted, FailPointHit
from fakeserver.deployment.records.journal import Record
from harness.adapters.base import Event
from harness.explaining.journal import CaseTimeline
from harness.unified.account import Account, PerformedOperation
from harness.unified.model import ExpectedEvent, Operation
from mongowire.documents.marks import Location


def command(kind: str, request: int, at: float = 0.0) -> Event:
    return Event(f"command{kind}Event", {"commandName": "insert", "requestId": request}, at)


def served(request: int, seq: int, at: float = 0.0, *, connection: int = 1) -> Record:
    return Record(at, seq, "node0", CommandFinished("insert", "db", request, connection, None, None, "ok"))


def kinds(records: list[Record], events: list[Event]) -> list[str]:
    return [line.kind for line in CaseTimeline.of(records, {"client0": events}, origin=0.0).events]


def test_at_one_instant_a_command_comes_before_what_the_server_did_and_that_before_the_reply() -> None:
    hit = Record(0.0, 1, "node0", FailPointHit("failCommand", "insert", 1, "error"))
    events = [command("Started", 7), command("Failed", 7), command("Started", 8), command("Succeeded", 8)]
    assert kinds([hit, served(7, 2), served(8, 3)], events) == [
        *("commandStartedEvent", "failPointHit", "commandFinished", "commandFailedEvent"),
        *("commandStartedEvent", "commandFinished", "commandSucceededEvent"),
    ]


def test_what_belongs_to_no_command_of_the_instant_waits_for_nothing() -> None:
    accepted = Record(0.0, 1, "node0", ConnectionAccepted(4, "127.0.0.1:5"))
    assert kinds([accepted, served(99, 2, connection=4)], [command("Started", 7)])[:2] == [
        "connectionAccepted",
        "commandFinished",
    ]


def test_a_request_is_dated_when_it_came_but_keeps_its_place_in_the_journal() -> None:
    hit = Record(0.3, 1, "node0", FailPointHit("failCommand", "insert", 1, "error"))
    lines = CaseTimeline.of([hit, served(7, 2, at=0.1)], {}, origin=0.0).events
    assert [(line.kind, line.at) for line in lines] == [("failPointHit", 0.3), ("commandFinished", 0.3)]


@given(st.permutations([1, 2, 3, 4]), st.integers(0, 4))
def test_nothing_is_lost_and_each_side_keeps_its_order(requests: list[int], finished: int) -> None:
    events = [command("Started", request) for request in requests]
    events += [command("Succeeded", request) for request in requests[:finished]]
    records = [served(request, seq) for seq, request in enumerate(reversed(requests))]
    lines = CaseTimeline.of(records, {"client0": events}, origin=0.0).events
    assert [line.fields for line in lines if line.side == "client"] == [event.fields for event in events]
    assert [line.fields["request_id"] for line in lines if line.side == "server"] == requests[::-1]


def test_an_account_that_has_ended_takes_in_nothing_more() -> None:
    said = [command("Started", 1)]
    account = Account(clients={"client0": lambda: said})
    account.end(1.0)
    said.append(command("Succeeded", 1))
    account.end(2.0)
    assert (account.ended, len(account.heard()["client0"])) == (1.0, 1)


def test_an_operation_is_told_as_the_file_has_it_without_what_it_holds() -> None:
    place = Location(Path("x.yml"), 3)
    inner = Operation("insertOne", "collection", {}, place)
    event = ExpectedEvent("commandStartedEvent", {"commandName": "find"}, place)
    arguments = {"event": event, "operation": inner, "callback": (inner,), "count": 1}
    step = PerformedOperation(Operation("waitForEvent", "testRunner", arguments, place), began=0.0)
    (line,) = CaseTimeline.of((), {}, [step], origin=0.0).events
    told = {"event": {"commandStartedEvent": {"commandName": "find"}}, "operation": "insertOne", "count": 1}
    assert line.fields == {"name": "waitForEvent", "arguments": told}
