"""The reference driver's log messages, as it gives them to Python's `logging`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from driver.log.components import ROOT
from driver.log.message import LogMessage
from harness.adapters.base import LOG_MESSAGE
from harness.adapters.logger_tap import LoggerTap

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable

DOCUMENT_LENGTH: Final = 100_000
"""Where documents are cut off in scenarios, which read them."""


class LogCollector(LoggerTap):
    """Delivers what one client logs. Whose messages it is to deliver is said before the client opens."""

    def __init__(self, components: Iterable[str], deliver: Callable[[str, dict[str, Any]], None]) -> None:
        super().__init__(f"{ROOT}.{component}" for component in components)
        self.client: object = None
        self._deliver = deliver

    def emit(self, record: logging.LogRecord) -> None:
        """Take a message."""
        message = record.msg
        if isinstance(message, LogMessage) and message.client == self.client:
            component = record.name.rpartition(".")[2]
            level = record.levelname.lower()
            self._deliver(LOG_MESSAGE, {"level": level, "component": component, "data": message.data})
