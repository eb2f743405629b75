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
from typing import TextIO

from harness import interruption
from harness.bench import Bench
from harness.plan import Item, Settings


def main() -> None:
    """Serve one run, until its input ends or SIGTERM comes; then no deployment and no adapter is left."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a driver prints must not be taken for a result
    with suppress(interruption.Interrupted, BrokenPipeError), interruption.listening(), answers:
        _serve(sys.stdin, answers)


def _serve(questions: TextIO, answers: TextIO) -> None:
    with Bench(Settings.from_dict(json.loads(questions.readline()))) as bench:
        signal.signal(signal.SIGINT, lambda *_: bench.loops.end())
        for line in questions:
            result = bench.run(Item(**json.loads(line)))
            answers.write(json.dumps(result.to_dict()) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
