"""Whom a client tells what happens: listeners, and the log. Nothing that they do changes what happens.

Events are told between two effects of a pool or a topology, where an exception would leave connections lent
for ever, or end a monitor. So those of users' code end here.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from driver.log.components import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from driver.events import DriverEvent, Listener
    from driver.log.client_log import ClientLog

_LOGGER = logging.getLogger(ROOT)


class Shield:
    """Calls what users have given, and lets no Exception out; other BaseExceptions end more than a call.

    The first exception of each is logged, and told to the exception handler of the running event loop. What
    fails with every event would fill the log else.
    """

    def __init__(self) -> None:
        self._failed: set[str] = set()

    def call(self, name: str, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function; `name` tells it from the others."""
        try:
            function(*arguments)
        except Exception as error:  # noqa: BLE001 - users' code may raise anything
            if name not in self._failed:
                self._failed.add(name)
                with suppress(Exception):  # where log messages go, it may be the log that fails
                    _report(name, error)


def _report(name: str, error: Exception) -> None:
    message = f"{name} of a client raised an exception, which is ignored, as those that follow are"
    loop = _running_loop()
    if loop is None or loop.get_exception_handler() is not None:
        with suppress(Exception):
            _LOGGER.error(message, exc_info=error)
    if loop is not None:  # where nobody has given it a handler, it logs, and once is enough
        loop.call_exception_handler({"message": message, "exception": error})


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Audience:
    """All that hear of a client's events: each listener, then the log."""

    def __init__(self, listeners: Sequence[Listener], log: ClientLog, shield: Shield) -> None:
        self._listeners = tuple(
            (f"listener {number} ({_name(listener)})", listener)
            for number, listener in enumerate(listeners, 1)
        )
        self._log = log
        self._shield = shield

    @property
    def listens(self) -> bool:
        """Whether there is a listener."""
        return bool(self._listeners)

    def tell(self, event: DriverEvent) -> None:
        """Tell an event, at once."""
        for name, listener in self._listeners:
            self._shield.call(name, listener, event)
        self._shield.call("the log", self._log.take, event)


def _name(listener: Listener) -> str:
    return str(getattr(listener, "__qualname__", type(listener).__qualname__))
