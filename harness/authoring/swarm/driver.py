"""The driver that a swarm judges: what must be known of it before a case can be drawn."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from harness.adapters.child import Child
from harness.adapters.registry import DRIVERS, EDITIONS, PREFIX, make_adapter
from harness.running import cancelling

if TYPE_CHECKING:
    from harness.adapters.base import Feature
    from harness.adapters.registry import DriverEntry


@dataclass(frozen=True, slots=True)
class SwarmDriver:
    """A driver by its name. `command` is the command line of an adapter that is a process of its own."""

    name: str
    editions: tuple[str, ...]
    features: frozenset[Feature]
    virtual_time: bool = False
    command: str = ""

    @property
    def commands(self) -> tuple[tuple[str, str], ...]:
        """The pairs for `Settings.commands`."""
        return ((self.name, self.command),) if self.command else ()


def driver_of(text: str, edition: str) -> SwarmDriver:
    """Return the driver that a name or a command stands for; an adapter is run once, to introduce itself.

    Raises `AdapterLost` for one that does not.
    """
    if text in DRIVERS:
        entry = DRIVERS[text]
        return SwarmDriver(text, entry.editions, _features(text, entry, edition), entry.virtual_time)
    return cancelling.run(_introduced(text.removeprefix(PREFIX).strip()))


def _features(name: str, entry: DriverEntry, edition: str) -> frozenset[Feature]:
    """Return what a driver of ours can do: that of PyMongo is the same in every edition."""
    if not entry.virtual_time:
        features: frozenset[Feature] = import_module("harness.adapters.pymongo.base").FEATURES
        return features
    nowhere: Any = None
    return make_adapter(name, nowhere, edition=edition or entry.editions[0]).features


async def _introduced(command: str) -> SwarmDriver:
    child = await Child.start(command)
    await child.aclose()
    hello = child.hello
    return SwarmDriver(hello.name, (hello.edition or EDITIONS[-1],), hello.features, command=command)
