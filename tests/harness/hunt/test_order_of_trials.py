"""The order of trials: promise, waves, pairs, and what earlier hunts have found."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hunted import INSERT, PAY, asked, baseline, outcome

import fakeserver
from harness.hunt.faults import BY_NAME, FAULTS
from harness.hunt.findings import Judgement, Trial, grouped
from harness.hunt.judging import judge
from harness.hunt.planning import Facts, pairs, singles
from harness.hunt.wire import Strike
from harness.hunt.wishes import ordered, recalled, text_of
from harness.hunt.writing import scenario_of
from mongowire.system import SeededRng

FACTS = Facts(is_replica_set=True, reads_secondaries=False)
HUNT = Path(__file__).parents[3] / "docs" / "HUNT.md"


def test_each_fault_is_tried_where_it_applies_and_the_same_seed_gives_the_same_order() -> None:
    first = singles(baseline(), FACTS, SeededRng(1))
    assert first == singles(baseline(), FACTS, SeededRng(1))
    assert {strike.place for strike in first} == {INSERT, PAY}
    assert not {"conflict", "cursor-lost", "stale", "rolled-back"} & {each.fault.name for each in first}
    assert first[0].fault.name == "error"
    assert len({strike.fault.name for strike in first[:6]}) >= 4
    assert {strike.place for strike in first[:3]} == {INSERT, PAY}


def test_in_a_large_program_each_shape_meets_a_fault_early_and_the_best_faults_meet_most_shapes() -> None:
    places = [
        INSERT.__class__("shop", f"shop.c{shape} insert {{_id}}", number)
        for shape in range(24)
        for number in range(1, 4)
    ]
    known = baseline()
    known = replace(known, places=dict.fromkeys(places, known.places[INSERT]))
    order = singles(known, FACTS, SeededRng(1))
    assert len({strike.place.kind for strike in order[:24]}) == 24
    assert len({(strike.fault.name, strike.place.kind) for strike in order[:72]}) == 72
    best = [
        strike for strike in order[:72] if strike.fault.name in {"error", "unacknowledged", "lost-replies"}
    ]
    assert len(best) > 36


def test_a_reply_that_is_lost_comes_earlier_at_a_write_that_adds() -> None:
    known = baseline()
    update = {"update": "orders", "$db": "shop", "txnNumber": 1}
    turns = {}
    for change in ("$set", "$inc"):
        known.places[INSERT].command = {**update, "updates": [{"q": {"_id": 1}, "u": {change: {"n": 1}}}]}
        orders = [
            [each.fault.name for each in singles(known, FACTS, SeededRng(seed)) if each.place == INSERT]
            for seed in range(10)
        ]
        turns[change] = [order.index("lost-replies") for order in orders]
    assert max(turns["$inc"]) <= 1
    assert sum(turns["$inc"]) < sum(turns["$set"])


def test_faults_that_let_a_command_wait_come_first_where_the_user_says_by_when_it_must_end() -> None:
    impatient = FACTS._replace(must_answer=True)
    first = {
        facts: next(
            n for n, each in enumerate(singles(baseline(), facts, SeededRng(1))) if each.fault.may_hang
        )
        for facts in (FACTS, impatient)
    }
    assert first[impatient] == 0
    assert first[FACTS] > len(FAULTS) / 2


def test_pairs_begin_within_the_recovery_from_the_first_fault() -> None:
    recovery = outcome("error")
    refund = INSERT.__class__("shop", "shop.payments insert {_id}", 2)
    recovery.requests.append(asked(PAY, 3))
    recovery.requests[-1].place = refund
    found = list(pairs(baseline(), [Trial(1, recovery, Judgement())], FACTS))
    assert [str(each) for each in found[0]] == [f"error @ {INSERT}", f"error @ {refund}"]
    assert any(each[1].place == PAY for each in found)


def test_a_fault_that_fails_alone_is_no_second_one() -> None:
    held = Trial(1, outcome("error"), Judgement())
    failing = outcome("error", PAY, contents={})
    failed = Trial(2, failing, judge(baseline(), failing))
    seconds = [both[1] for both in pairs(baseline(), [held, failed], FACTS)]
    assert failing.strikes[0] not in seconds
    assert Strike(BY_NAME["unacknowledged"], PAY) in seconds


def test_pairs_begin_with_places_that_share_nearness_session_and_document() -> None:
    ours, others = {"id": b"1"}, {"id": b"2"}
    commands = {
        "first": {"insert": "orders", "documents": [{"_id": 7}], "lsid": ours},
        "near": {"insert": "log", "documents": [{"_id": 7}], "lsid": others},
        "near, of its document": {
            "update": "orders",
            "updates": [{"q": {"_id": 7}, "u": {}}],
            "lsid": others,
        },
        "near, of its session": {"insert": "log", "documents": [{"_id": 8}], "lsid": ours},
        "far": {"insert": "log", "documents": [{"_id": 9}], "lsid": others},
        "far, of its session": {"insert": "log", "documents": [{"_id": 10}], "lsid": ours},
        "far, of both": {"delete": "orders", "deletes": [{"q": {"_id": 7}}], "lsid": ours},
    }
    places = {}
    for name, command in commands.items():
        place = INSERT.__class__("shop", name, 1)
        places[place] = asked(INSERT, 1)
        places[place].place, places[place].command = place, {**command, "$db": "shop", "txnNumber": 1}
    known = replace(baseline(), places=places)
    held = outcome("error", next(iter(places)), requests=[])
    found = pairs(known, [Trial(1, held, Judgement())], FACTS, [BY_NAME["error"]])
    assert [second.place.shape for _, second in found] == [
        *("near, of its document", "near, of its session", "far, of both"),
        *("near", "far, of its session"),
    ]


def test_a_hunt_begins_with_what_failed_and_ends_with_what_held(tmp_path: Path) -> None:
    strikes = [(Strike(BY_NAME[name], INSERT),) for name in ("error", "slow", "lost-reply")]
    remembered = {text_of(strikes[0]): "held", text_of(strikes[2]): "failed"}
    assert ordered(strikes, remembered) == [strikes[2], strikes[1], strikes[0]]
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(ValueError, match="is no memory of hunts"):
        recalled(other, "npm test")


def test_every_fault_stands_in_the_page() -> None:
    rows = set(re.findall(r"`([a-z-]+)`", HUNT.read_text()))
    assert {fault.name for fault in FAULTS} <= rows


def test_a_scenario_strikes_the_request_by_its_number_among_those_of_its_command() -> None:

    failed = outcome("error", PAY, contents={})
    text = scenario_of(grouped([Trial(1, failed, judge(baseline(), failed))])[0], baseline())
    assert '"when": {"command": "insert", "nth": 1, "appName": "shop", "namespace": "shop.payments"}' in text


def test_a_stream_of_a_collection_is_invalidated_by_renaming_that_and_a_stream_of_a_database_is_not() -> None:
    fault = BY_NAME["stream-invalidated"]
    more = asked(INSERT, 1)
    more.command, more.streams = {"getMore": 1, "collection": "orders", "$db": "shop"}, True
    assert fault.applies(more)
    assert [(verb, each["namespace"], each["to"]) for verb, each in fault.steps(more)] == [
        ("rename", "shop.orders", "shop.orders_away"),
        ("rename", "shop.orders_away", "shop.orders"),
    ]
    more.command = {**more.command, "collection": "$cmd.aggregate"}
    assert not fault.applies(more)


def test_a_stream_is_opened_under_faults_and_waited_for_without_most_of_them() -> None:
    opened, more = asked(INSERT, 1), asked(INSERT, 2)
    opened.command = {"aggregate": "orders", "pipeline": [{"$changeStream": {}}], "$db": "shop"}
    more.command = {"getMore": 1, "collection": "orders", "$db": "shop"}
    opened.streams = more.streams = True
    names = [{fault.name for fault in FAULTS if fault.applies(each)} for each in (opened, more)]
    assert {"error", "lost-reply", "silent"} <= names[0]
    assert "outage-for-good" not in names[0]
    assert names[1] == {"stream-lost", "stream-invalidated", "stream-broken"}


def test_a_scenario_of_an_invalidated_stream_renames_its_collection(tmp_path: Path) -> None:

    known, failed = baseline(), outcome("stream-invalidated", contents={})
    more = known.places[INSERT]
    more.command, more.streams = {"getMore": 1, "collection": "orders", "$db": "shop"}, True
    bugs = grouped([Trial(1, failed, judge(known, failed))])
    file = tmp_path / "kept.yml"
    file.write_text(scenario_of(bugs[0], known))
    assert [step.verb for step in fakeserver.load_scenario(file).timeline] == ["rename", "rename"]


def test_the_effect_of_a_fault_is_that_of_the_request_which_it_strikes() -> None:
    insert = asked(INSERT, 1)
    insert.command = {"insert": "orders", "documents": [{}, {}], "ordered": False, "$db": "shop"}
    (failed,) = BY_NAME["write-errors"].effects(insert)
    assert [each["index"] for each in failed["reply"]["writeErrors"]] == [0, 1]
    assert BY_NAME["unacknowledged-lost"].effects(insert)[0]["reply"]["n"] == 2
    # A mongos adds no label to an error of its own, so the fault has to say that a driver retries it.
    assert BY_NAME["retryable-error"].effects(insert) == [{"error": 89, "labels": ["RetryableWriteError"]}]
    insert.command = {"find": "orders", "$db": "shop"}
    assert BY_NAME["retryable-error"].effects(insert) == [{"error": 89, "labels": []}]
