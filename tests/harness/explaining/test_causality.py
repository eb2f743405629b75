"""Times that contradict what caused what: a driver in another process has another clock, or none."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fakeserver.deployment.records.events import CommandFinished, ConnectionAccepted, FailPointHit
from fakeserver.deployment.records.journal import Record
from harness.adapters.base import Event
from harness.explaining.journal import CaseTimeline

CONNECTION = 4


def command(kind: str, at: float, request: int = 7, **fields: Any) -> Event:
    return Event(f"command{kind}Event", {"commandName": "insert", "requestId": request, **fields}, at)


def served(at: float, seq: int, request: int = 7, *, name: str = "insert") -> Record:
    return Record(at, seq, "node0", CommandFinished(name, "db", request, CONNECTION, None, None, "ok"))


def hit(at: float, seq: int) -> Record:
    return Record(at, seq, "node0", FailPointHit("failCommand", "insert", CONNECTION, "error"))


def order(records: list[Record], *events: Event) -> list[str]:
    lines = CaseTimeline.of(records, {"client0": events}, origin=0.0).events
    return [line.kind.removesuffix("Event") for line in lines]


def instants(records: list[Record], *events: Event) -> list[float]:
    lines = CaseTimeline.of(records, {"client0": events}, origin=0.0).events
    return [line.at for line in lines if line.side == "client"]


def test_a_command_of_which_the_runner_heard_late_stands_before_the_server_s_work() -> None:
    records = [hit(1.0, 1), served(1.0, 2)]
    said = (Event("connectionCheckedOutEvent", {}, 1.2), command("Started", 1.2), command("Failed", 1.3))
    assert order(records, *said) == [
        *("connectionCheckedOut", "commandStarted", "failPointHit", "commandFinished", "commandFailed"),
    ]
    assert instants(records, *said) == [1.0, 1.0, 1.3]


def test_a_server_that_waits_before_it_works_had_the_command_before() -> None:
    assert instants([hit(1.0, 1), served(1.5, 2)], command("Started", 1.2)) == [1.0]


def test_a_reply_stands_after_the_server_s_work_and_takes_along_what_follows() -> None:
    said = (command("Started", 0.5), command("Succeeded", 0.9), Event("connectionCheckedInEvent", {}, 0.9))
    assert instants([served(1.0, 1)], *said) == [0.5, 1.0, 1.0]


def test_an_error_reply_is_a_reply_and_a_limit_of_time_is_none() -> None:
    of_server = command("Failed", 0.9, failure={"ok": 0, "code": 91})
    of_client = command("Failed", 0.9, failure={"message": "timed out"})
    assert instants([served(1.0, 1)], of_server) == [1.0]
    assert instants([served(1.0, 1)], of_client) == [0.9]


def test_a_request_id_that_two_clients_use_proves_nothing() -> None:
    assert instants([served(1.0, 1), served(2.0, 2)], command("Started", 3.0)) == [3.0]


def test_another_command_with_the_same_request_id_is_another_client_s() -> None:
    assert instants([served(1.0, 1, name="find")], command("Started", 3.0)) == [3.0]


def test_a_connection_that_was_opened_long_before_is_no_arrival() -> None:
    accepted = Record(0.1, 1, "node0", ConnectionAccepted(CONNECTION, "127.0.0.1:5"))
    assert instants([accepted, served(1.0, 2)], command("Started", 0.9)) == [0.9]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), max_size=8))
def test_times_that_agree_with_causes_stay(steps: list[tuple[int, int, int]]) -> None:
    at, records, events = 0.0, [], []
    for request, (before, there, back) in enumerate(steps):
        sent = at + before
        at = sent + there + back
        events += [command("Started", sent, request), command("Succeeded", at, request, reply={"ok": 1})]
        records.append(served(sent + there, request, request))
    assert instants(records, *events) == [event.at for event in events]
