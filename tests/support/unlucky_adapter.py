"""An adapter's process that has no driver and answers all that it is asked, until something befalls it.

Nothing but the standard library is imported: tests start dozens of these.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable

_AT_ONCE = 1000
"""Complaints of 64 KiB without a pause, in which whoever reads them slowly would drown."""
HELLO = {"protocol": 1, "name": "child", "features": ["COMMAND_EVENTS"]}


def _wait() -> None:
    threading.Event().wait()


def _say(line: str | bytes, out: BinaryIO) -> None:
    out.write(line.encode() + b"\n" if isinstance(line, str) else line)
    out.flush()


def _hang(_out: BinaryIO) -> None:
    _wait()


def _hang_and_say_so(_out: BinaryIO) -> None:
    with open(f"{sys.argv[2]}.hung", "w") as hung:  # noqa: PTH123 - it may be a pipe
        hung.write("hung")
    _wait()


def _hang_with_a_child(out: BinaryIO) -> None:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[2]])
    _hang(out)


def _leave_a_child_with_the_output(out: BinaryIO) -> None:
    """The child has left the group of its parent, and keeps the output open until the input ends."""
    reader = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    subprocess.Popen(reader, pass_fds=[out.fileno()], start_new_session=True)
    os._exit(5)


def _complain_without_end(_out: BinaryIO) -> None:
    for number in count():
        os.write(2, b"!" * 65536)
        if number > _AT_ONCE:
            time.sleep(0.01)


def _die(_out: BinaryIO) -> None:
    print("the last words", file=sys.stderr, flush=True)  # noqa: T201 - that is the mishap
    os.kill(os.getpid(), signal.SIGKILL)


def _leave(_out: BinaryIO) -> None:
    sys.exit(3)


def _leave_within_a_line(out: BinaryIO) -> None:
    _say(b'{"id": 5, "resu', out)
    os._exit(0)


def _close_output(out: BinaryIO) -> None:
    out.flush()
    os.closerange(3, 64)  # whatever may hold it
    _wait()


MISHAPS: dict[str, Callable[[BinaryIO], None]] = {
    "babbles": partial(_say, "Segmentation fault (core dumped)"),
    "writes no text": partial(_say, b"\xff\xfe\x00\n"),
    "writes an impossible date": partial(_say, '{"id": 1, "result": {"$date": {"$numberLong": "1e99"}}}'),
    "leaves within a line": _leave_within_a_line,
    "hangs": _hang,
    "hangs and says so": _hang_and_say_so,
    "hangs with a child": _hang_with_a_child,
    "complains without end": _complain_without_end,
    "dies": _die,
    "leaves": _leave,
    "closes its output": _close_output,
    "leaves a child with its output": _leave_a_child_with_the_output,
    "answers what nobody asked": partial(_say, '{"id": 999, "result": null}'),
    "answers twice": partial(_say, '{"id": 2, "result": null}'),
    "omits a part": partial(_say, '{"event": {"kind": "commandStartedEvent"}}'),
    "calls a truth a text": partial(_say, '{"id": 5, "error": {"message": "no", "isClientError": "yes"}}'),
    "writes without end": lambda out: _say("x" * (65 << 20), out),
}
"""What befalls a process when it is asked for `insertOne` the first time that any process is."""


def is_due(request: dict[str, Any], once: str) -> bool:
    """Return whether the mishap's time has come; the file `once` remembers that it was there."""
    if request.get("params", {}).get("operation") != "insertOne":
        return False
    try:
        with open(once, "x"):  # noqa: PTH123 - mode x is what is wanted
            return True
    except FileExistsError:
        return False


def main(mishap: str, once: str) -> None:
    """Answer until the input ends."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # `out` alone speaks to the harness
    for line in sys.stdin:
        request = json.loads(line)
        if is_due(request, once):
            MISHAPS[mishap](out)
        answer: dict[str, Any] = {"result": HELLO if request["method"] == "hello" else None}
        if request["method"] in {"client", "create"}:
            answer = {"entity": True}
        _say(json.dumps({"id": request["id"], **answer}), out)


if __name__ == "__main__":
    main(*sys.argv[1:])
