"""At a terminal no long command is silent for long, whatever a single step of it takes.

How fast the machine is cannot be known, so that silence is compared with what the same command takes in all,
and with the start of the program.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from functools import cache
from typing import NamedTuple

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="has no such terminals")]

PYTHON = (sys.executable, "-m", "harness")
WAIT_SECONDS = 300.0

LONG = {
    "probing": ("simulate", "probing", "--start", "40", "--seconds", "12"),
    "overload": ("simulate", "overload", "--seconds", "12"),
    "governed": ("simulate", "governed", "--seconds", "12"),
    "article": ("simulate", "article", "--clients", "4000", "--engine", "plain", "--fixed"),
    "govern": ("govern", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=8000"),
}


class Heard(NamedTuple):
    """What a command wrote to its terminal, and the seconds between two writes; the first from its start."""

    text: str
    silences: list[float]

    @property
    def seconds(self) -> float:
        return sum(self.silences)


def at_a_terminal(*arguments: str, term: str = "xterm-256color") -> Heard:
    """Run a command whose output is a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": term, "COLUMNS": "80"}
    began = time.monotonic()
    with subprocess.Popen(
        [*PYTHON, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        silences, text = [], b""
        while select.select([ours], [], [], WAIT_SECONDS)[0]:
            try:
                read = os.read(ours, 65536)
            except OSError:  # Linux: the other side has closed
                break
            if not read:
                break
            now = time.monotonic()
            silences.append(now - began)
            began, text = now, text + read
        os.close(ours)
        process.wait(WAIT_SECONDS)
    return Heard(text.decode(errors="replace"), silences)


@cache
def start_seconds() -> float:
    return at_a_terminal("--version").seconds


@pytest.mark.parametrize("name", LONG)
def test_a_long_command_tells_all_the_time_that_it_works(name: str) -> None:
    start = start_seconds()
    heard = at_a_terminal(*LONG[name])
    first, *others = heard.silences
    assert first <= max(3 * start + 2, heard.seconds / 3), heard.text
    assert max(others) <= max(2.0, heard.seconds / 3), heard.text


def test_a_dumb_terminal_gets_no_control_characters() -> None:
    heard = at_a_terminal("lint", term="dumb")
    assert "\x1b" not in heard.text
