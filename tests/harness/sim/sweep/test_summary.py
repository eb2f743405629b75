"""A sweep ends with a row for each combination of parameters, over its seeds."""

from __future__ import annotations

from typing import Any

from harness.sim.sweep.summary import summary


def row(clients: int, seed: int, goodput: float, recovery: float | None) -> dict[str, Any]:
    measures = {"goodput": goodput, "attempts_per_success": 1.0, "latency_p99": 0.25}
    return {
        "seed": seed,
        "parameters": {"clients": clients, "strategy": {"fixed": {"interval": 0.1}}},
        "measures": {**measures, "recovery_time": recovery, "trace": "…"},
    }


def test_the_seeds_of_a_combination_are_one_row_with_their_mean_and_half_their_range() -> None:
    told = summary([row(10, 0, 90, 2.0), row(10, 1, 110, 4.0), row(20, 0, 50, 1.0)])
    assert told == [
        {
            "clients": "10",
            "strategy": '{"fixed": {"interval": 0.1}}',
            "seeds": "2",
            "good/s": "100 ±10",
            "attempts per success": "1",
            "p99 s": "0.25",
            "recovery s": "3 ±1",
        },
        {**told[1], "clients": "20", "seeds": "1", "good/s": "50", "recovery s": "1"},
    ]


def test_a_measure_that_is_not_there_says_so() -> None:
    (told,) = summary([row(10, 0, 90, None)])
    assert told["recovery s"] == "none"
    (told,) = summary([row(10, 0, 90, 2.0), row(10, 1, 90, None)])
    assert told["recovery s"] == "2 (1 without)"
