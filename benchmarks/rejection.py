"""What saying no costs: server CPU per request that the rate limiter rejects, beside one that it admits.

`python -m benchmarks.rejection` sends pings over loopback to a server in a process of its own, in alternating
rounds with tokens for all of them and with none, and prints the medians and their ratio. `--command find`
sends queries that find nothing instead.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.limited import ENOUGH_TOKENS, NO_TOKENS, PING, limited_server
from benchmarks.raw_client import encoded

if TYPE_CHECKING:
    from benchmarks.limited import Control
    from benchmarks.server_cpu import Contestant

_MICROSECONDS = 1e6
_FIND = {"find": "nothing", "filter": {"name": "Ada"}, "limit": 1, "$db": "benchmark"}
COMMANDS = {"ping": PING, "find": _FIND | {name: PING[name] for name in ("lsid", "$clusterTime")}}


def measure(server: Contestant, requests: int, command: str) -> float:
    """Send a command so many times; return the server's CPU time for each, in microseconds."""
    message = encoded(COMMANDS[command])
    before = server.usage()
    server.client.run(lambda: message, requests)
    return (server.usage().cpu - before.cpu) / requests * _MICROSECONDS


def _rejections(control: Control) -> int:
    rejected: int = control.status()["network"]["ingressRequestRateLimiter"]["rejectedAdmissions"]
    return rejected


def run(*, rounds: int, requests: int, connections: int, command: str = "ping") -> dict[str, Any]:
    """Measure both ways in turn, and return a report made of numbers."""
    admitted, rejected = [], []
    with limited_server(connections) as (server, control):
        measure(server, requests, command)
        for _ in range(rounds):
            control.set(ENOUGH_TOKENS)
            admitted.append(measure(server, requests, command))
            control.set(NO_TOKENS)
            rejected.append(measure(server, requests, command))
        count = _rejections(control)
    admitted_us, rejected_us = statistics.median(admitted), statistics.median(rejected)
    return {
        "command": command,
        "python": platform.python_version(),
        "rounds": rounds,
        "requests": requests,
        "connections": connections,
        "rejections": count,
        "admitted_us": admitted_us,
        "rejected_us": rejected_us,
        "ratio": rejected_us / max(admitted_us, 1e-3),
    }


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    setting = (
        f"Python {report['python']}, {report['connections']} connections, "
        f"median of {report['rounds']} rounds of {report['requests']} requests"
    )
    return "\n".join(
        [
            setting,
            f"{'admitted ' + report['command']:24}{report['admitted_us']:8.1f} µs of server CPU",
            f"{'rejected ' + report['command']:24}{report['rejected_us']:8.1f} µs of server CPU",
            f"{'ratio':24}{report['ratio']:8.2f}",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rejection", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=10_000, help="requests of each round")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--command", choices=list(COMMANDS), default="ping")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    report = run(
        rounds=options.rounds,
        requests=options.requests,
        connections=options.connections,
        command=options.command,
    )
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
