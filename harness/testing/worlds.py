"""The two worlds that every port has to work in: the system's, and the one in virtual time.

A scenario gets its clock and its network and must not reach for others: that is what makes one contract
hold both worlds. Sockets of the first are on loopback, on ports that the system chooses; the second opens
none, and a sleep in it costs nothing. Contracts of third parties pass a `Run` of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from harness.sim import run_virtual
from mongowire.ports import Clock, Network
from mongowire.system import SystemClock, TcpNetwork, fast_loop

Scenario: TypeAlias = Callable[[Clock, Network], Coroutine[Any, Any, None]]
Run: TypeAlias = Callable[[Scenario], None]


def run_in_system(scenario: Scenario) -> None:
    """Run on the wall clock, over TCP on loopback."""
    asyncio.run(scenario(SystemClock(), TcpNetwork()))


def run_on_the_fast_loop(scenario: Scenario) -> None:
    """Run on the wall clock, over TCP on loopback, on uvloop where it is installed.

    A loop of another maker is another implementation of transports: it may differ in when a write waits, or
    in the error that a reset gives.
    """
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(scenario(SystemClock(), TcpNetwork()))


def run_in_memory(scenario: Scenario) -> None:
    """Run in virtual time, over memory."""
    run_virtual(lambda world: scenario(world.clock, world.network))
