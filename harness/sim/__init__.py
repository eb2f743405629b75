"""Simulation: virtual time, a network in memory, and the runs that use them."""

from __future__ import annotations

from harness.world.clock import NothingScheduled, RealWorldError, Spinning, VirtualClock, VirtualLoop
from harness.world.network import MemoryNetwork
from harness.world.virtual import World, run_virtual

__all__ = [
    "MemoryNetwork",
    "NothingScheduled",
    "RealWorldError",
    "Spinning",
    "VirtualClock",
    "VirtualLoop",
    "World",
    "run_virtual",
]
