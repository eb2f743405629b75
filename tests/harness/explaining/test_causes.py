"""Likely causes: each is named where both sides' events speak for it, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fakeserver.deployment.records.events import CommandFinished, FailPointHit
from fakeserver.deployment.records.journal import Record
from harness.adapters.base import ErrorReport, Event, OperationFailed
from harness.explaining.causes import Evidence, causes_of
from harness.explaining.journal import CaseTimeline
from harness.unified.account import PerformedOperation
from harness.unified.entities import EntityMap
from harness.unified.loader import load
from harness.unified.matching.comparison import compare_events
from harness.unified.matching.matcher import Mismatch
from harness.unified.outcome import CaseOutcome, Status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.unified.model import Case
    from mongowire.documents.marks import Location

OVERLOAD: dict[str, Any] = {"code": 462, "errorLabels": ["SystemOverloadedError", "RetryableError"]}
FAIL_POINT = """
      - name: failPoint
        object: testRunner
        arguments:
          client: client0
          failPoint:
            configureFailPoint: failCommand
            mode: {times: 1}
            data: {failCommands: [insert], errorCode: 462}
"""
CLIENT = "createEntities: [{client: {id: client0, observeEvents: [commandStartedEvent]}}]\n"


@pytest.fixture
def case(tmp_path: Path) -> Any:
    """Return a maker of a case that expects a number of inserts to be started."""

    def make(*, inserts: int = 1, operations: str = "", kind: str = "commandStartedEvent") -> Case:
        events = f"          - {kind}: {{commandName: insert}}\n" * inserts
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.yml"
        path.write_text(
            f'description: x\nschemaVersion: "1.3"\n{CLIENT}tests:\n  - description: a\n    operations:'
            f"{operations or ' []'}\n    expectEvents:\n      - client: client0\n        events:\n{events}"
        )
        return load(path).cases[0]

    return make


def started(at: float = 0.0) -> Event:
    return Event("commandStartedEvent", {"commandName": "insert"}, at)


def failed(at: float = 0.0, **answer: Any) -> Event:
    return Event("commandFailedEvent", {"commandName": "insert", "failure": answer}, at)


def causes(
    case: Case,
    heard: Sequence[Event] = (),
    *,
    mismatch: Mismatch | None = None,
    error: ErrorReport | None = None,
    reason: str = "",
    records: Sequence[Record] = (),
    steps: Sequence[PerformedOperation] = (),
    location: Location | None = None,
    edition: str = "2026-02-20",
) -> tuple[str, ...]:
    observed = tuple(event for event in heard if event.kind == "commandStartedEvent")
    comparisons = tuple(compare_events(each, observed, EntityMap()) for each in case.expected_events)
    outcome = CaseOutcome(
        Status.FAILED,
        reason,
        mismatch,
        location,
        error,
        events={"client0": observed},
        comparisons=comparisons,
    )
    timeline = CaseTimeline.of(records, {"client0": heard}, steps, origin=0.0)
    found = causes_of(Evidence(case, outcome, {"client0": heard}, timeline, edition))
    return tuple(cause.text for cause in found)


def test_one_attempt_too_few_names_the_error_after_which_the_driver_gave_up(case: Any) -> None:
    assert causes(case(inserts=2), [started(), failed(**OVERLOAD)]) == (
        (
            "one attempt too few: insert was sent once, twice expected; the last one ended with error 462"
            " [RetryableError, SystemOverloadedError], after which the driver did not try again"
        ),
    )


def test_attempts_too_many_are_counted(case: Any) -> None:
    assert causes(case(inserts=1), [started(), started(), started()]) == (
        "2 attempts too many: insert was sent 3 times, once expected",
    )


def test_a_network_error_is_told_as_the_driver_tells_it(case: Any) -> None:
    lost = Event("commandFailedEvent", {"commandName": "insert", "failure": ConnectionError("reset")})
    (cause,) = causes(case(inserts=2), [started(), lost])
    assert "ended with reset" in cause


def test_a_write_concern_error_is_an_answer_too(case: Any) -> None:
    reply = {"ok": 1, "writeConcernError": {"code": 91, "errorLabels": ["RetryableWriteError"]}}
    answered = Event("commandSucceededEvent", {"commandName": "insert", "reply": reply})
    (cause,) = causes(case(inserts=2), [started(), answered])
    assert "ended with write concern error 91 [RetryableWriteError]" in cause


@pytest.mark.parametrize(
    ("path", "answer", "cause"),
    [
        (
            "errorLabelsContain",
            OVERLOAD,
            "a reply of the server has the label RetryableError: the driver's error has lost it",
        ),
        (
            "errorLabelsContain",
            {"code": 1},
            "no reply of the server has the label RetryableError: the driver has to add it, and did not",
        ),
        (
            "errorLabelsOmit",
            OVERLOAD,
            "the error must not have the label RetryableError; the server's reply has it",
        ),
        (
            "errorLabelsOmit",
            {"code": 1},
            "the error must not have the label RetryableError; no reply has it: the driver added it",
        ),
    ],
)
def test_a_wrong_label_is_the_servers_or_the_drivers(
    case: Any, path: str, answer: dict[str, Any], cause: str
) -> None:
    mismatch = Mismatch(path, "RetryableError", [], "wrong")
    assert causes(case(), [started(), failed(**answer)], mismatch=mismatch, error=ErrorReport("x")) == (
        cause,
    )


def test_a_missing_transaction_number_says_what_makes_a_write_retryable(case: Any) -> None:
    mismatch = Mismatch("events[0].command.txnNumber", 1, None, "is missing")
    (cause,) = causes(case(), [started()], mismatch=mismatch)
    assert cause.startswith("the command has no txnNumber")


def test_an_unwanted_transaction_number_is_named(case: Any) -> None:
    mismatch = Mismatch("events[0].command.txnNumber", {"$$exists": False}, 1, "is there, but must not be")
    (cause,) = causes(case(), [started()], mismatch=mismatch)
    assert cause.startswith("the command has a txnNumber")


@pytest.mark.parametrize(
    ("edition", "waited", "cause"),
    [
        (
            "2026-02-20",
            0.30,
            "retry 1 began 300 ms after the overload error before it; the back-off is at most",
        ),
        ("2026-02-20", 0.09, ""),
        ("2026-07-08", 0.19, ""),
        (
            "2026-07-08",
            0.40,
            "retry 1 began 400 ms after the overload error before it; the back-off is at most",
        ),
    ],
)
def test_a_wait_that_is_too_long_is_measured_against_the_edition(
    case: Any, edition: str, waited: float, cause: str
) -> None:
    heard = [started(), failed(0.0, **OVERLOAD), started(waited)]
    found = causes(case(inserts=2), heard, edition=edition)
    assert [said[: len(cause)] for said in found] == ([cause] if cause else [])


def test_the_servers_advice_of_a_longer_back_off_is_heeded_where_the_edition_knows_it(case: Any) -> None:
    heard = [started(), failed(0.0, **OVERLOAD, baseBackoffMS=1000), started(0.9)]
    assert causes(case(inserts=2), heard, edition="2026-07-08") == ()
    assert len(causes(case(inserts=2), heard, edition="2026-02-20")) == 1


def test_retries_without_any_back_off_are_beyond_chance_when_there_are_three(case: Any) -> None:
    heard = [started(), failed(0.0, **OVERLOAD)]
    assert causes(case(inserts=3), heard * 2 + [started()]) == ()
    assert causes(case(inserts=4), heard * 3 + [started()]) == (
        "3 retries after overload errors came at once: the driver does not back off",
    )


def test_a_retry_of_another_error_that_waits_without_looking_for_a_server_backs_off_needlessly(
    case: Any,
) -> None:
    heard = [started(), failed(0.0, code=91, errorLabels=["RetryableWriteError"]), started(0.8)]
    (cause,) = causes(case(inserts=2), heard)
    assert cause.startswith("insert was tried again 800 ms after an error that is no overload")
    assert causes(case(inserts=2), [*heard[:2], Event("poolReadyEvent", {}, 0.7), heard[2]]) == ()


def finished(outcome: int, seq: int, *, server: str = "node0", lsid: bytes | None = None) -> Record:
    return Record(0.0, seq, server, CommandFinished("insert", "a", seq, 1, lsid, 1, outcome))


@pytest.mark.parametrize(
    ("servers", "lsids", "named"),
    [
        (("mongos0", "mongos1", "mongos0", "mongos0"), b"xyaa", True),
        (("mongos0", "mongos1", "mongos0", "mongos1"), b"xyaa", False),
        (("mongos0", "mongos1", "mongos0", "mongos0"), b"xyab", False),
        (("mongos0", "mongos0", "mongos0", "mongos0"), b"xyaa", False),
        (("node0", "node1", "node0", "node0"), b"xyaa", False),
    ],
)
def test_a_mongos_that_is_asked_again_where_another_one_is_there_is_named(
    servers: Sequence[str], lsids: bytes, *, named: bool, case: Any
) -> None:
    records = [
        finished(462, seq, server=server, lsid=bytes([lsid]) * 16)
        for seq, (server, lsid) in enumerate(zip(servers, lsids, strict=True), 1)
    ]
    told = causes(case(inserts=1), [started()], records=records)
    assert [
        each.startswith("mongos0 was asked again, though it had failed this insert") for each in told
    ] == [True] * named


@pytest.mark.parametrize(
    ("expected", "raised", "said"),
    [
        (91, 11602, "the driver raised the newest error, 11602, which hides 91 of an attempt before it"),
        (11602, 91, "the driver raised 91 of an earlier attempt; the newest error, 11602, takes its place"),
        (91, 50, None),
    ],
)
def test_an_error_that_is_another_attempts_turn_is_named(
    expected: int, raised: int, said: str | None, case: Any
) -> None:
    mismatch = Mismatch("errorCode", expected, raised, f"expected {expected}, got {raised}")
    records = [finished(91, 1), finished(11602, 2)]
    heard = [started()]
    told = causes(case(inserts=1), heard, mismatch=mismatch, error=ErrorReport("x"), records=records)
    assert [each.startswith(said or "") for each in told] == [True] * bool(said)


def test_a_retry_with_another_transaction_number_is_named(case: Any) -> None:
    path = "events[1].commandStartedEvent.command.txnNumber"
    heard = [
        Event("commandStartedEvent", {"commandName": "insert", "command": {"txnNumber": number}}, 0.0)
        for number in (1, 2)
    ]
    mismatch = Mismatch(path, 1, 2, "expected 1, got 2")
    (told,) = causes(case(inserts=2), heard, mismatch=mismatch)
    assert told.startswith("the command has txnNumber 2, an attempt before it had 1")
    assert causes(case(inserts=2), heard, mismatch=Mismatch(path, 7, 2, "expected 7, got 2")) == ()


def test_a_fail_point_that_was_never_hit_is_named_with_its_commands(case: Any) -> None:
    other = Record(0.0, 1, "node0", FailPointHit("onPrimaryTransactionalWrite", "insert", 1, "error"))
    (cause,) = causes(case(operations=FAIL_POINT), [started()], records=[other])
    assert cause.startswith("the fail point failCommand for insert was set and never hit")


def test_nothing_is_said_of_a_fail_point_whose_hits_are_in_no_journal(case: Any) -> None:
    other = Record(0.0, 1, "node0", FailPointHit("onPrimaryTransactionalWrite", "insert", 1, "error"))
    silent = FAIL_POINT.replace("failCommand", "maxTimeAlwaysTimeOut")
    assert causes(case(operations=silent), [started()], records=[other]) == ()


def test_a_fail_point_at_which_the_case_ended_was_not_set_so_nobody_could_hit_it(case: Any) -> None:
    other = Record(0.0, 1, "node0", FailPointHit("onPrimaryTransactionalWrite", "insert", 1, "error"))
    ended = case(operations=FAIL_POINT)
    place = ended.operations[0].location
    assert causes(ended, [started()], records=[other], location=place) == ()
    assert causes(ended, [started()], records=[other]) != ()


def test_a_fail_point_that_was_refused_while_the_case_went_on_was_not_set_either(case: Any) -> None:
    other = Record(0.0, 1, "node0", FailPointHit("onPrimaryTransactionalWrite", "insert", 1, "error"))
    ended = case(operations=FAIL_POINT)
    step = PerformedOperation(ended.operations[0], 0.0, 0.0, 1, 2)
    assert causes(ended, [started()], records=[other], steps=[step]) != ()
    step.error = OperationFailed(ErrorReport("not found"))
    assert causes(ended, [started()], records=[other], steps=[step]) == ()


def test_without_a_servers_journal_nothing_is_said_of_fail_points(case: Any) -> None:
    assert causes(case(operations=FAIL_POINT), [started()]) == ()


def test_an_operation_that_succeeded_in_spite_of_its_fail_point_was_retried(case: Any) -> None:
    hit = Record(0.0, 1, "node0", FailPointHit("failCommand", "insert", 1, "error"))
    reason = "insertOne succeeded, an error was expected"
    (cause,) = causes(case(operations=FAIL_POINT), [started()], records=[hit], reason=reason)
    assert cause.startswith("the fail point was hit once and then used up")


def test_events_that_the_client_does_not_observe_can_never_come(case: Any) -> None:
    assert causes(case(kind="commandSucceededEvent"))[0] == (
        "commandSucceededEvent is expected, but client0 does not observe it (observeEvents)"
    )


def test_nothing_is_made_up_where_nothing_speaks_for_a_cause(case: Any) -> None:
    assert causes(case(), [started()], reason="insertOne returned another result") == ()
