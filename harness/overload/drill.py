"""A drill: a program runs against a deployment of its own in which something goes wrong.

A cloud service that is overloaded refuses some requests and serves the others; primaries step down, networks
are slow and lose connections. Whether an application bears that is seen when it happens on purpose, from a
seed, on a machine where nothing can break. What goes wrong is a scenario, so that the verdict on it says what
happened. The deployment runs in a thread, the program is a process, and a record of the wire is folded into
totals while they run.

`Drill` is the question, from the options of `pushbackd drill`, and makes the scenario; `run` plays it;
`Summary` is the answer, as lines, as a page, and as a document of the schema `pushbackd-drill/1`, whose keys
programs read and whose times are in milliseconds. The exit code is the program's own unless `ended`, which
sees the verdict, says otherwise.
"""

from __future__ import annotations

import itertools
import os
import shlex
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, Final

from fakeserver.assembly.background import BackgroundCluster
from fakeserver.control.scenario.loader import Place
from fakeserver.control.scenario.model import RuleOrFault, Scenario, TimelineEntry
from fakeserver.control.scenario.triggers import Instant
from fakeserver.control.verbs.table import VERBS
from harness.deployments.launching import run_program
from harness.overload.operations import FoldedRecord, SecondOfTotals
from harness.report.fitting import aligned
from harness.report.pages import frame
from harness.report.pages.chart import Line, Panel
from harness.report.pages.markup import escaped
from mongowire.documents.errors import ControlError
from mongowire.system import SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fakeserver.control.control import DistantControl
    from fakeserver.deployment.records.operations import CommandTotals, OperationTotals
    from fakeserver.deployment.spec import ClusterSpec

SCHEMA: Final = "pushbackd-drill/1"
_VARIABLE: Final = "MONGODB_URI"


_ELECTION_SECONDS: Final = 1.0
"""The time without a primary at each failover."""
_FROZEN_SECONDS_MAX: Final = 60.0
"""How long a primary that has stepped down seeks no election at most."""
_PLACE: Final = Place("drill", 1, 1)
"""Rules of a scenario have a place for complaints; those of a drill stand in no file."""
_OF_APPLICATIONS: Final = (
    *("find", "getMore", "aggregate", "count", "distinct"),
    *("insert", "update", "delete", "findAndModify", "commitTransaction"),
)
"""The commands whose replies are lost: with heartbeats among them, which they are would depend on time."""


@dataclass(frozen=True, slots=True)
class Drill:
    """The faults of a deployment, for some seconds (None: to the end).

    `share` is that of requests to shed, `lost` that of replies that are lost with their connection, both from
    0 to 1; `latency` the seconds that every request takes longer, `failover` those between two step-downs.
    """

    spec: ClusterSpec
    share: float = 0.0
    seed: int = 0
    seconds: float | None = None
    latency: float = 0.0
    failover: float = 0.0
    lost: float = 0.0

    def scenario(self) -> Scenario:
        """Return the scenario that it is. Raises `ControlError` for a failover without a replica set."""
        spec = self.spec
        if self.failover:
            step_down = VERBS["stepDown"]
            if not step_down.applies.covers(spec):
                raise ControlError(f"a failover is for {step_down.applies.value}", path=("failover",))
            spec = replace(spec, election_delay=_ELECTION_SECONDS)
        latency = {"name": "latency", "then": [{"delay": f"{self.latency}s"}], **self._bounds}
        lost = {
            "name": "lostReplies",
            "at": "beforeReply",
            "command": list(_OF_APPLICATIONS),
            "probability": self.lost,
            "do": {"reset": True},
            **self._bounds,
        }
        return Scenario(
            file="drill",
            description="A drill",
            spec=spec,
            rules=[RuleOrFault(latency, _PLACE)] if self.latency else [],
            faults=[RuleOrFault(lost, _PLACE)] if self.lost else [],
            timeline=list(self._timeline()),
        )

    @property
    def _bounds(self) -> dict[str, Any]:
        return {} if self.seconds is None else {"for": f"{self.seconds}s"}

    def _timeline(self) -> Iterator[TimelineEntry]:
        if self.share:
            bounds = {} if self.seconds is None else {"duration": f"{self.seconds}s"}
            shed = {"share": self.share, "seed": self.seed, **bounds}
            yield TimelineEntry(place=_PLACE, verb="shed", arguments=shed)
        if self.failover:
            until = None if self.seconds is None else Instant(self.seconds)
            every = Instant(self.failover)
            # Past the election that follows, so that another member wins it, and no longer than to the next
            # one: otherwise a set of three has nobody left to elect after three step-downs.
            frozen = min(_ELECTION_SECONDS + self.failover / 2, _FROZEN_SECONDS_MAX)
            yield TimelineEntry(
                place=_PLACE,
                verb="stepDown",
                arguments={"seconds": f"{frozen}s"},
                every=every,
                until=until,
            )

    def __str__(self) -> str:
        """As a reader knows it."""
        kinds = [f"{self.share * 100:g} % of the requests shed"] if self.share else []
        kinds += [f"a failover every {self.failover:g} s"] if self.failover else []
        kinds += [f"{self.latency * 1000:g} ms of latency"] if self.latency else []
        kinds += [f"{self.lost * 100:g} % of the replies lost with their connection"] if self.lost else []
        last = "" if self.seconds is None else f" for {self.seconds:g} s"
        return f"{', '.join(kinds) or 'nothing goes wrong'}{last}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of a drill: the exit code of the program, and what its operations met."""

    drill: Drill
    exit_code: int
    totals: OperationTotals
    seconds: Mapping[int, SecondOfTotals] = field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
        """Return it as a document of plain values; times are in milliseconds."""
        totals = self.totals
        return {
            "schema": SCHEMA,
            "shed": self.drill.share,
            "failover": self.drill.failover,
            "latency": self.drill.latency,
            "lost": self.drill.lost,
            "seed": self.drill.seed,
            "seconds": self.drill.seconds,
            "requests": totals.requests,
            "refused": totals.overloaded,
            "refusedRetryable": totals.retryable,
            **_row(totals.total),
            "commands": {name: _row(each) for name, each in sorted(totals.commands.items())},
            "awaiting": _row(totals.awaiting),
            "exitCode": self.exit_code,
        }

    @property
    def refused_nothing_for_want_of_operations(self) -> bool:
        """Whether requests were to be refused, and there was none: what never happened has tested nothing."""
        return self.drill.share > 0 and not self.totals.requests

    def lines(self, width: int | None = None) -> list[str]:
        """Return it as lines for a terminal; the commands are cards beyond a width."""
        totals = self.totals
        lines = [f"drill: {self.drill}"]
        if self.drill.share:
            retryable = f"{totals.retryable} of these to be retried"
            lines[0] += f": {totals.overloaded} of {totals.requests} refused, {retryable}"
        lines += aligned(rows, width, words=1) if (rows := totals.rows()) else []
        total = totals.total
        lines.append(
            f"{total.errors} of {total.operations} operations reached the application as errors,"
            f" {total.overload_errors} of them of overload; exit code {self.exit_code}"
        )
        if (awaiting := totals.awaiting).operations:
            lines.append(
                f"{awaiting.errors} of {awaiting.operations} getMores that await data failed, counted apart"
            )
        return lines

    def page(self, program: Sequence[str], verdict: Mapping[str, Any]) -> str:
        """Return the page of a drill with a program, and of the verdict on it."""
        total = self.totals.total
        seal = "bad" if self.exit_code else "good"
        told = "".join(f"<li>{escaped(line.strip())}</li>" for line in verdict["lines"])
        sections = [
            frame.section(
                "Verdict",
                f'<p><span class="seal {seal}">exit code {self.exit_code}</span>'
                f" {total.errors} of {total.operations} operations reached the application as errors</p>\n",
                f"<ul>{told}</ul>\n",
            )
        ]
        if self.seconds:
            sections.append(frame.section("Over time", frame.panels([self._panel()], title="Over time")))
        commands = self.totals.commands
        listed = [*sorted(commands.items()), ("all", self.totals.total)] if commands else []
        rows = [(name, *each.cells()) for name, each in listed]
        if rows:
            operations = frame.table(_OPERATIONS, rows, caption="Operations by command")
            sections.append(frame.section("Operations of the application", operations))
        failed = self.totals.to_document()["failed"]
        if failed:
            failures = [(each["command"], str(each["error"]), str(each["count"])) for each in failed]
            table = frame.table(
                ("command", "error", "times"), failures, caption="What the application was told", words=(0, 1)
            )
            sections.append(frame.section("Errors that reached the application", table))
        return frame.page("A drill", sections, facts=f"{shlex.join(program)}: {self.drill}")

    def _panel(self) -> Panel:
        """Return the chart of what was new in each second of the drill."""
        first, last = min(self.seconds), max(self.seconds)
        every = [self.seconds.get(at, SecondOfTotals()) for at in range(first, last + 1)]
        drawn = {
            "requests": ("s1", [each.requests for each in every]),
            "refused for overload": ("rejected", [each.refused for each in every]),
            "errors of the application": ("error", [each.errors for each in every]),
        }
        return Panel(
            title="Requests and errors",
            x="seconds",
            y="per second",
            lines=[
                Line(
                    name,
                    [(float(at), float(count)) for at, count in enumerate(counts)],
                    colour,
                    dash,
                )
                for dash, (name, (colour, counts)) in enumerate(drawn.items())
            ],
            x_least=0.0,
            x_most=float(max(len(every) - 1, 1)),
        )


_OPERATIONS: Final = ("command", "operations", "errors", "attempts per success", "longest wait")


def run(
    drill: Drill, program: Sequence[str], ended: Callable[[Summary, DistantControl], int] | None = None
) -> Summary:
    """Run the program with `MONGODB_URI` set, and return its end.

    `ended` is asked for the exit code while the deployment still answers. Raises `OSError` where the program
    cannot start, and `ControlError` for a drill that the deployment cannot have.
    """
    record = FoldedRecord(TcpNetwork(), SystemClock(), itertools.count(1).__next__, on=True)
    with BackgroundCluster(drill.scenario(), network=record) as cluster:
        code = run_program(program, {**os.environ, _VARIABLE: cluster.uri})
        # While the deployment runs: connections that it closes at its end are no failures of the program.
        record.totals.finish()
        summary = Summary(drill, code, record.totals, record.seconds)
        return summary if ended is None else replace(summary, exit_code=ended(summary, cluster.control))


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
