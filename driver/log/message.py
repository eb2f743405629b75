"""A log message: its structured form, and the sentence that it becomes for those who want text."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import isinf
from string import Formatter
from typing import TYPE_CHECKING, Any, Final

from bson import json_util

from driver.errors import ServerError
from driver.log.components import Component
from driver.uri import split_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson import ObjectId

    from driver.monitoring import Shield
    from driver.sdam.description import TopologyDescription
    from driver.sdam.selection import Selector


@dataclass(frozen=True, slots=True)
class LogMessage:
    """What a `LogRecord` holds as its `msg`: `data` is the structured form, `str()` the unstructured one.

    `client` is the topology id of the client that it is about. Fields without a value are absent.
    """

    client: ObjectId
    data: Mapping[str, Any]

    def __str__(self) -> str:
        """Return the sentence (Logging: Structured versus Unstructured Logging), without what is absent."""
        parts = SENTENCES[self.data["message"]]
        return "".join(part.format_map(self.data) for part, names in parts if names <= self.data.keys())


def document_text(document: Mapping[str, Any], limit: int) -> str:
    """Return a document in relaxed extended JSON, cut off after `limit` characters."""
    return cut(json_util.dumps(document, json_options=json_util.RELAXED_JSON_OPTIONS), limit)


def error_text(error: BaseException, limit: int) -> str:
    """Return an error: a server's as its reply, any other by its kind and its words."""
    if isinstance(error, ServerError) and error.response:
        return document_text(error.response, limit)
    return f"{type(error).__name__}: {error}"


def cut(text: str, limit: int) -> str:
    """Return the text, or its beginning with an ellipsis that does not count."""
    return text if len(text) <= limit else text[:limit] + "..."


_SERVER: Final = "{serverHost}:{serverPort}"
_ON_CONNECTION: Final = (
    " using a connection",
    " with driver-generated ID {driverConnectionId}",
    " and server-generated ID {serverConnectionId}",
    f" to {_SERVER}",
    " with service ID {serviceId}",
    ". The requestID is {requestId}",
    " and the operation ID is {operationId}",
)
_OF_HEARTBEAT: Final = (
    f" for {_SERVER} on connection with driver-generated ID {{driverConnectionId}}",
    " and server-generated ID {serverConnectionId}",
    " in topology with ID {topologyId}. Awaited: {awaited}",
)
_OF_SELECTION: Final = (
    " for operation {operation}",
    " with ID {operationId}",
    ". Selector: {selector}, topology description: {topologyDescription}",
)
_ID: Final = "driver-generated ID={driverConnectionId}"

_SENTENCES: Final[Mapping[str, tuple[str, ...]]] = {
    "Command started": (
        'Command "{commandName}" started on database "{databaseName}"',
        *_ON_CONNECTION,
        ". Command: {command}",
    ),
    "Command succeeded": (
        'Command "{commandName}" succeeded on database "{databaseName}" in {durationMS} ms',
        *_ON_CONNECTION,
        ". Command reply: {reply}",
    ),
    "Command failed": (
        'Command "{commandName}" failed on database "{databaseName}" in {durationMS} ms',
        *_ON_CONNECTION,
        ". Error: {failure}",
    ),
    "Connection pool created": (
        f"Connection pool created for {_SERVER} using options maxIdleTimeMS={{maxIdleTimeMS}}",
        ", minPoolSize={minPoolSize}, maxPoolSize={maxPoolSize}, maxConnecting={maxConnecting}",
        ", waitQueueTimeoutMS={waitQueueTimeoutMS}",
    ),
    "Connection pool ready": (f"Connection pool ready for {_SERVER}",),
    "Connection pool cleared": (f"Connection pool for {_SERVER} cleared", " for serviceId {serviceId}"),
    "Connection pool closed": (f"Connection pool closed for {_SERVER}",),
    "Connection created": (f"Connection created: address={_SERVER}, {_ID}",),
    "Connection ready": (f"Connection ready: address={_SERVER}, {_ID}, established in={{durationMS}} ms",),
    "Connection closed": (
        f"Connection closed: address={_SERVER}, {_ID}. Reason: {{reason}}.",
        " Error: {error}",
    ),
    "Connection checkout started": (f"Checkout started for connection to {_SERVER}",),
    "Connection checkout failed": (
        f"Checkout failed for connection to {_SERVER}. Reason: {{reason}}.",
        " Error: {error}.",
        " Duration: {durationMS} ms",
    ),
    "Connection checked out": (
        f"Connection checked out: address={_SERVER}, {_ID}, duration={{durationMS}} ms",
    ),
    "Connection checked in": (f"Connection checked in: address={_SERVER}, {_ID}",),
    "Starting topology monitoring": ("Starting monitoring for topology with ID {topologyId}",),
    "Stopped topology monitoring": ("Stopped monitoring for topology with ID {topologyId}",),
    "Starting server monitoring": (
        f"Starting monitoring for server {_SERVER} in topology with ID {{topologyId}}",
    ),
    "Stopped server monitoring": (
        f"Stopped monitoring for server {_SERVER} in topology with ID {{topologyId}}",
    ),
    "Topology description changed": (
        "Description changed for topology with ID {topologyId}",
        ". Previous description: {previousDescription}. New description: {newDescription}",
    ),
    "Server heartbeat started": ("Heartbeat started", *_OF_HEARTBEAT),
    "Server heartbeat succeeded": (
        "Heartbeat succeeded in {durationMS} ms",
        *_OF_HEARTBEAT,
        ". Reply: {reply}",
    ),
    "Server heartbeat failed": (
        "Heartbeat failed in {durationMS} ms",
        *_OF_HEARTBEAT,
        ". Failure: {failure}",
    ),
    "Server selection started": ("Server selection started", *_OF_SELECTION),
    "Waiting for suitable server to become available": (
        "Waiting for server to become available",
        *_OF_SELECTION,
        ". Remaining time: {remainingTimeMS} ms",
    ),
    "Server selection succeeded": (
        "Server selection succeeded",
        *_OF_SELECTION,
        f". Selected server: {_SERVER}",
    ),
    "Server selection failed": ("Server selection failed", *_OF_SELECTION, ". Failure: {failure}"),
}


def _names(part: str) -> frozenset[str]:
    return frozenset(name for _, name, _, _ in Formatter().parse(part) if name)


SENTENCES: Final = {
    message: tuple((part, _names(part)) for part in parts) for message, parts in _SENTENCES.items()
}
"""Each message's sentence in parts, and the fields that a part needs to be said."""


# The log messages of one server selection (`Server Selection: Logging`).


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
