"""Worker processes: items spread over several of them, each with deployments of its own.

A worker that dies, or that keeps one item longer than the watchdog allows, fails that item and is replaced;
the run goes on. When the run ends early, no process is left.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import traceback
from asyncio.subprocess import PIPE
from collections import deque
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from harness.planning.plan import Item, Settings
from harness.planning.result import Result, ResultStatus
from harness.running.executor import ItemExecutor
from harness.unified.loops import has_loop
from harness.world import immediate_exit as leaving
from harness.world import interruption
from harness.world.immediate_exit import SIGNALS
from harness.world.processes import CAN_FORK, collecting_seldom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TextIO


# Workers that are forks of this process: what it has imported and read is there from their first instant.
#
# An interpreter of its own would import everything again and read the scenario files anew, which takes each
# worker as long as a hundred cases.


_STANDARD: Final = (0, 1, 2)


def serve() -> NoReturn:
    """Be a worker for the rest of this process: a fork whose standard streams are pipes already.

    This is what a subprocess calls before its program (`preexec_fn`), to which it never comes. The parent
    waits until that pipe is closed by which it would hear that the program cannot be started.
    """
    _let_go()
    code: object = 1
    try:
        _leave_the_parent()
        main()
        code = 0
    except SystemExit as left:
        code = left.code
    except BaseException:  # noqa: BLE001 - callers of before the fork must not hear of it
        traceback.print_exc()
    finally:
        # Nothing else is flushed or closed: what is open was opened by the parent.
        os._exit(code if isinstance(code, int) else 1)


def _let_go() -> None:
    """Hold none of the parent's files and sockets, that pipe among them, by descriptors that stay taken.

    The objects that own them are here as well, and close theirs when they are collected: a free one would be
    a connection of our own by then.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
        if descriptor not in {*_STANDARD, nothing}:
            os.dup2(nothing, descriptor, inheritable=False)


def _leave_the_parent() -> None:
    """Have streams, signals and a garbage collection of its own."""
    gc.enable()  # Python forks without
    signal.set_wakeup_fd(-1)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
    interruption.begin_anew()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout, sys.stderr = _to(1), _to(2)


def _to(descriptor: int) -> TextIO:
    """Return a stream of lines: nothing is left to flush at the end."""
    return open(descriptor, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)


# A worker process: items in on standard input, results out on standard output, one JSON document a line.
#
# The first line holds the settings of the run. The end of the input ends the worker, so that it never
# outlives the process that started it.


def main() -> None:
    """Serve one run, until its input ends or SIGTERM comes; then no deployment and no adapter is left."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a driver prints must not be taken for a result
    with suppress(interruption.Interrupted, BrokenPipeError), interruption.listening(), answers:
        settings = Settings.from_dict(json.loads(sys.stdin.readline()))
        with ItemExecutor(settings) as executor, collecting_seldom():
            signal.signal(signal.SIGINT, lambda *_: executor.loops.end())
            for line in sys.stdin:
                result = executor.run(Item(**json.loads(line)))
                answers.write(json.dumps(result.to_dict()) + "\n")
                answers.flush()


if __name__ == "__main__":
    main()


_BOOTSTRAP = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    "import json, sys; sys.path[:] = json.loads(sys.argv[1])\n"
    "from harness.running.worker_pool import main; main()"
)
_LINE_MAX = 64 * 1024 * 1024
_START_GRACE = 30.0
"""Seconds that a worker may take for its start and for setting up a deployment, on top of its case.

In virtual time a worker finds by itself who never ends, unless that is no Python code
(`harness.world.virtual`).
"""

_END_GRACE = 10.0
"""Seconds that a worker may take to end the processes that it has started itself."""

_TAIL = 4000
"""How many characters of standard error the report of a dead worker quotes."""


def worker_command() -> tuple[str, ...]:
    """Return the command line of a worker that imports from where this process does."""
    return (sys.executable, "-c", _BOOTSTRAP, json.dumps(sys.path))


class WorkerPool:
    """Runs items on `jobs` processes, and hands each result with its index to `on_result` as it comes."""

    def __init__(
        self,
        settings: Settings,
        *,
        jobs: int,
        on_result: Callable[[int, Result], None],
        command: Sequence[str] | None = None,
        watchdog: float | None = None,
    ) -> None:
        self._settings = settings
        self._jobs = jobs
        self._on_result = on_result
        self._command = None if command is None else tuple(command)
        self._watchdog = settings.wall_limit + _START_GRACE if watchdog is None else watchdog
        self._working: set[_Worker] = set()

    async def run(self, items: Mapping[int, Item], order: Iterable[int]) -> None:
        """Run all items; `order` says which to start first. Cancelling it ends all workers.

        Where there are loops to end, and the user wishes so, the first Ctrl-C ends those in all workers and
        not the run. Raises what `on_result` raises.
        """
        waiting = deque(order)
        loops = self._settings.interrupt_ends_loops and any(has_loop(item.case()) for item in items.values())
        with interruption.first_interrupt(self._end_loops) if loops else nullcontext():
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self._jobs, len(items))):
                        group.create_task(self._work(items, waiting))
            except BaseExceptionGroup as group_of_errors:
                raise group_of_errors.exceptions[0] from None

    def _end_loops(self) -> None:
        """Let no iteration begin any more, also not in workers that are still to come."""
        self._settings = replace(self._settings, loop_iterations=0)
        for worker in self._working:
            worker.interrupt()

    async def _work(self, items: Mapping[int, Item], waiting: deque[int]) -> None:
        worker: _Worker | None = None
        try:
            while waiting:
                index = waiting.popleft()
                worker = worker or await _Worker.start(self._command, self._settings)
                self._working.add(worker)
                try:
                    result = await worker.run(items[index], watchdog=self._watchdog)
                except WorkerLostError as lost:
                    result = items[index].result(ResultStatus.FAILED, str(lost))
                    self._working.discard(worker)
                    await worker.kill()
                    worker = None
                self._on_result(index, result)
        finally:
            if worker is not None:
                self._working.discard(worker)
                await worker.kill()


class WorkerLostError(Exception):
    """A worker died or was ended while it ran an item; the message says why."""


class _Worker:
    """One process and the tail of what it wrote to standard error, which may be without end.

    It has a session of its own: what a terminal or `timeout` sends to a whole group of processes is ours to
    pass on, and no case fails because its worker heard it first.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._stderr_tail = ""
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, command: Sequence[str] | None, settings: Settings) -> _Worker:
        """Start a fork of this process; where there is a command, or are no forks, a new interpreter."""
        fork: dict[str, Any] = {}
        if command is None and CAN_FORK:
            fork = {"preexec_fn": serve, "restore_signals": False}
        process = await asyncio.create_subprocess_exec(
            *(command or worker_command()),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=_LINE_MAX,
            start_new_session=True,
            **fork,
        )
        worker = cls(process)
        leaving.AT_ONCE.add(worker._kill)
        worker._ask(settings.to_dict())
        return worker

    async def run(self, item: Item, *, watchdog: float) -> Result:
        """Return the item's result. Raises `WorkerLostError`; the worker must then be killed."""
        assert self._process.stdout is not None
        self._ask(item.to_dict())
        try:
            async with asyncio.timeout(watchdog):
                answer = await self._process.stdout.readline()
        except TimeoutError:
            raise WorkerLostError(f"the worker was ended: no result after {watchdog:g} seconds") from None
        if not answer.endswith(b"\n"):
            code = await self._process.wait()
            await self._listening
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise WorkerLostError(f"the worker died ({how})\n{self._stderr_tail}".strip())
        return Result.from_dict(json.loads(answer))

    def interrupt(self) -> None:
        """Ask the process for the end of its loops."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    async def kill(self) -> None:
        """End the process and wait until it is gone: it may first end what it has started."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_GRACE):
                await self._process.wait()
        self._kill()
        await self._process.wait()
        await self._listening
        leaving.AT_ONCE.discard(self._kill)

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    def _ask(self, document: object) -> None:
        assert self._process.stdin is not None
        with suppress(
            BrokenPipeError, ConnectionResetError
        ):  # a dead worker is noticed when it does not answer
            self._process.stdin.write(json.dumps(document).encode() + b"\n")

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(65536):
            self._stderr_tail = (self._stderr_tail + chunk.decode(errors="replace"))[-_TAIL:]
