"""Watching: what is saved is run again, until the user has seen enough.

Files are looked at several times a second, which takes a few milliseconds for some hundred of them, works on
every file system, and needs no library.
"""

from __future__ import annotations

import signal
import sys
from threading import Event
from typing import TYPE_CHECKING, Final

import click

from harness import interruption
from harness.discovery import BadInputError, bundled_root, discover
from harness.result import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

INTERVAL: Final = 0.2
"""Seconds between two looks."""

_SETTLING: Final = 0.05
"""Seconds for which a file must stay as it is: editors write in several steps."""

_SUFFIXES: Final = (".yml", ".yaml", ".json")


class Watched:
    """Files, and those in folders, as they were when they were last looked at."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = tuple(paths) or (bundled_root(),)
        self._seen = self._look()

    def is_settled(self) -> bool:
        """Look; return whether everything is as it was."""
        before, self._seen = self._seen, self._look()
        return before == self._seen

    def wait(self, pause: Callable[[float], None]) -> tuple[Path, ...]:
        """Wait until scenarios have been saved, and return them; `pause` waits for so many seconds."""
        while True:
            before = self._seen
            pause(INTERVAL)
            if self.is_settled():
                continue
            pause(_SETTLING)
            while not self.is_settled():
                pause(_SETTLING)
            saved = {path for path, state in self._seen.items() if before.get(path) != state}
            if scenarios := tuple(path for path in self.scenarios() if path in saved):
                return scenarios

    def scenarios(self) -> tuple[Path, ...]:
        """Return the scenarios that are there now."""
        try:
            return discover([path for path in self._paths if path.exists()])
        except BadInputError:
            return ()

    def _look(self) -> dict[Path, tuple[int, int]]:
        return {path: state for path in self._files() if (state := _state(path)) is not None}

    def _files(self) -> Iterator[Path]:
        for path in self._paths:
            if path.is_dir():
                yield from (below for below in path.rglob("*") if below.suffix in _SUFFIXES)
            else:
                yield path


def _state(path: Path) -> tuple[int, int] | None:
    """Return when a file was written and how long it is, or None: it may go away at any time."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size


def watch(
    paths: Sequence[Path],
    run: Callable[[Sequence[Path]], ExitCode],
    *,
    pause: Callable[[float], None] | None = None,
) -> ExitCode:
    """Run everything, then what is saved, until the user has seen enough; return the code of the last run.

    Files that cannot be used are shown, and watching goes on. Raises `UsageError`, which no file mends, and
    `Interrupted` for a Ctrl-C in the middle of a run and for every other signal.
    """
    watched = Watched(paths)
    code = _attempt(run, paths)
    while True:
        try:
            _say(code, len(watched.scenarios()))
            saved = watched.wait(pause or _pause)
        except interruption.Interrupted as end:
            if end.number is not signal.SIGINT:
                raise
            interruption.forget()
            return code
        if sys.stdout.isatty():
            click.clear()
        code = _attempt(run, saved)


def _attempt(run: Callable[[Sequence[Path]], ExitCode], paths: Sequence[Path]) -> ExitCode:
    try:
        return run(paths)
    except click.UsageError:
        raise
    except click.ClickException as error:
        error.show()
        return ExitCode.BAD_INPUT


def _say(code: ExitCode, files: int) -> None:
    word = code.name.lower().replace("_", " ")
    color = "green" if code is ExitCode.PASSED else "red"
    what = f"{files} file{'s' * (files != 1)}"
    click.secho(f"{word}; watching {what}, Ctrl-C ends", fg=color, err=True)


def _pause(seconds: float) -> None:
    """Wait on the wall's clock. Raises `Interrupted` when the user has had enough."""
    Event().wait(seconds)
    interruption.check()
