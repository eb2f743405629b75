"""Listeners of events, and the events of a command: its start, then its success or its failure.

Listeners and the log hear of each event at once (Command Logging and Monitoring), often between two effects
of a pool or a topology. An exception there would leave connections checked out for ever, or end a monitor:
so those of users' code go no further than `Shield`.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from driver import events
from driver.errors import ServerError
from driver.events import HELLO, SENSITIVE
from driver.log.components import ROOT, shows_connections

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from driver.cmap.connection import Connection
    from driver.events import DriverEvent, Listener
    from mongowire.messages import OpMsg
    from mongowire.ports import Clock

_LOGGER = logging.getLogger(ROOT)


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
        # Its text may repeat the command; codes and labels never do.
        if not self.sensitive or not isinstance(error, ServerError):
            return error
        kept = {
            name: error.response[name]
            for name in ("code", "codeName", "errorLabels")
            if name in error.response
        }
        return ServerError("", code=error.code, name=error.code_name, labels=error.labels, response=kept)


class Observer(Protocol):
    """Whoever has to know how a command ended."""

    def succeed(self, reply: Mapping[str, Any]) -> None:
        """Take note of a reply with `ok: 1`."""

    def fail(self, error: Exception) -> None:
        """Take note of an error, from the server or on the way."""


class Unobserved:
    """Nobody listens: nothing is decoded for events."""

    def succeed(self, reply: Mapping[str, Any]) -> None:
        """Say nothing."""

    def fail(self, error: Exception) -> None:
        """Say nothing."""


UNOBSERVED: Final = Unobserved()


# --- listeners and log ---


class Shield:
    """Calls users' code, and lets no Exception out; other BaseExceptions end more than a call.

    The first exception of each is logged, and passed to the exception handler of the running event loop. Code
    that fails with every event would fill the log otherwise.
    """

    def __init__(self) -> None:
        self._failed: set[str] = set()

    def call(self, name: str, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function; `name` identifies it."""
        try:
            function(*arguments)
        except Exception as error:  # noqa: BLE001 - users' code may raise anything
            if name not in self._failed:
                self._failed.add(name)
                with suppress(Exception):  # where log messages go, it may be the log that fails
                    _report(name, error)


def _report(name: str, error: Exception) -> None:
    message = f"{name} of a client raised an exception, which is ignored, as those that follow are"
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        loop = None
    if loop is None or loop.get_exception_handler() is not None:
        with suppress(Exception):
            _LOGGER.error(message, exc_info=error)
    if loop is not None:  # without a handler of its own it logs, and once is enough
        loop.call_exception_handler({"message": message, "exception": error})


class Audience:
    """Everybody who hears of a client's events: each listener, then the log."""

    def __init__(self, listeners: Sequence[Listener], log: Listener, shield: Shield) -> None:
        self._listeners = tuple(
            (
                f"listener {number} ({getattr(listener, '__qualname__', type(listener).__qualname__)})",
                listener,
            )
            for number, listener in enumerate(listeners, 1)
        )
        self._log = log
        self._shield = shield

    @property
    def listens(self) -> bool:
        """Whether there is a listener."""
        return bool(self._listeners)

    def hears_pools(self) -> bool:
        """Return whether anybody hears of a pool's events now."""
        return bool(self._listeners) or shows_connections()

    def publish(self, event: DriverEvent) -> None:
        """Pass an event on, at once."""
        for name, listener in self._listeners:
            self._shield.call(name, listener, event)
        self._shield.call("the log", self._log, event)
