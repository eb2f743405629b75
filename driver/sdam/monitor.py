"""Monitors: one task per server that asks `hello` again and again, by polling or by streaming.

Server Monitoring. A check begins at once when it is requested, but at the earliest `MIN_HEARTBEAT` after the
last one: many operations that fail together request one check.

A server that says a topologyVersion can stream: it keeps the request and answers when something changes, or
after heartbeatFrequencyMS, again and again. So a client hears of an election at once, and the server answers
no more often than with polling. A streamed reply does not show how long the way is, as the server waits
before it; that is what the `Pinger` is for.

A monitor has a connection of its own, because one from the pool would have to wait behind operations, of
whose failure it is to find the reason. It does not authenticate: what `hello` says is for anybody.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from driver import events
from driver.errors import (
    DriverError,
    NetworkError,
    NetworkTimeoutError,
    ServerError,
    reading_handshake,
)
from driver.policy.deadline import NEVER
from driver.sdam.description import RoundTripTimes, ServerDescription, parse_hello
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from driver.cmap.connection import Connection
    from driver.cmap.handshake import Handshake
    from driver.events import Listener
    from mongowire.ports import Clock

MIN_HEARTBEAT = 0.5
"""Server Monitoring: minHeartbeatFrequencyMS, in seconds."""


@dataclass(frozen=True, slots=True)
class MonitorPorts:
    """What a monitor needs of its client; times are in seconds."""

    clock: Clock
    handshake: Handshake
    publish: Listener
    report: Callable[[ServerDescription], None]
    heartbeat_frequency: float
    connect_timeout: float
    mode: str


class Monitor:
    """Server Monitoring: Multi-threaded or asynchronous monitoring."""

    def __init__(self, address: str, ports: MonitorPorts) -> None:
        self._address = address
        self._ports = ports
        self._description = ServerDescription(address)
        self._times = RoundTripTimes()
        self._pinger = Pinger(address, ports, self._times)
        self._connection: Connection | None = None
        self._number = 0
        """The number of the connection, for events: how many there were."""
        self._more_to_come = False
        """Whether the server streams: another reply follows without a request."""
        self._cancelled = False
        """Whether the check under way was cancelled, so that its failure is no news."""
        self._requested = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        """What closes the connection of a check that was cancelled."""

    def open(self) -> None:
        """Start checking."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def request_check(self) -> None:
        """Server Monitoring: Requesting an immediate check."""
        self._requested.set()

    def cancel_check(self) -> None:
        """Server Monitoring: hello or legacy hello Cancellation, after an operation met a network error."""
        if self._connection is not None and not self._cancelled:
            self._cancelled = True
            self._closing = asyncio.get_running_loop().create_task(self._connection.aclose(abort=True))
        self._requested.set()

    def abandon(self) -> None:
        """Let go of the connections in a child process."""
        if self._connection is not None:
            self._connection.abandon()
        self._pinger.abandon()

    async def aclose(self) -> None:
        """Stop, and wait until nothing is left."""
        if self._task is not None:
            self._task.cancel()
        await _end_of(self._task, self._closing)
        await self._pinger.aclose()
        await self._drop_connection()

    # --- the loop ---

    async def _run(self) -> None:
        while True:
            previous = self._description
            self._requested.clear()
            description = await self._check(previous)
            if self._cancelled:
                # Its failure was made here. It is not reported, since the operation's error has been; and the
                # next check does not stream from a version that the server may have forgotten.
                self._cancelled = False
                self._description = replace(description, topology_version=None)
            else:
                self._description = description
                self._ports.report(description)
            # The next check follows at once while streaming. So it does when a server was just lost: it may
            # have been the connection alone, for which the server need not stay Unknown for a whole
            # heartbeat.
            lost = isinstance(description.error, NetworkError) and previous.is_known
            if not (self._more_to_come or self._streams(description) or lost):
                await self._wait()

    def _streams(self, description: ServerDescription) -> bool:
        return (
            self._ports.mode != "poll" and description.is_known and description.topology_version is not None
        )

    async def _wait(self) -> None:
        """Wait for heartbeatFrequencyMS, or for a request, but at least for minHeartbeatFrequencyMS."""
        began = self._ports.clock.now()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(began + self._ports.heartbeat_frequency):
                await self._requested.wait()
        await self._ports.clock.sleep_until(began + min(MIN_HEARTBEAT, self._ports.heartbeat_frequency))

    # --- one check ---

    async def _check(self, previous: ServerDescription) -> ServerDescription:
        """Server Monitoring: one check, with its events. Never raises a DriverError."""
        awaited = self._more_to_come or (self._connection is not None and self._streams(previous))
        began = self._ports.clock.now()
        self._number += self._connection is None
        self._ports.publish(
            events.ServerHeartbeatStartedEvent(self._address, awaited, **self._connection_ids())
        )
        try:
            hello = await self._hello(previous)
            now = self._ports.clock.now()
            with reading_handshake(self._address):
                described = parse_hello(self._address, hello, now=now, round_trip_time=self._times.average)
        except DriverError as error:
            return await self._failed(error, began, awaited=awaited)
        self._ports.publish(
            events.ServerHeartbeatSucceededEvent(
                self._address, awaited, now - began, hello, **self._connection_ids()
            )
        )
        if self._streams(described):
            self._pinger.open()
        return replace(described, min_round_trip_time=self._times.minimum)

    async def _failed(self, error: DriverError, began: float, *, awaited: bool) -> ServerDescription:
        ids = self._connection_ids()
        await self._drop_connection()
        self._times.reset()
        now = self._ports.clock.now()
        self._ports.publish(
            events.ServerHeartbeatFailedEvent(self._address, awaited, now - began, error, **ids)
        )
        return self._description.unknown(error, now=now)

    def _connection_ids(self) -> dict[str, int | None]:
        """Return how this driver and the server number the connection of a check."""
        by_server = None if self._connection is None else self._connection.server_connection_id
        return {"driver_connection_id": self._number, "server_connection_id": by_server}

    async def _hello(self, previous: ServerDescription) -> dict[str, Any]:
        connection = self._connection
        if connection is not None and self._more_to_come:
            return await self._receive(connection, None)
        if connection is not None:
            return await self._next_hello(connection, previous)
        # Of a new connection the handshake is the check.
        self._connection = connection = await self._ports.handshake.open(self._address, number=self._number)
        began = self._ports.clock.now()
        hello = await self._ports.handshake.greet(connection)
        self._times.add(self._ports.clock.now() - began)
        return hello

    async def _next_hello(self, connection: Connection, previous: ServerDescription) -> dict[str, Any]:
        streaming = self._streams(previous)
        request_id = self._ports.handshake.request_ids.next_request()
        began = self._ports.clock.now()
        fields: dict[str, Any] = dict(self._ports.handshake.api_fields)
        if streaming and previous.topology_version is not None:
            # The server answers when it has something newer than this, or when this time is over.
            wait_ms = int(self._ports.heartbeat_frequency * 1000)
            fields = {
                "topologyVersion": previous.topology_version.to_document(),
                "maxAwaitTimeMS": wait_ms,
                **fields,
            }
        message = OpMsg.of(hello_command(connection, fields), exhaust_allowed=streaming)
        await connection.send(message, request_id, deadline=self._deadline(streaming=streaming))
        hello = await self._receive(connection, request_id, streaming=streaming)
        if not streaming:
            self._times.add(self._ports.clock.now() - began)
        return hello

    async def _receive(
        self, connection: Connection, request_id: int | None, *, streaming: bool = True
    ) -> dict[str, Any]:
        deadline = self._deadline(streaming=streaming)
        hello, self._more_to_come = await connection.receive(request_id, deadline=deadline)
        if hello.get("ok") != 1:
            raise ServerError.of_reply(hello, self._address)
        return hello

    def _deadline(self, *, streaming: bool) -> float:
        """Return when to give up; a streaming reply may come as late as the server was asked to wait."""
        timeout = self._ports.connect_timeout
        if not timeout:
            return NEVER
        wait = self._ports.heartbeat_frequency if streaming else 0.0
        return self._ports.clock.now() + timeout + wait

    async def _drop_connection(self) -> None:
        connection, self._connection, self._more_to_come = self._connection, None, False
        if connection is not None:
            await connection.aclose(abort=True)


class Pinger:
    """Server Monitoring: Measuring RTT, on a connection of its own while the monitor's streams."""

    def __init__(self, address: str, ports: MonitorPorts, times: RoundTripTimes) -> None:
        self._address = address
        self._ports = ports
        self._times = times
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Start measuring, unless it has begun."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def abandon(self) -> None:
        """Let go of the connection in a child process."""
        if self._connection is not None:
            self._connection.abandon()

    async def aclose(self) -> None:
        """Stop, and wait until nothing is left."""
        if self._task is not None:
            self._task.cancel()
        await _end_of(self._task)
        await self._drop_connection()

    async def _run(self) -> None:
        while True:
            began = self._ports.clock.now()
            try:
                self._times.add(await self._measure())
            except DriverError:  # the monitor will see it too, and say so
                await self._drop_connection()
            await self._ports.clock.sleep_until(began + self._ports.heartbeat_frequency)

    async def _measure(self) -> float:
        """Return the seconds that one hello takes, without connecting."""
        clock = self._ports.clock
        if self._connection is None:
            self._connection = await self._ports.handshake.open(self._address)
            began = clock.now()
            await self._ports.handshake.greet(self._connection)
            return clock.now() - began
        began = clock.now()
        request_id = self._ports.handshake.request_ids.next_request()
        timeout = self._ports.connect_timeout
        await self._connection.round_trip(
            OpMsg.of(hello_command(self._connection, self._ports.handshake.api_fields)),
            request_id,
            deadline=began + timeout if timeout else NEVER,
        )
        return clock.now() - began

    async def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose(abort=True)


async def _end_of(*tasks: asyncio.Task[None] | None) -> None:
    """Wait until tasks have ended, cancelled or not; a caller that is cancelled meanwhile is cancelled."""
    if running := [task for task in tasks if task is not None]:
        await asyncio.wait(running)


def hello_command(connection: Connection, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a hello in the words that the server understands."""
    modern = (
        connection.description.hello.get("helloOk") or "isWritablePrimary" in connection.description.hello
    )
    name = {"hello": 1} if modern else {"isMaster": 1, "helloOk": True}
    return {**name, **fields, "$db": "admin"}


def is_timeout(error: Exception | None) -> bool:
    """Return whether a check failed in a way that leaves no hope for connections in use."""
    return isinstance(error, NetworkTimeoutError)
