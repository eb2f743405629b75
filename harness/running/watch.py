"""Watching: files that are saved are run again, until Ctrl-C.

Files are polled several times a second. That takes milliseconds for hundreds of them, works on every file
system, and needs no library.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Final

import click

from harness.planning.discovery import BadInputError, bundled_root, discover
from harness.planning.result import ExitCode
from harness.world import interruption

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

INTERVAL: Final = 0.2
"""Seconds between two polls."""

_SETTLING: Final = 0.05
"""Seconds for which a file must stay unchanged before it is run: editors write in several steps."""

_SUFFIXES: Final = (".yml", ".yaml", ".json")


class WatchedFiles:
    """The state of files, and of those in folders, at the last poll.

    With `servers`, scenarios for servers count as well.
    """

    def __init__(self, paths: Sequence[Path], *, servers: bool = False) -> None:
        self._paths = tuple(paths) or (bundled_root(),)
        self._servers = servers
        self._seen = self._look()

    def is_settled(self) -> bool:
        """Poll; return whether nothing changed."""
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
        """Return the scenarios that exist now."""
        try:
            return discover([path for path in self._paths if path.exists()], servers=self._servers)
        except BadInputError:
            return ()

    def _look(self) -> dict[Path, tuple[int, int]]:
        """Return the time of the last write and the size of each file."""
        states: dict[Path, tuple[int, int]] = {}
        for path in self._paths:
            below = (each for each in path.rglob("*") if each.suffix in _SUFFIXES)
            for file in below if path.is_dir() else (path,):
                with suppress(OSError):  # a file may go away at any time
                    facts = file.stat()
                    states[file] = facts.st_mtime_ns, facts.st_size
        return states


def watch(
    paths: Sequence[Path],
    run: Callable[[Sequence[Path]], ExitCode],
    *,
    servers: bool = False,
    pause: Callable[[float], None] | None = None,
) -> ExitCode:
    """Run everything, then what is saved, until Ctrl-C; return the code of the last run.

    With `servers`, scenarios for servers count as well.

    Files that cannot be used are shown, and watching goes on. Raises `UsageError`, which no file mends, and
    `Interrupted` for a Ctrl-C in the middle of a run and for every other signal.
    """
    watched = WatchedFiles(paths, servers=servers)
    code = _attempt(run, paths)
    while True:
        try:
            word, files = code.name.lower().replace("_", " "), len(watched.scenarios())
            text = f"{word}; watching {files} file{'s' * (files != 1)}, Ctrl-C ends"
            click.secho(text, fg="green" if code is ExitCode.PASSED else "red", err=True)
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


def _pause(seconds: float) -> None:
    """Wait on the wall's clock. Raises `Interrupted` after a signal."""
    Event().wait(seconds)
    interruption.check()
