"""What `serve` tells people at a terminal, where its log would hide it: the URI, the page, how to end.

Standard output has the connection string and nothing else, at a terminal as in a pipe.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_WITHOUT_LINKS: Final = frozenset({"", "dumb", "unknown", "linux", "vt100"})
_SEVERITIES: Final = ('"s": "E"', '"s": "F"')


def is_watched() -> bool:
    """Return whether somebody looks at standard error."""
    return sys.stderr.isatty()


def errors_only(write: Callable[[str], None]) -> Callable[[str], None]:
    """Return what writes a line of the log if it tells of an error."""

    def write_error(line: str) -> None:
        if any(severity in line for severity in _SEVERITIES):
            write(line)

    return write_error


def link(url: str) -> str:
    """Return a URL that can be clicked (OSC 8), or as it is where the terminal cannot show such links."""
    if os.environ.get("TERM", "") in _WITHOUT_LINKS:
        return url
    return f"\x1b]8;;{url}\x1b\\{url}\x1b]8;;\x1b\\"


def told(page: str, server_id: str) -> list[str]:
    """Return the lines below the connection string, of a server that may have a page and an id."""
    elsewhere = f", or `pushbackd stop {server_id}`" if server_id else ""
    return [
        f"page: {link(page)}" if page else "page: none; --ui 8080 serves one",
        f"Ctrl-C ends it{elsewhere}; -v shows its log",
    ]
