"""The command as a process: started in a group of its own, with its output in files, ended with its time.

This module alone of the hunt knows the wall clock: a trial takes as long as the user's command does. The
group is killed when its first process ends, whatever it has left behind, because a server that outlives its
trial would go on asking. Output goes to files and not to pipes: nobody reads while the command runs, and a
pipe that is full would make it hang.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_OUTPUT_MOST: Final = 1_000_000
"""Bytes of each stream that are kept: the last ones."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a process. `code` is None for one that did not end within its limit."""

    code: int | None
    seconds: float
    output: str
    errors: str


def now() -> float:
    """Return seconds of a clock that never goes back."""
    return time.monotonic()


@dataclass(slots=True)
class Programs:
    """The processes of a hunt, which one call ends together."""

    words: Sequence[str]
    _running: set[int] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)
    _over: bool = False

    def run(self, variables: Mapping[str, str], limit: float) -> Ended:
        """Run the command to its end, for `limit` seconds at most. Raises `OSError` if it cannot start."""
        with TemporaryDirectory(prefix="pushbackd-hunt-") as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            began = now()
            with out.open("wb") as output, err.open("wb") as errors:
                process = self._start({**os.environ, **variables}, output.fileno(), errors.fileno())
            try:
                code: int | None = process.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            seconds = now() - began
            # What the command has left behind: servers that it started, and itself if it hangs.
            with self._lock:
                _kill(process.pid)
                self._running.discard(process.pid)
            process.wait()
            shell_code = code if code is None or code >= 0 else 128 - code
            return Ended(shell_code, seconds, _text(out), _text(err))

    def end_all(self) -> None:
        """End every process that runs, and start no more."""
        with self._lock:
            self._over = True
            for group in self._running:
                _kill(group)

    def _start(self, environment: Mapping[str, str], output: int, errors: int) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._over:
                raise InterruptedError("the hunt is over")
            process = subprocess.Popen(  # noqa: S603 - the user's own command
                self.words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            self._running.add(process.pid)
            return process


def watcher(seconds: float) -> Callable[[], float]:
    """Return a function that says how many of these seconds are left."""
    end = now() + seconds
    return lambda: end - now()


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _text(file: Path) -> str:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - _OUTPUT_MOST))
        return opened.read().decode(errors="replace")
