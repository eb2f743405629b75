"""The format of Connection Monitoring and Pooling's tests: on the pure state machine, and on a real pool.

`run_on_state` needs neither server nor clock: threads are waiters, and waiting advances a number.
`run_on_pool` drives the shell over a network, with its threads as tasks.
"""

from __future__ import annotations

from harness.cmap_format.model import CmapCase, load
from harness.cmap_format.on_pool import run_on_pool
from harness.cmap_format.on_state import run_on_state
from harness.formats.check import MismatchError

__all__ = ["CmapCase", "MismatchError", "load", "run_on_pool", "run_on_state"]
