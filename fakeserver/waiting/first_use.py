"""Modules that few programs need, imported when a name of theirs is first used.

What only some queries have (windows, geometry, text search, scripts, schemas) would cost every start of a
server as much as what all of them have. An import linter does not see these imports: they lead from a table
of operators or stages to what stands in its row, and no further.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Later:
    """A module in waiting."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


def at_first_use(name: str) -> Any:
    """Return what stands for a module, which is imported when a name is taken from it."""
    return _Later(name)
