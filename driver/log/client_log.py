"""The log of a client: its events, as messages with the fields and words of the specifications.

Whether anybody listens is asked first, and for each message: a logger's level may change at any time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from driver import events
from driver.cmap.state import PoolOptions
from driver.log.components import Component
from driver.log.message import LogMessage, SelectionLog, document_text, error_text
from driver.uri import split_address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bson import ObjectId

    from driver.monitoring import Shield

    Fields = Callable[[Any, int], dict[str, Any]]


class ClientLog:
    """One client's log. Documents are cut off after `limit` characters; handlers fail behind a `shield`."""

    def __init__(self, topology_id: ObjectId, limit: int, shield: Shield) -> None:
        self._client = topology_id
        self._limit = limit
        self._shield = shield

    @property
    def shows_commands(self) -> bool:
        """Whether messages about commands reach anybody."""
        return _COMMAND.isEnabledFor(logging.DEBUG)

    def take(self, event: events.DriverEvent) -> None:
        """Log an event, if its specification has a message for it: pool events as they are published."""
        found = _MESSAGES.get(type(event))
        if found is None:
            return
        logger, message, fields = found
        # Asked before anything is formatted: most programs listen to none of it.
        if logger.isEnabledFor(logging.DEBUG):
            data = {"message": message, **fields(event, self._limit)}
            if logger is _TOPOLOGY:
                data["topologyId"] = str(self._client)
            present = {name: value for name, value in data.items() if value is not None}
            logger.debug(LogMessage(self._client, present))

    def selection(self, operation: str, operation_id: int) -> SelectionLog | None:
        """Return the log of one server selection, or None when nobody listens."""
        if not _SELECTION.isEnabledFor(logging.INFO):
            return None
        return SelectionLog(self._client, operation, operation_id, self._limit, self._shield)


_COMMAND: Final = Component.COMMAND.logger
_TOPOLOGY: Final = Component.TOPOLOGY.logger
_CONNECTION: Final = Component.CONNECTION.logger
_SELECTION: Final = Component.SERVER_SELECTION.logger


def _at(address: str) -> dict[str, Any]:
    """Return the fields of every message."""
    host, port = split_address(address)
    return {"serverHost": host, "serverPort": port}


def _milliseconds(seconds: float) -> float:
    """Return a duration in the unit of its name, as a float."""
    return round(seconds * 1000, 3)


def _hex(service_id: ObjectId | None) -> str | None:
    return None if service_id is None else str(service_id)


# --- Command Logging and Monitoring: Log Messages ---


def _command(event: events.CommandEvent) -> dict[str, Any]:
    return {
        "commandName": event.command_name,
        "databaseName": event.database_name,
        "requestId": event.request_id,
        "operationId": event.operation_id,
        "driverConnectionId": event.driver_connection_id,
        "serverConnectionId": event.server_connection_id,
        **_at(event.connection_id),
        "serviceId": _hex(event.service_id),
    }


def _command_started(event: events.CommandStartedEvent, limit: int) -> dict[str, Any]:
    return {**_command(event), "command": document_text(event.command, limit)}


def _command_succeeded(event: events.CommandSucceededEvent, limit: int) -> dict[str, Any]:
    duration_ms, reply = _milliseconds(event.duration), document_text(event.reply, limit)
    return {**_command(event), "durationMS": duration_ms, "reply": reply}


def _command_failed(event: events.CommandFailedEvent, limit: int) -> dict[str, Any]:
    failure = None if event.failure is None else error_text(event.failure, limit)
    return {**_command(event), "durationMS": _milliseconds(event.duration), "failure": failure}


# --- CMAP: Connection Pool Logging ---

_CLOSED: Final = {
    "stale": "Connection became stale because the pool was cleared",
    "idle": "Connection has been available but unused for longer than the configured max idle time",
    "error": "An error occurred while using the connection",
    "poolClosed": "Connection pool was closed",
}
_CHECK_OUT_FAILED: Final = {
    "timeout": "Wait queue timeout elapsed without a connection becoming available",
    "connectionError": "An error occurred while trying to establish a new connection",
    "poolClosed": "Connection pool was closed",
}


def _pool(event: events.PoolEvent, _limit: int) -> dict[str, Any]:
    """Return the fields of a pool's message."""
    return _at(event.address)


def _pool_created(event: events.PoolCreatedEvent, _limit: int) -> dict[str, Any]:
    """Return the options too, which a pool has from its user or by default."""
    return {**_at(event.address), **PoolOptions().named(), **event.options}


def _pool_cleared(event: events.PoolClearedEvent, _limit: int) -> dict[str, Any]:
    """Return the service too, behind a load balancer."""
    return {**_at(event.address), "serviceId": _hex(event.service_id)}


def _connection(event: events.ConnectionEvent, _limit: int) -> dict[str, Any]:
    """Return the fields of a connection's message."""
    return {"driverConnectionId": event.connection_id, **_at(event.address)}


def _timed_connection(
    event: events.ConnectionReadyEvent | events.ConnectionCheckedOutEvent, limit: int
) -> dict[str, Any]:
    """Return how long it took, too."""
    return {**_connection(event, limit), "durationMS": _milliseconds(event.duration)}


def _connection_closed(event: events.ConnectionClosedEvent, limit: int) -> dict[str, Any]:
    """Return the reason too, in the specified words."""
    shown = event.error if event.reason == "error" else None
    error = None if shown is None else error_text(shown, limit)
    return {**_connection(event, limit), "reason": _CLOSED[event.reason], "error": error}


def _check_out_failed(event: events.ConnectionCheckOutFailedEvent, limit: int) -> dict[str, Any]:
    """Return the reason, in the specified words, and how long it took."""
    shown = event.error if event.reason == "connectionError" else None
    return {
        **_at(event.address),
        "reason": _CHECK_OUT_FAILED[event.reason],
        "error": None if shown is None else error_text(shown, limit),
        "durationMS": _milliseconds(event.duration),
    }


# --- SDAM Logging and Monitoring: Log Messages ---


def _topology(_event: events.TopologyEvent, _limit: int) -> dict[str, Any]:
    return {}


def _topology_changed(event: events.TopologyDescriptionChangedEvent, _limit: int) -> dict[str, Any]:
    return {
        "previousDescription": str(event.previous_description),
        "newDescription": str(event.new_description),
    }


def _server(event: events.ServerEvent, _limit: int) -> dict[str, Any]:
    return _at(event.address)


def _heartbeat(event: events.HeartbeatEvent, _limit: int) -> dict[str, Any]:
    return {
        **_at(event.connection_id),
        "driverConnectionId": event.driver_connection_id,
        "serverConnectionId": event.server_connection_id,
        "awaited": event.awaited,
    }


def _heartbeat_succeeded(event: events.ServerHeartbeatSucceededEvent, limit: int) -> dict[str, Any]:
    duration_ms, reply = _milliseconds(event.duration), document_text(event.reply, limit)
    return {**_heartbeat(event, limit), "durationMS": duration_ms, "reply": reply}


def _heartbeat_failed(event: events.ServerHeartbeatFailedEvent, limit: int) -> dict[str, Any]:
    duration_ms, failure = _milliseconds(event.duration), error_text(event.failure, limit)
    return {**_heartbeat(event, limit), "durationMS": duration_ms, "failure": failure}


_MESSAGES: Final[Mapping[type[events.DriverEvent], tuple[logging.Logger, str, Fields]]] = {
    events.CommandStartedEvent: (_COMMAND, "Command started", _command_started),
    events.CommandSucceededEvent: (_COMMAND, "Command succeeded", _command_succeeded),
    events.CommandFailedEvent: (_COMMAND, "Command failed", _command_failed),
    events.PoolCreatedEvent: (_CONNECTION, "Connection pool created", _pool_created),
    events.PoolReadyEvent: (_CONNECTION, "Connection pool ready", _pool),
    events.PoolClearedEvent: (_CONNECTION, "Connection pool cleared", _pool_cleared),
    events.PoolClosedEvent: (_CONNECTION, "Connection pool closed", _pool),
    events.ConnectionCreatedEvent: (_CONNECTION, "Connection created", _connection),
    events.ConnectionReadyEvent: (_CONNECTION, "Connection ready", _timed_connection),
    events.ConnectionClosedEvent: (_CONNECTION, "Connection closed", _connection_closed),
    events.ConnectionCheckOutStartedEvent: (_CONNECTION, "Connection checkout started", _pool),
    events.ConnectionCheckOutFailedEvent: (_CONNECTION, "Connection checkout failed", _check_out_failed),
    events.ConnectionCheckedOutEvent: (_CONNECTION, "Connection checked out", _timed_connection),
    events.ConnectionCheckedInEvent: (_CONNECTION, "Connection checked in", _connection),
    events.TopologyOpeningEvent: (_TOPOLOGY, "Starting topology monitoring", _topology),
    events.TopologyClosedEvent: (_TOPOLOGY, "Stopped topology monitoring", _topology),
    events.TopologyDescriptionChangedEvent: (
        _TOPOLOGY,
        "Topology description changed",
        _topology_changed,
    ),
    events.ServerOpeningEvent: (_TOPOLOGY, "Starting server monitoring", _server),
    events.ServerClosedEvent: (_TOPOLOGY, "Stopped server monitoring", _server),
    events.ServerHeartbeatStartedEvent: (_TOPOLOGY, "Server heartbeat started", _heartbeat),
    events.ServerHeartbeatSucceededEvent: (_TOPOLOGY, "Server heartbeat succeeded", _heartbeat_succeeded),
    events.ServerHeartbeatFailedEvent: (_TOPOLOGY, "Server heartbeat failed", _heartbeat_failed),
}
