"""The drivers that a run can choose: by name, with the editions of the specifications that each follows."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

from harness.adapters import ADAPTERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.adapters.base import DriverAdapter
    from harness.unified.deployment import Deployment

EDITIONS: Final = ("2026-02-20", "2026-07-08")


@dataclass(frozen=True, slots=True)
class DriverInfo:
    """What a run must know of a driver before it makes one.

    `editions` are those that the driver can follow, its default first. `virtual_time` says that its adapter
    has `Feature.VIRTUAL_TIME`.
    """

    editions: tuple[str, ...]
    virtual_time: bool


DRIVERS: Final[Mapping[str, DriverInfo]] = {
    "reference": DriverInfo(editions=EDITIONS, virtual_time=True),
    "pymongo": DriverInfo(editions=(EDITIONS[1],), virtual_time=False),
    "pymongo-async": DriverInfo(editions=(EDITIONS[1],), virtual_time=False),
}


def make_adapter(name: str, deployment: Deployment, *, edition: str) -> DriverAdapter:
    """Return a new adapter for a deployment. Raises `KeyError` for a name that is not in `DRIVERS`."""
    info, make = DRIVERS[name], import_module(ADAPTERS[name]).make
    adapter: DriverAdapter = make(deployment, edition=edition) if len(info.editions) > 1 else make(deployment)
    return adapter
