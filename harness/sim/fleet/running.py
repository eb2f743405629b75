"""Runs a scenario by one of the engines, and reads the outcome from its columns.

The engine is called for stretches of ticks, between which progress is told and a caller may look
(`on_pause`, by which `harness.overload.claims` governs a server). Stretches do not show in the outcome: it
is the same for any.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Literal

from harness.sim.fleet import (
    clients,
    columns,
    dice,
    engine,
    limits,
    lists,
    outages,
    retries,
    servers,
    strategies,
)
from harness.sim.fleet import columns as c
from harness.sim.fleet.building import FleetPlan, rate_at
from harness.sim.fleet.engine import advance
from harness.sim.fleet.outcome import COUNTS, LEVELS, FleetOutcome
from harness.sim.fleet.scenario import Closed, Deploy
from harness.sim.parquet import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.sim.fleet import Engine
    from harness.sim.fleet.building import Part
    from harness.sim.fleet.columns import FleetWorld
    from harness.sim.fleet.scenario import Scenario


_MANY: Final = 300_000
"""Operations and ticks beyond which it is worth to load a compiler."""
_STEPS: Final = 100
"""How often progress is told."""
_SECONDS_AN_OPERATION: Final[Mapping[str, float]] = {"plain": 55e-6, "compiled": 1.3e-6}
"""What an operation takes on one core, with its retries after an outage (docs/SIMULATION.md has figures)."""


def run(
    scenario: Scenario,
    *,
    engine: Engine,
    on_progress: Callable[[float], None] | None,
    every: float | None = None,
    on_pause: Callable[[FleetWorld], None] | None = None,
) -> FleetOutcome:
    """Simulate; see `harness.sim.fleet.simulate`.

    Every so many seconds the engine pauses, and `on_pause` may read and set columns.
    """
    plan = FleetPlan(scenario)
    if engine == "auto":
        engine = engine_for(scenario)
    if engine == "compiled":
        go_on, world = compiled_advance(), world_of(plan)
    elif engine == "plain":
        go_on, world = advance, plain_world(plan)
    else:
        raise ValueError(f"engine is {engine!r}: it must be auto, plain or compiled")
    pause = plan.ticks if every is None else plan.whole(every)
    told = {plan.ticks * step // _STEPS for step in range(1, _STEPS + 1)}
    for until in sorted({*told, *range(pause, plan.ticks, pause)} - {0}):
        go_on(world, until)
        if on_progress is not None and until in told:
            on_progress(until * scenario.tick)
        if on_pause is not None and until % pause == 0:
            on_pause(world)
    return outcome_of(scenario, world)


def engine_for(scenario: Scenario) -> Literal["plain", "compiled"]:
    """Return the engine that `auto` means: compiled for what is large, where Numba is installed."""
    is_large = scenario.clients + _operations(scenario) + scenario.seconds / scenario.tick > _MANY
    return "compiled" if is_large and find_spec("numba") else "plain"


def seconds_of(scenario: Scenario, engine: str) -> float:
    """Return about how long an engine takes for a scenario, in seconds of one core; compiling is extra."""
    return _operations(scenario) * _SECONDS_AN_OPERATION[engine]


def rough_time(seconds: float) -> str:
    """Return a length of time as one says it: 40 seconds, 9 minutes, 3 hours."""
    for unit, length in (("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.0f} {unit}s"
    whole = max(1, round(seconds))
    return f"{whole} second{'s' * (whole > 1)}"


def _operations(scenario: Scenario) -> float:
    arrivals = scenario.arrivals
    if isinstance(arrivals, Closed | Deploy):
        return scenario.clients * scenario.seconds / arrivals.gap
    return rate_at(arrivals, 0.0) * scenario.seconds


def plain_world(plan: FleetPlan) -> FleetWorld:
    """Return the columns of a plan as lists."""
    clients = plan.scenario.clients
    slots: list[int] = []
    for count, value in plan.slots:
        slots += [int(value)] * count
    return c.FleetWorld([0] * (clients * c.ROW), [0.0] * clients, slots, list(plan.numbers), list(plan.reals))


def outcome_of(scenario: Scenario, world: FleetWorld) -> FleetOutcome:
    """Read what was measured from the columns."""
    numbers, reals, tick = world.numbers, world.reals, scenario.tick
    length, windows = int(numbers[c.WINDOW]), int(numbers[c.WINDOWS])
    ends = [min((row + 1) * length, int(numbers[c.TICKS])) * tick for row in range(windows)]
    columns: dict[str, list[float]] = {"time": ends}
    for place, name in enumerate(COUNTS):
        begin = int(numbers[c.WINDOWS_AT]) + place
        columns[name] = [int(numbers[begin + row * c.COUNTED]) for row in range(windows)]
    for place, name in enumerate(LEVELS):
        begin = int(numbers[c.LEVELS_AT]) + place
        columns[name] = [float(reals[begin + row * c.LEVELS]) for row in range(windows)]
    starts, stops = [outage.start for outage in scenario.outages], [outage.end for outage in scenario.outages]
    return FleetOutcome(
        columns=columns,
        latencies=list(_latencies(world, tick)),
        latency_sum=int(numbers[c.LATENCY_SUM]) * tick,
        waits=int(numbers[c.WAITED]) * tick,
        window=length * tick,
        trace=f"{int(numbers[c.TRACE]):08x}{int(numbers[c.OTHER_TRACE]):08x}",
        events=int(numbers[c.EVENTS]),
        outage=(min(starts), max(stops)) if starts else None,
    )


def _latencies(world: FleetWorld, tick: float) -> Iterator[tuple[float, int]]:
    """Yield the longest latency of each bin that is not empty, and how many it counts."""
    begin = int(world.numbers[c.LATENCIES_AT])
    for place in range(c.LATENCY_BINS):
        count = int(world.numbers[begin + place])
        if count:
            shift = max(place // c.FINE - 1, 0)
            value = place - shift * c.FINE
            yield (((value + 1) << shift) - 1) * tick, count


# The engine by Numba: its own source, compiled, and kept on disk for the next run.


_MODULES: Final = (columns, dice, lists, limits, retries, servers, outages, clients, engine)
_OPTIONS: Final[dict[str, Any]] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
"""For functions that only compiled code calls, and that make no objects: half the time to compile."""
_INLINE: Final = frozenset({
    *("abandon", "abandon_work", "append", "ask", "at", "attempt", "begin", "bound", "bucket_of", "complete"),
    *("deadline", "enter", "expect", "finish", "gate_of", "has_ticket", "knock", "lift", "member_of", "note"),
    *("real_of", "remove", "retry_after", "roll", "select", "service_ticks", "stands_in_the_way"),
    *("take_leave", "ticks", "took"),
})  # fmt: skip
"""What an attempt passes through: a call hands over the columns as 35 words, a quarter of a run's time."""


def world_of(plan: FleetPlan) -> FleetWorld:
    """Return the columns of a plan as arrays. Raises ImportError without NumPy."""
    try:
        import numpy as np  # noqa: PLC0415 - an extra
    except ImportError:
        raise ImportError(MISSING.format("numpy")) from None

    def joined(parts: Sequence[Part]) -> Any:
        counts, values = zip(*parts, strict=True)
        return np.repeat(np.array(values, dtype=np.int32), counts)

    arrays: dict[str, Any] = {
        "clients": np.zeros(plan.scenario.clients * columns.ROW, dtype=np.int32),
        "waits": np.zeros(plan.scenario.clients, dtype=np.float64),
        "slots": joined(plan.slots),
        "numbers": np.array(plan.numbers, dtype=np.int64),
        "reals": np.array(plan.reals, dtype=np.float64),
    }
    return columns.FleetWorld(**arrays)


@cache
def compiled_advance() -> Callable[[FleetWorld, int], object]:
    """Return `engine.advance` compiled. Raises ImportError without Numba."""
    try:
        import numba.extending  # noqa: PLC0415 - an extra
    except ImportError:
        raise ImportError(MISSING.format("numba")) from None
    for module in _MODULES:
        functions = [
            value
            for value in vars(module).values()
            if isinstance(value, FunctionType) and value.__module__ == module.__name__
        ]
        for function in functions:
            numba.extending.register_jitable(**_OPTIONS, forceinline=function.__name__ in _INLINE)(function)
    # Numba looks at one module to see whether what it has kept is old, and at what a function closes over: a
    # number that another source would not have.
    sources = hashlib.sha256()
    for module in (*_MODULES, strategies):
        sources.update(Path(str(module.__file__)).read_bytes())
    digest = int.from_bytes(sources.digest()[:7], sys.byteorder)

    def advance(w: FleetWorld, until: int) -> int:
        engine.advance(w, until)
        return digest

    njit: Any = numba.njit
    try:
        compiled: Callable[[FleetWorld, int], object] = njit(cache=True, nogil=True, _nrt=False)(advance)
    except RuntimeError:
        # There is no folder that it may write to.
        compiled = njit(nogil=True, _nrt=False)(advance)
    return compiled
