"""Simulation: virtual time, a network in memory, and the runs that use them."""

from __future__ import annotations

from harness.sim.clock import NothingScheduled, RealWorldError, Spinning, VirtualClock, VirtualLoop
from harness.sim.network import MemoryNetwork
from harness.sim.world import World, run_virtual

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
