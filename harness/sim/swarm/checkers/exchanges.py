"""Commands of clients with what came of them, as their drivers told it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from driver.errors import ServerError
from driver.events import CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.sim.swarm.history import Heard

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
