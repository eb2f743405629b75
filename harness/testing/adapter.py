"""The contract of adapters: what the runner relies on, as checks on a replica set of three.

    from harness.testing.adapter import check_adapter

    check_adapter("cmd:node adapter.cjs")

runs all checks that the adapter's features call for, each with a new adapter and new servers; one process
serves the adapters of a command. With pytest, each check may be a test of its own:

    @pytest.mark.parametrize("check", checks_of({Feature.COMMAND_EVENTS}), ids=lambda check: check.__name__)
    def test_adapter(check):
        check_adapter("cmd:node adapter.cjs", check)

Each check has new servers and a new adapter, and so may run alone and in any order. Servers are the fake
ones, in this process: a replica set has sessions, transactions and change streams, and takes fail points.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from harness.adapters import make_adapter
from harness.adapters.base import DriverAdapter
from harness.adapters.command import Children
from harness.adapters.deployment import Deployment, Topology
from harness.adapters.registry import PREFIX
from harness.deployments.embedded import embedded
from harness.testing.adapter_basics import EVERY
from harness.testing.adapter_features import BY_FEATURE
from harness.testing.worlds import run_in_memory
from mongowire.system import SeededRng, SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.adapters.base import Feature
    from harness.testing.adapter_basics import Check
    from mongowire.ports import Clock, Network

Make: TypeAlias = Callable[[Deployment], DriverAdapter]
"""Makes an adapter of this process."""

# Longer than any check waits by its own account, so that a check fails by its assertion and not by this.
_CALL_SECONDS: Final = 30.0
"""How long a process may take to answer one request."""


def checks_of(features: Iterable[Feature]) -> tuple[Check, ...]:
    """Return the checks of an adapter with some features: what holds of all, and what each promises."""
    declared = frozenset(features)
    return EVERY + tuple(
        check for feature, checks in BY_FEATURE.items() if feature in declared for check in checks
    )


def check_adapter(adapter: str | Make, *checks: Check, virtual: bool = False) -> None:
    """Raise `AssertionError` unless an adapter passes some checks, or all that its features call for.

    `adapter` is what `--adapter` takes (a driver's name, or `cmd:` and a command line), or a function that
    makes one. `virtual` runs in virtual time, which an adapter with `Feature.VIRTUAL_TIME` can do. Raises
    `AdapterLost` for a process that does not introduce itself, `KeyError` for a driver that there is not.
    """
    with AdapterChecks(adapter, virtual=virtual) as running:
        for check in checks or checks_of(running.features()):
            running.run(check)


class AdapterChecks:
    """Runs checks on one adapter after the other, each with servers of its own; a context manager.

    The adapters of a command are served by one process, as in a run of scenarios.

    One loop runs all of them in real time, since pipes of a process belong to the loop that opened them.
    """

    def __init__(self, adapter: str | Make, *, virtual: bool = False) -> None:
        self._adapter = adapter
        self._virtual = virtual
        self._runner = asyncio.Runner()
        self._children = Children(call_seconds=_CALL_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._runner:
            self._runner.run(self._children.aclose())

    def features(self) -> frozenset[Feature]:
        """Return what the adapter declares. Raises what `check_adapter` raises."""
        declared: list[frozenset[Feature]] = []

        async def ask(made: DriverAdapter, _deployment: Deployment) -> None:
            declared.append(made.features)

        self._play(ask)
        return declared[-1]

    def run(self, check: Check) -> None:
        """Raise `AssertionError`, with what the check is about, unless an adapter passes it."""
        try:
            self._play(check)
        except AssertionError as broken:
            # A bare `assert` says what differs, not what was promised.
            broken.add_note(f"{check.__name__}: {check.__doc__}")
            raise

    def _play(self, check: Check) -> None:
        async def scenario(clock: Clock, network: Network) -> None:
            async with (
                embedded(
                    Topology.REPLICA_SET,
                    clock=clock,
                    network=network,
                    # The servers' dice are the same for each check: a failure is to be seen again.
                    rng=SeededRng(0),
                    virtual=self._virtual,
                ) as deployment,
                aclosing(await self._made(deployment)) as made,
            ):
                await check(made, deployment)

        if self._virtual:
            run_in_memory(scenario)
        else:
            self._runner.run(scenario(SystemClock(), TcpNetwork()))

    async def _made(self, deployment: Deployment) -> DriverAdapter:
        if callable(self._adapter):
            return self._adapter(deployment)
        if self._adapter.startswith(PREFIX):
            command = self._adapter.removeprefix(PREFIX).strip()
            return await self._children.adapter(command, deployment.clock)
        return make_adapter(self._adapter, deployment)
