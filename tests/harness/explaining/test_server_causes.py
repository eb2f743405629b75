"""Likely causes and the two sides of connections and metrics that are other than expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from written_wire import PLACE, Wire, connection, exactly, expected, judged, used

from harness.adapters.base import EntityKind
from harness.explaining.server_causes import server_side_causes
from harness.unified.entities import EntityMap
from harness.unified.matching.matcher import Mismatch, missing
from harness.unified.model import EntitySpec, Operation
from harness.unified.outcome import CaseOutcome, Status
from harness.unified.server_side.connection_judge import ConnectionComparison
from harness.unified.server_side.metrics import (
    MetricComparison,
    MetricReading,
    WrongMetric,
    judge_metrics,
)
from harness.unified.server_side.model import ExpectedMetric, Range
from harness.unified.server_side.seen import StatusSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.unified.server_side.model import ExpectedConnections


class CaseOf:
    """The parts of a case that causes look at: one client, and the operations on it."""

    def __init__(self, options: dict[str, Any], closes: bool) -> None:  # noqa: FBT001
        body = {"id": "client", "uriOptions": {"appName": "app", **options}}
        self.entities = (EntitySpec(EntityKind.CLIENT, "client", body, PLACE),)
        self.operations = (Operation("close", "client", {}, PLACE),) if closes else ()


class EvidenceOf:
    def __init__(self, case: CaseOf, comparison: Any) -> None:
        self.case = case
        self.outcome = CaseOutcome(Status.FAILED, comparisons=(comparison,))


def causes(comparison: Any, *, closes: bool = False, **options: Any) -> list[str]:
    evidence: Any = EvidenceOf(CaseOf(options, closes), comparison)
    return [cause.text for cause in server_side_causes(evidence)]


def compared(wire: Wire, wanted: ExpectedConnections) -> ConnectionComparison:
    found = judged(wire, wanted)
    assert found is not None
    return ConnectionComparison(found)


def side_by_side(sizes: int, *, servers: Sequence[str] = ("node0",)) -> Wire:
    """Return connections whose handshakes overlap."""
    wire = Wire()
    numbers = [wire.accept(servers[index % len(servers)]) for index in range(sizes)]
    for number in numbers:
        wire.ask(number, {"hello": 1, "client": {"application": {"name": "app"}}})
    for number in numbers:
        wire.answer(number)
        wire.say(number, "find")
    return wire


class TestLimits:
    def test_more_handshakes_than_max_connecting_name_the_option(self) -> None:
        comparison = compared(side_by_side(3), expected(at_once=Range(most=2)))
        assert causes(comparison) == [
            (
                "the pool of node0 establishes 3 connections at the same time:"
                " it does not obey maxConnecting, which is 2 (CMAP: Connection Pool)"
            )
        ]

    def test_the_option_counts_where_the_client_has_it(self) -> None:
        comparison = compared(side_by_side(3), expected(at_once=Range(most=2)))
        assert causes(comparison, maxConnecting=3) == []

    def test_each_pool_has_a_limit_of_its_own(self) -> None:
        comparison = compared(side_by_side(3, servers=("node0", "node1")), expected(at_once=Range(most=2)))
        assert causes(comparison) == []

    def test_more_connections_than_max_pool_size_name_the_option(self) -> None:
        comparison = compared(side_by_side(3), expected(open=Range(most=2)))
        assert causes(comparison, maxPoolSize=2) == [
            (
                "the pool of node0 has 3 connections at the same time:"
                " it does not obey maxPoolSize, which is 2 (CMAP: Connection Pool)"
            )
        ]


def idle_then_new() -> Wire:
    """Return a record in which a second connection is made while the first is idle, and both are used."""
    wire = Wire()
    first = used(wire)
    wire.wait(0.1)
    used(wire)
    wire.say(first, "find")
    return wire


def used_after_another_broke(*, again: int) -> Wire:
    """Return a record of two connections of which the first breaks, and a command on one that is chosen."""
    wire = Wire()
    broken, _ = used(wire), used(wire)
    wire.ask(broken, {"find": "stock"})
    wire.wait(0.1)
    wire.close(broken, "server")
    wire.wait(0.1)
    chosen = again if again <= broken + 1 else used(wire)
    wire.say(chosen, "find")
    return wire


def test_a_connection_that_is_used_after_another_of_its_pool_broke_is_stale() -> None:
    wanted = expected(established=exactly(9))
    (cause,) = causes(compared(used_after_another_broke(again=2), wanted))
    assert cause.startswith("connection 2 to node0 was used after connection 1 to node0 of the same pool had")
    assert causes(compared(used_after_another_broke(again=3), wanted)) == []


def reused_too_late() -> Wire:
    wire = Wire()
    number = used(wire)
    wire.wait(0.3)
    wire.say(number, "find")
    return wire


def closed_after_each() -> Wire:
    wire = Wire()
    for _ in range(3):
        wire.close(used(wire))
    return wire


def left_open() -> Wire:
    wire = Wire()
    used(wire)
    wire.connect()
    return wire


def without_backpressure() -> Wire:
    wire = Wire()
    wire.say(wire.connect(), "find")
    return wire


def wrong_backpressure() -> Wire:
    wire = Wire()
    wire.say(wire.connect(backpressure="2"), "find")
    return wire


HELLO = connection(hello={"backpressure": "rule: backpressure"})


@pytest.mark.parametrize(
    ("make", "wanted", "case", "cause"),
    [
        (
            idle_then_new,
            expected(established=exactly(1)),
            {},
            (
                "connection 2 to node0 was established while connection 1 to node0 was idle:"
                " available connections come first (CMAP: Checking Out a Connection)"
            ),
        ),
        (
            reused_too_late,
            expected(idle=Range(most=0.1)),
            {"maxIdleTimeMS": 100},
            (
                "connection 1 to node0 was idle for 310 ms and used again:"
                " maxIdleTimeMS is 100 (CMAP: Connection)"
            ),
        ),
        (
            closed_after_each,
            expected(established=exactly(1)),
            {},
            "the driver closes a connection after each operation (CMAP: Checking In a Connection)",
        ),
        (
            left_open,
            expected(open_at_end=exactly(0)),
            {"closes": True},
            (
                "the client was closed, and connections of its pools stayed open"
                " (CMAP: Closing a Connection Pool)"
            ),
        ),
        (
            left_open,
            expected(monitoring=True, open_at_end=exactly(0)),
            {"closes": True},
            "the client was closed, and connections of its monitors stayed open (Server Monitoring)",
        ),
        (
            without_backpressure,
            expected(each=HELLO),
            {},
            "the handshake does not declare backpressure (Client Backpressure: Handshake changes)",
        ),
        (
            wrong_backpressure,
            expected(each=HELLO),
            {},
            (
                "the handshake declares backpressure as '2', and the edition's value is True"
                " (Client Backpressure: Handshake changes)"
            ),
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_cause_that_the_connections_prove_is_said(
    make: Callable[[], Wire], wanted: ExpectedConnections, case: dict[str, Any], cause: str
) -> None:
    assert causes(compared(make(), wanted), **case) == [cause]


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (left_open, expected(open_at_end=exactly(0))),
        (reused_too_late, expected(idle=Range(most=0.1))),
        (reused_too_late, expected(established=exactly(2))),
        (left_open, expected(each=connection(commands=("hello",)))),
    ],
)
def test_what_is_not_proved_is_not_said(make: Callable[[], Wire], wanted: ExpectedConnections) -> None:
    assert causes(compared(make(), wanted)) == []


def test_the_connections_stand_one_by_one_below_what_is_expected() -> None:
    wire = Wire()
    wire.close(used(wire))
    wire.wait(0.1)
    used(wire)
    rows = list(compared(wire, expected(app_name="app", open_at_end=exactly(0))).rows())
    assert [(row.verdict, row.expected, row.actual) for row in rows] == [
        ("differs", "openAtEnd: 0", "1"),
        ("same", CLOSED, CLOSED),
        ("differs", None, "connection 2 to node0, at 160 ms: established in 20 ms; find; left open"),
    ]
    assert rows[0].line == PLACE.line


CLOSED = "connection 1 to node0, at 0 ms: established in 20 ms; find; closed by the client at 50 ms"


def metric(before: Any, after: Any, *, path: str = "a.b", **wanted: Any) -> MetricComparison:
    asked = ExpectedMetric(path, PLACE, **wanted)
    first, last = (StatusSnapshot("node0", {"node0": reply}) for reply in (before, after))
    found = judge_metrics([asked], first, last, EntityMap())
    assert found is not None
    return MetricComparison(found)


def test_the_counts_stand_below_what_is_expected() -> None:
    comparison = metric({"a": {"b": 1}}, {"a": {"b": 4}}, change=exactly(2))
    assert comparison.name == "serverStatus"
    assert [(row.verdict, row.expected, row.actual) for row in comparison.rows()] == [
        ("differs", "a.b: change 2", "3"),
        ("same", "node0: 1 -> 4", "node0: 1 -> 4"),
    ]


def test_a_metric_that_is_not_there_may_be_of_another_release() -> None:
    assert causes(metric({}, {}, change=exactly(1))) == [
        (
            "serverStatus of node0 has no a.b: releases differ in their metrics"
            " (runOn.profile limits a case to some)"
        )
    ]


def test_a_reading_says_what_is_missing() -> None:
    found = WrongMetric(
        "why", Mismatch("change", "1", missing, "is missing"), ExpectedMetric("a", PLACE), (READING,)
    )
    assert [row.actual for row in MetricComparison(found).rows()] == ["missing", "node0: missing -> 2"]


READING = MetricReading("node0", missing, 2)
