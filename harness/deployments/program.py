"""A program of the user's, run to its end: signals go on to it, and its exit code is what shells say."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from harness.running import interruption

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def run_program(program: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program, and return its exit code; of one that a signal ended, what shells say.

    Raises `OSError` where it cannot start.
    """
    process = subprocess.Popen(program, env=environment)  # noqa: S603 - the user's own command
    while True:
        try:
            code = process.wait()
        except interruption.Interrupted as signalled:
            process.send_signal(signalled.number)
            interruption.forget()
        else:
            return code if code >= 0 else 128 - code
