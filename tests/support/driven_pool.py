"""The state machine of a pool, driven by hand: effects are noted, and connections wait for the test."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from driver.cmap.state import Close, Establish, Grant, Interrupt, PoolOptions, PoolState, Publish, Refuse
from driver.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from driver.cmap.state import Effect


@dataclass
class Driven:
    """A pool whose effects are noted; connections are established when a test says so."""

    options: PoolOptions = field(default_factory=PoolOptions)
    now: float = 0.0
    events: list[str] = field(default_factory=list)
    details: list[Any] = field(default_factory=list)
    granted: dict[int, int] = field(default_factory=dict)
    refused: dict[int, Exception] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    establishing: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    interrupted: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = PoolState("a:1", self.options)

    def do(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Publish(event):
                    self.details.append(event)
                    number = getattr(event, "connection_id", None)
                    self.events.append(event.kind.removesuffix("Event") + (f"#{number}" if number else ""))
                case Establish(number, _):
                    self.establishing.append(number)
                case Grant(waiter, number):
                    assert waiter not in self.granted
                    assert waiter not in self.refused
                    self.granted[waiter] = number
                    self.order.append(waiter)
                case Refuse(waiter, error):
                    assert waiter not in self.granted
                    assert waiter not in self.refused
                    self.refused[waiter] = error
                case Close(number):
                    self.closed.append(number)
                    if number in self.establishing:
                        self.establishing.remove(number)
                case Interrupt(number):
                    self.interrupted.append(number)

    def ready(self) -> Driven:
        self.do(self.state.ready())
        return self

    def ask(self, waiter: int, *, deadline: float = inf) -> None:
        self.do(self.state.check_out(waiter, self.now, deadline=deadline))

    def establish(self, number: int | None = None) -> None:
        number = self.establishing[0] if number is None else number
        self.establishing.remove(number)
        self.do(self.state.established(number, self.now))

    def fail(self, error: Exception) -> None:
        self.do(self.state.failed(self.establishing.pop(0), self.now, error))

    def lend(self, waiter: int) -> int:
        self.ask(waiter)
        if waiter not in self.granted:
            self.establish()
        return self.granted[waiter]

    def give_back(self, number: int, *, errored: bool = False) -> None:
        self.do(self.state.check_in(number, self.now, errored=errored))

    def clear(self, *, interrupt: bool = False) -> None:
        self.do(self.state.clear(self.now, cause=NetworkError("boom"), interrupt_in_use=interrupt))

    def tick(self) -> None:
        self.do(self.state.tick(self.now))

    def reasons(self, kind: str) -> list[str]:
        return [event.reason for event in self.details if event.kind == kind]
