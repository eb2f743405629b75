"""Requests that are held until a test says what becomes of them, as MockupDB does."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Self

from fakeserver.rules.parsing import failure, reply_of
from fakeserver.rules.rule import Answer, Ending
from fakeserver.waiting.bell import Bell
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.rules.rule import Asked


class HeldRequest:
    """A request that waits for its answer: call one of `reply`, `fail`, `close`, `silence`, `go_on`.

    Each raises `ControlError` for an answer that cannot be sent, and when the request waits no more. As a
    context manager it lets the request go on if it was not answered inside.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._perform: Callable[[Callable[[], None]], None] = _at_once
        self.answer: Answer | None = None
        """The answer that was chosen."""
        self.answered = Bell()
        """Rings when there is one."""
        self._gone = False

    def __repr__(self) -> str:
        return f"<HeldRequest {self._asked}>"

    @property
    def name(self) -> str:
        """The command's name."""
        return self._asked.command

    @property
    def command(self) -> Mapping[str, Any]:
        """The command."""
        return self._asked.document

    @property
    def namespace(self) -> str:
        """The collection that it is about, `db.collection`, or its database."""
        return self._asked.namespace

    @property
    def app_name(self) -> str:
        """The name of the application."""
        return self._asked.app_name

    @property
    def node(self) -> str:
        """The name of the server that got it."""
        return self._asked.node

    @property
    def connection(self) -> int:
        """The `connectionId` of its connection."""
        return self._asked.connection

    @property
    def attempt(self) -> int:
        """The number of its attempt, from 1."""
        return self._asked.operation.attempt

    @property
    def waits(self) -> bool:
        """Whether it still waits for an answer."""
        return self.answer is None and not self._gone

    def reply(self, document: Mapping[str, Any] | None = None, /, **fields: Any) -> None:
        """Answer with a document: `request.reply({"n": 1})`, `request.reply(n=1)`."""
        self._answer(reply_of({**(document or {}), **fields}))

    def fail(
        self,
        code: int | str,
        *,
        labels: Sequence[str] | None = None,
        message: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Answer with an error, by its code or the code's name."""
        self._answer(failure(code, labels=labels, message=message, extra=extra))

    def close(self) -> None:
        """Close the connection without an answer."""
        self._answer(Ending.CLOSE)

    def silence(self) -> None:
        """Give no answer, and leave the connection open."""
        self._answer(Ending.SILENCE)

    def go_on(self) -> None:
        """Let the server answer it, as if it had not been held."""
        self._answer(Ending.PASS)

    def let_go(self) -> None:
        """Let it go on, if it still waits."""
        self._perform(self._let_go)

    def _let_go(self) -> None:
        if self.waits:
            self._choose(Ending.PASS)

    def _answer(self, answer: Answer) -> None:
        def perform() -> None:
            if self.answer is not None:
                raise ControlError(f"{self._asked}: the request has been answered")
            if self._gone:
                raise ControlError(f"{self._asked}: its client, or its server, has left")
            self._choose(answer)

        self._perform(perform)

    def _choose(self, answer: Answer) -> None:
        self.answer = answer
        self.answered.ring()

    def left(self) -> None:
        """Take note that it waits no more."""
        self._gone = True

    def seen_from(self, perform: Callable[[Callable[[], None]], None]) -> Self:
        """Have everything that changes it run by `perform`, for callers in another thread."""
        self._perform = perform
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()


def _at_once(function: Callable[[], None]) -> None:
    function()


class Held:
    """The requests that one rule holds, in the order in which they came."""

    def __init__(self) -> None:
        self._untaken: deque[HeldRequest] = deque()
        self._all: list[HeldRequest] = []
        self.arrived = Bell()
        """Rings when one comes, and at the end."""
        self.is_over = False

    @property
    def waits(self) -> bool:
        """Whether any request waits for its answer."""
        return any(request.waits for request in self._all)

    def enter(self, request: HeldRequest) -> None:
        """Enter a request, which other rules may still delay."""
        self._all = [each for each in self._all if each.waits]
        self._all.append(request)

    def put(self, request: HeldRequest) -> None:
        """Have a request that was entered received."""
        if not self.is_over:
            self._untaken.append(request)
            self.arrived.ring()

    def take(self) -> HeldRequest | None:
        """Return the next one that still waits, and was not taken before; None if there is none."""
        while self._untaken:
            request = self._untaken.popleft()
            if request.waits:
                return request
        return None

    def end(self) -> None:
        """Let every request go that waits; from now on none is held."""
        self.is_over = True
        for request in self._all:
            request.let_go()
        self.arrived.ring()
