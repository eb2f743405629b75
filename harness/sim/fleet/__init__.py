"""The model tier: a fleet of clients as columns, up to ten million of them, and the servers that they ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.sim.fleet.outcome import FleetOutcome
    from harness.sim.fleet.scenario import Scenario

Engine: TypeAlias = Literal["auto", "plain", "compiled"]
"""`plain` is Python, `compiled` is the same source by Numba; `auto` compiles what is large, if it can."""


def simulate(
    scenario: Scenario, *, engine: Engine = "auto", on_progress: Callable[[float], None] | None = None
) -> FleetOutcome:
    """Run a scenario and return what was measured: the same for the same seed, whatever the engine.

    `on_progress` is called now and then with the simulated seconds so far. Raises ValueError for a scenario
    that cannot be simulated, and ImportError where an engine's library is missing.
    """
    from harness.sim.fleet.running import run  # noqa: PLC0415 - what is imported only for its values stays light

    return run(scenario, engine=engine, on_progress=on_progress)
