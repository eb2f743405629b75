"""The timeline of a schedule's run: operations, events of both sides and faults, as text and as page."""

from __future__ import annotations

from collections import defaultdict
from html import escape
from typing import TYPE_CHECKING, Final

from harness.adapters.reference.results import event_of
from harness.explaining.journal import CaseTimeline, two_columns
from harness.report import picture
from harness.running.result import Moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.adapters.base import Event
    from harness.sim.swarm.history import WorkloadOperation
    from harness.sim.swarm.run import SwarmRun
    from harness.sim.swarm.verdict import ScheduleVerdict

_NOISE: Final = frozenset(
    {
        *("serverHeartbeatStartedEvent", "serverHeartbeatSucceededEvent", "topologyDescriptionChangedEvent"),
        *("connectionCheckOutStartedEvent", "connectionCheckedInEvent", "poolReadyEvent"),
    }
)
"""Events of drivers that say nothing beside those that follow them."""

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem; }}
code, pre {{ font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap; }}
.wide {{ overflow-x: auto; }}
{style}
</style>
</head>
<body>
<h1>{title}</h1>
<p><code>{schedule}</code></p>
<p>{summary}</p>
<ul>
{violations}
</ul>
<div class="wide" tabindex="0" role="region" aria-label="Timeline">
{drawing}
</div>
</body>
</html>
"""


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
        begins = Moment(
            fault.start, "server", target, f"{fault.kind} begins", text=f"until {fault.end:.3f} s"
        )
        ends = Moment(fault.end, "server", target, f"{fault.kind} ends")
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
    violations = "\n".join(f"<li>{escape(text)}</li>" for _, text in verdict.violations)
    return _PAGE.format(
        title=escape(title),
        style=picture.style(),
        schedule=escape(verdict.text),
        summary=escape(summary_of(verdict)),
        violations=violations,
        drawing=picture.drawing(moments_of(run), title=title),
    )


def summary_of(verdict: ScheduleVerdict) -> str:
    """Return a line about the outcome of a run."""
    found = "no violations" if verdict.passed else f"{len(verdict.violations)} violations"
    return (
        f"{verdict.ok} operations ok, {verdict.failed} failed, {verdict.unknown} unknown;"
        f" {verdict.seconds:.2f} virtual seconds; trace {verdict.trace}; {found}"
    )
