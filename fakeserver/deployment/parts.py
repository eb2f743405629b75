"""The parts of a server, as `fakeserver.assembly.assembling` makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from fakeserver.admission.controls import AdmissionControl
    from fakeserver.deployment.doors import Door
    from fakeserver.deployment.establishment import Gate
    from fakeserver.deployment.logs.server_log import Profiling
    from fakeserver.deployment.monitors import FlowMonitor
    from fakeserver.deployment.server import SlownessPart
    from fakeserver.deployment.shard_clients import Shards
    from fakeserver.idl.command_table import CommandTable
    from fakeserver.request.pipeline import Pipeline
    from fakeserver.sessions.cursors import CursorStore
    from fakeserver.sessions.transactions import TransactionRouter
    from fakeserver.settings.failpoints import FailPointRegistry
    from fakeserver.settings.server_parameters import ServerParameters


class WriteLockPart(Protocol):
    """The lock against writes of `fsync`."""

    count: int
    """The number of locks that are held."""

    def lock(self) -> int:
        """Lock once more; return the number of locks."""

    def unlock(self) -> int:
        """Release one lock; return the number of those that are left."""


class ProfilerPart(Protocol):
    """The recorder of operations in `system.profile`."""

    profiling: Profiling

    def set_level(self, db: str, level: int) -> None:
        """Set the level for the operations of a database: 0 records none, 1 slow ones, 2 all."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that a server keeps while its processes come and go."""

    commands: CommandTable
    """Its commands, those for tests among them."""
    cursors: CursorStore
    pipeline: Pipeline
    write_lock: WriteLockPart
    profiler: ProfilerPart
    slowness: SlownessPart
    new_process: Callable[[Any], Process]
    """Return the parts of a new process of a `Node`."""
    protocols: Callable[[Any, Door], Callable[[], asyncio.Protocol]]
    """Return the maker of the protocol of a connection to a `Node`, by the way on which it comes."""


@dataclass(frozen=True, slots=True)
class Process:
    """The parts of one process: the next one has others."""

    parameters: ServerParameters
    fail_points: FailPointRegistry
    admission: AdmissionControl
    gate: Gate
    flow_monitor: FlowMonitor
    transaction_router: TransactionRouter | None
    shards: Shards | None
    """On a mongos, the shards as it knows them."""
