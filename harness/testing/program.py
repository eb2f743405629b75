"""An adapter's process as it is: each line that it writes is kept with its time, also what is no message.

`harness.adapters.child` refuses a process at its first mistake. Here mistakes are what is looked for.

Unlike there, a line that is no message ends nothing, an answer that is wrong is kept for whoever waits for
it, and messages are never forgotten: `adapter_protocol` looks back at their order. Standard error is
drained and its end kept, which is where programs say why they stopped.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from asyncio.subprocess import PIPE
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.child import buried, why_not_started
from harness.adapters.lines import AdapterProtocolError, Answer, Message, message, request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mongowire.ports import Clock

# The limit of the protocol for one message; asyncio's own, of 64 KiB, is less than a batch of documents.
_LINE_MAX: Final = 64 * 1024 * 1024
_COMPLAINTS: Final = 400
"""How many characters of standard error are quoted."""


class CannotStartError(Exception):
    """The program cannot be started; the text says why."""


class NoReplyError(Exception):
    """The answer to a request did not come; the text says what came instead."""


class Program:
    """One process. `heard` has all messages in order, `strays` the lines that are none."""

    def __init__(self, process: asyncio.subprocess.Process, clock: Clock) -> None:
        self._process = process
        self._clock = clock
        self._last = 0
        self._came = asyncio.Event()
        self.heard: list[Message] = []
        self.strays: list[str] = []
        self.wrong: dict[int, str] = {}
        """The answers that are none, by the requests that they were for: nobody waits for another."""
        self.complaints = ""
        self.slowest = (0.0, "")
        """The longest time until an answer, in seconds, and the request that it was for."""
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._listen())]

    @classmethod
    async def start(cls, command: str, clock: Clock) -> Program:
        """Start a command line. Raises `CannotStartError`."""
        try:
            process = await asyncio.create_subprocess_exec(
                *shlex.split(command),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=_LINE_MAX,
                # A group of its own, so that a shell or a launcher is killed with what it has started.
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise CannotStartError(f"cannot be started: {why_not_started(error)}: {command}") from error
        return cls(process, clock)

    @property
    def last(self) -> int:
        """The id of the newest request."""
        return self._last

    @property
    def end(self) -> str:
        """How the process ended, with the last line of its standard error; empty while it runs."""
        code = self._process.returncode
        if code is None:
            return ""
        how = f"the program ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"
        last = self.complaints.splitlines()[-1:]
        return ": ".join([how, *last])

    async def write(self, line: bytes) -> None:
        """Write a line to its input. A process that has ended takes none, which is no error here."""
        assert self._process.stdin is not None
        # Its output has ended. Writing on would raise here for some programs and not for others, as it
        # depends on the pipe; the next answer that is waited for tells the end.
        if self._tasks[0].done():
            return
        with suppress(BrokenPipeError, ConnectionResetError):
            self._process.stdin.write(line)
            await self._process.stdin.drain()

    async def send(
        self, method: str, *, on: int | None = None, params: Mapping[str, Any] | None = None
    ) -> int:
        """Send a request, and return its id."""
        self._last += 1
        await self.write(request(self._last, method, on, params))
        return self._last

    async def ask(
        self, method: str, *, within: float, on: int | None = None, params: Mapping[str, Any] | None = None
    ) -> Answer:
        """Send a request, and return its answer. Raises `NoReplyError`."""
        began = self._clock.now()
        answer = await self.answer(await self.send(method, on=on, params=params), within=within)
        what = (params or {}).get("operation", method)
        self.slowest = max(self.slowest, (self._clock.now() - began, str(what)))
        return answer

    async def answer(self, number: int, *, within: float) -> Answer:
        """Return the answer to a request. Raises `NoReplyError` when it does not come in time.

        A wrong answer to this request, and the end of the program, are told at once rather than after the
        time.
        """
        deadline = self._clock.now() + within
        while True:
            answers = [each for each in self.heard if isinstance(each, Answer) and each.id == number]
            if answers:
                return answers[0]
            if number in self.wrong:
                raise NoReplyError(self.wrong[number])
            if self._tasks[0].done():
                await self._process.wait()
                raise NoReplyError(self.end or "its standard output ended")
            # Nobody else runs between the look above and here, so that no message is missed.
            self._came.clear()
            try:
                async with asyncio.timeout(deadline - self._clock.now()):
                    await self._came.wait()
            except TimeoutError:
                raise NoReplyError(f"no answer within {within:g} seconds") from None

    async def end_of_input(self, *, within: float) -> bool:
        """End its input, and return whether the process ends in time."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(within):
                await self._process.wait()
        except TimeoutError:
            return False
        # A program that it left behind may hold the pipes open: what is read by then has to do.
        await asyncio.wait(self._tasks, timeout=1)
        return True

    async def aclose(self) -> None:
        """Kill the process with all that it has started in its group."""
        with suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        await buried(self._process)
        await asyncio.wait(self._tasks)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # a line that is too long
            async for line in self._process.stdout:
                try:
                    self.heard.append(message(line))
                except AdapterProtocolError as error:
                    self.strays.append(str(error))
                    if error.number is not None:
                        self.wrong[error.number] = str(error)
                self._came.set()
        self._came.set()

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(65536):
            self.complaints = (self.complaints + chunk.decode(errors="replace"))[-_COMPLAINTS:].strip()
