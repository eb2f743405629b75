"""Adapters: one per driver behind the runner, made by name.

`base` is the port of drivers: what the runner may ask (`DriverAdapter`), and the values that pass in both
directions. `deployment` is the port of servers, which adapters are made for. Both are protocols with no code
behind them; the runner (`harness.unified`) imports them and nothing else of a driver.

Two ways lead to a driver. One of this process is a module of `ADAPTERS`: `reference` and `pymongo`, each a
table from operations of the format to methods. One of another process is a `command.CommandAdapter` over a
`child.Child`, which writes and reads the messages of `lines`; `message_schema` refuses wrong ones. `serving`
is the far end of that pipe for adapters in Python, and no part of the runner's process.

`registry` is where a run begins: it turns the names and command lines that a user gives into drivers with
their editions. `logger_tap` is shared by the two drivers that log by Python's `logging`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.adapters.base import DriverAdapter
    from harness.adapters.deployment import Deployment

# Modules by name and not by import: PyMongo is slow to load, and a run with the reference driver alone does
# without it.
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
