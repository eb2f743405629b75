"""PyMongo's listeners: what it publishes, under the specifications' names.

A listener is registered only for a family of events of which the scenario observes some, and `listeners`
drops the other kinds of the family. Fields without a value are left out, as the format compares what is
missing with `$$exists`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from bson import json_util
from pymongo import monitoring

from harness.adapters.base import LOG_MESSAGE
from harness.adapters.logger_tap import LoggerTap

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable


Address = tuple[str, int | None]


def listeners(wanted: frozenset[str], deliver: Callable[[str, dict[str, Any]], None]) -> list[Any]:
    """Return listeners that deliver the wanted kinds of event, each as kind and fields.

    They do so on whichever thread PyMongo publishes.
    """

    def publish(kind: str, **fields: Any) -> None:
        if kind in wanted:
            deliver(kind, {name: value for name, value in fields.items() if value is not None})

    families = (_CommandListener, _PoolListener, _HeartbeatListener, _ServerListener, _TopologyListener)
    return [family(publish) for family in families if wanted & family.kinds]


def address_of(address: Any) -> str | None:
    """Return `host:port` of PyMongo's address pair."""
    return f"{address[0]}:{address[1]}" if address else None


class _EventListener:
    kinds: frozenset[str]

    def __init__(self, publish: Callable[..., None]) -> None:
        self._publish = publish


class _CommandListener(_EventListener, monitoring.CommandListener):
    kinds = frozenset({"commandStartedEvent", "commandSucceededEvent", "commandFailedEvent"})

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self._publish("commandStartedEvent", command=dict(event.command), **_of_command(event))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        duration_ms = event.duration_micros / 1000
        reply = dict(event.reply)
        self._publish("commandSucceededEvent", reply=reply, durationMS=duration_ms, **_of_command(event))

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        duration_ms = event.duration_micros / 1000
        failure = event.failure
        self._publish("commandFailedEvent", failure=failure, durationMS=duration_ms, **_of_command(event))


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _of_command(event: Any) -> dict[str, Any]:
    return {
        "commandName": event.command_name,
        "databaseName": event.database_name,
        "requestId": event.request_id,
        "operationId": event.operation_id,
        "connectionId": address_of(event.connection_id),
        "serverConnectionId": event.server_connection_id,
        "serviceId": event.service_id,
    }


POOL_KINDS: Final = frozenset(
    {
        "poolCreatedEvent",
        "poolReadyEvent",
        "poolClearedEvent",
        "poolClosedEvent",
        "connectionCreatedEvent",
        "connectionReadyEvent",
        "connectionClosedEvent",
        "connectionCheckOutStartedEvent",
        "connectionCheckOutFailedEvent",
        "connectionCheckedOutEvent",
        "connectionCheckedInEvent",
    }
)
"""The events of a connection pool."""


class _PoolListener(_EventListener, monitoring.ConnectionPoolListener):
    kinds = POOL_KINDS

    def _of_pool(self, kind: str, event: Any, **fields: Any) -> None:
        self._publish(kind, address=address_of(event.address), **fields)

    def _of_connection(self, kind: str, event: Any, **fields: Any) -> None:
        self._of_pool(kind, event, connectionId=event.connection_id, **fields)

    def pool_created(self, event: monitoring.PoolCreatedEvent) -> None:
        self._of_pool("poolCreatedEvent", event, options=event.options)

    def pool_ready(self, event: monitoring.PoolReadyEvent) -> None:
        self._of_pool("poolReadyEvent", event)

    def pool_cleared(self, event: monitoring.PoolClearedEvent) -> None:
        interrupted = event.interrupt_connections
        self._of_pool(
            "poolClearedEvent", event, serviceId=event.service_id, interruptInUseConnections=interrupted
        )

    def pool_closed(self, event: monitoring.PoolClosedEvent) -> None:
        self._of_pool("poolClosedEvent", event)

    def connection_created(self, event: monitoring.ConnectionCreatedEvent) -> None:
        self._of_connection("connectionCreatedEvent", event)

    def connection_ready(self, event: monitoring.ConnectionReadyEvent) -> None:
        self._of_connection("connectionReadyEvent", event, durationMS=_ms(event.duration))

    def connection_closed(self, event: monitoring.ConnectionClosedEvent) -> None:
        self._of_connection("connectionClosedEvent", event, reason=event.reason)

    def connection_check_out_started(self, event: monitoring.ConnectionCheckOutStartedEvent) -> None:
        self._of_pool("connectionCheckOutStartedEvent", event)

    def connection_check_out_failed(self, event: monitoring.ConnectionCheckOutFailedEvent) -> None:
        self._of_pool(
            "connectionCheckOutFailedEvent", event, reason=event.reason, durationMS=_ms(event.duration)
        )

    def connection_checked_out(self, event: monitoring.ConnectionCheckedOutEvent) -> None:
        self._of_connection("connectionCheckedOutEvent", event, durationMS=_ms(event.duration))

    def connection_checked_in(self, event: monitoring.ConnectionCheckedInEvent) -> None:
        self._of_connection("connectionCheckedInEvent", event)


class _HeartbeatListener(_EventListener, monitoring.ServerHeartbeatListener):
    kinds = frozenset(
        {"serverHeartbeatStartedEvent", "serverHeartbeatSucceededEvent", "serverHeartbeatFailedEvent"}
    )

    def _of_server(self, kind: str, event: Any) -> None:
        self._publish(kind, address=address_of(event.connection_id), awaited=event.awaited)

    def started(self, event: monitoring.ServerHeartbeatStartedEvent) -> None:
        self._of_server("serverHeartbeatStartedEvent", event)

    def succeeded(self, event: monitoring.ServerHeartbeatSucceededEvent) -> None:
        self._of_server("serverHeartbeatSucceededEvent", event)

    def failed(self, event: monitoring.ServerHeartbeatFailedEvent) -> None:
        self._of_server("serverHeartbeatFailedEvent", event)


class _ServerListener(_EventListener, monitoring.ServerListener):
    kinds = frozenset({"serverDescriptionChangedEvent"})

    def opened(self, event: monitoring.ServerOpeningEvent) -> None:
        """Publish nothing: the format has no such event."""

    def closed(self, event: monitoring.ServerClosedEvent) -> None:
        """Publish nothing: the format has no such event."""

    def description_changed(self, event: monitoring.ServerDescriptionChangedEvent) -> None:
        self._publish(
            "serverDescriptionChangedEvent",
            address=address_of(event.server_address),
            previousDescription=_server(event.previous_description),
            newDescription=_server(event.new_description),
        )


def _server(description: Any) -> dict[str, Any]:
    return {"address": address_of(description.address), "type": description.server_type_name}


class _TopologyListener(_EventListener, monitoring.TopologyListener):
    kinds = frozenset({"topologyDescriptionChangedEvent", "topologyOpeningEvent", "topologyClosedEvent"})

    def opened(self, event: monitoring.TopologyOpenedEvent) -> None:
        self._publish("topologyOpeningEvent", topologyId=str(event.topology_id))

    def closed(self, event: monitoring.TopologyClosedEvent) -> None:
        self._publish("topologyClosedEvent", topologyId=str(event.topology_id))

    def description_changed(self, event: monitoring.TopologyDescriptionChangedEvent) -> None:
        self._publish(
            "topologyDescriptionChangedEvent",
            topologyId=str(event.topology_id),
            previousDescription=_topology(event.previous_description),
            newDescription=_topology(event.new_description),
        )


def _topology(description: Any) -> dict[str, Any]:
    return {"type": description.topology_type_name}


# PyMongo's log messages, as it gives them to Python's `logging`: one JSON document each.
#
# Its loggers are the process's, so a collector sorts out what its own client said, by the id that every
# message carries.


# The variable lacks a letter in PyMongo, too.
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
