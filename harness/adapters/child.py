"""An adapter's process: started, asked within deadlines, and ended with all that it has started.

Whatever goes wrong with the process itself (it ends, hangs, or says what is no message) loses it for good:
it is killed, and everything that waits for it gets the same reason.

`Children` in `command` owns processes and asks them for one adapter after the other. Two tasks read for as
long as the process lives: `_read` hands each answer to the `ask` that waits for it and everything else to
`said`, `_listen` drains standard error, which would block the process at a full pipe if nobody read it.
Requests carry numbers, so several may be under way; the answers may come in any order.

Every wait has a limit in seconds of real time, also while the deployment's clock is another one.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from asyncio.subprocess import PIPE
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import AdapterLost
from harness.adapters.lines import (
    ANSWER,
    PROTOCOL,
    REQUEST,
    AdapterProtocolError,
    Answer,
    Hello,
    Message,
    Observed,
    hello,
    message,
    request,
    shown,
)
from harness.world import immediate_exit as leaving
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.adapters.lines import AdapterDialogue
    from mongowire.ports import Clock


# An interpreter or a virtual machine may have to compile its program first.
START_SECONDS: Final = 20.0
"""Seconds that a process may take to start and to answer hello."""

CLOSE_SECONDS: Final = 5.0
"""Seconds that it may take to close what a case has left, and to end when its input does."""

# An exit code follows the end of the output within milliseconds, unless the process closed its output and
# went on; that one is killed after this patience, in seconds.
_BURY_SECONDS: Final = 0.5
# A reply with the largest document is 16 MiB of BSON and a few times that as extended JSON. The limit of
# asyncio, 64 KiB, would lose adapters that are right.
_LINE_MAX: Final = 64 * 1024 * 1024
_TAIL: Final = 2000
"""How many characters of standard error a reason ends with."""

_PASSED_ON: Final = 1 << 20
"""How many characters of standard error reach ours: a process may write without end."""


class Child:
    """One process, which lives in real time. `hello` is what it says of itself.

    `said` takes the messages that answer no request, and the instant of each by `clock`, the deployment's:
    that of an event is when it happened where the process says so. `dialogue` hears every line.
    """

    hello: Hello
    dialogue: AdapterDialogue | None = None

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.said: Callable[[Message, float], None] = lambda *_: None
        self.clock: Clock = SystemClock()
        self.lost: AdapterLost | None = None
        self._process = process
        self._last = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._offset = ClockOffset()
        self._sent: dict[int, float] = {}
        """The instants of the requests that are not answered yet."""
        self._doing: dict[int, str] = {}
        self._owed: set[int] = set()
        self._complaints = ""
        self._passed_on = 0
        self._listening = asyncio.create_task(self._listen())
        self._reading = asyncio.create_task(self._read())
        # A process in a session of its own gets no signal of the terminal. Whoever leaves on the spot,
        # without running any `finally`, kills it by this.
        leaving.AT_ONCE.add(self._kill)

    @classmethod
    async def start(cls, command: str, *, within: float = START_SECONDS) -> Child:
        """Start a command line and let the process introduce itself. Raises `AdapterLost`."""
        try:
            # A new session makes a group of which the process is the leader, so that `_kill` reaches what it
            # has started in turn: a wrapper such as `npx` runs the driver in a child.
            process = await asyncio.create_subprocess_exec(
                *shlex.split(command),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=_LINE_MAX,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise AdapterLost(
                f"the adapter cannot be started: {why_not_started(error)}: {command}"
            ) from error
        child = cls(process)
        try:
            answer = await child.ask(child.number(), "hello", within=within, params={"protocol": PROTOCOL})
            child.hello = child.understood(hello, answer.result)
        # A cancelled run ends here as well, and has nobody else who knows of the process.
        except BaseException:
            await child.aclose()
            raise
        return child

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def number(self) -> int:
        """Return the id of the next request."""
        self._last += 1
        return self._last

    async def ask(
        self,
        number: int,
        method: str,
        *,
        within: float,
        on: int | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Send a request and return its answer. Raises `AdapterLost`, also after `within` seconds.

        A process that owes an answer for which nobody waits any more has less time: it may hang.
        """
        if self.lost is not None:
            raise self.lost
        # A case that was cancelled leaves its request without a reader. Without this, the `close` after it
        # would wait for a hanging process as long as for a slow call.
        within = min(within, CLOSE_SECONDS) if self._owed else within
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        what = self._doing[number] = (params or {}).get("operation", method)
        try:
            async with asyncio.timeout(within):
                self._sent[number] = self.clock.now()
                line = request(number, method, on, params)
                if self.dialogue is not None:
                    self.dialogue.hear(REQUEST, line, self._sent[number])
                assert self._process.stdin is not None
                with suppress(BrokenPipeError, ConnectionResetError):  # the end of its output says more
                    self._process.stdin.write(line)
                    await self._process.stdin.drain()
                return await waiting
        except TimeoutError:
            raise self.lose(
                f"the adapter did not answer {what} within {within:g} seconds{self._end}"
            ) from None
        # Late answers are legal for requests whose caller was cancelled, and an error for all others. The
        # number tells them apart: it is owed until the answer comes.
        finally:
            del self._waiting[number], self._doing[number]
            if not waiting.done() or waiting.cancelled():
                self._owed.add(number)
                waiting.cancel()

    def understood(self, parse: Callable[[Any], Any], result: Any) -> Any:
        """Return a result, parsed. A result that makes no sense loses the process."""
        try:
            return parse(result)
        except AdapterProtocolError as error:
            raise self.lose(str(error)) from None

    def lose(self, reason: str) -> AdapterLost:
        """Kill the process for a reason, tell all who wait, and return the error. The first reason counts."""
        # The reason is made once. What fails next (a broken pipe, an answer that never comes) follows from
        # it, and would only hide it.
        if self.lost is None:
            doing = f" (asked for: {', '.join(self._doing.values())})" if self._doing else ""
            self.lost = AdapterLost(f"{reason}{doing}\n{self._complaints}".strip())
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(self.lost)
            self._kill()
        return self.lost

    async def aclose(self) -> None:
        """End the process: by the end of its input, or else by force. Returns when it is gone.

        One that still owes an answer is not waited for. What it has started may have left its group, and
        hold its pipes: they are closed from this side.
        """
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self.lost is None:
            self.lost = AdapterLost("the adapter was closed")
            if not self._waiting and not self._owed:
                await asyncio.wait({self._reading}, timeout=CLOSE_SECONDS)
        self._kill()
        await buried(self._process)
        # Both end when their pipes do. Until then they may still call `lose` and `said`.
        await asyncio.wait({self._reading, self._listening})
        leaving.AT_ONCE.discard(self._kill)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                self._take(line)
        except AdapterProtocolError as error:
            self.lose(str(error))
        except ValueError:
            self.lose(f"the adapter wrote a line of more than {_LINE_MAX >> 20} MiB")
        else:
            # It soon ends after its output, or is made to.
            await asyncio.wait({self._listening}, timeout=_BURY_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(_BURY_SECONDS):
                    await self._process.wait()
            self.lose(self._end.removeprefix(": ") or "the adapter closed its standard output")

    def _take(self, line: bytes) -> None:
        if self.dialogue is not None:
            self.dialogue.hear(ANSWER, line, self.clock.now())
        if not line.endswith(b"\n"):
            raise AdapterProtocolError(f"the adapter's output ended within a line: {shown(line)}")
        said, now = message(line), self.clock.now()
        if isinstance(said, Answer):
            # Hand an answer to whoever waits for it.
            sent = self._sent.pop(said.id, None)
            # Measured first: an answer that nobody waits for any more narrows the bounds as well.
            if said.clock is not None and sent is not None:
                self._offset.measure(said.clock, sent=sent, received=now)
            if not 0 < said.id <= self._last:
                raise AdapterProtocolError(f"the adapter answered request {said.id}, which was never made")
            if (waiting := self._waiting.get(said.id)) is not None and not waiting.done():
                waiting.set_result(said)
            elif said.id not in self._owed:
                raise AdapterProtocolError(f"the adapter answered request {said.id} again")
            else:
                self._owed.remove(said.id)
        else:
            self.said(said, self._instant_of(said, now))

    def _instant_of(self, said: Message, now: float) -> float:
        """Return when a message's event happened, by the process's clock where that is known."""
        if not isinstance(said, Observed) or said.at is None:
            return now
        if not self._offset.is_known:
            raise AdapterProtocolError(
                f"the adapter gave {said.kind} an instant ('at'), but none of its answers a 'clock' before"
            )
        return self._offset.instant(said.at, received=now)

    @property
    def _end(self) -> str:
        """The end of the process, if it has ended: `: …`."""
        code = self._process.returncode
        if code is None:
            return ""
        return f": the adapter's process ended ({f'signal {-code}' if code < 0 else f'exit code {code}'})"

    async def _listen(self) -> None:
        """Pass standard error on, and keep its tail."""
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(65536):
            text = chunk.decode(errors="replace")
            self._complaints = (self._complaints + text)[-_TAIL:]
            sys.stderr.write(text[: _PASSED_ON - self._passed_on])
            self._passed_on = min(self._passed_on + len(text), _PASSED_ON)

    def _kill(self) -> None:
        """End the process and whatever it has started in its group; what is gone already is no error."""
        with suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()


async def introduced(command: str) -> Hello:
    """Return what an adapter says of itself; it is run once for that. Raises `AdapterLost`."""
    child = await Child.start(command)
    await child.aclose()
    return child.hello


def why_not_started(error: Exception) -> str:
    """Return why a program cannot be started: an operating system's error names it, and has no number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


async def buried(process: asyncio.subprocess.Process) -> None:
    """Wait until a process that was killed is gone, whoever else holds its pipes.

    They are closed one by one: the transport's own `close` would also ask for the exit code. Whoever gets it
    first takes it from asyncio, which then prints "Unknown child process" and reports 255.
    """
    transport: asyncio.SubprocessTransport = process._transport  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public does
    for number in (0, 1, 2):
        if (pipe := transport.get_pipe_transport(number)) is not None:
            pipe.close()
    await process.wait()


# The clock of another process, mapped on the deployment's.
#
# Nobody can read two clocks at one instant, but every exchange gives bounds: what a process reads between a
# request and its answer, it reads between the two instants at which this side wrote and read them. The
# narrowest pair of bounds counts. Two clocks may drift apart, or one of them may be set: then a reading
# contradicts the bounds, and measuring begins anew.
#
# A process reads its clock as it answers. It may have been busy before that, above all with its own start,
# but after it only the line is on its way: the truth is close to the upper bound.


TRANSIT_SECONDS: Final = 0.0005
"""Seconds that a line may take between the processes, as far as no exchange shows that it takes less."""


@dataclass(slots=True)
class ClockOffset:
    """The lead of the deployment's clock over another one, in seconds: between `least` and `most`."""

    least: float = -inf
    most: float = inf

    @property
    def is_known(self) -> bool:
        """Whether an exchange has been measured."""
        return self.most < inf

    def measure(self, reading: float, *, sent: float, received: float) -> None:
        """Narrow the bounds by a reading of the other clock, between two instants of the deployment's."""
        least, most = sent - reading, received - reading
        if most < self.least or least > self.most:
            self.least, self.most = least, most
        else:
            self.least, self.most = max(self.least, least), min(self.most, most)

    def instant(self, reading: float, *, received: float) -> float:
        """Return the instant of the deployment's clock for a reading that was `received` later.

        It is never later than `received`.
        """
        transit = min((self.most - self.least) / 2, TRANSIT_SECONDS)
        return min(reading + self.most - transit, received)
