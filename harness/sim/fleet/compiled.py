"""The engine by Numba: its own source, compiled, and kept on disk for the next run."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

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
from harness.sim.parquet import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from harness.sim.fleet.building import FleetPlan, Part
    from harness.sim.fleet.columns import FleetWorld

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
        for function in _functions(module):
            numba.extending.register_jitable(**_OPTIONS, forceinline=function.__name__ in _INLINE)(function)
    # Numba looks at one module to see whether what it has kept is old, and at what a function closes over.
    digest = _digest()

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


def _functions(module: ModuleType) -> list[FunctionType]:
    """Return the functions that a module defines itself."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__
    ]


def _digest() -> int:
    """Return a number that another source would not have."""
    sources = hashlib.sha256()
    for module in (*_MODULES, strategies):
        sources.update(Path(str(module.__file__)).read_bytes())
    return int.from_bytes(sources.digest()[:7], sys.byteorder)
