"""The dialogue of runner and adapter in one case: kept for its timeline, and written to a file at once."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.running.result import Moment

if TYPE_CHECKING:
    from pathlib import Path

REQUEST: Final = "→"
ANSWER: Final = "←"
"""The arrows of lines to the adapter and from it."""


class DialogueLine(NamedTuple):
    """A line with the instant of the deployment's clock at which it was written or read."""

    at: float
    arrow: str
    text: str

    def to_moment(self, origin: float) -> Moment:
        """Return the line for a timeline, whose instants are seconds since `origin`."""
        kind = "request" if self.arrow == REQUEST else "answer"
        return Moment(self.at - origin, "client", "adapter", kind, "", None, f"{self.arrow} {self.text}")


class AdapterDialogue:
    """What is said in one case. `trace` is a file that processes of one run share; None for no such file."""

    def __init__(self, about: str, *, keeps: bool = False, trace: Path | None = None) -> None:
        self.lines: list[DialogueLine] = []
        self._keeps = keeps
        self._trace = trace
        self._write(f"{os.getpid()} {about}")

    def hear(self, arrow: str, line: bytes, at: float) -> None:
        """Take a line, as it is on the pipe. A file that cannot be written on ends early."""
        text = line.decode(errors="replace").rstrip("\n")
        if self._keeps:
            self.lines.append(DialogueLine(at, arrow, text))
        self._write(f"{os.getpid()} {at:.6f} {arrow} {text}")

    def _write(self, text: str) -> None:
        """Append a line by itself, so that those of several processes stay whole."""
        if self._trace is not None:
            with suppress(OSError), self._trace.open("ab", buffering=0) as file:
                file.write(f"{text}\n".encode())
