"""How exactly the request rate limiter keeps its rate, over TCP, under more load than it admits.

`python -m benchmarks.admitted_rate` floods a server in a process of its own with pings, and counts by the
server's own status how many were admitted in the seconds that passed on the server. Where no requests were
rejected the client, or the machine, was too slow to tell; the table says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.limited import BARE_PING, limited_server
from benchmarks.raw_client import encoded

if TYPE_CHECKING:
    from benchmarks.limited import Control
    from benchmarks.server_cpu import Contestant

RATES = (100, 300, 1000, 3000, 10_000)
_BURST_SECONDS = 0.1
_MILLISECONDS = 1e3
_CHUNK_SECONDS = 0.25
_LEAST_CHUNK = 64


class _Count(NamedTuple):
    """The limiter's counters at an instant of the server, in seconds."""

    at: float
    admitted: int
    rejected: int

    @classmethod
    def of(cls, status: dict[str, Any]) -> _Count:
        limiter = status["network"]["ingressRequestRateLimiter"]
        at = status["uptimeMillis"] / _MILLISECONDS
        return cls(at, limiter["successfulAdmissions"], limiter["rejectedAdmissions"])


def measure(server: Contestant, control: Control, rate: int, seconds: float) -> dict[str, Any]:
    """Flood the server for so many seconds, and return what it admitted."""
    control.set(
        {
            "ingressRequestRateLimiterEnabled": True,
            "ingressRequestAdmissionRatePerSec": rate,
            "ingressRequestAdmissionBurstCapacitySecs": _BURST_SECONDS,
        }
    )
    chunk = _flood(server, 4 * _BURST_SECONDS, _LEAST_CHUNK)
    # The burst is spent: from here on nothing but the rate admits.
    before = _Count.of(control.status())
    _flood(server, seconds, chunk)
    after = _Count.of(control.status())
    took, admitted = after.at - before.at, after.admitted - before.admitted
    return {
        "rate": rate,
        "seconds": took,
        "admitted": admitted,
        "rejected": after.rejected - before.rejected,
        "error": admitted / (rate * took) - 1,
    }


def _flood(server: Contestant, seconds: float, chunk: int) -> int:
    """Send pings, in chunks, until the time is over; return how many a chunk of a fair length has."""
    message = encoded(BARE_PING)
    end = time.perf_counter() + seconds
    sent = 0
    while time.perf_counter() < end:
        server.client.run(lambda: message, chunk)
        sent += chunk
    return max(int(sent / seconds * _CHUNK_SECONDS), _LEAST_CHUNK)


def run(*, rates: tuple[int, ...], seconds: float, connections: int) -> dict[str, Any]:
    """Measure each rate, and return a report made of numbers."""
    with limited_server(connections) as (server, control):
        rows = [measure(server, control, rate, seconds) for rate in rates]
    return {"connections": connections, "rates": rows}


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    lines = [f"{'rate/s':>10}{'seconds':>10}{'admitted':>12}{'rejected':>12}{'error':>10}"]
    for row in report["rates"]:
        note = "" if row["rejected"] else "  not saturated"
        lines.append(
            f"{row['rate']:10,}{row['seconds']:10.2f}{row['admitted']:12,}{row['rejected']:12,}"
            f"{row['error']:10.2%}{note}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.admitted_rate", description=__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=list(RATES), help="admissions per second")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each rate is measured")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    report = run(rates=tuple(options.rates), seconds=options.seconds, connections=options.connections)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
