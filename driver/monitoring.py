"""Command monitoring: every started command is followed by its success or its failure, secrets left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from driver import events
from driver.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.cmap.connection import Connection
    from driver.events import Listener
    from mongowire.messages import OpMsg
    from mongowire.ports import Clock

SENSITIVE = frozenset(
    name.lower()
    for name in (
        "authenticate",
        "saslStart",
        "saslContinue",
        "getnonce",
        "createUser",
        "updateUser",
        "copydbgetnonce",
        "copydbsaslstart",
        "copydb",
    )
)
HELLO = frozenset({"hello", "ismaster"})


def is_sensitive(name: str, command: Mapping[str, Any]) -> bool:
    """Return whether a command may hold secrets (Command Logging and Monitoring: Security)."""
    lowered = name.lower()
    return lowered in SENSITIVE or (lowered in HELLO and "speculativeAuthenticate" in command)


@dataclass(frozen=True, slots=True)
class Monitored:
    """One command on its way, as its events describe it."""

    identity: Mapping[str, Any]
    sensitive: bool
    began: float
    clock: Clock
    publish: Listener

    @classmethod
    def start(
        cls,
        message: OpMsg,
        connection: Connection,
        *,
        request_id: int,
        operation_id: int,
        clock: Clock,
        publish: Listener,
    ) -> Monitored:
        """Publish CommandStartedEvent."""
        command = message.decode()
        name = next(iter(command))
        identity = {
            "command_name": name,
            "database_name": command["$db"],
            "request_id": request_id,
            "operation_id": operation_id,
            "connection_id": connection.address,
            "driver_connection_id": connection.id,
            "server_connection_id": connection.server_connection_id,
            "service_id": connection.service_id,
        }
        sensitive = is_sensitive(name, command)
        shown = {} if sensitive else command
        publish(events.CommandStartedEvent(**identity, command=shown, sensitive=sensitive))
        return cls(identity, sensitive, clock.now(), clock, publish)

    def succeed(self, reply: Mapping[str, Any]) -> None:
        """Publish CommandSucceededEvent."""
        shown = {} if self.sensitive else reply
        duration = self.clock.now() - self.began
        self.publish(
            events.CommandSucceededEvent(
                **self.identity, duration=duration, reply=shown, sensitive=self.sensitive
            )
        )

    def fail(self, error: Exception) -> None:
        """Publish CommandFailedEvent."""
        duration = self.clock.now() - self.began
        self.publish(
            events.CommandFailedEvent(
                **self.identity, duration=duration, failure=self._shown(error), sensitive=self.sensitive
            )
        )

    def _shown(self, error: Exception) -> Exception:
        if not self.sensitive or not isinstance(error, ServerError):
            return error
        kept = {
            name: error.response[name]
            for name in ("code", "codeName", "errorLabels")
            if name in error.response
        }
        return ServerError("", code=error.code, name=error.code_name, labels=error.labels, response=kept)


class Observer(Protocol):
    """Who is told how a command ended that was started."""

    def succeed(self, reply: Mapping[str, Any]) -> None:
        """Hear that the server replied with `ok: 1`."""

    def fail(self, error: Exception) -> None:
        """Hear that it did not."""


class Unobserved:
    """Nobody listens: nothing is decoded for events."""

    def succeed(self, reply: Mapping[str, Any]) -> None:
        """Say nothing."""

    def fail(self, error: Exception) -> None:
        """Say nothing."""
