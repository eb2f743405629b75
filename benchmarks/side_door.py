"""How fast the control listener answers while the deployment does not.

`python -m benchmarks.side_door` starts a server in a process of its own and asks for its state over the
control listener: at rest, while every request is refused, while a member is paused, and while requests wait,
10,000 of them by default, each on a connection of its own. It prints the median and the slowest answer of
each. Times are milliseconds of the wall clock: read them on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import resource
import socket
import statistics
import struct
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import bson

from fakeserver.control.client import ControlClient
from fakeserver.control.registry import Registry
from harness.deployments.launching import launched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.control.registry import RegistryEntry

_ASKED = 200
_MS = 1000.0
_HELD = {"failCommands": ["ping"], "blockConnection": True, "blockTimeMS": 3_600_000}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each state of the deployment."""
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--waiting", type=int, default=10_000, help="requests that wait (default 10000)")
    waiting = parse.parse_args(arguments).waiting
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    limits = ["--replSet", "rs0", "--setParameter", "ingressRequestRateLimiterEnabled=true"]
    with tempfile.TemporaryDirectory() as home, launched(limits, "bench", Registry(Path(home))) as entry:
        control = ControlClient(entry)
        _report("at rest", control)
        control.perform("setFailPoint", {"name": "failIngressRequestRateLimiting"})
        _report("every request is refused", control)
        control.perform("failPointsOff")
        control.perform("pause", {"node": "node1"})
        _report("a member is paused", control)
        control.perform("resume", {"node": "node1"})
        control.perform("setFailPoint", {"name": "failCommand", "data": _HELD})
        with ExitStack() as stack:
            _have_wait(entry, waiting, stack)
            while _entered(control) < waiting:
                pass
            _report(f"{waiting} requests wait", control)


def _have_wait(entry: RegistryEntry, count: int, stack: ExitStack) -> None:
    host, _, port = entry.uri.removeprefix("mongodb://").split(",")[0].partition(":")
    body = bytes(5) + bson.encode({"ping": 1, "$db": "admin"})
    message = struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body
    for _ in range(count):
        connection = stack.enter_context(socket.create_connection((host, int(port))))
        connection.sendall(message)


def _entered(control: ControlClient) -> int:
    points = control.perform("listFailPoints")["failPoints"]
    return next(int(each["timesEntered"]) for each in points if each["name"] == "failCommand")


def _report(state: str, control: ControlClient) -> None:
    took = []
    for _ in range(_ASKED):
        started = time.perf_counter()
        control.perform("state")
        took.append((time.perf_counter() - started) * _MS)
    print(f"{state:28} median {statistics.median(took):6.2f} ms  slowest {max(took):6.2f} ms")


if __name__ == "__main__":
    main()
