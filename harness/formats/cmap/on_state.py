"""A case of the format on `PoolState` alone: no network, no clock, no tasks.

The machine has no tasks: `_proceed` lets a thread work until it waits for a connection, `_perform` does what
the state asks for, and `_settle` goes on until nothing is due at this instant. Connections are established at
once and without fail, so that no server is needed. Time jumps to the next background run or deadline; with
nothing due it ends at the patience of a wait, which is how an event that never comes is found.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final

from driver.cmap.state import Close, Establish, Grant, PoolState, Publish, Refuse
from driver.policy.deadline import after
from harness.adapters.reference.pools import pool_options
from harness.adapters.reference.results import event_of, report
from harness.formats.case import failure
from harness.formats.cmap.model import name_of, operation_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from driver.cmap.state import Effect
    from harness.formats.case import Notes
    from harness.formats.cmap.model import CmapCase
    from mongowire.documents.marks import Marked
ADDRESS: Final = "localhost:27017"
PATIENCE: Final = 60.0
"""Seconds of the pool's time after which an event that does not come is given up."""

MAIN: Final = ""


def run_on_state(case: CmapCase, notes: Notes) -> None:
    """Run a case. Raises CaseFailedError."""
    error: Exception | None = None
    try:
        _Machine(case, notes).play()
    except _MainThreadError as raised:
        error = raised.error
    case.judge(notes, None if error is None else report(error))


class _MainThreadError(Exception):
    """What an operation raised in the main thread, or in a thread that it waited for."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@dataclass(slots=True)
class _StateThread:
    """A thread has operations to do, and may wait for a connection that it will call `label`."""

    todo: deque[Marked] = field(default_factory=deque)
    waiter: int | None = None
    label: str | None = None
    error: Exception | None = None


class _Machine:
    def __init__(self, case: CmapCase, notes: Notes) -> None:
        self._notes = notes
        self._case = case
        self._state = PoolState(ADDRESS, pool_options(case.options))
        self._now = 0.0
        self._threads = {MAIN: _StateThread()}
        self._connections: dict[str, int] = {}
        self._waiters = 0
        self._establishing: deque[int] = deque()
        self._perform(self._state.create())

    def play(self) -> None:
        """Perform the operations; the main thread waits for its own, and raises their errors."""
        for operation in self._case.operations:
            name = operation.value.get("thread", MAIN)
            self._threads[name].todo.append(operation)
            with self._notes.account.step(operation_of(operation), lambda: self._now):
                self._proceed(self._threads[name])
                if name == MAIN:
                    self._join(MAIN, operation)

    # --- threads ---

    def _proceed(self, thread: _StateThread) -> None:
        """Let a thread do what it can; one that failed does nothing more."""
        while thread.todo and thread.waiter is None and thread.error is None:
            operation = thread.todo.popleft()
            self._operate(thread, operation)
            self._settle()

    def _operate(self, thread: _StateThread, operation: Marked) -> None:
        value = operation.value
        match value["name"]:
            case "start":
                self._threads[value["target"]] = _StateThread()
            case "wait":
                end = self._now + value["ms"] / 1000
                while self._now < end:
                    self._advance(end)
            case "waitForThread":
                self._join(value["target"], operation)
            case "waitForEvent":
                self._wait_for_event(operation)
            case "checkOut":
                self._waiters += 1
                thread.waiter, thread.label = self._waiters, value.get("label")
                deadline = after(self._now, self._state.options.wait_queue_timeout)
                self._perform(self._state.check_out(self._waiters, self._now, deadline=deadline))
            case "checkIn":
                if value["connection"] not in self._connections:
                    raise failure(operation["connection"], "the connection was not checked out")
                self._perform(self._state.check_in(self._connections[value["connection"]], self._now))
            case "clear":
                interrupt = bool(value.get("interruptInUseConnections"))
                self._perform(self._state.clear(self._now, interrupt_in_use=interrupt))
                self._tick()
            case "close":
                self._perform(self._state.close(self._now))
            case "ready":
                self._perform(self._state.ready())

    def _join(self, name: str, operation: Marked) -> None:
        thread = self._threads[name]
        self._advance_until(lambda: thread.waiter is None, f"thread {name or 'main'} to end", operation)
        if thread.error is not None:
            raise _MainThreadError(thread.error)

    def _wait_for_event(self, operation: Marked) -> None:
        name, count = operation.value["event"], operation.value["count"]
        self._advance_until(
            lambda: sum(name_of(event) == name for event in self._notes.heard) >= count,
            f"{count} of {name}",
            operation,
        )

    # --- the pool ---

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Publish(event):
                    self._notes.heard.append(event_of(event, self._now))
                case Establish(number):
                    self._establishing.append(number)
                case Grant(waiter, number):
                    thread = self._owner(waiter)
                    thread.waiter = None
                    if thread.label is not None:
                        self._connections[thread.label] = number
                case Refuse(waiter, error):
                    thread = self._owner(waiter)
                    thread.waiter, thread.error = None, error
                # A connection that is closed while it is being established never becomes one. Others need no
                # work here.
                case Close(number) if number in self._establishing:
                    self._establishing.remove(number)

    def _owner(self, waiter: int) -> _StateThread:
        return next(thread for thread in self._threads.values() if thread.waiter == waiter)

    # --- time ---

    def _settle(self) -> None:
        """Establish what is to be established, and let every background run happen that is due."""
        while True:
            if self._establishing:
                self._perform(self._state.established(self._establishing.popleft(), self._now))
            elif self._next_run() <= self._now:
                self._tick()
            else:
                break
        for thread in self._threads.values():
            self._proceed(thread)

    def _tick(self) -> None:
        if self._case.in_background:
            self._perform(self._state.tick(self._now))

    def _next_run(self) -> float:
        return self._state.next_deadline(self._now) if self._case.in_background else inf

    def _advance(self, end: float) -> None:
        """Let time pass until something is due, at most until `end`."""
        self._now = min(end, self._next_run())
        self._settle()

    def _advance_until(self, done: Callable[[], bool], what: str, operation: Marked) -> None:
        patience = operation.value.get("timeout", PATIENCE * 1000) / 1000
        end = self._now + patience
        self._settle()
        while not done():
            if self._now >= end:
                raise failure(operation, f"waited {patience:g} s for {what}")
            self._advance(end)
