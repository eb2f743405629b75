"""Workers that are forks of this process: what it has imported and read is there from their first instant.

An interpreter of its own would import everything again and read the scenario files anew, which takes each
worker as long as a hundred cases.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from harness.running import interruption
from harness.running.executor import ItemExecutor
from harness.running.immediate_exit import SIGNALS
from harness.running.plan import Item, Settings
from harness.running.processes import collecting_seldom

if TYPE_CHECKING:
    from typing import TextIO


_STANDARD: Final = (0, 1, 2)


def serve() -> NoReturn:
    """Be a worker for the rest of this process: a fork whose standard streams are pipes already.

    This is what a subprocess calls before its program (`preexec_fn`), to which it never comes. The parent
    waits until that pipe is closed by which it would hear that the program cannot be started.
    """
    _let_go()
    code: object = 1
    try:
        _leave_the_parent()
        main()
        code = 0
    except SystemExit as left:
        code = left.code
    except BaseException:  # noqa: BLE001 - callers of before the fork must not hear of it
        traceback.print_exc()
    finally:
        # Nothing else is flushed or closed: what is open was opened by the parent.
        os._exit(code if isinstance(code, int) else 1)


def _let_go() -> None:
    """Hold none of the parent's files and sockets, that pipe among them, by descriptors that stay taken.

    The objects that own them are here as well, and close theirs when they are collected: a free one would be
    a connection of our own by then.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
        if descriptor not in {*_STANDARD, nothing}:
            os.dup2(nothing, descriptor, inheritable=False)


def _leave_the_parent() -> None:
    """Have streams, signals and a garbage collection of its own."""
    gc.enable()  # Python forks without
    signal.set_wakeup_fd(-1)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
    interruption.begin_anew()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout, sys.stderr = _to(1), _to(2)


def _to(descriptor: int) -> TextIO:
    """Return a stream of lines: nothing is left to flush at the end."""
    return open(descriptor, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)


# A worker process: items in on standard input, results out on standard output, one JSON document a line.
#
# The first line holds the settings of the run. The end of the input ends the worker, so that it never
# outlives the process that started it.


def main() -> None:
    """Serve one run, until its input ends or SIGTERM comes; then no deployment and no adapter is left."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a driver prints must not be taken for a result
    with suppress(interruption.Interrupted, BrokenPipeError), interruption.listening(), answers:
        settings = Settings.from_dict(json.loads(sys.stdin.readline()))
        with ItemExecutor(settings) as executor, collecting_seldom():
            signal.signal(signal.SIGINT, lambda *_: executor.loops.end())
            for line in sys.stdin:
                result = executor.run(Item(**json.loads(line)))
                answers.write(json.dumps(result.to_dict()) + "\n")
                answers.flush()


if __name__ == "__main__":
    main()
