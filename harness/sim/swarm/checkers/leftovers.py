"""Nothing is left at the end: sessions, cursors, connections, tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from driver.errors import ServerError
from driver.events import (
    CommandFailedEvent,
    CommandStartedEvent,
    CommandSucceededEvent,
    ConnectionCheckOutFailedEvent,
)
from driver.sdam.error_handling import STATE_CHANGES
from harness.sim.swarm.checkers.checker import Violation, checker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.sim.swarm.history import Heard, RunHistory


End: TypeAlias = CommandSucceededEvent | CommandFailedEvent


@dataclass(slots=True)
class CommandExchange:
    """One command of a client. `ended` is None for one that was never told to have ended.

    `operation` is the number of the call that sent it.
    """

    client: int
    started: CommandStartedEvent
    ended: End | None = None
    operation: int | None = None

    @property
    def answered(self) -> bool:
        """Whether the server's answer arrived, an error or not."""
        ended = self.ended
        return isinstance(ended, CommandSucceededEvent) or (
            isinstance(ended, CommandFailedEvent) and isinstance(ended.failure, ServerError)
        )


def exchanges_of(events: Iterable[Heard]) -> list[CommandExchange]:
    """Return the commands in the order of their starts."""
    found: dict[tuple[int, int], CommandExchange] = {}
    for heard in events:
        event = heard.event
        if isinstance(event, CommandStartedEvent):
            found[heard.client, event.request_id] = CommandExchange(
                heard.client, event, operation=heard.operation
            )
        elif isinstance(event, CommandSucceededEvent | CommandFailedEvent):
            exchange = found.get((heard.client, event.request_id))
            if exchange is not None:
                exchange.ended = event
    return list(found.values())


KINDS: Final = {
    "task": "a task still runs",
    "connection": "a client still holds a connection",
    "server connection": "a server still holds a connection",
    "session": "a server still knows a session in use",
    "cursor": "a server still holds a cursor",
    "transaction": "a server still holds a transaction",
    "claim": "a server still holds what a transaction claimed",
    "ticket": "a server still holds a ticket",
    "token": "a server still owes tokens",
    "waiter": "an operation still waits for a connection",
}
"""What may be left, with the sentence about it."""


@checker("leftovers", "Nothing is left at the end.")
def leftovers(history: RunHistory) -> Iterator[Violation]:
    """Yield everything that is left."""
    ending = history.ending
    for leftover in ending.leftovers:
        yield Violation(f"{KINDS.get(leftover.kind, leftover.kind)}: {leftover.name}")
    if ending.sessions or ending.cursors:
        exchanges = exchanges_of(history.events)
        yield from _sessions(exchanges, history)
        yield from _cursors(exchanges, history)


def _sessions(exchanges: Sequence[CommandExchange], history: RunHistory) -> Iterator[Violation]:
    """Yield each session that its client could have ended, and did not.

    A session in which a command was lost is not used again, and left to the server's timeout (Driver
    Sessions: Server Session Pool); so are all where endSessions fails, which is not tried again.
    """
    owners: dict[bytes, int] = {}
    excused: set[bytes] = set()
    for exchange in exchanges:
        command = exchange.started.command
        if "lsid" in command:
            identity = bytes(command["lsid"]["id"])
            owners[identity] = exchange.client
            if not exchange.answered:
                excused.add(identity)
        if "endSessions" in command and not isinstance(exchange.ended, CommandSucceededEvent):
            excused.update(bytes(each["id"]) for each in command["endSessions"])
    for identity in history.ending.sessions:
        owner = owners.get(identity)
        if owner is not None and identity not in excused and owner not in history.ending.lonely:
            yield Violation(f"{KINDS['session']}: {identity.hex()} of client {owner}")


def _cursors(exchanges: Sequence[CommandExchange], history: RunHistory) -> Iterator[Violation]:
    """Yield each cursor that its client knew and could have closed, and did not.

    One whose getMore or killCursors failed, or whose client had no connection for it, is left to its timeout;
    so is one that came with a writeConcernError, since the operation gets nothing but the error. One whose
    getMore had a writeConcernError that made its server unknown may find no server for killCursors in time.
    """
    excused: set[int] = set()
    owners: dict[int, int] = {}
    # A change stream that gets no connection for its getMore gets none for its killCursors, and begins anew.
    without = {
        (heard.client, heard.operation)
        for heard in history.events
        if isinstance(heard.event, ConnectionCheckOutFailedEvent)
    }
    for exchange in exchanges:
        command, ended = exchange.started.command, exchange.ended
        if isinstance(ended, CommandSucceededEvent):
            cursor = ended.reply.get("cursor")
            if "getMore" in command and _code_of(ended.reply) in STATE_CHANGES:
                excused.add(command["getMore"])
            if isinstance(cursor, dict) and "writeConcernError" not in ended.reply:
                owners[cursor.get("id", 0)] = exchange.client
                if (exchange.client, exchange.operation) in without:
                    excused.add(cursor.get("id", 0))
        else:
            excused.update(command.get("cursors", ()))
            excused.add(command.get("getMore", 0))
    for server, identity in history.ending.cursors:
        owner = owners.get(identity)
        if owner is not None and identity not in excused and owner not in history.ending.lonely:
            yield Violation(f"{KINDS['cursor']}: {identity} of client {owner} on {server}")


def _code_of(reply: Mapping[str, Any]) -> Any:
    """Return the code of a reply's writeConcernError, None without one."""
    error = reply.get("writeConcernError")
    return error.get("code") if isinstance(error, dict) else None
