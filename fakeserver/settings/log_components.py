"""The components of a server's log, and how much each of them says (`logComponentVerbosity`).

A component without a verbosity of its own has that of the one that it is part of, the outermost that of
`logLevel`, which is the same number as `logComponentVerbosity.verbosity`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.idl.fields import type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAME: Final = "logComponentVerbosity"
LEVEL: Final = "logLevel"

_INHERITED: Final = -1
_MOST: Final = 5
_NUMBERS: Final = frozenset({"int", "long", "double"})
_COMPONENTS: Final[Mapping[str, str]] = {
    "accessControl": "ACCESS", "assert": "ASSERT", "command": "COMMAND", "control": "CONTROL",
    "executor": "EXECUTOR", "ftdc": "FTDC", "geo": "GEO", "index": "INDEX", "network": "NETWORK",
    "network.asio": "ASIO", "network.bridge": "BRIDGE", "network.connectionPool": "CONNPOOL",
    "processHealth": "HEALTH", "query": "QUERY", "replication": "REPL", "replication.election": "ELECTION",
    "replication.heartbeats": "REPL_HB", "replication.initialSync": "INITSYNC",
    "replication.rollback": "ROLLBACK", "sharding": "SHARDING", "sharding.migration": "MIGRATE",
    "sharding.rangeDeleter": "RANGEDEL", "sharding.shardingCatalogRefresh": "SH_REFR", "storage": "STORAGE",
    "storage.journal": "JOURNAL", "storage.recovery": "RECOVERY", "storage.wt": "WT", "test": "TEST",
    "tracking": "TRACKING", "transaction": "TXN", "write": "WRITE",
}  # fmt: skip
"""The name of each component in a log line."""


def default() -> dict[str, Any]:
    """Return the verbosity of each component where nobody set one."""
    shown: dict[str, Any] = {"verbosity": 0}
    for name in _COMPONENTS:
        outer, _, inner = name.partition(".")
        part = shown.setdefault(outer, {"verbosity": _INHERITED})
        if inner:
            part[inner] = {"verbosity": _INHERITED}
    return shown


def merged(current: Mapping[str, Any], change: Any, path: str = "") -> dict[str, Any]:
    """Return the verbosities after a change of some. Raises `CommandError` 2 for what is no component."""
    found: dict[str, Any] = dict(current)
    for name, value in change.items():
        if name == "verbosity":
            found[name] = _verbosity(value, path or "default")
        elif not isinstance(current.get(name), dict):
            raise CommandError(ErrorCode.BAD_VALUE, f"Invalid component name {path}{name}")
        elif isinstance(value, dict):
            found[name] = merged(current[name], value, f"{path}{name}.")
        else:
            found[name] = {**current[name], "verbosity": _verbosity(value, f"{path}{name}")}
    if not path and found["verbosity"] < 0:
        found["verbosity"] = 0
    return found


def _verbosity(value: Any, name: str) -> int:
    if type_name(value) not in _NUMBERS:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"Expected {name.rstrip('.')}.verbosity to be a number. Given type {type_name(value)}",
        )
    for met, bound in (
        (value >= _INHERITED, f"greater than or equal to {_INHERITED}"),
        (value <= _MOST, f"less than or equal to {_MOST}"),
    ):
        if not met:
            raise CommandError(ErrorCode.BAD_VALUE, f"{name.rstrip('.')}.verbosity: {value} is not {bound}")
    return int(value) if value >= 0 else _INHERITED


def levels(verbosity: Mapping[str, Any]) -> dict[str, int]:
    """Return the level of each component whose level is not the default, by its name in a log line."""
    top = verbosity["verbosity"]
    return {_COMPONENTS[name]: level for name, level in _resolved(verbosity, top) if level != top}


def _resolved(verbosity: Mapping[str, Any], above: int, path: str = "") -> Iterator[tuple[str, int]]:
    for name, part in verbosity.items():
        if isinstance(part, dict):
            level = above if part["verbosity"] < 0 else part["verbosity"]
            yield f"{path}{name}", level
            yield from _resolved(part, level, f"{path}{name}.")
