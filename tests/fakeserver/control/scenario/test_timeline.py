"""The scheduler of a timeline: what is due, decided from the time and the readings alone."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fakeserver.control.scenario import triggers
from fakeserver.control.scenario.loader import Place
from fakeserver.control.scenario.model import TimelineEntry
from fakeserver.control.scenario.timeline import POLL_SECONDS, Act, Timeline
from fakeserver.control.scenario.triggers import AnsweredRequests, Instant, Readings
from fakeserver.deployment.records.events import CommandFinished, ConnectionAccepted, ConnectionClosed
from fakeserver.deployment.records.journal import Journal
from mongowire.documents.errors import ControlError

COMMANDS = {"find", "insert"}
SERVERS = {"node0", "node1"}


def when(text: str) -> triggers.Condition:
    return triggers.condition(text, SERVERS)


def entry(**facts: Any) -> TimelineEntry:
    return TimelineEntry(place=Place("s.yml", 1, 1), verb="kill", **facts)


def timeline(*entries: TimelineEntry, draw: float = 0.0) -> Timeline:
    return Timeline(entries, [lambda: draw] * len(entries))


def performed(line: Timeline, until: float, readings: Readings | None = None) -> list[tuple[float, Act]]:
    """Jump from instant to instant; return what was due at each."""
    done, now, readings = [], 0.0, readings or Readings()
    while now <= until:
        while acts := line.due(now, readings):
            done += [(round(now, 6), act) for act in acts]
        now = line.next_at(now)
    return done


def test_a_step_without_a_trigger_is_performed_at_once() -> None:
    line = timeline(entry())
    assert performed(line, 10) == [(0.0, Act(0))]
    assert line.is_over


def test_a_step_is_performed_at_its_instant_and_undone_after_its_time() -> None:
    line = timeline(entry(start=Instant(5), lasting=Instant(2)))
    assert performed(line, 10) == [(5, Act(0)), (7, Act(0, undo=True))]
    assert line.is_over


def test_until_ends_the_effect_where_nothing_repeats() -> None:
    assert performed(timeline(entry(start=Instant(5), until=Instant(9))), 20) == [
        (5, Act(0)),
        (9, Act(0, undo=True)),
    ]


def test_a_period_is_counted_from_the_first_performance() -> None:
    line = timeline(entry(start=Instant(1), every=Instant(2), until=Instant(6)))
    assert performed(line, 20) == [(1, Act(0)), (3, Act(0)), (5, Act(0))]
    assert line.is_over


def test_a_period_without_a_beginning_comes_after_the_first_one() -> None:
    assert performed(timeline(entry(every=Instant(2), times=2)), 20) == [(2, Act(0)), (4, Act(0))]


def test_each_performance_of_a_repeated_step_is_undone() -> None:
    acts = performed(timeline(entry(every=Instant(2), lasting=Instant(0.5), times=2)), 20)
    assert acts == [(2, Act(0)), (2.5, Act(0, undo=True)), (4, Act(0)), (4.5, Act(0, undo=True))]


def test_periods_that_have_passed_are_left_out() -> None:
    line, readings = timeline(entry(every=Instant(1))), Readings()
    assert line.due(7.5, readings) == [Act(0)]
    assert line.next_at(7.5) == 8


def test_jitter_moves_performances_and_not_the_periods() -> None:
    line = timeline(entry(every=Instant(1), times=3, jitter=0.4), draw=0.5)
    assert performed(line, 10) == [(1.2, Act(0)), (2.2, Act(0)), (3.2, Act(0))]


def test_ends_come_before_beginnings_of_the_same_instant() -> None:
    line = timeline(entry(start=Instant(2)), entry(start=Instant(1), lasting=Instant(1)))
    assert performed(line, 5) == [(1, Act(1)), (2, Act(1, undo=True)), (2, Act(0))]


def test_requests_are_counted_from_the_start_and_periods_from_the_last_performance() -> None:
    line = timeline(entry(start=AnsweredRequests(3), every=AnsweredRequests(2)))
    readings, done = Readings(), []
    for readings.requests in range(1, 9):
        done += [readings.requests for _ in line.due(1.0, readings)]
    assert done == [3, 5, 7]
    assert math.isinf(line.next_at(1.0)), "no timer is needed"


def test_an_effect_may_last_for_a_number_of_requests() -> None:
    line = timeline(entry(start=AnsweredRequests(2, "insert"), lasting=AnsweredRequests(3)))
    readings, done = Readings(), []
    for number in range(1, 8):
        readings.requests = number
        readings.by_command["insert"] = number
        done += [(number, act.undo) for act in line.due(1.0, readings)]
    assert done == [(2, False), (5, True)]


def test_a_condition_begins_once_and_another_one_ends_the_effect() -> None:
    line, readings, done = (
        timeline(entry(start=when("connections > 2"), until=when("connections < 2"))),
        Readings(),
        [],
    )
    for number in (0, 1, 3, 2, 1, 3):
        readings.connections = number
        done += [(number, act.undo) for act in line.due(1.0, readings)]
    assert done == [(3, False), (1, True)]
    assert line.is_over


def test_a_step_whose_end_has_come_before_its_beginning_is_left_out() -> None:
    line = timeline(entry(start=when("connections > 2"), until=Instant(5)))
    assert performed(line, 10) == []
    assert line.is_over


def test_only_rates_and_queues_are_polled() -> None:
    assert math.isinf(timeline(entry(start=when("connections > 2"))).next_at(0.0))
    assert timeline(entry(start=when("requests/s > 2"))).next_at(0.0) == POLL_SECONDS
    assert timeline(entry(start=when("queued > 2"))).next_at(POLL_SECONDS) == 2 * POLL_SECONDS


def test_a_step_that_fails_is_over_unless_it_repeats() -> None:
    line = timeline(entry(start=Instant(1), lasting=Instant(0.5)))
    assert line.due(1.0, Readings()) == [Act(0)]
    assert not line.fail(0)
    assert line.is_over


def test_a_repeating_step_that_fails_is_undone_no_more_and_comes_again() -> None:
    line = timeline(entry(every=Instant(1), lasting=Instant(0.5), times=3))
    progress = line.progress[0]
    assert line.due(1.0, Readings()) == [Act(0)]
    assert line.fail(0)
    assert (progress.performed, progress.skipped, progress.is_in_effect) == (0, 1, False)
    assert line.due(1.5, Readings()) == []
    assert line.due(2.0, Readings()) == [Act(0)]
    assert line.due(2.5, Readings()) == [Act(0, undo=True)]
    assert line.fail(0, undo=True)
    assert (progress.performed, progress.skipped) == (1, 1)
    assert line.due(3.0, Readings()) == [Act(0)]
    assert line.due(3.5, Readings()) == [Act(0, undo=True)]
    assert line.is_over


# Conditions and readings.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("connections > 2", True),
        ("connections > 3", False),
        ("open connections >= 3", True),
        ("connections == 3 and requests < 5", True),
        ("connections == 3 and requests > 5", False),
        ("requests != 4", False),
        ("primary == node1", True),
        ("primary != node1", False),
        ("primary == none", False),
        ("errors <= 1", True),
    ],
)
def test_a_condition_is_compared_with_what_is_measured(text: str, *, expected: bool) -> None:
    readings = Readings(connections=3, requests=4, errors=1, primary="node1")
    assert when(text).holds(readings) is expected


def test_no_primary_has_a_name() -> None:
    assert when("primary == none").holds(Readings())
    assert not when("primary == node0").holds(Readings())


@pytest.mark.parametrize("text", ["", "connections", "connections >", "connections > many", "5 > 3", "or"])
def test_a_condition_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ControlError):
        when(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2s", Instant(2)),
        ("1.5s", Instant(1.5)),
        ("100 requests", AnsweredRequests(100)),
        ("1 request", AnsweredRequests(1)),
        ("3 insert requests", AnsweredRequests(3, "insert")),
    ],
)
def test_a_period_is_a_time_or_a_number_of_requests(value: object, expected: object) -> None:
    assert triggers.period(value, COMMANDS) == expected


@pytest.mark.parametrize(
    "value", ["0s", 0, "0 requests", "-1s", "ten requests", "3 drop requests", None, True]
)
def test_a_period_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(ControlError):
        triggers.period(value, COMMANDS)


def test_triggers_are_printed_as_they_are_written() -> None:
    written = entry(
        start=when("requests/s >= 20 and primary == node1"),
        every=AnsweredRequests(5, "find"),
        until=Instant(9),
    )
    assert written.trigger == "when requests/s >= 20 and primary == node1 every 5 find requests until 9s"


def finished(name: str, outcome: str | int = "ok") -> CommandFinished:
    return CommandFinished(name, "db", 1, 1, None, None, outcome)


def test_readings_count_the_requests_of_applications() -> None:
    journal, readings = Journal(), Readings()
    journal.append(0.0, "node0", ConnectionAccepted(1, "a"))
    journal.append(0.0, "node0", ConnectionAccepted(2, "b"))
    for name in ("hello", "saslStart", "find", "insert", "endSessions", "pushbackd"):
        journal.append(0.1, "node0", finished(name))
    journal.append(0.5, "node0", finished("", 462))
    journal.append(0.9, "node0", finished("insert", "disconnect"))
    journal.append(0.9, "node0", ConnectionClosed(2, "peer"))
    readings.note(journal.records)
    assert (readings.requests, readings.errors, readings.rejections, readings.connections) == (4, 2, 1, 1)
    assert readings.answered("insert") == 2
    readings.now = 1.0
    assert (readings.of("requests/s"), readings.of("errors/s")) == (4, 2)
    readings.now = 1.2
    assert (readings.of("requests/s"), readings.of("rejections/s")) == (2, 1)
    readings.now = 3.0
    assert readings.of("requests/s") == 0


def test_rates_are_kept_for_the_last_second_only() -> None:
    journal, readings = Journal(capacity=3000), Readings()
    for number in range(2000):
        journal.append(number / 100, "node0", finished("find"))
    readings.note(journal.records)
    assert readings.requests == 2000
    assert sum(map(len, readings._recent.values())) <= 100


def test_a_connection_that_ends_is_not_counted_while_its_server_still_holds_it() -> None:
    journal, readings = Journal(), Readings(held=2)
    for number in (1, 2):
        journal.append(0.0, "node0", ConnectionAccepted(number, "a"))
    journal.append(0.1, "node0", ConnectionClosed(2, "reset"))
    readings.note(journal.records)
    assert readings.of("connections") == 1
    readings.held = 0
    assert readings.of("connections") == 0


def test_a_timeline_of_times_alone_needs_no_readings() -> None:
    assert not timeline(entry(start=Instant(1), every=Instant(2), until=Instant(9))).needs_readings
    assert timeline(entry(start=Instant(1), lasting=AnsweredRequests(3))).needs_readings
