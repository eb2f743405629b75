"""The tickets that an invocation of a command needs before it runs.

A command's name is not enough: an aggregation writes if its last stage does, mapReduce unless its output is
inline, some finds are replication's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

TicketPool: TypeAlias = Literal["read", "write"]
"""The tickets of the storage engine that an operation needs."""

RELEASING: Final = frozenset({"abortTransaction", "commitTransaction", "killCursors"})
"""Commands that free resources: they never wait for any."""
MAY_BE_EXEMPT: Final = frozenset({"aggregate", "find", "getMore"})
"""Commands that read, and whose fields decide whether they need an ingress ticket."""
BY_TERM: Final = frozenset({"find", "getMore"})
"""Those of them that are exempt by one field, `TERM`, with which a member of the set reads the oplog."""
TERM: Final = "term"
MAY_WRITE: Final = frozenset({"aggregate", "mapReduce"})
"""Commands that read, and whose fields decide whether they write; of all others the kind does."""
_OUTPUT_STAGES: Final = frozenset({"$merge", "$out"})
_NEVER_QUEUED: Final = "$currentOp"
"""The stage that shows what keeps a server busy, which is asked for when it is."""


def pool_of(kind: str, name: str, command: Mapping[str, Any]) -> TicketPool | None:
    """Return the pool of tickets that a command takes one of, None for a command that touches no data."""
    if kind == "write" or (name in MAY_WRITE and writes(name, command)):
        return "write"
    return "read" if kind == "read" else None


def needs_primary(kind: str, name: str, command: Mapping[str, Any]) -> bool:
    """Return whether a command runs on a primary only.

    An aggregation whose last stage writes reads by its read preference; mapReduce with an output does not.
    """
    return kind == "write" or (name == "mapReduce" and writes(name, command))


def writes(name: str, command: Mapping[str, Any]) -> bool:
    """Return whether a command that reads stores what it finds: `$out`, `$merge`, mapReduce's `out`."""
    if name == "mapReduce":
        out = command.get("out")
        return not (isinstance(out, dict) and "inline" in out)
    if name != "aggregate" or command.get("explain"):
        return False
    pipeline = command.get("pipeline")
    last = pipeline[-1] if isinstance(pipeline, list) and pipeline else None
    return isinstance(last, dict) and not _OUTPUT_STAGES.isdisjoint(last)


def is_subject(kind: str, name: str, command: Mapping[str, Any]) -> bool:
    """Return whether a command needs an ingress ticket: most that read or write data do.

    A find or getMore with a `term` is replication's, which an overloaded set must not wait for.
    """
    if kind not in {"read", "write"} or name in RELEASING:
        return False
    if name == "aggregate":
        return not _has_stage(command.get("pipeline"), _NEVER_QUEUED)
    return not is_replication(name, command)


def is_replication(name: str, command: Mapping[str, Any]) -> bool:
    """Return whether a member of the set asks for operations to apply."""
    return name in BY_TERM and command.get(TERM) is not None


def _has_stage(pipeline: Any, name: str) -> bool:
    """Return whether a stage is in a pipeline, or in one within it (`$facet`, `$lookup`, `$unionWith`)."""
    if not isinstance(pipeline, list):
        return False
    return any(isinstance(stage, dict) and (name in stage or _within(stage, name)) for stage in pipeline)


def _within(stage: Mapping[str, Any], name: str) -> bool:
    facets = stage.get("$facet")
    if isinstance(facets, dict):
        return any(_has_stage(each, name) for each in facets.values())
    specs = (stage.get("$lookup"), stage.get("$unionWith"))
    return any(isinstance(spec, dict) and _has_stage(spec.get("pipeline"), name) for spec in specs)
