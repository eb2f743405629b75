"""Unified Test Format: expectTracingMessages, and which spans a scenario sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.adapters.base import SPAN, Event
from harness.unified.entities import ClientEntity, EntityMap
from harness.unified.matching.event_matcher import match_spans
from harness.unified.model import ExpectedSpan, ExpectedSpans
from harness.unified.observation import observed, traced
from mongowire.documents.marks import Location

PATH = Path("x.yml")


def span(number: int, name: str, *, parent: int | None = None, **attributes: Any) -> Event:
    fields = {"id": number, "parent": parent, "name": name, "attributes": attributes, "order": number}
    return Event(SPAN, fields)


def want(name: str, *nested: ExpectedSpan, line: int = 0, **attributes: Any) -> ExpectedSpan:
    return ExpectedSpan(name, attributes, nested, Location(PATH, line))


def divergence(
    *wanted: ExpectedSpan, spans: tuple[Event, ...], extra: bool = False
) -> tuple[str, str, int] | None:
    expected = ExpectedSpans("client", wanted, extra, Location(PATH, 9))
    found = match_spans(expected, spans, entities=EntityMap())
    return found and (found[0].path, found[0].why, found[1].line)


TREE = (
    span(1, "transaction"),
    span(2, "insert db.t", parent=1, system="mongodb"),
    span(3, "insert", parent=2, port=27017),
    span(4, "commitTransaction admin", parent=1),
    span(5, "find db.t"),
)
EXPECTED = (
    want("transaction", want("insert db.t", want("insert", port=27017)), want("commitTransaction admin")),
    want("find db.t"),
)


def test_a_tree_matches_level_by_level_and_attributes_may_be_more() -> None:
    assert divergence(*EXPECTED, spans=TREE) is None


def test_operators_compare_attributes() -> None:
    exists = want("a", port={"$$type": "int"}, gone={"$$exists": False})
    assert divergence(exists, spans=(span(1, "a", port=1),)) is None
    said = divergence(exists, spans=(span(1, "a", port=1, gone=2),))
    assert said == ("[0].attributes.gone", "is there, but must not be", 0)


@pytest.mark.parametrize(
    ("wanted", "spans", "said"),
    [
        ((want("b", line=3),), (span(1, "a"),), ("[0].name", "expected 'b', got 'a'", 3)),
        (
            (want("a"), want("b", line=4)),
            (span(1, "a"),),
            ("[1]", "expected a span 'b', but there is no more", 4),
        ),
        (
            (want("a"),),
            (span(1, "a"), span(2, "b")),
            ("[1]", "expected 1 spans, got 2; the first extra one is 'b'", 9),
        ),
        (
            (want("a", want("c", line=5)),),
            (span(1, "a"), span(2, "b", parent=1)),
            ("[0].nested[0].name", "expected 'c', got 'b'", 5),
        ),
        (
            (want("a", line=6),),
            (span(1, "a"), span(2, "b", parent=1)),
            ("[0].nested[0]", "expected 0 spans, got 1; the first extra one is 'b'", 6),
        ),
    ],
)
def test_a_divergence_is_reported_with_its_place_and_line(
    wanted: tuple[ExpectedSpan, ...], spans: tuple[Event, ...], said: tuple[str, str, int]
) -> None:
    assert divergence(*wanted, spans=spans) == said


def test_extra_spans_are_ignored_on_every_level_where_the_scenario_says_so() -> None:
    spans = (span(1, "x"), span(2, "a"), span(3, "y", parent=2), span(4, "b", parent=2), span(5, "z"))
    assert divergence(want("a", want("b")), spans=spans, extra=True) is None
    assert divergence(want("a", want("b")), spans=spans) is not None


def test_spans_that_are_ignored_do_not_change_the_order_of_the_others() -> None:
    spans = (span(1, "b"), span(2, "a"))
    said = divergence(want("a"), want("b", line=7), spans=spans, extra=True)
    assert said == ("[1]", "expected a span 'b', but there is no more", 7)


def test_a_span_within_one_of_the_program_is_a_root() -> None:
    assert divergence(want("a"), spans=(span(1, "a", parent=99),)) is None


def test_a_scenario_sees_spans_as_they_began_and_apart_from_events() -> None:
    events = (span(2, "inner", parent=1), span(1, "outer"))
    client = ClientEntity(
        handle=None,
        observed=frozenset({"commandStartedEvent"}),
        ignored_commands=frozenset(),
        observe_sensitive=False,
        read=lambda: events,
        observed_logs={},
    )
    assert [each.fields["name"] for each in traced(client)] == ["outer", "inner"]
    assert observed(client) == ()
