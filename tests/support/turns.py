"""Runs work on a stack of its own, and counts how often it would give way to others."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from fakeserver.waiting.interrupts import GAVE_WAY, Worker

if TYPE_CHECKING:
    from collections.abc import Callable


class Request:
    """A request that nobody interrupts."""

    def giving_way(self) -> Any:
        return nullcontext()


class Run(NamedTuple):
    """What work came to: what it returned or raised, and in how many turns."""

    result: Any
    turns: int


def run_in_turns(work: Callable[[], Any], *, most: int | None = None) -> Run:
    """Do work that gives way at each of its yield points; give up after `most` turns, where it is given."""

    def walk(_request: Any, _now: float) -> Any:
        try:
            return work()
        except Exception as error:  # noqa: BLE001 -- handed on as the result
            return error

    request = Request()
    ticks = count(1)  # each look at the clock finds the turn over
    worker = Worker(lambda: next(ticks))
    result, turns = worker.call(walk, request, 0.0, 0.0), 1
    while result is GAVE_WAY and (most is None or turns < most):
        result, turns = worker.resume(0.0), turns + 1
    return Run(result, turns)
