"""An asyncio event loop in virtual time: it never waits, it jumps to the next deadline.

Theory of operation. `BaseEventLoop` does one turn after the other: it waits for what the system has ready,
at most until the earliest timer, moves the timers that are due to the callbacks that are ready, and calls
those that were ready when the turn began. A loop in virtual time takes the same turns, and never waits:

* While anything is ready, time stands still.
* When nothing is ready but a timer is set, the instant of the earliest timer becomes the present. An hour of
  sleep takes as long as a microsecond.
* When there are neither, nothing can ever happen again. On a real system that is a run that hangs; here it is
  an error that names every task that waits, and where (`NothingScheduled`).

Three things make two runs the same, bit for bit. Time is set to a timer's instant, and never advanced by a
difference, which would drift by rounding. The clock's resolution is one step of the float at the present
instant, so that a timer is never called with another that is due next. And timers of one instant are called
in the order in which they were set, which asyncio's heap does not promise.

A run takes tens of thousands of turns, so a turn is a function of its own here and asks for nothing that
virtual time has not: no selector, no slow callbacks. Timers wait in the heap as tuples, which compare faster.

The jump is exact because nothing outside of the loop can become ready: sockets, threads, signals and
processes are refused (`RealWorldError`). What travels between server and driver goes by
`harness.world.network`.

A loop whose time moves by itself cannot tell a callback that schedules itself for ever from one that works:
turns at one instant are counted, and too many of them are an error that names who turns (`Spinning`). What
never returns to the loop is seen from outside, by `harness.world.virtual`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from asyncio.base_events import BaseEventLoop
from collections import Counter
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVarTuple

from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterator
    from contextvars import Context
    from types import FrameType

Ts = TypeVarTuple("Ts")

MOST_TURNS = 100_000
"""Turns of the loop at one instant after which something spins.

Whatever travels takes virtual time, and what does not is soon done: the cases of the public corpus need 139
turns at an instant at most. A count, and not seconds: a slow machine then finds what a fast one does.
"""

_WATCHED_TURNS = 100
"""Turns before that in which the loop takes down what it calls."""

_MOST_NAMED = 5

EPOCH = 1_767_225_600.0
"""2026-01-01T00:00:00Z, the date at which every run in virtual time begins."""


class NothingScheduled(RuntimeError):  # noqa: N818 - the name says what was found
    """No callback is ready and no timer is set: whatever is waited for can never happen."""


class Spinning(RuntimeError):  # noqa: N818 - the name says what was found
    """The run goes on for ever without getting anywhere; says who does that."""


class RealWorldError(RuntimeError):
    """Code in virtual time asked for threads, sockets or signals, which no virtual clock can wait for."""


Timer: TypeAlias = tuple[float, int, asyncio.TimerHandle]
"""A timer in the heap: its instant, then its number, as those of one instant are called in their order."""

_MANY_CANCELLED = 100
"""Cancelled timers in the heap from which on they are taken out, once they are more than half of it."""


class VirtualLoop(BaseEventLoop):
    """An event loop whose time moves only when nothing else can, and then to the next timer's instant.

    It takes the place of `BaseEventLoop._run_once`, and keeps `_ready` and `_scheduled` as that does, but for
    the form of the timers.
    """

    _ready: deque[asyncio.Handle]
    _scheduled: list[Timer]
    _timer_cancelled_count: int

    def __init__(self) -> None:
        super().__init__()
        self._virtual_now = 0.0
        self._timer_numbers = itertools.count()
        self._task_numbers = itertools.count(1)
        self._set_resolution()
        self._turns = 0
        self._called: Counter[str] = Counter()

    def time(self) -> float:
        """Return the virtual time in seconds; a loop begins at 0."""
        return self._virtual_now

    def jump(self) -> None:
        """Make the earliest timer's instant the present."""
        self._virtual_now = float(self._scheduled[0][0])
        self._set_resolution()
        self._turns = 0

    def _run_once(self) -> None:
        """Take one turn."""
        ready, scheduled = self._ready, self._scheduled
        self._drop_cancelled()
        if ready or self._stopping or (scheduled and scheduled[0][0] <= self._virtual_now):  # type: ignore[attr-defined]
            self.stay()
        elif scheduled:
            self.jump()
        else:
            now = f"nothing is scheduled at {self.time():.6f} s, and these wait:"
            raise NothingScheduled("\n".join([now, *_tasks(self)]))
        end = self._virtual_now + self._clock_resolution
        while scheduled and scheduled[0][0] < end:
            timer = heapq.heappop(scheduled)[2]
            timer._scheduled = False  # type: ignore[attr-defined]  # noqa: SLF001 - what BaseEventLoop does
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:  # noqa: SLF001 - see above
                handle._run()  # noqa: SLF001 - see above

    def _drop_cancelled(self) -> None:
        """Take cancelled timers out of the heap: all of them when they are many, else those in front."""
        scheduled, count = self._scheduled, self._timer_cancelled_count
        if count > _MANY_CANCELLED and 2 * count > len(scheduled):
            for _, _, timer in scheduled:
                timer._scheduled = not timer.cancelled()  # type: ignore[attr-defined]  # noqa: SLF001 - see above
            scheduled[:] = [each for each in scheduled if not each[2].cancelled()]
            heapq.heapify(scheduled)
            self._timer_cancelled_count = 0
        while scheduled and scheduled[0][2]._cancelled:  # noqa: SLF001 - see above
            self._timer_cancelled_count -= 1
            heapq.heappop(scheduled)[2]._scheduled = False  # type: ignore[attr-defined]  # noqa: SLF001 - see above

    def stay(self) -> None:
        """Turn once more at this instant. Raises `Spinning` when there is no end to it."""
        self._turns += 1
        if self._turns > MOST_TURNS - _WATCHED_TURNS:
            due = [timer for when, _, timer in self._scheduled if when <= self._virtual_now]
            self._called.update(_caller(handle) for handle in (*self._ready, *due) if not handle.cancelled())
            if self._turns >= MOST_TURNS:
                called, self._turns, self._called = self._called, 0, Counter()
                often = sorted(called.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST_NAMED]
                head = f"no end after {MOST_TURNS} turns at {self.time():.6f} s, and these turn:"
                lines = (
                    f"  {name} ({count} times in the last {_WATCHED_TURNS} turns)" for name, count in often
                )
                raise Spinning("\n".join([head, *lines]))

    def _set_resolution(self) -> None:
        # The loop calls timers earlier than `time() + _clock_resolution`: one step of the float, so that
        # those of this very instant are called and no other.
        self._clock_resolution = math.ulp(self._virtual_now)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._check_closed()  # type: ignore[attr-defined]
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, (when, next(self._timer_numbers), timer))
        timer._scheduled = True  # type: ignore[attr-defined]  # noqa: SLF001 - what BaseEventLoop.call_at does
        return timer

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self._check_closed()  # type: ignore[attr-defined]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def create_task(self, coro: Any, *, name: object = None, **options: Any) -> asyncio.Task[Any]:
        # asyncio numbers tasks across loops; here the names of a run are the same every time.
        return super().create_task(coro, name=name or f"task-{next(self._task_numbers)}", **options)

    def _write_to_self(self) -> None:
        """Do nothing: the loop never sleeps, so it need not be woken."""

    def close(self) -> None:
        if not self.is_closed():
            super().close()


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise RealWorldError(
            f"{name} is not available in virtual time: use the clock and the network of the run instead"
        )

    refuse.__name__ = name
    return refuse


_REAL_WORLD = (
    *("run_in_executor", "getaddrinfo", "getnameinfo"),
    *("add_signal_handler", "remove_signal_handler"),
    *("add_reader", "remove_reader", "add_writer", "remove_writer"),
    *("create_connection", "create_server", "connect_accepted_socket", "start_tls", "sendfile"),
    *("create_unix_connection", "create_unix_server", "create_datagram_endpoint"),
    *("connect_read_pipe", "connect_write_pipe", "subprocess_shell", "subprocess_exec"),
    *("sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into", "sock_sendall", "sock_sendto"),
    *("sock_connect", "sock_accept", "sock_sendfile"),
)

for _name in _REAL_WORLD:
    setattr(VirtualLoop, _name, _refusal(_name))


def _tasks(loop: asyncio.AbstractEventLoop) -> list[str]:
    """Return a line for each task of a loop that has not ended."""
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: (len(task.get_name()), task.get_name()))
    return [f"  {task.get_name()}: {_place(task)}" for task in tasks]


def _caller(handle: asyncio.Handle) -> str:
    """Return what a handle calls: a task and where it is, or a function."""
    callback: Any = handle._callback  # type: ignore[attr-defined]  # noqa: SLF001 - asyncio's own debug output does
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"{owner.get_name()}: {_place(owner)}"
    return str(getattr(callback, "__qualname__", callback))


def who_runs(loop: asyncio.AbstractEventLoop) -> str:
    """Return the task that a loop runs, or all of them between two; another thread may ask."""
    task = asyncio.current_task(loop)
    if task is not None:
        return f"at {loop.time():.6f} s {task.get_name()} runs"
    return "\n".join([f"at {loop.time():.6f} s the loop runs, with these tasks:", *_tasks(loop)])


def _place(task: asyncio.Task[Any]) -> str:
    """Return where a task waits, from its own code to the innermost await."""
    places = (
        f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"
        for frame in _frames(task.get_coro())
    )
    return " > ".join(places)


_AWAITING = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))


def _frames(awaited: object) -> Iterator[FrameType]:
    """Follow coroutines and generators to what they wait for."""
    while awaited is not None:
        for frame_name, next_name in _AWAITING:
            if (frame := getattr(awaited, frame_name, None)) is not None:
                yield frame
                awaited = getattr(awaited, next_name)
                break
        else:
            return


class VirtualClock(SystemClock):
    """The running loop's virtual time, and a date that begins at the same instant in every run."""

    is_real = False

    def now(self) -> float:
        # The most frequent question of a run in virtual time; `loop.time()` says the same by one more call.
        loop: Any = asyncio.get_running_loop()
        return loop._virtual_now  # type: ignore[no-any-return]  # noqa: SLF001 - of this module

    def utc(self) -> float:
        return EPOCH + self.now()
