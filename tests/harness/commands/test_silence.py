"""At a terminal no long command is silent for long, whatever a single step of it takes.

How fast the machine is cannot be known, so that silence is compared with what the same command takes in all,
and with the start of the program.
"""

from __future__ import annotations

import pytest
from sizes import in_full
from terminals import at_a_terminal

from harness.planning.discovery import bundled_root

pytestmark = pytest.mark.slow

LONG = {
    "probing": ("simulate", "probing", "--start", "40", "--seconds", "6"),
    "overload": ("simulate", "overload", "--seconds", "3"),
    "governed": ("simulate", "governed", "--seconds", "8"),
    "article": ("simulate", "article", "--clients", "4000", "--engine", "plain", "--fixed"),
    "govern": ("govern", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=8000"),
}


def start_seconds() -> float:
    return at_a_terminal("--version").seconds


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=in_full("measurements", "tells of its trials as overload does"))
        if name in {"probing", "governed"}
        else name
        for name in LONG
    ],
)
def test_a_long_command_tells_all_the_time_that_it_works(name: str) -> None:
    before, heard, after = start_seconds(), at_a_terminal(*LONG[name]), start_seconds()
    start = max(before, after)
    first, *others = heard.silences
    assert first <= max(3 * start + 2, heard.seconds / 3), heard.text
    assert max(others) <= max(2.0, heard.seconds / 3), heard.text


def test_a_dumb_terminal_gets_no_control_characters() -> None:
    files = str(bundled_root() / "retryable-reads")
    assert "\x1b" in at_a_terminal("lint", files).text
    assert "\x1b" not in at_a_terminal("lint", files, variables={"TERM": "dumb"}).text
