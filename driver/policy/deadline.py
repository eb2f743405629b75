"""Deadlines are instants: the earliest of them wins, and none is infinity."""

from __future__ import annotations

from math import inf

NEVER = inf


def after(now: float, timeout: float | None) -> float:
    """Return the instant `timeout` seconds from `now`; None and 0 mean that there is no limit."""
    return now + timeout if timeout else NEVER
