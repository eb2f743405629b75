"""One run in virtual time: a clock, random numbers and a network of its own, and nothing left at its end."""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from harness.world.clock import Spinning, VirtualClock, VirtualLoop, who_runs
from harness.world.network import DEFAULT_LATENCY, MemoryNetwork
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class World:
    """The three ports of one run."""

    clock: VirtualClock
    rng: SeededRng
    network: MemoryNetwork

    @classmethod
    def new(cls, *, seed: int | str = 0, latency: float = DEFAULT_LATENCY, jitter: float = 0.0) -> World:
        """Return ports that share `seed`; `latency` and `jitter` are seconds."""
        clock = VirtualClock()
        rng = SeededRng(seed)
        return cls(clock, rng, MemoryNetwork(clock, rng.spawn("network"), latency=latency, jitter=jitter))


def run_virtual(
    main: Callable[[World], Coroutine[Any, Any, T]],
    *,
    seed: int | str = 0,
    latency: float = DEFAULT_LATENCY,
    jitter: float = 0.0,
    wall_limit: float | None = None,
) -> T:
    """Run `main` from the instant 0 on a loop of its own and return its result.

    Tasks that it leaves behind are cancelled and drained. Raises `NothingScheduled` when every task waits
    for what no timer will bring, and `Spinning` when they never come to an end at one instant, or when the
    run takes longer than `wall_limit`, in seconds of the wall clock.
    """
    loop = VirtualLoop()

    def run() -> T:
        return _run_on(loop, main(World.new(seed=seed, latency=latency, jitter=jitter)))

    return run() if wall_limit is None else guarded(run, wall_limit, lambda: who_runs(loop))


def _run_on(loop: VirtualLoop, main: Coroutine[Any, Any, T]) -> T:
    """Run `main` and close the loop. What comes of tearing down a run that spins adds nothing to that."""
    spun: BaseException | None = None
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                return runner.run(main)
            except (Spinning, GuardInterrupted) as found:
                spun = found
                loop.set_exception_handler(lambda *_: None)
                raise
    except BaseException:
        if spun is None:
            raise
        raise spun from None


# Ends what never ends by itself: code that keeps a thread busy for longer than any healthy run could.
#
# A loop in virtual time notices by itself when it turns for ever at one instant (`harness.world.clock`). It
# cannot when one callback never returns, nor when time passes but by so little that the end will never be
# seen. For these there is the wall clock. It is watched in another thread, and of a run that ends in time
# nothing depends on it.


_AGAIN = 5.0
"""Seconds after which code that has swallowed the interruption is interrupted again."""

_CALLS = asyncio.Handle._run.__code__  # noqa: SLF001 - what calls callbacks
_FRAMES = 12
"""How many of the innermost frames say where a thread was."""


class GuardInterrupted(KeyboardInterrupt):
    """Raised wherever the guarded thread is.

    Of what a callback raises, asyncio passes on KeyboardInterrupt and SystemExit alone.
    """


def guarded(run: Callable[[], T], seconds: float, about: Callable[[], str]) -> T:
    """Return what `run` returns. Raises `Spinning` if that takes longer, in seconds of the wall clock.

    `about` is asked, in another thread, who runs at that moment. What does not run Python code cannot be
    interrupted: that is left to whoever watches the process (`harness.running.worker_pool`).
    """
    watch = _Watch(seconds, about)
    try:
        watch.begin()
        return run()
    except GuardInterrupted:
        raise Spinning(watch.found) from None
    finally:
        watch.end()


class _Watch:
    def __init__(self, seconds: float, about: Callable[[], str]) -> None:
        self.found = ""
        self._seconds = seconds
        self._about = about
        self._guarded = threading.get_ident()
        self._over = threading.Event()
        self._sent = False
        """Whether it has interrupted the run, once or several times."""
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="wall-clock guard", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Stop watching; an interruption that is still on its way is taken here.

        It is not called back: CPython 3.11 would look for it at every call from then on, and for ever at the
        first call under a tracer or a profiler. A thread has room for one, so one more is sent and awaited.
        """
        while True:
            try:
                with self._lock:
                    self._over.set()
                if self._sent:
                    self._interrupt()
                    while True:
                        pass
                break
            except GuardInterrupted:
                if self._over.is_set():
                    break
        self._thread.join()

    def _watch(self) -> None:
        patience = self._seconds
        while not self._over.wait(patience):
            with self._lock:
                if not self._over.is_set():
                    self.found = self.found or self._findings()
                    self._sent = True
                    self._interrupt()
            patience = _AGAIN

    def _findings(self) -> str:
        frame = sys._current_frames().get(self._guarded)  # noqa: SLF001 - the way to another thread's stack
        # From the callback that the event loop runs to the innermost frame.
        places: list[str] = []
        while frame is not None and frame.f_code is not _CALLS and len(places) < _FRAMES:
            places.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}")
            frame = frame.f_back
        stack = " > ".join(reversed(places))
        return f"no end after {self._seconds:g} s of the wall clock: {self._about()}\n  {stack}"

    def _interrupt(self) -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._guarded), ctypes.py_object(GuardInterrupted)
        )
