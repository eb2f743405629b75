"""A database: a view of a client with its own concerns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from driver.change_stream import ChangeStream
from driver.collection import Collection
from driver.concerns import ReadPreference
from driver.cursor import Cursor, Paging
from driver.operations import admin, reads
from driver.operations.base import Target
from driver.operations.options import mode_of, opening, seconds_of, timeout_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from driver.concerns import Concerns, ReadConcern, WriteConcern
    from driver.session import ClientSession
    from driver.views import ViewedClient


class Database:
    """Made by `AsyncClient.database`. Options of methods have the names of the specifications."""

    def __init__(self, client: ViewedClient, name: str, concerns: Concerns) -> None:
        self.client = client
        self.name = name
        self.concerns = concerns

    def collection(
        self,
        name: str,
        *,
        read_preference: ReadPreference | None = None,
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
        timeout_ms: int | None = None,
    ) -> Collection:
        """Return a view of a collection; what is left out is inherited. A `timeout_ms` of 0 is no limit."""
        timeout = seconds_of(timeout_ms)
        concerns = self.concerns.overridden(read_preference, read_concern, write_concern, timeout)
        return Collection(self, name, concerns)

    async def command(
        self,
        command: Mapping[str, Any],
        *,
        session: ClientSession | None = None,
        read_preference: ReadPreference | None = None,
        timeout_ms: int | None = None,
    ) -> dict[str, Any]:
        """Send a command as it is, and return the reply. The read preference is not inherited."""
        timeout = timeout_of(timeout_ms, self.concerns.timeout)
        operation = admin.run_command(self.name, command, read_preference, timeout)
        return (await self.client.run(operation, session)).document

    async def cursor_command(
        self,
        command: Mapping[str, Any],
        *,
        session: ClientSession | None = None,
        read_preference: ReadPreference | None = None,
        paging: Paging | None = None,
        timeout_ms: int | None = None,
        timeout_mode: str | None = None,
    ) -> Cursor:
        """Send a command that returns a cursor, and return that (Run Command: runCursorCommand)."""
        chosen = paging or Paging(read_preference)
        timeout = timeout_of(timeout_ms, self.concerns.timeout)
        operation = opening(
            admin.run_command(self.name, command, read_preference, timeout),
            mode=timeout_mode,
            cursor_type=chosen.cursor_type,
            max_await_time_ms=chosen.max_await_time_ms,
        )
        mode = mode_of(timeout_mode, chosen.cursor_type)
        return await Cursor.open(self.client, operation, session, replace(chosen, timeout_mode=mode))

    async def aggregate(
        self, pipeline: Sequence[Mapping[str, Any]], *, session: ClientSession | None = None, **options: Any
    ) -> Cursor:
        """Run a pipeline that begins without a collection."""
        operation = reads.aggregate(self._target(1), pipeline, options)
        return await Cursor.open(
            self.client, operation, session, Paging.of(options, self.concerns.read_preference)
        )

    async def watch(
        self,
        pipeline: Sequence[Mapping[str, Any]] = (),
        *,
        session: ClientSession | None = None,
        **options: Any,
    ) -> ChangeStream:
        """Watch all collections of the database (Change Streams). Raises DriverError."""
        return await ChangeStream.open(self.client, self._target(1), pipeline, options, session)

    async def create_collection(
        self, name: str, *, session: ClientSession | None = None, **options: Any
    ) -> Collection:
        """Create a collection, and return it."""
        await self.client.run(admin.create_collection(self._target(name), options), session)
        return self.collection(name)

    async def modify_collection(
        self, name: str, *, session: ClientSession | None = None, **options: Any
    ) -> None:
        """Change a collection's options."""
        await self.client.run(admin.modify_collection(self._target(name), options), session)

    async def drop_collection(
        self, name: str, *, session: ClientSession | None = None, **options: Any
    ) -> None:
        """Drop a collection, if it exists."""
        await self.collection(name).drop(session=session, **options)

    async def drop(self, *, session: ClientSession | None = None, **options: Any) -> None:
        """Drop the database."""
        await self.client.run(admin.drop_database(self._target(1), options), session)

    async def list_collections(self, *, session: ClientSession | None = None, **options: Any) -> Cursor:
        """Return a cursor over a document for each collection (Enumerate Collections)."""
        operation = admin.list_collections(self._target(1), options, name_only=False)
        return await Cursor.open(self.client, operation, session, Paging.of(options, ReadPreference()))

    async def list_collection_names(
        self, *, session: ClientSession | None = None, **options: Any
    ) -> list[str]:
        """Return the name of each collection."""
        operation = admin.list_collections(self._target(1), options, name_only=True)
        cursor = await Cursor.open(self.client, operation, session, Paging.of(options, ReadPreference()))
        return [described["name"] for described in await cursor.to_list()]

    def _target(self, collection: str | int) -> Target:
        return Target(self.name, collection, self.concerns)
