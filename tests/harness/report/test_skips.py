"""The table of skips: a reason counts once a case, and the table says what would let most cases run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.planning.result import Result, ResultStatus
from harness.report.skips import by_reason, lines, unlocking


def skipped(case: str, reason: str, topology: str = "replicaset", adapter: str = "reference") -> Result:
    return Result(f"a/b::{case}", ResultStatus.SKIPPED, topology, adapter, "2026-02-20", reason)


FEATURE = "a driver with TRACING: OpenTelemetry spans can be observed."


def test_a_reason_counts_once_a_case_whatever_the_deployments_and_the_fields() -> None:
    results = [
        skipped("1", "needs topology sharded, this is single", "single"),
        skipped("1", "needs topology sharded, this is replicaset"),
        skipped("2", "needs topology sharded, this is single", "single"),
        skipped("3", f"observeTracingMessages needs {FEATURE}"),
        skipped("3", f"expectTracingMessages needs {FEATURE}", "single"),
    ]
    assert by_reason(results) == {"needs topology sharded": 2, f"needs {FEATURE}": 1}


@pytest.mark.parametrize(
    ("reason", "keys"),
    [
        (
            "needs topology sharded or load-balanced, this is single",
            ["--topology sharded", "--topology load-balanced"],
        ),
        ("needs server 6.1 or newer, this is 4.4.30", ["--profile 7.0"]),
        ("needs server 4.3.99 or older, this is 8.2.3", ["--profile 4.2"]),
        ("needs server 3.6 or older, this is 8.2.3", ["a server of 3.6 or older"]),
        ("needs authentication on", ["--auth"]),
        ("needs authentication off", ["no --auth"]),
        (f"session entity 'session0' needs {FEATURE}", ["the adapter's feature TRACING"]),
        (
            "needs topology single, this is replicaset; or needs authentication on",
            ["--topology single", "--auth"],
        ),
        (
            "needs edition 2026-07-08, the driver follows 2026-02-20 (pushbackd.runOn)",
            ["--edition 2026-07-08"],
        ),
        ("needs virtual time (pushbackd.runOn)", ["--time virtual"]),
        ("the author says so", []),
    ],
)
def test_a_reason_says_what_would_meet_it(reason: str, keys: list[str]) -> None:
    assert list(unlocking([skipped("1", reason)])) == keys


def test_servers_by_uri_are_described_and_not_started() -> None:
    result = skipped("1", "needs topology sharded, this is single", "single+uri")
    assert list(unlocking([result])) == ["a deployment that is sharded"]


def test_a_case_that_ran_somewhere_needs_nothing() -> None:
    elsewhere = skipped("1", "needs topology sharded, this is single", "single")
    ran = replace(elsewhere, status=ResultStatus.FAILED, topology="sharded")
    assert unlocking([elsewhere, ran]) == {}


def test_a_topology_that_a_case_was_skipped_on_for_another_reason_would_not_do() -> None:
    results = [
        skipped("1", "needs topology sharded, this is single", "single"),
        skipped("1", "needs server 9.0 or newer, this is 8.2.3", "sharded+auth@8.2"),
    ]
    assert unlocking(results) == {"--profile 9.0": 1}


def test_what_would_unlock_most_stands_first() -> None:
    results = [
        skipped(str(number), "needs topology sharded, this is single", "single") for number in range(3)
    ]
    results += [skipped("9", "needs authentication on", "single")]
    assert list(lines(results)) == [
        "      3 x needs topology sharded",
        "      1 x needs authentication on",
        "  most would run with",
        "      3 x --topology sharded",
        "      1 x --auth",
        "  --topology thorough has every deployment that bundled scenarios need",
    ]


def test_a_feature_is_no_matter_of_deployments() -> None:
    told = list(lines([skipped("1", "x needs a driver with POOLS: a pool.", "single")]))
    assert told[-1] == "      1 x the adapter's feature POOLS"


def test_a_table_of_more_than_ten_reasons_folds_unless_all_is_wanted() -> None:
    def results(count: int) -> list[Result]:
        return [skipped(f"{number} {case}", f"because {number}") for number in range(count) for case in "ab"]

    assert len([*lines(results(10))]) == 10
    folded = [*lines(results(12))]
    assert (len(folded), folded[-1]) == (10, "      6 x 3 other reasons; -v shows them")
    assert len([*lines(results(12), whole=True)]) == 12
