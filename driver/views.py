"""The part of a client that its views use: databases, collections, and what reads in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from driver.session import SessionClient

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from bson import ObjectId

    from driver.execute import Executor
    from driver.operations.base import Operation
    from driver.operations.models import WriteModel
    from driver.policy.deadline import Deadline
    from driver.run import Reply
    from driver.session import ClientSession


class ViewedClient(SessionClient, Protocol):
    """The client as its views see it: what runs operations, in which session, and makes ids."""

    @property
    def executor(self) -> Executor:
        """What runs operations."""

    def session_for(self, session: ClientSession | None) -> AbstractAsyncContextManager[ClientSession]:
        """Use the explicit session, or an implicit one that ends with the block."""

    def implicit_session(self) -> ClientSession:
        """Return a session that its user ends."""

    async def run(
        self, operation: Operation, session: ClientSession | None = None, *, deadline: Deadline | None = None
    ) -> Reply:
        """Run an operation in the session, or in an implicit one. Raises DriverError."""

    def new_id(self) -> ObjectId:
        """Return a new ObjectId."""

    def with_id(self, model: WriteModel) -> WriteModel:
        """Return the model, an insert with an `_id`."""
