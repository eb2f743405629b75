"""The contract of adapters: what the runner relies on, as checks on a replica set of three.

    from harness.testing.adapter import check_adapter

    check_adapter("cmd:node adapter.cjs")

runs all checks that the adapter's features call for, each with a new adapter and new servers. With pytest,
each check may be a test of its own:

    @pytest.mark.parametrize("check", checks_of({Feature.COMMAND_EVENTS}), ids=lambda check: check.__name__)
    def test_adapter(check):
        check_adapter("cmd:node adapter.cjs", check)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from harness.adapters import make_adapter
from harness.adapters.base import DriverAdapter
from harness.adapters.command import Children
from harness.adapters.registry import PREFIX
from harness.deployments.embedded import embedded
from harness.testing.adapter_basics import EVERY
from harness.testing.adapter_features import BY_FEATURE
from harness.testing.worlds import run_in_memory, run_in_system
from harness.unified.deployment import Deployment, Topology
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.adapters.base import Feature
    from harness.testing.adapter_entities import Check
    from mongowire.ports import Clock, Network

Make: TypeAlias = Callable[[Deployment], DriverAdapter]
"""Makes an adapter of this process."""

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
    run = run_in_memory if virtual else run_in_system
    asked = list(checks)

    async def take_all(made: DriverAdapter, _deployment: Deployment) -> None:
        asked.extend(checks_of(made.features))

    def scenario(check: Check) -> Callable[[Clock, Network], Coroutine[Any, Any, None]]:
        async def play(clock: Clock, network: Network) -> None:
            async with (
                embedded(
                    Topology.REPLICA_SET, clock=clock, network=network, rng=SeededRng(0), virtual=virtual
                ) as deployment,
                _made(adapter, deployment) as made,
            ):
                try:
                    await check(made, deployment)
                except AssertionError as broken:
                    broken.add_note(f"{check.__name__}: {check.__doc__}")
                    raise

        return play

    if not checks:
        run(scenario(take_all))
    for check in asked:
        run(scenario(check))


@asynccontextmanager
async def _made(adapter: str | Make, deployment: Deployment) -> AsyncIterator[DriverAdapter]:
    """Make an adapter, and close it with its process."""
    async with aclosing(Children(call_seconds=_CALL_SECONDS)) as children:
        if callable(adapter):
            made = adapter(deployment)
        elif adapter.startswith(PREFIX):
            made = await children.adapter(adapter.removeprefix(PREFIX).strip(), deployment.clock)
        else:
            made = make_adapter(adapter, deployment)
        async with aclosing(made):
            yield made
