"""Simulation: virtual time, a network in memory, and the runs that use them.

The virtual world itself lives in `harness.world` and is offered here by name. Two tiers of simulation share
no code, and answer different questions:

* `swarm` runs the real driver and the real fake servers under drawn faults, some clients for some virtual
  seconds, and asks whether any promise was broken (`pushbackd simulate swarm`, docs/SWARM.md).
* `fleet` is a model: up to millions of clients as rows of numbers, and servers that are queues and buckets.
  It asks what becomes of load (docs/SIMULATION.md). `article` plays the scenario of an article with it, and
  live beside it; `sweep` runs grids of its scenarios, also on a cluster. `harness.overload` builds on it
  too.

The model must decide as driver and server do; tests hold its limiters, retries and backoffs against the real
objects, so a change of a rule in `driver.policy` or `fakeserver.admission` fails there first.
`parquet.py` writes the results of fleets and sweeps, where the extra is installed.
"""

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
