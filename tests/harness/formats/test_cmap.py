"""The runners of pool cases say what a pool did not do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from format_files import POOL_CASE, load
from format_files import run as run_all

from harness.adapters.deployment import Topology
from harness.adapters.registry import make_adapter
from harness.deployments.embedded import embedded
from harness.formats.case import Notes
from harness.formats.cmap.model import matches
from harness.sim import run_virtual
from harness.unified.account import Account
from harness.unified.errors import ScenarioError
from harness.unified.outcome import CaseOutcome, Status

if TYPE_CHECKING:
    from pathlib import Path

    from harness.adapters.base import Invocation
    from harness.world.virtual import World as VirtualWorld

CHECK_OUT: list[dict[str, Any]] = POOL_CASE["operations"]
STARTED = {"type": "ConnectionCheckOutStarted", "address": 42}
ALL_BUT_CHECK_OUTS = ["ConnectionPoolCreated", "ConnectionPoolReady", "ConnectionCreated", "ConnectionReady"]


def run(tmp_path: Path, **fields: Any) -> CaseOutcome:
    (outcome,) = run_all(tmp_path, {**POOL_CASE, "ignore": ALL_BUT_CHECK_OUTS, **fields})
    return outcome


def test_a_case_that_holds_passes_with_its_events(tmp_path: Path) -> None:
    events = [STARTED, {"type": "ConnectionCheckedOut", "connectionId": 1, "duration": 42}]
    outcome = run(tmp_path, operations=CHECK_OUT, events=events)
    assert outcome.status is Status.PASSED
    assert outcome.events is not None
    assert len(outcome.events["driver"]) == 6


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"events": [STARTED, STARTED]}, "events[1]: expected ConnectionCheckOutStarted as event 1, got"),
        (
            {"events": [STARTED, {"type": "ConnectionCheckedOut", "connectionId": 2}]},
            "events[1].connectionId: expected 2, got 1",
        ),
        (
            {"events": [STARTED, {"type": "ConnectionCheckedOut"}, STARTED]},
            "events[2]: expected ConnectionCheckOutStarted as event 2, got only: ConnectionCheckOutStarted, ",
        ),
        ({"error": {"type": "PoolClosedError"}}, "error: expected PoolClosedError, got None"),
        ({"operations": [{"name": "checkOut"}]}, "operations: expected no error, got PoolClearedError"),
        (
            {
                "operations": [*CHECK_OUT, {"name": "close"}, {"name": "checkOut"}],
                "error": {"type": "PoolClosedError", "message": "another"},
            },
            "error.message: expected the message 'another'",
        ),
        (
            {
                "operations": [
                    *CHECK_OUT,
                    {"name": "waitForEvent", "event": "ConnectionClosed", "count": 1, "timeout": 10},
                ]
            },
            "operations[2]: waited 0.01 s for 1 of ConnectionClosed",
        ),
        (
            {
                "poolOptions": {"maxPoolSize": 1},
                "operations": [
                    *CHECK_OUT,
                    {"name": "start", "target": "thread"},
                    {"name": "checkOut", "thread": "thread", "label": "late"},
                    {"name": "checkIn", "connection": "late"},
                ],
            },
            "operations[4].connection: the connection was not checked out",
        ),
    ],
)
def test_what_a_pool_did_not_do_is_said(tmp_path: Path, fields: dict[str, Any], complaint: str) -> None:
    outcome = run(tmp_path, **{"operations": CHECK_OUT, **fields})
    assert outcome.status is Status.FAILED
    assert outcome.reason.startswith(complaint)


@pytest.mark.parametrize(
    ("bounds", "complaint"),
    [
        ({"min": 49}, ""),
        ({"min": 50, "max": 50}, ""),
        ({"min": 51}, "events[1].pushbackd.durationMS: expected a duration of at least 51 ms, got 50"),
        ({"min": 0, "max": 49}, "events[1].pushbackd.durationMS: expected a duration of 0 to 49 ms, got 50"),
    ],
)
def test_an_event_has_bounds_for_its_duration(
    tmp_path: Path, bounds: dict[str, float], complaint: str
) -> None:
    failed = {"type": "ConnectionCheckOutFailed", "reason": "timeout", "pushbackd": {"durationMS": bounds}}
    outcome = run(
        tmp_path,
        poolOptions={"maxPoolSize": 1, "waitQueueTimeoutMS": 50},
        operations=[*CHECK_OUT, {"name": "checkOut"}],
        error={"type": "WaitQueueTimeoutError"},
        events=[{"type": "ConnectionCheckedOut"}, failed],
        ignore=[*ALL_BUT_CHECK_OUTS, "ConnectionCheckOutStarted"],
    )
    assert outcome.reason.startswith(complaint)
    assert (outcome.status is Status.FAILED) == bool(complaint)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (
            {"events": [{**STARTED, "pushbackd": {"duration": 1}}]},
            "events[0].pushbackd.duration: unknown field (did you mean 'durationMS'?)",
        ),
        (
            {"events": [{**STARTED, "pushbackd": {"durationMS": {"max": 1}}}]},
            "events[0].pushbackd.durationMS: field 'min' is missing",
        ),
        ({"version": 2}, "version: 2 is not supported (1 is)"),
        ({"poolOptions": {"maxSize": 1}}, "poolOptions.maxSize: unknown field (did you mean 'maxPoolSize'?)"),
        ({"operations": [{"name": "checkUp"}]}, "operations[0].name: 'checkUp' is not one of start, wait"),
        ({"operations": [{"name": "wait"}]}, "operations[0]: field 'ms' is missing"),
        ({"operations": [{"name": "ready", "ms": 1}]}, "operations[0].ms: unknown field"),
        ({"events": [{"type": "ConnectionLost"}]}, "events[0].type: 'ConnectionLost' is not one of"),
        ({"error": {"type": "NetworkError"}}, "error.type: 'NetworkError' is not one of PoolClosedError"),
        (
            {"operations": [{"name": "checkOut", "thread": "a"}]},
            "operations[0].thread: there is no thread 'a' (start it before)",
        ),
        (
            {"operations": [{"name": "waitForThread", "target": "a"}]},
            "operations[0].target: there is no thread 'a' (start it before)",
        ),
        (
            {"operations": [{"name": "checkIn", "connection": "a"}]},
            "operations[0].connection: there is no connection 'a'",
        ),
        (
            {"style": "integration", "poolOptions": {"backgroundThreadIntervalMS": -1}},
            "poolOptions.backgroundThreadIntervalMS: the background runs",
        ),
    ],
)
def test_what_the_format_does_not_know_is_refused(
    tmp_path: Path, fields: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        load(tmp_path, {**POOL_CASE, **fields})
    assert str(refused.value).startswith(f"{tmp_path / 'file.json'}:1:")
    assert complaint in str(refused.value)


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
    outcome = run(tmp_path, operations=operations, poolOptions=options)
    assert outcome.events is not None
    checked_out = outcome.events["driver"][-2]
    assert checked_out.at == pytest.approx(0.049)
    assert checked_out.fields["durationMS"] == pytest.approx(49)


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


def test_a_thread_whose_driver_ignores_that_it_is_cancelled_ends_with_the_case(tmp_path: Path) -> None:
    waiting = [{"name": "start", "target": "waiting"}, {"name": "checkOut", "thread": "waiting"}]
    document = {**POOL_CASE, "operations": [*CHECK_OUT, *waiting], "poolOptions": {"maxPoolSize": 1}}
    (case,) = load(tmp_path, document).cases
    ignored = []

    async def main(world: VirtualWorld) -> None:
        ports: Any = {"clock": world.clock, "network": world.network, "rng": world.rng}
        async with embedded(Topology.SINGLE, virtual=True, **ports) as deployment:
            adapter = make_adapter("reference", deployment, edition="2026-02-20")
            calls = adapter.call

            async def call(invocation: Invocation[Any]) -> Any:
                try:
                    return await calls(invocation)
                except asyncio.CancelledError:
                    ignored.append(invocation.operation)

            adapter.call = call  # type: ignore[method-assign]
            assert case.runs.on_server is not None
            async with asyncio.timeout(60):
                await case.runs.on_server(deployment, adapter, Notes(Account()))
            await adapter.aclose()

    run_virtual(main)
    assert ignored == ["checkOut"]
