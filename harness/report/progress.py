"""Progress of a run, on standard error: a bar on a terminal, and a line from time to time elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from harness.running.result import Result, ResultStatus, Tally
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mongowire.ports import Clock

_ESTIMATED_OVER: Final = 3600.0
"""Seconds of the past by which the rest is estimated: a step may take minutes."""


_SIGN_OF_LIFE: Final = 10.0
"""Seconds between two lines where there is no terminal."""


@contextmanager
def progress(
    total: int, *, wanted: bool, color: bool | None, clock: Clock | None = None
) -> Iterator[Callable[[Result], None]]:
    """Show how far the run is, while the block runs; call what it gives with each result."""
    if not wanted:
        yield lambda _: None
        return
    failed: list[Result] = []
    showing = counted if sys.stderr.isatty() else partial(_signs_of_life, clock=clock or SystemClock())
    with showing(total, color=color) as advance:

        def take(result: Result) -> None:
            if result.status is not ResultStatus.PASSED:
                failed.append(result)
            advance(str(Tally.of(failed)) if failed else "")

        yield take


@contextmanager
def _signs_of_life(total: int, *, clock: Clock, color: bool | None) -> Iterator[Callable[[str], None]]:
    """Print how many of so many are done, at the first result after each ten seconds."""
    began = last = clock.utc()
    done = 0

    def advance(description: str) -> None:
        nonlocal last, done
        done, now = done + 1, clock.utc()
        if now - last >= _SIGN_OF_LIFE and done < total:
            last, told = now, f" ({description})" if description else ""
            click.echo(f"{done} of {total} after {now - began:.0f} s{told}", err=True, color=color)

    yield advance


@contextmanager
def counted(total: int, *, color: bool | None = None) -> Iterator[Callable[[str], None]]:
    """Show how many of so many are done, on a terminal; call what it gives at each, with a description."""
    if not sys.stderr.isatty():
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


@contextmanager
def steps(total: int, *, done: int = 0) -> Iterator[Callable[[], None]]:
    """Show how many of some steps are done, and how long the others will take; call what it gives at each."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich import console, progress  # noqa: PLC0415 - as above

    left = (progress.TextColumn("left:"), progress.TimeRemainingColumn())
    bar = progress.Progress(
        *(progress.BarColumn(), progress.MofNCompleteColumn(), *left),
        console=console.Console(stderr=True),
        transient=True,
        speed_estimate_period=_ESTIMATED_OVER,
    )
    with bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda: bar.advance(task)
