"""A drill: a program runs against a deployment of its own that sheds a share of its requests.

A cloud service that is overloaded refuses some requests and serves the others. Whether an application bears
that is seen when it happens on purpose, from a seed, on a machine where nothing can break. The deployment
runs in a thread, the program is a process, and a record of the wire is folded into totals while they run.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final

from fakeserver.assembly.background import BackgroundCluster
from harness.deployments.program import run_program
from harness.overload.operations import FoldedRecord
from mongowire.system import SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.deployment.records.operations import CommandTotals, OperationTotals
    from fakeserver.deployment.spec import ClusterSpec

SCHEMA: Final = "pushbackd-drill/1"
_VARIABLE: Final = "MONGODB_URI"


@dataclass(frozen=True, slots=True)
class Drill:
    """A share of requests to shed, from 0 to 1, for some seconds (None: to the end), and on what."""

    spec: ClusterSpec
    share: float
    seed: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of a drill: the exit code of the program, and what its operations met."""

    drill: Drill
    exit_code: int
    totals: OperationTotals

    def to_document(self) -> dict[str, Any]:
        """Return it as a document of plain values; times are in milliseconds."""
        totals = self.totals
        return {
            "schema": SCHEMA,
            "shed": self.drill.share,
            "seed": self.drill.seed,
            "seconds": self.drill.seconds,
            "requests": totals.requests,
            "refused": totals.overloaded,
            "refusedRetryable": totals.retryable,
            **_row(totals.total),
            "commands": {name: _row(each) for name, each in sorted(totals.commands.items())},
            "exitCode": self.exit_code,
        }

    def lines(self) -> list[str]:
        """Return it as lines for a terminal."""
        totals = self.totals
        last = "" if self.drill.seconds is None else f" for {self.drill.seconds:g} s"
        shed = f"drill: {self.drill.share * 100:g} % of the requests shed{last}, seed {self.drill.seed}"
        refused = (
            f"{totals.overloaded} of {totals.requests} refused, {totals.retryable} of these to be retried"
        )
        lines = [f"{shed}: {refused}"]
        lines += totals.table()
        total = totals.total
        lines.append(
            f"{total.errors} of {total.operations} operations reached the application as errors,"
            f" {total.overload_errors} of them of overload; exit code {self.exit_code}"
        )
        return lines


def run(drill: Drill, program: Sequence[str]) -> Summary:
    """Run the program with `MONGODB_URI` set, and return its end. Raises `OSError` where it cannot start."""
    record = FoldedRecord(TcpNetwork(), SystemClock(), itertools.count(1).__next__, on=True)
    with BackgroundCluster(drill.spec, network=record) as cluster:
        _shed(cluster, drill)
        code = run_program(program, {**os.environ, _VARIABLE: cluster.uri})
    record.totals.finish()
    return Summary(drill, code, record.totals)


def _shed(cluster: BackgroundCluster, drill: Drill) -> None:
    arguments: dict[str, Any] = {"share": drill.share, "seed": drill.seed}
    if drill.seconds is not None:
        arguments["duration"] = f"{drill.seconds}s"
    cluster.control.perform("shed", arguments)


def _row(totals: CommandTotals) -> dict[str, Any]:
    per_success = totals.attempts_per_success
    return {
        "operations": totals.operations,
        "succeeded": totals.succeeded,
        "errors": totals.errors,
        "overloadErrors": totals.overload_errors,
        "attempts": totals.attempts,
        "attemptsPerSuccess": None if per_success == inf else round(per_success, 3),
        "longestWaitMS": round(totals.longest_wait * 1000, 3),
    }
