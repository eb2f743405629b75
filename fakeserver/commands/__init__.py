"""The commands, one module per family, each with its own table."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fakeserver.commands.table import CommandTable

FAMILIES: Final = (
    "handshake",
    "authentication",
    "users",
    "roles",
    "role_grants",
    "api_version",
    "diagnostics",
    "parameters",
    "failpoint",
    "sessions",
    "transactions",
    "replication",
    "reconfiguration",
    "lifetime",
    "sharding",
    "insert",
    "update",
    "delete",
    "find",
    "find_and_modify",
    "aggregate",
    "count",
    "distinct",
    "bulk_write",
    "cursors",
    "collections",
    "indexes",
    "databases",
    "default_concerns",
    "explain",
    "modify",
    "statistics",
    "operations",
    "maintenance",
    "map_reduce",
)
"""The modules whose `table` the default table is merged of."""


@cache
def default_table() -> CommandTable:
    """Return the table of all families, imported when first asked for. Raises `ValueError` for a clash."""
    from fakeserver.commands.table import CommandTable  # noqa: PLC0415 - `import fakeserver` stays light

    modules = [f"{__name__}.{family}" for family in FAMILIES]
    return CommandTable.merge(*(import_module(name).table for name in modules if find_spec(name)))
