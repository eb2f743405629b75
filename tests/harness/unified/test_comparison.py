"""Expected and actual events, aligned: what a reader sees of an assertion that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harness.adapters.base import LOG_MESSAGE, Event
from harness.unified.entities import EntityMap
from harness.unified.matching.comparison import Comparison, compare_events, compare_logs
from harness.unified.matching.event_matcher import match_events
from harness.unified.model import ExpectedEvent, ExpectedEvents, ExpectedLog, ExpectedLogs
from mongowire.documents.marks import Location

PATH = Path("x.yml")
NAMES = ("find", "insert", "update")


def expected(*names: str, extra: bool = False, **body: Any) -> ExpectedEvents:
    events = tuple(
        ExpectedEvent("commandStartedEvent", {"commandName": name, **body}, Location(PATH, 10 + n))
        for n, name in enumerate(names)
    )
    return ExpectedEvents("client0", "command", events, extra, Location(PATH, 9))


def started(*names: str, **fields: Any) -> list[Event]:
    return [Event("commandStartedEvent", {"commandName": name, **fields}) for name in names]


def compare(want: ExpectedEvents, events: list[Event]) -> Comparison:
    return compare_events(want, events, EntityMap())


def verdicts(comparison: Comparison) -> str:
    return " ".join(pair.verdict for pair in comparison.pairs)


def test_events_as_expected_are_the_same() -> None:
    assert verdicts(compare(expected("find", "insert"), started("find", "insert"))) == "same same"


def test_one_event_too_many_does_not_make_those_after_it_look_wrong() -> None:
    comparison = compare(expected("find", "insert"), started("find", "update", "insert"))
    assert verdicts(comparison) == "same extra same"


def test_one_event_too_few_does_not_make_those_after_it_look_wrong() -> None:
    comparison = compare(expected("find", "update", "insert"), started("find", "insert"))
    assert verdicts(comparison) == "same missing same"


def test_an_event_of_the_same_command_with_another_field_differs_and_says_where() -> None:
    comparison = compare(expected("find", databaseName="a"), started("find", databaseName="b"))
    (pair,) = comparison.pairs
    assert (pair.verdict, pair.why) == ("differs", "databaseName: expected 'a', got 'b'")


def test_events_that_may_come_in_addition_are_left_out() -> None:
    assert verdicts(compare(expected("find", extra=True), started("find", "insert"))) == "same"


def test_events_of_another_monitor_are_left_out() -> None:
    others = [Event("poolReadyEvent", {}), *started("find")]
    assert verdicts(compare(expected("find"), others)) == "same"


def test_log_messages_are_aligned_without_those_that_are_ignored() -> None:
    def wanted(message: str) -> ExpectedLog:
        return ExpectedLog("debug", "command", {"message": message}, None, Location(PATH, 5))

    def logged(message: str) -> Event:
        fields = {"level": "debug", "component": "command", "data": {"message": message}}
        return Event(LOG_MESSAGE, fields)

    logs = ExpectedLogs("client0", (wanted("a"), wanted("c")), (wanted("noise"),), False, Location(PATH, 4))  # noqa: FBT003
    messages = [logged("noise"), logged("a"), logged("b"), logged("c")]
    assert verdicts(compare_logs(logs, messages, EntityMap())) == "same extra same"


@given(st.lists(st.sampled_from(NAMES), max_size=6), st.lists(st.sampled_from(NAMES), max_size=6))
def test_every_event_is_shown_once_in_its_order_and_the_first_divergence_is_the_matchers(
    wanted: list[str], seen: list[str]
) -> None:
    want, events = expected(*wanted), started(*seen)
    comparison = compare(want, events)
    assert [pair.expected for pair in comparison.pairs if pair.expected] == list(want.events)
    assert [pair.actual for pair in comparison.pairs if pair.actual] == events
    found = match_events(want, events, entities=EntityMap())
    assert comparison.diverges is (found is not None)
    if found is not None:
        agreed = next(n for n, pair in enumerate(comparison.pairs) if pair.verdict != "same")
        assert found[0].path == f"events[{agreed}]" or found[0].path.startswith(f"events[{agreed}].")
