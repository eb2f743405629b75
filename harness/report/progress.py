"""Progress of long work, on standard error: a bar on a terminal, and a line from time to time elsewhere.

Nothing is silent for more than a second at a terminal, nor for more than ten seconds in a pipe: bar and lines
are drawn by threads of their own, also while a single step takes minutes.

`progress` counts the results of a run and what failed, `counted` steps with a word each, `work` anything with
or without a total; `SignsOfLife` is for a caller that has no block. On a terminal they draw a bar, which goes
when the work is done; elsewhere they print lines, or nothing (`counted`). Lines are dated by a clock, which
tests replace.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from functools import partial
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final

import click

from harness.planning.result import Result, ResultStatus, Tally
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mongowire.ports import Clock

_ESTIMATED_OVER: Final = 3600.0
"""Seconds of the past by which the rest is estimated: a step may take minutes."""


_SIGN_OF_LIFE: Final = 10.0
"""Seconds between two lines where there is no terminal."""

_DUMB: Final = ("dumb", "unknown")
"""Terminals on which nothing can be drawn again in its place."""


def is_animated() -> bool:
    """Return whether standard error is a terminal that can show a bar."""
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in _DUMB


@contextmanager
def progress(
    total: int, *, wanted: bool, color: bool | None, clock: Clock | None = None
) -> Iterator[Callable[[Result], None]]:
    """Show how far the run is, while the block runs; call what it gives with each result."""
    if not wanted:
        yield lambda _: None
        return
    failed: list[Result] = []
    showing = counted if is_animated() else partial(_signs_of_life, clock=clock or SystemClock())
    with showing(total, color=color) as advance:

        def take(result: Result) -> None:
            if result.status is not ResultStatus.PASSED:
                failed.append(result)
            advance(str(Tally.of(failed)) if failed else "")

        yield take


@contextmanager
def _signs_of_life(total: int, *, clock: Clock, color: bool | None) -> Iterator[Callable[[str], None]]:
    """Print how many of so many are done, ten seconds or more after the last line, also in a long case."""
    began = last = clock.utc()
    done, told, ended, telling = 0, "", Event(), Lock()

    def tell() -> None:
        nonlocal last
        now = clock.utc()
        if now - last >= _SIGN_OF_LIFE and done < total:
            last = now
            click.echo(f"{done} of {total} after {now - began:.0f} s{told}", err=True, color=color)

    def advance(description: str) -> None:
        nonlocal done, told
        with telling:
            done, told = done + 1, f" ({description})" if description else ""
            tell()

    def tell_now_and_then() -> None:
        while not ended.wait(_SIGN_OF_LIFE / 10):
            with telling:
                tell()

    teller = Thread(target=tell_now_and_then, name="signs of life", daemon=True)
    teller.start()
    try:
        yield advance
    finally:
        ended.set()
        teller.join()


@contextmanager
def counted(total: int, *, color: bool | None = None) -> Iterator[Callable[[str], None]]:
    """Show how many of so many are done, on a terminal; call what it gives at each, with a description."""
    if not is_animated():
        yield lambda _: None
        return
    from rich import console, progress  # noqa: PLC0415 - rich is worth its import on a terminal only

    columns = (
        *(progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeElapsedColumn()),
        progress.TextColumn("{task.description}"),
    )
    output = console.Console(stderr=True, no_color=True if color is False else None)
    with progress.Progress(*columns, console=output, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda description: bar.update(task, advance=1, description=description)


class SignsOfLife:
    """Lines about work that goes on: how far it is, ten seconds or more after the last line."""

    def __init__(self, what: str, total: int = 0, *, done: float = 0, clock: Clock | None = None) -> None:
        self._what, self._total, self._done = what, total, done
        self._clock = clock or SystemClock()
        self._began = self._last = self._clock.utc()

    def advance(self, steps: float = 1) -> None:
        """Count steps that are done."""
        self._done += steps

    def tell(self) -> None:
        """Print a line if one is due."""
        now = self._clock.utc()
        if now - self._last < _SIGN_OF_LIFE:
            return
        self._last = now
        far = f"{self._done:g} of {self._total} " if self._total else ""
        click.echo(f"{self._what}: {far}after {now - self._began:.0f} s", err=True)


@contextmanager
def work(what: str, total: int = 0, *, done: float = 0) -> Iterator[Callable[[float], None]]:
    """Show that work goes on, and how many of its steps are done where there is a `total`.

    Call what it gives with the number of steps that have been done since.
    """
    with (_animated if is_animated() else _lines)(what, total, done) as advance:
        yield advance


@contextmanager
def _lines(what: str, total: int, done: float) -> Iterator[Callable[[float], None]]:
    signs, ended = SignsOfLife(what, total, done=done), Event()

    def tell_now_and_then() -> None:
        while not ended.wait(_SIGN_OF_LIFE / 10):
            signs.tell()

    teller = Thread(target=tell_now_and_then, name="signs of life", daemon=True)
    teller.start()
    try:
        yield signs.advance
    finally:
        ended.set()
        teller.join()


@contextmanager
def _animated(what: str, total: int, done: float) -> Iterator[Callable[[float], None]]:
    from rich import console, progress  # noqa: PLC0415 - as above

    shown: list[progress.ProgressColumn] = [
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
    ]
    if total:
        shown += [progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeElapsedColumn()]
        shown += [progress.TextColumn("left:"), progress.TimeRemainingColumn()]
    else:
        shown.append(progress.TimeElapsedColumn())
    with progress.Progress(
        *shown,
        console=console.Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        speed_estimate_period=_ESTIMATED_OVER,
    ) as bar:
        task = bar.add_task(what, total=total or None, completed=round(done))
        yield lambda steps: bar.advance(task, steps)
