"""PyMongo's log messages, as it gives them to Python's `logging`: one JSON document each.

Its loggers are the process's, so a collector sorts out what its own client said, by the id that every
message carries.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Final

from bson import json_util

from harness.adapters.base import LOG_MESSAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_levels: Final[dict[str, int]] = {}
"""What the loggers that are listened to were set to before."""

_LENGTH: Final = ("MONGOB_LOG_MAX_DOCUMENT_LENGTH", "2000")
"""Where PyMongo cuts documents off, unless the environment says otherwise; as in its own suite."""


class LogCollector(logging.Handler):
    """Delivers what one client logs, on whichever thread it does so.

    A client logs before anybody can know its id: what came until `claim` is held back.
    """

    def __init__(self, components: Iterable[str], deliver: Callable[[str, dict[str, Any]], None]) -> None:
        super().__init__(logging.DEBUG)
        os.environ.setdefault(*_LENGTH)
        self._loggers = [logging.getLogger(f"pymongo.{component}") for component in components]
        self._deliver = deliver
        self._client: Any = None
        self._held: list[tuple[Any, dict[str, Any]]] = []
        for logger in self._loggers:
            _levels.setdefault(logger.name, logger.level)
            logger.setLevel(logging.DEBUG)
            logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a message; `logging` calls this with the handler's lock held."""
        data = json_util.loads(record.getMessage())
        fields = {
            "level": record.levelname.lower(),
            "component": record.name.rpartition(".")[2],
            "data": data,
        }
        client = data.get("clientId", data.get("topologyId"))
        if self._client is None:
            self._held.append((client, fields))
        elif client == self._client:
            self._deliver(LOG_MESSAGE, fields)

    def claim(self, client: Any) -> None:
        """Deliver what the client with this id has logged, and what it will."""
        self.acquire()
        try:
            self._client = client
            for who, fields in self._held:
                if who == client:
                    self._deliver(LOG_MESSAGE, fields)
            self._held.clear()
        finally:
            self.release()

    def close(self) -> None:
        """Stop listening, and leave the loggers as they were when nobody else listens; twice is allowed."""
        for logger in self._loggers:
            logger.removeHandler(self)
            if not any(isinstance(handler, LogCollector) for handler in logger.handlers):
                logger.setLevel(_levels.pop(logger.name, logger.level))
        super().close()
