"""The processors that this process may use."""

from __future__ import annotations

import os
import sys
from typing import Final

CAN_FORK: Final = sys.platform == "linux"
"""Elsewhere there are no forks, or system libraries that do not survive one."""


def processors() -> int:
    """Return how many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
