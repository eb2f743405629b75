"""The grid of a sweep: every combination is a point, and whatever does not fit is refused at its line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.sim.fleet.scenario import Closed, Outage, RequestLimit, Scenario
from harness.sim.fleet.strategies import Backpressure, Fixed, NoRetry
from harness.sim.sweep.grid import parts, read_grid
from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCENARIO = """\
scenario:
  clients: 10
  seconds: 5
  arrivals: {closed: {gap: 1}}
  fleet: no_retry
"""


def test_every_combination_of_the_values_is_a_point_and_the_seed_varies_fastest(
    write: Callable[..., Path],
) -> None:
    grid = write(SCENARIO + "sweep:\n  clients: [1, 2]\n  timeout: [null, 0.5]\nseeds: 2\n")
    points = read_grid(grid, Scenario)
    assert [(point.scenario.clients, point.scenario.timeout, point.seed) for point in points] == [
        (clients, timeout, seed) for clients in (1, 2) for timeout in (None, 0.5) for seed in (0, 1)
    ]
    assert points[0].parameters == {"clients": 1, "timeout": None}
    assert str(points[7]) == "clients=2, timeout=0.5, seed=1"


def test_a_scenario_is_built_of_its_classes_by_their_names(write: Callable[..., Path]) -> None:
    grid = write("""\
scenario:
  clients: 10
  seconds: 5
  arrivals: {closed: {gap: 1}}
  fleet: [[1, no_retry], [3, {backpressure: {retries: 2}}]]
  servers: {request_limit: {rate: 7}}
  outages: [{start: 1, end: 2, kind: crash}]
""")
    (point,) = read_grid(grid, Scenario)
    scenario = point.scenario
    assert scenario.arrivals == Closed(gap=1.0)
    assert scenario.fleet == ((1.0, NoRetry()), (3.0, Backpressure(retries=2)))
    assert scenario.servers.request_limit == RequestLimit(rate=7.0)
    assert scenario.outages == (Outage(start=1, end=2, kind="crash"),)


def test_a_field_deep_inside_is_swept_by_its_path(write: Callable[..., Path]) -> None:
    grid = write(SCENARIO + "sweep:\n  servers.request_limit.rate: [5, 9]\n")
    limits = [point.scenario.servers.request_limit for point in read_grid(grid, Scenario)]
    assert limits == [RequestLimit(rate=5.0), RequestLimit(rate=9.0)]


def test_an_element_of_a_list_is_swept_by_its_index(write: Callable[..., Path]) -> None:
    text = SCENARIO.replace("no_retry", "[[1, no_retry], [1, fixed]]")
    grid = write(text + "sweep:\n  'fleet[1][1].fixed.interval': [1]\n")
    with pytest.raises(ScenarioError, match=r"fleet\[1\]\[1\]: has no fixed to sweep"):
        read_grid(grid, Scenario)
    grid = write(text.replace("fixed]", "{fixed: {}}]") + "sweep:\n  'fleet[1][1].fixed.interval': [1]\n")
    (point,) = read_grid(grid, Scenario)
    assert point.scenario.fleet[1] == (1.0, Fixed(interval=1.0))


def test_a_point_keeps_its_key_when_the_grid_grows(write: Callable[..., Path]) -> None:
    few = read_grid(write(SCENARIO + "sweep:\n  clients: [1, 2]\n"), Scenario)
    more = read_grid(write(SCENARIO + "sweep:\n  timeout: [0.5, null]\n  clients: [3, 2, 1]\n"), Scenario)
    assert {point.key for point in few} < {point.key for point in more}


def test_equal_scenarios_have_equal_documents_and_others_have_not() -> None:
    assert parts(((1.0, Fixed(interval=1.0)),)) == [[1.0, {"is": "fixed", "interval": 1.0}]]
    assert parts(NoRetry()) != parts(Fixed())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "is no grid", id="empty"),
        pytest.param("sweep: {}\n", "lacks 'scenario'", id="no scenario"),
        pytest.param(
            SCENARIO + "sweeps: {}\n",
            "6:9: sweeps: unknown field 'sweeps' (did you mean 'sweep'?)",
            id="part",
        ),
        pytest.param(
            SCENARIO + "sweep:\n  client: [1]\n",
            "7:12: scenario.client: unknown field 'client' (did you mean 'clients'?)",
            id="unknown name",
        ),
        pytest.param(
            SCENARIO + "sweep:\n  clients: [1, many]\n",
            "7:16: scenario.clients: must be a whole number, not 'many'",
            id="type",
        ),
        pytest.param(
            SCENARIO + "sweep:\n  clients: []\n", "7:12: sweep: clients: is an empty list", id="empty list"
        ),
        pytest.param(
            SCENARIO + "sweep:\n  clients: 3\n",
            "must be a list of values (write [ ] around it)",
            id="no list",
        ),
        pytest.param(
            SCENARIO + "sweep: 3\n", "must be a mapping of fields to lists of values", id="no mapping"
        ),
        pytest.param(
            SCENARIO + "sweep:\n  fleet: [no_retry, exponental]\n",
            "7:21: scenario.fleet: unknown kind 'exponental' (did you mean 'exponential'?)",
            id="unknown strategy",
        ),
        pytest.param(
            SCENARIO + "sweep:\n  servers.abandoned: [sometimes]\n",
            "unknown value 'sometimes' (there are at once, at a check, never)",
            id="no such value",
        ),
        pytest.param(
            SCENARIO + "sweep:\n  clients: [1, 1]\n", "asks twice for the point clients=1, seed=0", id="twice"
        ),
        pytest.param(
            SCENARIO + "sweep:\n  clients: [0]\n", "Scenario.clients is 0: it must be 1 or more", id="value"
        ),
        pytest.param(
            SCENARIO + "sweep:\n  clients.x: [0]\n", "7:15: scenario.clients: has no x to sweep", id="path"
        ),
        pytest.param(SCENARIO + "sweep:\n  'outages[0]': [0]\n", "outages: has no [0] to sweep", id="index"),
        pytest.param("scenario: {clients: 1}\n", "scenario: lacks 'seconds'", id="missing"),
        pytest.param(
            "scenario: [1]\n", "must be a mapping with the fields of scenario, not a list", id="list"
        ),
        pytest.param(SCENARIO + "seeds: 0\n", "6:8: seeds: must be at least 1", id="no seeds"),
        pytest.param(
            SCENARIO + "  seed: 3\nseeds: 2\n", "6:9: scenario.seed: stands beside 'seeds'", id="seed twice"
        ),
        pytest.param(SCENARIO + "seeds: 1_000_001\n", "must be a list of values", id="digits of Python"),
        pytest.param(
            SCENARIO + "seeds: 1000001\n", "makes 1,000,001 points (at most 1,000,000 are a grid)", id="many"
        ),
        pytest.param(SCENARIO + "sweep: [\n", "is not YAML", id="no YAML"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_line_and_what_was_meant(
    write: Callable[..., Path], text: str, message: str
) -> None:
    grid = write(text, "grid.yml")
    with pytest.raises(ScenarioError) as raised:
        read_grid(grid, Scenario)
    assert message in str(raised.value)
    assert str(raised.value).startswith(f"{grid}:")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        read_grid(tmp_path / "grid.yml", Scenario)
