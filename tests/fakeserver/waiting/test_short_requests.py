"""The requests that need no stack, since they end within their turn (fakeserver/waiting/turns.py)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from data_commands import HandClock

from fakeserver.waiting.interrupts import Worker, check_for_interrupt
from fakeserver.waiting.turns import Turns, is_short
from mongowire.connection import WireConnection
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from fakeserver.errors import CommandError

INSERT = {"insert": "c", "documents": [{"_id": 1}]}
SHORT: dict[str, dict[str, Any]] = {
    "ping": {"ping": 1},
    "hello": {"hello": 1},
    "an insert of one small document": INSERT,
}
NOT_SHORT: dict[str, dict[str, Any]] = {
    "an insert of more than 512 bytes": {**INSERT, "comment": "x" * 512},
    "a find, whose collection may be a view": {"find": "c", "filter": {"_id": 1}},
    "an update, whose filter may look at every document": {"update": "c", "updates": [{"q": {}, "u": {}}]},
    "a command whose name begins like that of a short one": {"insertion": "c"},
    "a command with the name of a short one as its value": {"find": "insert"},
}


def as_sent(command: dict[str, Any]) -> bytes:
    """Return a command as it travels."""
    return WireConnection().send(OpMsg.of({**command, "$db": "db"}), request_id=1)


@pytest.mark.parametrize("command", SHORT.values(), ids=SHORT)
def test_is_short(command: dict[str, Any]) -> None:
    assert is_short(as_sent(command))


@pytest.mark.parametrize("command", NOT_SHORT.values(), ids=NOT_SHORT)
def test_is_not_short(command: dict[str, Any]) -> None:
    assert not is_short(as_sent(command))


class Clock(HandClock):
    """A clock of the real world that a test moves."""

    is_real = True


class Work:
    """A request, as far as turns know it."""

    session_id: bytes | None = None
    txn_number: int | None = None

    def __init__(self, yield_period: float) -> None:
        self.yield_period = yield_period

    def interrupt(self, error: CommandError) -> None:
        raise error

    def giving_way(self) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.mark.parametrize(
    ("short", "turn", "gives_way"),
    [(True, 0.01, False), (True, 0.009, True), (True, 0.0, True), (False, 0.01, True)],
    ids=["short", "short, with shorter turns", "short, with no turns at all", "not short"],
)
def test_a_request_gives_way_when_a_tenth_of_its_turn_is_over_unless_it_is(
    *, short: bool, turn: float, gives_way: bool
) -> None:
    clock = Clock()
    turns = Turns(clock)

    def walk(_: Work, __: float) -> str:
        clock.instant += turn / 10
        check_for_interrupt()
        return "done"

    answer = turns.run(walk, Work(turn), clock.now(), short=short)
    assert isinstance(answer, Worker) is gives_way
    if isinstance(answer, Worker):
        answer = turns.resume(answer, clock.now())
    assert answer == "done"
    turns.close()
