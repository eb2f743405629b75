"""An adapter and a deployment in memory, for tests of the runner: both answer as they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.adapters.base import (
    ClientSpec,
    EntityKind,
    ErrorReport,
    Event,
    Feature,
    Handle,
    Invocation,
    OperationFailed,
    PoolSpec,
    SessionState,
    TopologyReport,
    UnsupportedOperation,
)
from harness.adapters.deployment import Topology
from mongowire.system import SeededRng, SystemClock

if TYPE_CHECKING:
    from mongowire.ports import Clock, Rng

Answer = Callable[[Mapping[str, Any]], Any]


@dataclass
class ScriptedClient:
    """A client handle: its specification, and the events that a test lets it observe."""

    spec: ClientSpec
    events: list[Event] = field(default_factory=list)
    closed: int = 0


@dataclass
class ScriptedHandle:
    """Any other handle; `client` is the one that it was made from."""

    kind: EntityKind
    client: ScriptedClient
    spec: Mapping[str, Any]
    state: SessionState = field(default_factory=lambda: SessionState({"id": b"lsid"}))
    ended: bool = False


class ScriptedAdapter:
    """Answers operations from `answers`, and records every call."""

    name = "scripted"

    def __init__(self, answers: Mapping[str, Any] | None = None, *, lacks: Sequence[Feature] = ()) -> None:
        self.answers = dict(answers or {})
        self.features = frozenset(Feature) - set(lacks)
        self.clients: list[ScriptedClient] = []
        self.handles: list[ScriptedHandle] = []
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.advanced: list[Mapping[str, Any]] = []
        self.primaries: list[str | None] = ["a:1"]
        self.tokens: float | None = None
        self.logs_at_close: list[Event] = []

    async def create_client(self, spec: ClientSpec) -> Handle:
        client = ScriptedClient(spec)
        self.clients.append(client)
        return client

    async def create_pool(self, spec: PoolSpec) -> Handle:
        raise UnsupportedOperation(f"no pool for {spec.uri}")

    async def create(self, kind: EntityKind, parent: Handle, spec: Mapping[str, Any]) -> Handle:
        client = parent if isinstance(parent, ScriptedClient) else parent.client
        handle = ScriptedHandle(kind, client, spec)
        self.handles.append(handle)
        return handle

    async def call(self, invocation: Invocation[Handle]) -> Any:
        operation, arguments = invocation.operation, invocation.arguments
        self.calls.append((operation, arguments))
        if operation == "endSession":
            invocation.target.ended = True
        answer = self.answers.get(operation)
        if isinstance(answer, ErrorReport):
            raise OperationFailed(answer)
        result = answer(arguments) if callable(answer) else answer
        return await result if asyncio.iscoroutine(result) else result

    @staticmethod
    def fail(report: ErrorReport) -> None:
        """Answer with a failure, where only some calls of an operation fail."""
        raise OperationFailed(report)

    def events(self, client: Handle) -> Sequence[Event]:
        events: list[Event] = client.events
        return events

    async def session_state(self, session: Handle) -> SessionState:
        state: SessionState = session.state
        return state

    async def advance_cluster_time(self, session: Handle, cluster_time: Mapping[str, Any]) -> None:
        self.advanced.append(cluster_time)

    async def topology(self, client: Handle) -> TopologyReport:
        primary = self.primaries.pop(0) if len(self.primaries) > 1 else self.primaries[0]
        return TopologyReport("ReplicaSetWithPrimary", primary)

    async def retry_tokens(self, client: Handle) -> float | None:
        return self.tokens

    async def close_client(self, client: Handle) -> None:
        client.closed += 1
        client.events.extend(self.logs_at_close)

    async def aclose(self) -> None:
        for client in self.clients:
            await self.close_client(client)


@dataclass
class ScriptedDeployment:
    """Servers that keep documents by collection, and answer otherwise what a test tells them to."""

    topology: Topology = Topology.REPLICA_SET
    server_version: tuple[int, ...] = (8, 2, 0)
    auth: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    addresses: Sequence[str] = ("a:1", "b:2")
    uri: str = "mongodb://a:1/"
    uri_multi: str = "mongodb://a:1,b:2/"
    clock: Clock = field(default_factory=SystemClock)
    rng: Rng = field(default_factory=lambda: SeededRng(0))
    replies: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    data: dict[str, list[Any]] = field(default_factory=dict)
    commands: list[tuple[str, Mapping[str, Any], str | None]] = field(default_factory=list)
    ends_with_case: bool = False
    network: None = None
    journal: None = None
    wire_record: Any = None

    async def admin(
        self, database: str, command: Mapping[str, Any], *, address: str | None = None
    ) -> Mapping[str, Any]:
        self.commands.append((database, command, address))
        name = next(iter(command))
        if name in self.replies:
            return self.replies[name]
        namespace = f"{database}.{command[name]}"
        if name == "drop":
            self.data.pop(namespace, None)
        if name == "insert":
            self.data.setdefault(namespace, []).extend(command["documents"])
        if name == "find":
            return {"ok": 1, "cursor": {"firstBatch": self.data.get(namespace, [])}}
        return {"ok": 1}

    def sent(self, name: str) -> list[tuple[str, Mapping[str, Any], str | None]]:
        """Return the commands of one name that the runner sent."""
        return [sent for sent in self.commands if name in sent[1]]
