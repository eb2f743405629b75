"""A record of the wire that a test writes by hand, and what it expects of the connections in it."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fakeserver.network.wire_entries import Accepted, Closed, Entry, Received, Sent
from harness.unified.entities import EntityMap
from harness.unified.server_side.connection_judge import (
    ConnectionLife,
    WrongConnections,
    judge_connections,
    lives_of,
)
from harness.unified.server_side.model import ExpectedConnection, ExpectedConnections, Range
from harness.unified.server_side.seen import connections_of
from mongowire.connection import Envelope
from mongowire.documents.marks import Location
from mongowire.framing import OpCode
from mongowire.messages import OpMsg, OpQuery

if TYPE_CHECKING:
    from mongowire.compression import Compressor

PLACE = Location(Path("case.yml"), 7)


class Wire:
    """A record that is written by hand; each entry is a hundredth of a second after the one before."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._numbers = count(1)
        self._connections = count(1)
        self._latest: dict[int, int] = {}
        self.now = 0.0

    def _next(self) -> tuple[int, float]:
        self.now += 0.01
        return next(self._numbers), self.now

    def accept(self, server: str = "node0") -> int:
        number = next(self._connections)
        self.entries.append(Accepted(*self._next(), number, server, "client:1"))
        return number

    def ask(
        self,
        connection: int,
        command: dict[str, Any],
        *,
        role: str = "primary",
        more: int = 0,
        streams: bool = False,
        compressor: Compressor | None = None,
    ) -> None:
        seq, at = self._next()
        message = OpMsg.of(command, more_to_come=bool(more), exhaust_allowed=streams)
        self._latest[connection] = seq
        envelope = Envelope(seq, 0, OpCode.MSG, message.to_payload(), compressor, 100)
        self.entries.append(Received(seq, at, connection, envelope, role))

    def ask_in_old_words(self, connection: int, command: dict[str, Any]) -> None:
        seq, at = self._next()
        self._latest[connection] = seq
        payload = OpQuery.of("admin", command).to_payload()
        envelope = Envelope(seq, 0, OpCode.QUERY, payload, None, 100)
        self.entries.append(Received(seq, at, connection, envelope, "primary"))

    def answer(self, connection: int, *, more: bool = False, **fields: Any) -> None:
        """Answer the latest request, or after `more` go on with another reply."""
        seq, at = self._next()
        payload = OpMsg.of({"ok": 1, **fields}, more_to_come=more).to_payload()
        envelope = Envelope(seq, self._latest[connection], OpCode.MSG, payload, None, 100)
        self._latest[connection] = seq if more else self._latest[connection]
        self.entries.append(Sent(seq, at, connection, envelope))

    def say(self, connection: int, *commands: str, **fields: Any) -> None:
        for name in commands:
            self.ask(connection, {name: 1, **fields})
            self.answer(connection)

    def connect(
        self, server: str = "node0", *, app: str = "app", role: str = "primary", **fields: Any
    ) -> int:
        """Connect and shake hands."""
        number = self.accept(server)
        client = {"application": {"name": app}}
        self.ask(number, {"hello": 1, "client": client, **fields}, role=role)
        self.answer(number)
        return number

    def close(self, connection: int, by: Any = "client") -> None:
        self.entries.append(Closed(*self._next(), connection, by))

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def seen(self) -> list[ConnectionLife]:
        return lives_of(connections_of(self.entries))


def used(wire: Wire, *, server: str = "node0", app: str = "app", role: str = "primary") -> int:
    """Return a new connection that has carried a find."""
    number = wire.connect(server, app=app, role=role)
    wire.say(number, "find")
    return number


def expected(**fields: Any) -> ExpectedConnections:
    return ExpectedConnections(PLACE, **fields)


def connection(**fields: Any) -> ExpectedConnection:
    return ExpectedConnection(PLACE, **fields)


def exactly(number: float) -> Range:
    return Range(number, number)


def judged(wire: Wire, *wanted: ExpectedConnections) -> WrongConnections | None:
    return judge_connections(
        wanted,
        wire.seen(),
        servers=["node0", "node1"],
        rules={"backpressure": True},
        entities=EntityMap(),
    )
