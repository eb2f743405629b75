"""The model tier: a fleet of clients as columns, up to ten million of them, and the servers that they ask.

A run goes through these files. `scenario.py` is the question, as values. `building.py` lays it out as
columns, whose places have their names in `columns.py`. `engine.py` moves them on tick by tick: it calls
`clients.py` (send, wait, give up), these call `servers.py` (admit, queue, work, answer), which ends in
`retries.py` (again or not). `outages.py`, `limits.py` (token buckets), `lists.py` (queues and wheels) and
`dice.py` (chance) serve all of them. `running.py` chooses and compiles the engine and reads the
`FleetOutcome` (`outcome.py`) from the columns.

The functions from `columns` to `engine` are compiled by Numba as they stand. So they take the columns `w`
and numbers, have no keywords, and make no objects; `w.numbers[at(member) + c.CONCURRENCY]` is what a class
would call `member.concurrency`. Both engines have the same trace for a seed, which tests compare. An edit of
these files, even of a comment, has them compiled anew at their next use, which takes some twenty seconds.
"""

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
