"""Commands whose output is a terminal: what they wrote to it, and for how long they were silent."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from started import Started

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PYTHON = (sys.executable, "-m", "harness")
WAIT_SECONDS = 300.0


class Heard(NamedTuple):
    """What a command wrote, the seconds before each write (the first from its start), and its exit code."""

    text: str
    silences: list[float]
    code: int

    @property
    def seconds(self) -> float:
        return sum(self.silences)


def at_a_terminal(
    *arguments: str,
    columns: int = 80,
    variables: Mapping[str, str] | None = None,
    until: Callable[[str], bool] = lambda _: False,
) -> Heard:
    """Run a command at a terminal of so many columns; with Ctrl-C at the end where `until` says so."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), **(variables or {})}
    began = time.monotonic()
    with Started(
        [*PYTHON, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        silences: list[float] = []
        text = ""
        while select.select([ours], [], [], WAIT_SECONDS)[0]:
            try:
                read = os.read(ours, 65536)
            except OSError:  # Linux: the other side has closed
                break
            if not read:
                break
            now = time.monotonic()
            silences.append(now - began)
            began, text = now, text + read.decode(errors="replace")
            if until(text):
                process.send_signal(signal.SIGINT)
                until = lambda _: False  # noqa: E731 - once is enough
        os.close(ours)
        code = process.wait(WAIT_SECONDS)
    return Heard(text, silences, code)
