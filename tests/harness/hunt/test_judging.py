"""An outcome against the clean runs: each rule finds its bug, and nothing that a right client does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hunted import CLEAN, INSERT, PAY, asked, baseline, outcome

from harness.hunt.baseline import Baseline, BaselineError
from harness.hunt.documents import Field
from harness.hunt.faults import BY_NAME
from harness.hunt.findings import Judgement, Kind, Trial, grouped, story
from harness.hunt.invariants import Invariants
from harness.hunt.judging import judge
from harness.hunt.places import Numbers
from harness.hunt.wire import Strike

if TYPE_CHECKING:
    from harness.hunt.trial import Outcome

MORE = {**CLEAN, "shop.orders": [{"_id": 1}, {"_id": 2}]}
FEWER = {**CLEAN, "shop.payments": []}
LEFT = Field("shop.stock", "'tea'", "left")


def kinds(fault: str, **facts: Any) -> list[Kind]:
    return [each.kind for each in judge(baseline(), outcome(fault, **facts)).findings]


@pytest.mark.parametrize(
    ("fault", "facts", "found"),
    [
        ("lost-reply", {}, []),
        ("lost-reply", {"code": 1}, [Kind.FAILS]),
        ("error", {"code": 1}, []),
        ("error", {"code": 1, "contents": FEWER}, []),
        ("error", {"code": 139}, [Kind.CRASHES]),
        ("error", {"code": 143}, []),
        ("error", {"contents": FEWER}, [Kind.DOCUMENTS]),
        ("error", {"contents": MORE}, [Kind.DOCUMENTS]),
        ("error", {"code": None}, [Kind.HANG]),
        ("silent", {"code": None}, []),
        ("error", {"code": None, "left": 20.0}, []),
        ("error", {"code": 1, "after": 9.0}, [Kind.STANDSTILL]),
        ("outage", {"code": 1, "after": 9.0}, []),
        ("error", {"open_transactions": 1}, [Kind.TRANSACTION]),
        ("error", {"open_cursors": 2}, [Kind.CURSOR]),
        ("error", {"connections": 80}, [Kind.CONNECTION_STORM]),
    ],
)
def test_what_is_found(fault: str, facts: dict[str, Any], found: list[Kind]) -> None:
    assert kinds(fault, **facts) == found


@pytest.mark.parametrize(
    ("output", "idle", "found"),
    [
        ("not ok 1 - pays\n", 9.0, []),
        ("  2 failing\n", 9.0, []),
        ("not ok 1 - pays\n", 0.1, [Kind.HANG]),
        ("ok 1 - pays\n", 9.0, [Kind.HANG]),
    ],
)
def test_a_runner_that_has_told_of_a_failed_test_hangs_no_user(
    output: str, idle: float, found: list[Kind]
) -> None:
    trial = outcome("error", code=None, output=output, idle=idle)
    judged = judge(baseline(), trial)
    assert [each.kind for each in judged.findings] == found
    assert judged.status == ("failed" if found else "reported")


def test_a_document_that_is_there_twice_is_found_in_a_run_that_reports_an_error() -> None:
    clean = baseline(contents={"shop.orders": [{"_id": "a" * 24, "customer": 1}]})
    twice = [{"_id": "a" * 24, "customer": 1}, {"_id": "b" * 24, "customer": 1}]
    found = judge(clean, outcome("error", code=1, contents={"shop.orders": twice})).findings
    assert [each.kind for each in found] == [Kind.TWICE]
    assert "2 times, a clean run 1 times" in found[0].words


def test_a_number_that_changed_by_more_than_in_a_clean_run_is_found_and_one_by_less_is_not() -> None:
    clean = baseline(net=Counter({LEFT: -3}))
    more = judge(clean, outcome("error", code=1, net=Counter({LEFT: -4})))
    less = judge(clean, outcome("error", code=1, net=Counter({LEFT: -2})))
    assert [each.kind for each in more.findings] == [Kind.TWICE]
    assert not less.findings


def test_a_failover_is_not_masked_if_it_failed_a_write_beside_that_no_driver_sends_again() -> None:
    def beside(**number: int) -> list[Kind]:
        trial = outcome("step-down", code=1)
        trial.requests[1].command = {"insert": "payments", "$db": "shop", **number}
        trial.requests[1].reply = {"ok": 0, "code": 10107}
        return [each.kind for each in judge(baseline(), trial).findings]

    assert beside(txnNumber=2) == [Kind.FAILS]
    assert beside() == []


def done_again(*, fault: str = "error", again: bool = True, **facts: Any) -> Outcome:
    """Return a run in which a write met a fault, came again if that is so, and an error was reported."""
    trial = outcome(fault, code=1, errors="cannot place the order", **facts)
    trial.requests += [asked(INSERT, 3, at=1.0)] if again else []
    return trial


def denials(trial: Outcome, invariants: Invariants | None = None) -> list[Kind]:
    return [each.kind for each in judge(baseline(), trial, invariants).findings]


def test_an_error_that_is_reported_of_a_write_that_came_again_and_succeeded_is_not_true() -> None:
    assert denials(done_again()) == [Kind.DENIED]
    assert denials(done_again(contents=FEWER)) == []
    moved = done_again()
    moved.requests[-1].command = {**moved.requests[-1].command, "documents": [{"_id": 2}]}
    assert denials(moved) == []
    assert denials(done_again(fault="unacknowledged")) == []


def test_an_error_of_a_write_whose_fate_is_unknown_is_told_and_a_bug_only_where_errors_must_be_true() -> None:
    unknown = done_again(fault="lost-replies", again=False)
    judged = judge(baseline(), unknown)
    assert (judged.status, judged.denied) == ("reported", True)
    assert denials(unknown, Invariants(truthful=True)) == [Kind.DENIED]
    assert not judge(baseline(), done_again(contents=FEWER)).denied


@pytest.mark.parametrize(
    ("reply", "usual", "found"),
    [
        ({"ok": 1, "n": 1}, 1, True),
        ({"ok": 1, "n": 0, "writeErrors": [{"index": 0, "code": 11000}]}, 1, True),
        ({"ok": 1, "n": 0, "writeErrors": [{"index": 0, "code": 121}]}, 1, False),
        ({"ok": 1, "n": 1}, 2, False),
    ],
)
def test_a_write_of_unknown_fate_that_comes_again_and_is_there_is_known(
    reply: dict[str, Any], usual: int, *, found: bool
) -> None:
    said = [(str(INSERT), turn) for turn in range(1, usual + 1)]
    clean = baseline()
    clean = replace(clean, numbers=Numbers({(INSERT.kind, each): each[1] for each in said}))
    trial = done_again(fault="lost-replies")
    trial.requests[0].said, trial.requests[-1].said = (str(INSERT), 1), (str(INSERT), 2)
    trial.requests[-1].reply = reply
    kinds = [each.kind for each in judge(clean, trial).findings]
    assert kinds == ([Kind.DENIED] if found else [])


@pytest.mark.parametrize(
    ("code", "goes_on", "found"), [(1, False, True), (1, True, False), (0, False, False)]
)
def test_whoever_gives_up_on_a_write_of_its_own_denies_it(code: int, *, goes_on: bool, found: bool) -> None:
    clean = replace(baseline(), numbers=Numbers({(INSERT.kind, (str(INSERT), 1)): 1}))
    trial = outcome("unacknowledged", code=code, contents={**CLEAN, "shop.payments": []} if code else CLEAN)
    trial.requests = trial.requests[:1] + [asked(INSERT, 3, at=1.0)] + trial.requests[1:] * goes_on
    trial.requests[0].said, trial.requests[1].said = (str(INSERT), 1), (str(INSERT), 2)
    trial.requests[1].reply = {"ok": 1, "n": 0, "writeErrors": [{"index": 0, "code": 11000}]}
    assert [each.kind for each in judge(clean, trial).findings] == ([Kind.DENIED] if found else [])


@pytest.mark.parametrize(("connections", "found"), [((1, 1), [Kind.DOCUMENTS]), ((1, 2), [])])
@pytest.mark.parametrize("usual", [(1, 1), (1, 2)])
def test_the_order_of_an_array_says_nothing_where_requests_are_side_by_side(
    connections: tuple[int, int], usual: tuple[int, int], found: list[Kind]
) -> None:
    def run(*items: str, connections: tuple[int, int], fault: str = "") -> Outcome:
        contents = {**CLEAN, "shop.orders": [{"_id": 1, "items": list(items)}]}
        trial = outcome(fault, PAY, contents=contents)
        trial.requests = [asked(INSERT, number) for number in (1, 2)] + trial.requests[1:]
        for request, connection in zip(trial.requests, connections, strict=False):
            request.connection = connection
        return trial

    clean = Baseline.of([run("cup", "pot", connections=usual) for _ in range(2)])
    judged = judge(clean, run("pot", "cup", connections=connections, fault="error"))
    assert [each.kind for each in judged.findings] == (found if usual == (1, 1) else [])


CANCELLED = {**CLEAN, "shop.orders": [{"_id": 1, "state": "cancelled"}]}


def test_documents_may_report_an_error_unless_a_right_client_masks_it() -> None:
    assert kinds("error", contents=CANCELLED) == []
    assert judge(baseline(), outcome("error", contents=CANCELLED)).status == "reported"
    assert kinds("lost-reply", contents=CANCELLED) == [Kind.FAILS]
    must = Invariants(succeeds=True)
    judged = judge(baseline(), outcome("error", contents=CANCELLED), must)
    assert [each.kind for each in judged.findings] == [Kind.FAILS]


def test_more_entries_of_a_log_are_no_difference_and_fewer_are_one() -> None:
    clean = baseline(contents={**CLEAN, "shop.audit_log": [{"_id": 1}]})

    def differ(*entries: int) -> bool:
        contents = {**CLEAN, "shop.audit_log": [{"_id": each} for each in entries]}
        return bool(judge(clean, outcome("error", contents=contents)).findings)

    assert [differ(1), differ(1, 2), differ()] == [False, False, True]


def test_a_test_that_fails_by_its_own_assertion_denies_nothing() -> None:
    trial = done_again()
    trial.ended = replace(trial.ended, errors="E\nAssertionError: one request was expected")
    assert denials(trial) == []


@pytest.mark.parametrize(
    ("fault", "seconds", "waits", "found"),
    [
        ("lost-reply", 4.9, None, []),
        ("lost-reply", 5.1, None, [Kind.WAITS]),
        ("error", 60.0, None, []),
        ("error", 2.9, 2.0, []),
        ("error", 3.1, 2.0, [Kind.WAITS]),
    ],
)
def test_a_fault_lets_the_user_wait_for_so_long(
    fault: str, seconds: float, waits: float | None, found: list[Kind]
) -> None:
    judged = judge(baseline(), outcome(fault, seconds=seconds), Invariants(waits=waits))
    assert [each.kind for each in judged.findings] == found


@pytest.mark.parametrize(("again", "is_one"), [(1, False), (5, False), (6, True)])
def test_a_wait_is_a_bug_only_if_it_comes_again_in_most_runs(again: int, *, is_one: bool) -> None:
    slow = outcome("lost-reply", seconds=20.0)
    (bug,) = grouped([Trial(1, slow, judge(baseline(), slow))])
    bug.repeated, bug.again = 10, again
    bug.seconds, bug.beside = [20.0] * again + [1.0] * (10 - again), [1.0] * 10
    assert bug.is_confirmed is is_one


@pytest.mark.parametrize(("beside", "is_one"), [(1.0, True), (3.9, True), (4.1, False)])
def test_a_wait_is_a_bug_only_if_clean_runs_beside_it_do_not_wait_as_long(
    beside: float, *, is_one: bool
) -> None:
    slow = outcome("lost-reply", seconds=6.0)
    (bug,) = grouped([Trial(1, slow, judge(baseline(), slow))])
    bug.repeated = bug.again = 10
    bug.seconds, bug.beside = [6.0] * 10, [1.0] * 9 + [beside]
    assert bug.is_confirmed is is_one


def test_a_timer_that_a_driver_leaves_behind_is_no_wait() -> None:
    assert kinds("lost-reply", seconds=33.0, left=30.0) == []
    assert kinds("lost-reply", seconds=33.0, left=1.0) == [Kind.WAITS]


def test_faults_of_two_operations_are_masked_in_one_session_and_perhaps_not_side_by_side() -> None:
    def both(*sessions: bytes) -> list[Kind]:
        trial = outcome("lost-reply", code=1)
        trial.strikes += (Strike(BY_NAME["lost-reply"], PAY),)
        for request, session in zip(trial.requests, sessions, strict=True):
            request.command = {**request.command, "lsid": {"id": session}}
            request.struck, request.reply = "lost-reply", None
        return [each.kind for each in judge(baseline(), trial).findings]

    assert both(b"one", b"one") == [Kind.FAILS]
    assert both(b"one", b"two") == []


def test_requests_without_a_growing_wait_are_a_storm_and_those_with_one_are_none() -> None:
    def struck(waits: list[float]) -> list[Any]:
        instants = [sum(waits[:number]) for number in range(len(waits))]
        return [asked(INSERT, number, struck="outage", at=at) for number, at in enumerate(instants)]

    assert kinds("outage", requests=struck([0.03] * 90)) == [Kind.RETRY_STORM]
    assert kinds("outage", requests=struck([0.001 * number for number in range(70)])) == []


def test_a_line_that_every_clean_run_writes_is_missed() -> None:
    clean = baseline(output="total: 190\ntook 3 s\n")
    found = judge(clean, outcome("error", output="total: 20\ntook 9 s\n")).findings
    assert [(each.kind, each.words) for each in found] == [(Kind.OUTPUT, "it did not write 'total: 190'")]


@pytest.mark.parametrize(
    ("clean", "written", "found"),
    [
        ("1,ann\n2,bob\n", "1,ann\n1,ann\n2,bob\n", ["it wrote '1,ann' 2 times"]),
        ("1,ann\n1,ann\n", "1,ann\n1,ann\n", []),
        ("order 1, of ann\n", "order 1, of ann\norder 1, of ann\n", []),
        ("placing 1\n", "placing 1\nplacing 1\n", []),
    ],
)
def test_a_record_that_is_written_twice_is_found_and_another_line_may_come_again(
    clean: str, written: str, found: list[str]
) -> None:
    judged = judge(baseline(output=clean), outcome("error", output=written))
    assert [each.words for each in judged.findings] == found


def test_a_fault_whose_place_never_came_is_no_trial() -> None:
    missed = outcome("error", unreached=[Strike(BY_NAME["error"], INSERT)])
    assert judge(baseline(), missed).status == "not reached"


def test_a_command_that_fails_by_itself_has_no_baseline() -> None:
    with pytest.raises(BaselineError, match="exit code 3, with no fault at all"):
        baseline(code=3)


def test_trials_of_one_cause_are_one_bug_and_the_first_stands_for_it() -> None:
    judged = [
        Trial(number, each, judge(baseline(), each))
        for number, each in enumerate(
            [
                outcome("error", contents=MORE),
                outcome("lost-replies", contents=MORE),
                outcome("error", PAY, contents=MORE),
            ]
        )
    ]
    bugs = grouped(judged)
    assert [(bug.trial.number, len(bug.others)) for bug in bugs] == [(0, 1), (2, 0)]
    assert bugs[0].only == "error @ shop: shop.orders insert {_id} #1"


def test_two_faults_that_find_what_one_of_them_finds_are_its_bug() -> None:
    single, other = outcome("error", contents=MORE), outcome("error", PAY, contents=MORE)
    both = outcome("error", contents=MORE)
    both.strikes += other.strikes
    trials = [Trial(number, each, judge(baseline(), each)) for number, each in enumerate((both, single))]
    (bug,) = grouped(trials)
    assert (bug.trial.number, len(bug.others)) == (1, 1)


def test_the_story_says_the_fault_and_what_driver_and_application_did() -> None:
    struck = outcome("lost-replies")
    struck.requests += [asked(PAY, 3), asked(PAY, 4)]
    assert story(baseline(), struck) == [
        "shop: shop.orders insert {_id} #1 was carried out, and its reply was lost, at each attempt",
        "it was not sent again, and got no answer",
        "shop.payments insert {_id} came 2 times more than in a clean run",
    ]


def test_the_story_of_two_faults_names_the_place_of_each() -> None:
    both = outcome("error")
    both.strikes += (Strike(BY_NAME["error"], PAY),)
    both.requests[1].struck, both.requests[1].reply = "error", {"ok": 0, "code": 1}
    said = story(baseline(), both)
    assert [line.partition(" failed")[0] for line in said[::2]] == [str(INSERT), str(PAY)]


def test_the_word_for_the_matrix_is_the_worst_that_happened() -> None:
    assert Judgement().status == "held"
    assert Judgement(reported=True).status == "reported"
    assert judge(baseline(), outcome("error", contents=MORE)).status == "failed"


def test_a_command_that_fails_after_nothing_was_tried_any_more_stands_still() -> None:
    def failed(*, polls: bool, tries: bool) -> list[Kind]:
        trial = outcome("error", code=1, idle=0.1)
        trial.requests[0].at = trial.requests[1].at = 1.0
        for number in range(1, 40):
            place = INSERT if tries else INSERT.__class__("shop", "shop.orders find {}", number)
            again = asked(PAY, number + 10, at=1.0 + number / 10)
            again.place = place
            again.command = {"find": "orders", "$db": "shop"}
            trial.requests += [again] if polls or tries else []
        return [each.kind for each in judge(baseline(), trial).findings]

    assert failed(polls=True, tries=False) == [Kind.STANDSTILL]
    assert failed(polls=True, tries=True) == []
    assert failed(polls=False, tries=False) == []


@pytest.mark.parametrize(("growth", "usual", "found"), [(1.0, 1, True), (1.2, 1, False), (1.0, 9, False)])
def test_whoever_tries_for_ever_at_one_pace_hangs_and_a_worker_may(
    growth: float, usual: int, *, found: bool
) -> None:
    def again(count: int, struck: str = "") -> list[Any]:
        places = [PAY.__class__(PAY.app, PAY.shape, number) for number in range(1, count + 1)]
        requests = [asked(PAY, number, struck=struck) for number in range(1, count + 1)]
        for number, (request, place) in enumerate(zip(requests, places, strict=True)):
            request.place, request.at = place, sum(growth**each / 50 for each in range(number))
        return requests

    clean = baseline(requests=again(usual))
    trial = outcome("outage-for-good", PAY, code=None, requests=again(25, "outage-for-good"))
    assert [each.kind for each in judge(clean, trial).findings] == ([Kind.HANG] if found else [])
