"""Entities of an adapter under check, and a command that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from harness.adapters.base import (
    ClientSpec,
    DriverAdapter,
    EntityKind,
    ErrorReport,
    Event,
    Handle,
    Invocation,
    OperationFailed,
)
from harness.testing.expecting import raises
from harness.unified.deployment import Deployment
from harness.unified.uri import with_options

Check: TypeAlias = Callable[[DriverAdapter, Deployment], Awaitable[None]]
"""A promise of an adapter: raises `AssertionError` where a new adapter, on a new replica set, breaks it."""

COMMANDS: Final = frozenset({"commandStartedEvent", "commandSucceededEvent", "commandFailedEvent"})
POOL: Final = frozenset({"connectionCheckedOutEvent", "connectionCheckedInEvent", "connectionReadyEvent"})


class AdapterEntities:
    """A client, a database and a collection of one adapter, and short ways to use them."""

    def __init__(self, adapter: DriverAdapter, client: Handle, database: Handle, collection: Handle) -> None:
        self.adapter = adapter
        self.client = client
        self.database = database
        self.collection = collection

    @classmethod
    async def make(
        cls,
        adapter: DriverAdapter,
        deployment: Deployment,
        *,
        observing: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> AdapterEntities:
        """Make them; `observing` are fields of the client's specification, `options` those of its URI."""
        uri = with_options(deployment.uri, {"heartbeatFrequencyMS": 500, **options})
        asked: dict[str, Any] = {"observe_events": COMMANDS | POOL, **observing}
        client = await adapter.create_client(ClientSpec(uri, options, **asked))
        spec = {"id": "database", "databaseName": "contract"}
        database = await adapter.create(EntityKind.DATABASE, client, spec)
        spec = {"id": "collection", "collectionName": "adapter"}
        collection = await adapter.create(EntityKind.COLLECTION, database, spec)
        return cls(adapter, client, database, collection)

    async def call(self, operation: str, **arguments: Any) -> Any:
        """Run an operation on the collection."""
        return await self.adapter.call(
            Invocation(self.collection, EntityKind.COLLECTION, operation, arguments)
        )

    async def failure(self, operation: str, **arguments: Any) -> ErrorReport:
        """Run an operation that must fail; return what the driver reports."""
        with raises(OperationFailed) as raised:
            await self.call(operation, **arguments)
        return raised.error.report

    async def run_command(self, **command: Any) -> Any:
        """Run a command on the database."""
        arguments = {"command": command, "commandName": next(iter(command))}
        return await self.adapter.call(
            Invocation(self.database, EntityKind.DATABASE, "runCommand", arguments)
        )

    def events(self, *kinds: str, command: str | None = None) -> list[Event]:
        """Return what the client has observed of some kinds, of one command or of all."""
        events = [event for event in self.adapter.events(self.client) if event.kind in kinds]
        return [event for event in events if command in (None, event.fields.get("commandName"))]


@asynccontextmanager
async def failing(
    deployment: Deployment, command: str, *, mode: Any = "alwaysOn", **data: Any
) -> AsyncIterator[None]:
    """Fail a command on every member while the block runs."""
    point = {"configureFailPoint": "failCommand", "data": {"failCommands": [command], **data}}
    for address in deployment.addresses:
        await deployment.admin("admin", {**point, "mode": mode}, address=address)
    yield
    for address in deployment.addresses:
        await deployment.admin("admin", {**point, "mode": "off"}, address=address)
