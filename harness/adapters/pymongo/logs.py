"""PyMongo's log messages, as it gives them to Python's `logging`: one JSON document each.

Its loggers are the process's, so a collector sorts out what its own client said, by the id that every
message carries.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from bson import json_util

from harness.adapters.base import LOG_MESSAGE
from harness.adapters.logger_tap import LoggerTap

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable

_LENGTH: Final = ("MONGOB_LOG_MAX_DOCUMENT_LENGTH", "2000")
"""Where PyMongo cuts documents off, unless the environment says otherwise; as in its own suite."""


class PyMongoLogCollector(LoggerTap):
    """Delivers what one client logs, on whichever thread it does so.

    A client logs before anybody can know its id: what came until `claim` is held back.
    """

    def __init__(self, components: Iterable[str], deliver: Callable[[str, dict[str, Any]], None]) -> None:
        os.environ.setdefault(*_LENGTH)
        self._deliver = deliver
        self._client: Any = None
        self._held: list[tuple[Any, dict[str, Any]]] = []
        super().__init__(f"pymongo.{component}" for component in components)

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
