"""Specifications of operations: the name, the entities that have it, its arguments, and its function.

`Context` is all that a case has while it runs, and the only thing that the parts of the runner share. Whoever
must undo something at the end notes it there (`fail_points`, `unsaved`, `cluster_time`), and the runner and
`state` read it. `account` and `seen` grow beside it and outlive it in the outcome's explanations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from driver.editions import DEFAULT
from harness.adapters.base import EntityKind, Feature
from harness.unified.account import Account
from harness.unified.arguments import signature
from harness.unified.entities import EntityMap
from harness.unified.loops import Loops
from harness.unified.server_side.seen import Seen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from harness.adapters.base import DriverAdapter, Event, Handle, Invocation
    from harness.adapters.deployment import Deployment
    from harness.unified.entities import Entity
    from harness.unified.matching.comparison import Comparison
    from harness.unified.model import Case, Operation
    from harness.unified.server_side.comparison import AttemptComparison, SectionComparison


class ResultComparison(Enum):
    """The ways to compare an operation's result. The value is the sentence that defines it."""

    ROOT = "A value; if it is a document, a root document."
    EACH = "The documents of a cursor that was read to its end; each is a root document."
    NOTHING = "No result."


@dataclass(slots=True)
class Context:
    """All that a running case has: its entities, the driver, the servers, and what must be undone."""

    case: Case
    adapter: DriverAdapter
    deployment: Deployment
    execute: ExecuteOperation
    account: Account = field(default_factory=Account)
    loops: Loops = field(default_factory=Loops)
    edition: str = DEFAULT.name
    """The edition of the specifications that the driver follows."""
    entities: EntityMap = field(default_factory=EntityMap)
    fail_points: list[str] = field(default_factory=list)
    events: dict[str, tuple[Event, ...]] = field(default_factory=dict)
    """What each client had observed when the operations had ended."""
    logs: dict[str, tuple[Event, ...]] = field(default_factory=dict)
    """What each client had logged by then."""
    spans: dict[str, tuple[Event, ...]] = field(default_factory=dict)
    """The spans of each client that had ended by then."""
    comparisons: list[Comparison | AttemptComparison | SectionComparison] = field(default_factory=list)
    """Expected and actual, of the expectations judged so far that have to be explained."""
    seen: Seen = field(default_factory=Seen)
    """What servers saw, where the case expects something of that."""
    # Cursors that no entity names, to be closed at the end; and the time of the data on a sharded cluster.
    unsaved: list[tuple[EntityKind, Handle]] = field(default_factory=list)
    cluster_time: Mapping[str, Any] | None = None

    async def wait_until(self, done: Callable[[], bool], *, within: float, poll: float = 0.005) -> bool:
        """Wait at most `within` seconds, looking every `poll`, until `done`. Return whether it is.

        Polling and not a condition: what is waited for are events that an adapter collects, maybe in another
        process, and those wake nobody here. `done` is asked a last time at the deadline itself.
        """
        clock = self.deployment.clock
        deadline = clock.now() + within
        while not done():
            now = clock.now()
            if now >= deadline:
                return False
            await clock.sleep_until(min(now + poll, deadline))
        return True


class ExecuteOperation(Protocol):
    """Runs one operation with its assertions: the runner's own function, for operations that hold others."""

    async def __call__(self, context: Context, operation: Operation, *, propagate: bool = False) -> None:
        """Run it. `propagate` raises the driver's error even when it was expected."""
        ...


Run: TypeAlias = "Callable[[Context, Invocation[Any]], Awaitable[Any]]"
"""Runs an operation, whose arguments have been checked. The target of the runner's own operations is None."""

TIMEOUT_ARGUMENTS: Final = frozenset({"timeoutMS", "timeoutMode"})


@dataclass(frozen=True, slots=True)
class OperationSpec:
    """One row of the table. An argument that is not listed is an error."""

    name: str
    targets: tuple[EntityKind, ...]
    arguments: Mapping[str, bool]
    """Names, and whether the argument is required."""
    run: Run
    requires: frozenset[Feature] = frozenset()
    result: ResultComparison = ResultComparison.ROOT
    creates: EntityKind | None = None
    """The kind of entity that the result is, when it is one."""


async def forward(context: Context, call: Invocation[Any]) -> Any:
    """Have the driver run the operation."""
    return await context.adapter.call(call)


def handle_of(entity: Entity) -> Handle:
    """Return the driver's object behind an entity.

    Clients and sessions are stored with what the runner knows of them, everything else as the bare object.
    """
    return entity.value.handle if entity.kind in _WRAPPED else entity.value


_WRAPPED: Final = (EntityKind.CLIENT, EntityKind.SESSION)


def family(
    target: EntityKind, rows: Mapping[str, tuple[str, str]], **shared: Any
) -> tuple[OperationSpec, ...]:
    """Return rows for operations that the driver runs: name to required and optional arguments."""
    return tuple(
        OperationSpec(name, (target,), signature(required, optional), forward, **shared)
        for name, (required, optional) in rows.items()
    )


def merge(*tables: Sequence[OperationSpec]) -> dict[tuple[EntityKind, str], OperationSpec]:
    """Return one table by target and name. Raises `ValueError` when two rows are for the same.

    Raised at import: a table that contradicts itself stops every command, not the one case that uses the row.
    """
    merged: dict[tuple[EntityKind, str], OperationSpec] = {}
    for row in (row for table in tables for row in table):
        for target in row.targets:
            if (target, row.name) in merged:
                raise ValueError(f"operation {row.name} is in the table twice for {target.value}")
            merged[target, row.name] = row
    return merged
