"""The drivers that a run can choose: by name, with the editions of the specifications that each follows.

The command line and the pytest plugin call `drivers` once, before a run is planned, because editions and
virtual time decide what is planned. The executor calls `make_adapter` for each case, except for a driver with
a `command`: its adapters come from `harness.adapters.command.Children`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Final

from driver.cmap.metadata import NAME, VERSION
from harness.adapters import ADAPTERS
from harness.adapters.base import AdapterLost
from harness.world import cancelling

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.adapters.base import DriverAdapter
    from harness.adapters.deployment import Deployment

PREFIX: Final = "cmd:"
"""The beginning of a command line where a driver's name may stand."""

EDITIONS: Final = ("2026-02-20", "2026-07-08")


@dataclass(frozen=True, slots=True)
class DriverEntry:
    """Facts that a run must know of a driver before it makes one.

    `editions` are those that the driver can follow, its default first. `virtual_time` says that its adapter
    has `Feature.VIRTUAL_TIME`. `command` is the command line of an adapter that is a process of its own.
    `version` is the driver's own name and version (`PyMongo 4.20.1`), empty where nobody has asked.
    """

    editions: tuple[str, ...]
    virtual_time: bool
    command: str = ""
    version: str = ""


DRIVERS: Final[Mapping[str, DriverEntry]] = {
    "reference": DriverEntry(editions=EDITIONS, virtual_time=True),
    "pymongo": DriverEntry(editions=(EDITIONS[1],), virtual_time=False),
    "pymongo-async": DriverEntry(editions=(EDITIONS[1],), virtual_time=False),
}


def is_driver(text: str) -> bool:
    """Return whether a text is the name of a driver, or `cmd:` and a command line."""
    return text in DRIVERS or (text.startswith(PREFIX) and bool(text.removeprefix(PREFIX).strip()))


def drivers(texts: Iterable[str]) -> dict[str, DriverEntry]:
    """Return the drivers that texts name, by the names that a report gives them.

    A command is run once, to introduce itself. Raises `AdapterLost` when it does not, or when its name is
    another driver's.
    """
    known: dict[str, DriverEntry] = {}
    for text in texts:
        if text in DRIVERS:
            version = f"{NAME} {VERSION}" if text == "reference" else f"PyMongo {metadata.version('pymongo')}"
            name, info = text, replace(DRIVERS[text], version=version)
        else:
            from harness.adapters.child import introduced  # noqa: PLC0415 - most runs start no adapter

            command = text.removeprefix(PREFIX).strip()
            hello = cancelling.run(introduced(command))
            editions = (hello.edition or EDITIONS[-1],)
            name = hello.name
            info = DriverEntry(editions, virtual_time=False, command=command, version=hello.driver)
        # Results are told apart by the driver's name alone, so two drivers may not share one. The same
        # command given twice is no conflict.
        if known.get(name, info) != info or (info.command and name in DRIVERS):
            raise AdapterLost(f"the name '{name}' of the adapter '{text}' is another driver's")
        known[name] = info
    return known


def make_adapter(name: str, deployment: Deployment, *, edition: str) -> DriverAdapter:
    """Return a new adapter for a deployment. Raises `KeyError` for a name that is not in `DRIVERS`."""
    # A driver of one edition has an adapter that takes no edition.
    info, make = DRIVERS[name], import_module(ADAPTERS[name]).make
    adapter: DriverAdapter = make(deployment, edition=edition) if len(info.editions) > 1 else make(deployment)
    return adapter
