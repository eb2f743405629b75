"""A server session in which a command was lost is not used by another operation (Server Session Pool).

The command may still run in it, and the next one would have to wait for it, or be taken for its retry. The
operation that lost it goes on in it: that is what a retry is, and so does a session of the application's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from driver.errors import NetworkError
from driver.events import CommandFailedEvent, CommandStartedEvent
from harness.sim.swarm.checkers.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.sim.swarm.history import RunHistory, WorkloadOperation


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield each first use of such a session by another operation."""
    operations = {operation.number: operation for operation in history.operations}
    running: dict[tuple[int, int], bytes] = {}
    lost: dict[bytes, int | None] = {}
    for heard in history.events:
        event = heard.event
        if isinstance(event, CommandStartedEvent) and "lsid" in event.command:
            identity = bytes(event.command["lsid"]["id"])
            running[heard.client, event.request_id] = identity
            if identity in lost and not _goes_on(lost[identity], heard.operation, operations):
                what = f"{event.command_name} of operation {heard.operation} uses session {identity.hex()}"
                text = f"{what} at {heard.at:g} s, in which operation {lost[identity]} lost a command"
                yield Violation(text, tuple(each for each in (heard.operation,) if each is not None))
                del lost[identity]
        elif isinstance(event, CommandFailedEvent) and isinstance(event.failure, NetworkError):
            session = running.get((heard.client, event.request_id))
            if session is not None:
                lost.setdefault(session, heard.operation)


def _goes_on(before: int | None, now: int | None, operations: Mapping[int, WorkloadOperation]) -> bool:
    """Say whether two commands are of one operation, or of one session of the application's."""
    if before is None or now is None or before == now:
        # A change stream belongs to no operation, and has a session for itself.
        return True
    one, other = operations.get(before), operations.get(now)
    return one is not None and other is not None and one.session is not None and one.session == other.session
