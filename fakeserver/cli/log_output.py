"""The log of a served deployment: to standard error, a file, or the system's log."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

_SEVERITIES_OF_QUIET: Final = ('"s": "W"', '"s": "E"', '"s": "F"')


@contextmanager
def log_output(
    path: str = "", *, append: bool = False, syslog: bool = False, quiet: bool = False
) -> Iterator[Callable[[str], None]]:
    """Give the function that writes a line of the log. Raises `OSError` for a file that cannot be written."""
    with ExitStack() as stack:
        write: Callable[[str], None] = to_stderr
        if syslog:
            write = _to_syslog()
        elif path:
            write = _to_file(stack.enter_context(Path(path).open("a" if append else "w", encoding="utf-8")))
        yield _only_warnings(write) if quiet else write


def to_stderr(line: str) -> None:
    """Write a line of the log. A closed or full standard error does not end the server."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        drop_stderr()
    except OSError:
        return  # the next line may find room


def drop_stderr() -> None:
    """Discard everything from now on: the interpreter flushes at its end, and would fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stderr.fileno())
        os.close(nowhere)


def _to_file(file: TextIO) -> Callable[[str], None]:
    def write(line: str) -> None:
        with suppress(OSError):  # a full disk does not end the server
            file.write(line + "\n")
            file.flush()

    return write


def _to_syslog() -> Callable[[str], None]:
    try:
        import syslog  # noqa: PLC0415 - not on every system
    except ImportError:
        raise OSError("--syslog: this system has no system log") from None
    return syslog.syslog


def _only_warnings(write: Callable[[str], None]) -> Callable[[str], None]:
    def write_warning(line: str) -> None:
        if any(severity in line for severity in _SEVERITIES_OF_QUIET):
            write(line)

    return write_warning
