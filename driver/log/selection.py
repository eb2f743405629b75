"""The log messages of one server selection (`Server Selection: Logging`)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import isinf
from typing import TYPE_CHECKING, Any

from driver.log.components import Component
from driver.log.message import LogMessage, error_text
from driver.uri import split_address

if TYPE_CHECKING:
    from bson import ObjectId

    from driver.monitoring import Shield
    from driver.sdam.description import TopologyDescription
    from driver.sdam.selection import Selector

_LOGGER = Component.SERVER_SELECTION.logger


@dataclass(slots=True)
class SelectionLog:
    """One selection. That it has to wait is said once, however often it looks again."""

    client: ObjectId
    operation: str
    operation_id: int
    limit: int
    shield: Shield
    _waited: bool = False

    def started(self, selector: Selector, topology: TopologyDescription) -> None:
        """Say what is looked for, and among what."""
        self._say(logging.DEBUG, "Server selection started", selector, topology)

    def succeeded(self, selector: Selector, topology: TopologyDescription, address: str) -> None:
        """Say which server was chosen."""
        host, port = split_address(address)
        self._say(
            logging.DEBUG, "Server selection succeeded", selector, topology, serverHost=host, serverPort=port
        )

    def failed(self, selector: Selector, topology: TopologyDescription, error: Exception) -> None:
        """Say why none was."""
        failure = error_text(error, self.limit)
        self._say(logging.DEBUG, "Server selection failed", selector, topology, failure=failure)

    def waits(self, selector: Selector, topology: TopologyDescription, remaining: float) -> None:
        """Say that no server is suitable yet, and for how many seconds there may be hope."""
        if self._waited:
            return
        self._waited = True
        left = {} if isinf(remaining) else {"remainingTimeMS": round(remaining * 1000)}
        message = "Waiting for suitable server to become available"
        self._say(logging.INFO, message, selector, topology, **left)

    def _say(
        self, level: int, message: str, selector: Selector, topology: TopologyDescription, **fields: Any
    ) -> None:
        if not _LOGGER.isEnabledFor(level):
            return
        data = {
            "message": message,
            "operation": self.operation,
            "operationId": self.operation_id,
            "selector": str(selector),
            "topologyDescription": str(topology),
            **fields,
        }
        self.shield.call("the log", _LOGGER.log, level, LogMessage(self.client, data))
