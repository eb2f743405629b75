"""A worker process: items in on standard input, results out on standard output, one JSON document a line.

The first line holds the settings of the run. The end of the input ends the worker, so that it never outlives
the process that started it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress

from harness.running import interruption
from harness.running.collecting import collecting_seldom
from harness.running.executor import ItemExecutor
from harness.running.plan import Item, Settings


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
