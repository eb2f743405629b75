"""Driver or adapter: what an adapter told contradicts the servers' record, or both agree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from seen import OK, request
from written_wire import PLACE

from harness.adapters.base import EntityKind, ErrorReport, Event, OperationFailed
from harness.explaining.blame import blame
from harness.explaining.seen_case import SeenCase, SeenStep
from harness.unified.account import PerformedOperation
from harness.unified.model import EntitySpec, Operation
from harness.unified.server_side.attempt import attempts_of
from harness.unified.server_side.rules import EDITIONS, Timing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FAILS = {"ok": 0, "code": 91}
CODES_WITHIN = {"ok": 1, "cursor": {"firstBatch": [{"ok": 0, "code": 11000}]}}
OBSERVED = {"id": "client", "observeEvents": ["commandStartedEvent"]}


def step(
    *replies: dict[str, Any], name: str = "find", error: ErrorReport | None = None, client: Any = None
) -> SeenStep:
    """Return an operation whose attempts met these replies; their requests are 1, 2, 3 …"""
    sent = [replace(request(0.1, reply), request_id=at) for at, reply in enumerate(replies, 1)]
    performed = PerformedOperation(Operation(name, "collection0", {}, PLACE), 0.0, 100.0, 0, 1 << 30)
    performed.error = OperationFailed(error) if error else None
    spec = EntitySpec(EntityKind.CLIENT, "client", client or OBSERVED, PLACE)
    return SeenStep(performed, attempts_of(sent, Timing(round_trip=0.0)), spec)


def told(*numbers: int, succeeded: Sequence[int] = ()) -> dict[str, list[Event]]:
    started = [Event("commandStartedEvent", {"requestId": number}) for number in numbers]
    return {
        "client": [*started, *(Event("commandSucceededEvent", {"requestId": each}) for each in succeeded)]
    }


def blamed(one: SeenStep, heard: Mapping[str, Sequence[Event]], *, events_differ: bool = True) -> str:
    return blame(SeenCase(EDITIONS["2026-07-08"], [one]), heard, events_differ=events_differ)


@pytest.mark.parametrize(
    ("one", "heard", "proof"),
    [
        (step(FAILS, OK), told(1), "saw find (request 2), of which there is no commandStartedEvent"),
        (step(OK), {"client": []}, "saw find (request 1), of which there is no commandStartedEvent"),
        (
            step(FAILS, error=ErrorReport("x", code=91)),
            told(1, succeeded=[1]),
            "answered find (request 1) with error 91 (ShutdownInProgress), of which there is a command",
        ),
        (
            step(FAILS, error=ErrorReport("x", code=6)),
            told(1),
            "find failed with code 6, which no server sent",
        ),
        (
            step(OK, FAILS),
            told(1, 2),
            "find did not fail, though its last command, find, met error 91 (ShutdownInProgress)",
        ),
    ],
)
def test_what_servers_contradict_is_the_adapters(
    one: SeenStep, heard: Mapping[str, Sequence[Event]], proof: str
) -> None:
    assert blamed(one, heard).startswith("looks like the adapter's fault: ")
    assert proof in blamed(one, heard)


def test_events_that_servers_bear_out_are_the_drivers() -> None:
    assert blamed(step(FAILS, OK), told(1, 2)) == (
        "looks like the driver's fault: servers saw what its events tell (2 commands)"
    )


def test_of_a_result_there_is_the_adapters_word_alone() -> None:
    assert blamed(step(OK), told(1), events_differ=False).startswith(
        "may be the driver's fault or the adapter's: servers saw what its events tell (1 command), and of"
    )


@pytest.mark.parametrize(
    ("one", "heard"),
    [
        (step(OK), told(71)),  # numbers that are not those of the wire
        (step(OK, client={"id": "client"}), {}),
        (step(), told(1)),
    ],
)
def test_where_there_is_nothing_to_compare_nobody_is_blamed(
    one: SeenStep, heard: Mapping[str, Sequence[Event]]
) -> None:
    assert blamed(one, heard) == ""


@pytest.mark.parametrize(
    "one",
    [
        step(FAILS, error=ErrorReport("x", code=91)),
        step(CODES_WITHIN, error=ErrorReport("x", code=11000)),
        step(FAILS, error=ErrorReport("lost", is_client_error=True, code=6)),
        step(FAILS, name="abortTransaction"),
        step({"ok": 0, "code": 26}, name="dropCollection"),
    ],
)
def test_errors_that_a_driver_may_raise_or_keep_contradict_nothing(one: SeenStep) -> None:
    assert "driver's fault" in blamed(one, told(1))
