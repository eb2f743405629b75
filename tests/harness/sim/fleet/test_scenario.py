"""What cannot be simulated is said by name, and outcomes can be read and written."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import pytest

from harness.sim.fleet import simulate
from harness.sim.fleet.outcome import COLUMNS, COUNTS, LEVELS, FleetOutcome
from harness.sim.fleet.scenario import Closed, Outage, RequestLimit, Scenario, Servers, Service, Spike
from harness.sim.fleet.strategies import Backpressure, Fixed

if TYPE_CHECKING:
    from pathlib import Path

_SMALL: dict[str, Any] = {
    "clients": 5,
    "seconds": 3.0,
    "arrivals": Closed(gap=0.2),
    "fleet": ((1, Fixed()),),
    "servers": Servers(service=Service(base=0.05, recompute=0)),
}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Closed(gap=0), "Closed.gap is 0: it must be above 0"),
        (lambda: Fixed(interval=-1), "Fixed.interval is -1: it must be above 0"),
        (lambda: Service(factor=0.5), "Service.factor is 0.5: it must be 1 or more"),
        (lambda: Spike(rate=1, factor=2, start=3, end=2), "Spike.end is 2: it must be after start, 3"),
        (lambda: Outage(start=2, end=2), "Outage.end is 2: it must be after start, 2"),
        (lambda: Servers(members=31), "30 or fewer"),
        (lambda: Backpressure(edition="1999-01-01"), "2026-02-20 or 2026-07-08"),  # type: ignore[arg-type]
        (lambda: Scenario(**_SMALL | {"fleet": ()}), "at least one strategy"),
        (lambda: Scenario(**_SMALL | {"seed": -1}), "Scenario.seed is -1"),
        (
            lambda: Scenario(**_SMALL, outages=(Outage(start=0, end=1, member=1),)),
            "Outage.member is 1: members are 0 to 0",
        ),
        (lambda: simulate(Scenario(**_SMALL, timeout=1, tick=1e-7)), "choose a longer tick"),
        (lambda: simulate(Scenario(**_SMALL), engine="quantum"), "auto, plain or compiled"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_is_said_by_name(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        make()


def test_a_column_of_an_outcome_has_a_value_for_each_window(tmp_path: Path) -> None:
    told: list[float] = []
    outcome = simulate(Scenario(**_SMALL), engine="plain", on_progress=told.append)
    assert [row["time"] for row in outcome.rows()] == pytest.approx([1, 2, 3])
    assert told[-1] == pytest.approx(3)
    outcome.write_csv(tmp_path / "windows.csv")
    with (tmp_path / "windows.csv").open(encoding="utf-8") as file:
        assert [float(row["ok"]) for row in csv.DictReader(file)] == list(outcome.columns["ok"])
    parquet = pytest.importorskip("pyarrow.parquet")
    outcome.write_parquet(tmp_path / "windows.parquet")
    assert parquet.read_table(tmp_path / "windows.parquet").column_names == list(COLUMNS)


def test_a_limit_rejects_what_is_beyond_its_rate() -> None:
    limit = RequestLimit(rate=4, burst_seconds=0.5)
    servers = Servers(service=Service(base=0.05, recompute=0), request_limit=limit)
    outcome = simulate(Scenario(**_SMALL | {"servers": servers}), engine="plain")
    assert outcome.total("ok") + outcome.columns["concurrency"][-1] == pytest.approx(2 + 3 * 4, abs=1)
    assert outcome.total("rejected") == outcome.total("errors") > 0


def _made(ok: list[float]) -> FleetOutcome:
    names = {name: [0.0] * len(ok) for name in (*COUNTS, *LEVELS)}
    times = [float(number + 1) for number in range(len(ok))]
    return FleetOutcome(
        columns={"time": times, **names, "ok": ok},
        latencies=[(0.1, 90), (0.5, 9), (2.0, 1)],
        window=1.0,
        outage=(2.0, 4.0),
    )


def test_a_percentile_is_the_latency_that_a_share_did_not_exceed() -> None:
    outcome = _made([100.0])
    assert [outcome.percentile(share) for share in (0.5, 0.9, 0.95, 1.0)] == [0.1, 0.1, 0.5, 2.0]
