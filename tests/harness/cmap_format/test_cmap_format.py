"""The runners of pool cases say what a pool did not do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.cmap_format import MismatchError, load, run_on_state
from harness.cmap_format.model import matches
from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from pathlib import Path

    from driver.events import DriverEvent

CHECK_OUT = [{"name": "ready"}, {"name": "checkOut", "label": "conn"}]
STARTED = {"type": "ConnectionCheckOutStarted", "address": 42}
ALL_BUT_CHECK_OUTS = ["ConnectionPoolCreated", "ConnectionPoolReady", "ConnectionCreated", "ConnectionReady"]


def run(tmp_path: Path, **fields: Any) -> list[DriverEvent]:
    path = tmp_path / "case.json"
    case = {"version": 1, "style": "unit", "description": "", "ignore": ALL_BUT_CHECK_OUTS, **fields}
    path.write_text(json.dumps(case))
    return run_on_state(load(path))


def test_a_case_that_holds_returns_the_events(tmp_path: Path) -> None:
    events = [STARTED, {"type": "ConnectionCheckedOut", "connectionId": 1, "duration": 42}]
    assert len(run(tmp_path, operations=CHECK_OUT, events=events)) == 6


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"events": [STARTED, STARTED]}, "expected ConnectionCheckOutStarted as event 1"),
        (
            {"events": [STARTED, {"type": "ConnectionCheckedOut", "connectionId": 2}]},
            "expected connectionId",
        ),
        ({"events": [STARTED, {"type": "ConnectionCheckedOut"}, STARTED]}, "as event 2, got only"),
        ({"error": {"type": "PoolClosedError"}}, "expected PoolClosedError, got None"),
        ({"operations": [{"name": "checkOut"}]}, "expected no error, got PoolClearedError"),
        (
            {
                "operations": [*CHECK_OUT, {"name": "close"}, {"name": "checkOut"}],
                "error": {"type": "PoolClosedError", "message": "another"},
            },
            "expected the message 'another'",
        ),
        (
            {
                "operations": [
                    *CHECK_OUT,
                    {"name": "waitForEvent", "event": "ConnectionClosed", "count": 1, "timeout": 10},
                ]
            },
            "waited 0.01 s for 1 of ConnectionClosed",
        ),
    ],
)
def test_what_a_pool_did_not_do_is_said(tmp_path: Path, fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(MismatchError, match=complaint):
        run(tmp_path, **{"operations": CHECK_OUT, **fields})


@pytest.mark.parametrize(
    "fields",
    [{"version": 2}, {"poolOptions": {"maxSize": 1}}, {"operations": [{"name": "checkUp"}]}],
)
def test_what_the_format_does_not_know_is_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError):
        run(tmp_path, **{"operations": [], **fields})


def test_a_thread_waits_without_keeping_the_others(tmp_path: Path) -> None:
    operations = [
        *CHECK_OUT,
        {"name": "start", "target": "thread"},
        {"name": "checkOut", "thread": "thread", "label": "theirs"},
        {"name": "wait", "ms": 49},
        {"name": "checkIn", "connection": "conn"},
        {"name": "waitForThread", "target": "thread"},
        {"name": "checkIn", "connection": "theirs"},
    ]
    options = {"maxPoolSize": 1, "waitQueueTimeoutMS": 50}
    events: list[Any] = run(tmp_path, operations=operations, poolOptions=options)
    assert events[-2].duration == pytest.approx(0.049)


@pytest.mark.parametrize(
    ("expected", "actual", "fits"),
    [
        (42, 7, True),
        ("42", None, False),
        (1, True, False),
        ({"a": 42}, {"a": 1, "b": 2}, True),
        ({"a": 42}, {"b": 2}, False),
        ([1], [1, 2], True),
        ([1, 2], [1], False),
    ],
)
def test_values_match_as_the_format_says(expected: Any, actual: Any, fits: bool) -> None:  # noqa: FBT001
    assert matches(expected, actual) is fits
