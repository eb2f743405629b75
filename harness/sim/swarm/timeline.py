"""The timeline of a schedule's run: operations, events of both sides and faults, as text and as page."""

from __future__ import annotations

import shlex
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.adapters.reference.results import event_of
from harness.explaining.journal import CaseTimeline, two_columns
from harness.planning.result import Moment
from harness.report import picture
from harness.report.pages import frame
from harness.report.pages.markup import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.adapters.base import Event
    from harness.sim.swarm.history import WorkloadOperation
    from harness.sim.swarm.judging import ScheduleVerdict
    from harness.sim.swarm.run import SwarmRun

_NOISE: Final = frozenset(
    {
        *("serverHeartbeatStartedEvent", "serverHeartbeatSucceededEvent", "topologyDescriptionChangedEvent"),
        *("connectionCheckOutStartedEvent", "connectionCheckedInEvent", "poolReadyEvent"),
    }
)
"""Events of drivers that say nothing beside those that follow them."""


def moments_of(run: SwarmRun) -> tuple[Moment, ...]:
    """Return the timeline of a run, oldest first."""
    told = run.history
    events: dict[str, list[Event]] = defaultdict(list)
    for heard in told.events:
        if heard.event.kind not in _NOISE:
            events[f"client{heard.client}"].append(event_of(heard.event, heard.at))
    between = CaseTimeline.of(run.records, events, origin=0.0).moments(began=0.0, ended=told.ending.at)
    ranked = [(moment.at, 1, moment) for moment in between]
    ranked += [(moment.at, rank, moment) for each in told.operations for rank, moment in _of_operation(each)]
    for fault in told.faults:
        target = fault.target or "servers"
        side = "client" if target in events else "server"  # a client's clock may be wrong, too
        begins = Moment(fault.start, side, target, f"{fault.kind} begins", text=f"until {fault.end:.3f} s")
        ends = Moment(fault.end, side, target, f"{fault.kind} ends")
        ranked += [(begins.at, 0, begins), (ends.at, 2, ends)]
    return tuple(moment for _, _, moment in sorted(ranked, key=lambda each: each[:2]))


def _of_operation(operation: WorkloadOperation) -> Iterator[tuple[int, Moment]]:
    source, name = f"client{operation.client}", operation.kind
    what = f"{name} {operation.key}" + (f" {operation.argument}" if operation.argument is not None else "")
    text = f"{what} (operation {operation.number})"
    yield 0, Moment(operation.invoked, "test", source, "operation", name, text=text)
    if operation.outcome == "unknown":
        return
    if operation.error is None:
        ended = f"{name} done" if operation.result is None else f"{name} returned {operation.result}"
    else:
        ended = f"{name} failed: {operation.error}"
    text = f"{ended} (operation {operation.number})"
    yield 2, Moment(operation.completed, "test", source, "operationEnded", name, text=text)


def text_of(run: SwarmRun, verdict: ScheduleVerdict) -> Iterator[str]:
    """Yield the lines of a timeline: what drivers did on the left, servers on the right."""
    yield from two_columns(moments_of(run))
    yield summary_of(verdict)
    yield from (text for _, text in verdict.violations)


def page_of(run: SwarmRun, verdict: ScheduleVerdict, *, title: str) -> str:
    """Return the timeline as an HTML page of its own, with a picture and no script."""
    moments = moments_of(run)
    again = f"pushbackd simulate swarm --schedule {shlex.quote(verdict.text)}"
    said = "No violations" if verdict.passed else f"{len(verdict.violations)} violations"
    violations = "".join(f"<li>{escaped(text)}</li>" for _, text in verdict.violations)
    faults = [
        (each.kind, each.target or "all", f"{each.start:.3f} s", f"{each.end:.3f} s")
        for each in run.history.faults
    ]
    sections = (
        frame.section(
            "Verdict",
            f'<p><b class="seal {"good" if verdict.passed else "bad"}">{said}</b></p>',
            f"<ul>{violations}</ul>" if violations else "",
            f"<h3>Run it again</h3><pre>{escaped(again)}</pre>",
        ),
        frame.section(
            "Faults",
            frame.table(
                ("fault", "server", "begins", "ends"), faults, caption="Faults, in virtual time", words=(0, 1)
            ),
        ),
        frame.section(
            "What happened",
            frame.paragraph("Times are milliseconds of virtual time."),
            frame.scrolling(picture.scrolling(moments, title=title), label="Sequence diagram", tall=True),
        ),
        frame.section(
            "As text",
            "<details><summary>Clients on the left, servers on the right</summary>"
            f"<pre>{escaped(chr(10).join(two_columns(moments)))}</pre></details>",
        ),
    )
    return frame.page(title, sections, facts=summary_of(verdict), sheets=(*frame.SHEETS, "sequence"))


def summary_of(verdict: ScheduleVerdict) -> str:
    """Return a line about the outcome of a run."""
    found = "no violations" if verdict.passed else f"{len(verdict.violations)} violations"
    return (
        f"{verdict.ok} operations ok, {verdict.failed} failed, {verdict.unknown} unknown;"
        f" {verdict.seconds:.2f} virtual seconds; trace {verdict.trace}; {found}"
    )
