"""Likely causes and the two sides of attempts that are other than expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from seen import LSID, OK, OVERLOADED, request, requests

from harness.explaining.attempt_causes import attempt_causes
from harness.explaining.explanation import _rows
from harness.unified.entities import EntityMap
from harness.unified.loader import load
from harness.unified.outcome import CaseOutcome, Status
from harness.unified.server_side.attempts import Facts, SeenOperation, judge
from harness.unified.server_side.comparison import AttemptComparison
from harness.unified.server_side.rules import EDITIONS, Timing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.unified.server_side.seen import SeenRequest

HEAD = 'description: d\nschemaVersion: "1.0"\ntests:\n  - description: one\n    operations: []\n'
TIMING = Timing(round_trip=0.0)


def compared(folder: Path, text: str, *operations: Sequence[SeenRequest], sent: int = 0) -> AttemptComparison:
    path = folder / "case.yml"
    path.write_text(f"{HEAD}    pushbackd: {{expectAttempts: [{{command: find, {text}}}]}}\n")
    own = load(path).cases[0].server_side
    assert own is not None
    servers = frozenset({"mongos0", "mongos1"})
    facts = Facts(EDITIONS["2026-02-20"], TIMING, EntityMap(), servers)
    seen = tuple(SeenOperation.of("find", each, TIMING) for each in operations)
    found = judge(own.attempts[0], seen, facts)
    return AttemptComparison(own.attempts[0], seen, facts, found, sent)


def causes(comparison: AttemptComparison) -> list[str]:
    found = attempt_causes(CaseOutcome(Status.FAILED, comparisons=(comparison,)))
    return [cause.text for cause in found]


BACKOFF = "retries: {gap: full overload backoff}"
JITTER = "jitter: uniform"
RETRIES = "count: overload retries + 1"
BOUNDS = (0.1, 0.2, 0.4, 0.8, 1.6)


def times(factor: float) -> list[SeenRequest]:
    return requests(*(bound * factor for bound in BOUNDS))


@pytest.mark.parametrize(
    ("text", "operation", "cause"),
    [
        (BACKOFF, times(0), "5 retries after overload came at once: the driver does not back off"),
        (JITTER, times(1), "all 5 backoffs are as long as they may be: the driver uses no jitter"),
        (BACKOFF, times(0.4), "no backoff is longer than half of its bound: the exponent is one too low"),
        (BACKOFF, times(1.9), "backoffs are up to 1.90 of their bound: the exponent may be one too high"),
        (
            "retries: {gap: overload backoff}",
            requests(*(0.1 * 2**n for n in range(8))),
            "a backoff is longer than 10 s: the driver has no maximum",
        ),
        (
            RETRIES,
            requests(0, 0),
            "the driver gave up after 2 retries, though the last attempt met an overload",
        ),
        (
            RETRIES,
            requests(*[0] * 6),
            "the driver made 6 retries after overload; it has 5 in edition 2026-02-20",
        ),
        (
            "retries: {gap: none}",
            [request(0, {"ok": 0, "code": 262}), request(0.1)],
            "the driver waited 100 ms after error 262 (ExceededTimeLimit), which is no overload",
        ),
        (
            "retries: {same: [txnNumber]}",
            [request(command={"txnNumber": 1}), request(command={"txnNumber": 2})],
            "the retry has another txnNumber: to the server it is a new write, and may be applied twice",
        ),
        (
            "retries: {same: [lsid]}",
            [request(), request(command={"lsid": {**LSID, "uid": 1}})],
            "the retry is in another session",
        ),
        (
            "retries: {on: not overloaded}",
            [request(0, OVERLOADED, server="mongos0"), request(1, server="mongos0")],
            "mongos0 had told this operation of its overload, mongos1 had not",
        ),
    ],
)
def test_the_cause_of_a_difference_is_named(
    text: str, operation: list[SeenRequest], cause: str, tmp_path: Path
) -> None:
    found = causes(compared(tmp_path, text, operation))
    assert len(found) == 1, found
    assert found[0].startswith(cause)


def test_the_cap_is_a_cause_where_a_backoff_is_longer(tmp_path: Path) -> None:
    long = requests(*(0.1 * 2**n for n in range(9)))
    (found,) = causes(compared(tmp_path, "retries: {gap: overload backoff}", long))
    assert found.startswith("a backoff is longer than 10 s")


def test_an_element_that_selects_nothing_says_what_was_sent(tmp_path: Path) -> None:
    assert causes(compared(tmp_path, "operations: 1")) == ["no client sent find at all"]
    (found,) = causes(compared(tmp_path, "operations: 1, appName: a", sent=3))
    assert found.startswith("find was sent 3 times, but never as appName of the element asks")


def test_nothing_is_said_where_nothing_speaks_for_a_cause(tmp_path: Path) -> None:
    assert causes(compared(tmp_path, "each: {meets: ok}", [request(0, OVERLOADED)])) == []
    at_once = [request(0, {"ok": 0, "code": 8, "errorLabels": ["RetryableWriteError"]}), request(0.0)]
    assert causes(compared(tmp_path, "retries: {gap: full overload backoff}", at_once)) == []
    assert causes(compared(tmp_path, "each: {meets: ok}", [request()])) == []


def rows(comparison: AttemptComparison) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in _rows(comparison)]


LATE = (
    "gap: began 300 ms after the end of the attempt before,"
    " 0 to 100 ms expected (overload backoff, 2026-02-20)"
)


def test_expected_and_seen_attempts_stand_side_by_side_with_gaps_in_milliseconds(tmp_path: Path) -> None:
    text = "attempts: [{meets: 462}, {gap: overload backoff, on: same}, {meets: ok}]"
    sent = [*requests(0.3), request(0.3, OK, server="node1")]
    overloaded = "find → error 462 (IngressRequestRateLimitExceeded)  on node0 (primary), connection 1"
    assert rows(compared(tmp_path, text, sent)) == [
        ("find, operation 1", "same", "meets 462", overloaded, 6, "", "attempts"),
        (
            "find, operation 1",
            "differs",
            "gap 0 to 100 ms (overload backoff), on same",
            f"+300 ms  {overloaded}",
            6,
            LATE,
            "attempts",
        ),
        (
            "find, operation 1",
            "same",
            "meets ok",
            "+0 ms  find → ok  on node1 (primary), connection 1",
            6,
            "",
            "attempts",
        ),
    ]


def test_an_attempt_too_few_is_missing_and_one_too_many_is_extra(tmp_path: Path) -> None:
    def verdicts(text: str, sent: list[SeenRequest]) -> list[str]:
        return [row[1] for row in rows(compared(tmp_path, text, sent))]

    assert verdicts("count: 3", requests(0)) == ["same", "same", "missing"]
    assert verdicts("count: 1", requests(0)) == ["same", "extra"]
    assert verdicts("count: {min: 4}", requests(0)) == ["same", "same", "missing", "missing"]
    assert verdicts("attempts: [{}]", requests(0)) == ["same", "extra"]
    assert verdicts("attempts: [{}, {}, {meets: ok}]", requests(0)) == ["same", "same", "missing"]


def test_only_the_operation_that_differs_is_shown(tmp_path: Path) -> None:
    shown = rows(compared(tmp_path, "each: {meets: ok}", [request()], [request(0, OVERLOADED)]))
    assert [row[0] for row in shown] == ["find, operation 2"]
