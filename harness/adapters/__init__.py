"""Adapters: one per driver behind the runner, made by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.adapters.base import DriverAdapter
    from harness.adapters.deployment import Deployment

ADAPTERS: Final[Mapping[str, str]] = {
    "pymongo": "harness.adapters.pymongo.blocking",
    "pymongo-async": "harness.adapters.pymongo.asynchronous",
    "reference": "harness.adapters.reference.adapter",
}
"""Adapter names, and the module of each, whose `make(deployment)` returns one. Imported when asked for."""


def make_adapter(name: str, deployment: Deployment) -> DriverAdapter:
    """Return a new adapter for a deployment. Raises `KeyError` for a name that is not in `ADAPTERS`."""
    make: Callable[[Deployment], DriverAdapter] = import_module(ADAPTERS[name]).make
    return make(deployment)
