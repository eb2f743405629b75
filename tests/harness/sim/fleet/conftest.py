"""The compiled engine, compiled once for all workers of a run."""

from __future__ import annotations

import fcntl
from importlib.util import find_spec

import pytest
from fleets import article

from harness.sim.fleet import simulate
from harness.sim.fleet.strategies import Exponential


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have one worker compile, which takes 20 s of CPU; the others wait, and load what it has kept."""
    if find_spec("numba"):
        with (tmp_path_factory.getbasetemp().parent / "compiling").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            simulate(article(10, Exponential(), seconds=1), engine="compiled")
