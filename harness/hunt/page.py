"""The report of a hunt as one page: the bugs in words, and the matrix of places and faults.

It holds everything, opens from a disk, has no script and makes no requests.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from harness.hunt.faults import FAULTS
from harness.hunt.hunting import statuses
from harness.hunt.results import repeating
from harness.report.pages import frame
from harness.report.pages.markup import escaped
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.hunt.findings import Bug, Step, Trial
    from harness.hunt.hunting import Report

_SIGNS: Final = {"held": "✓", "reported": "!", "failed": "✗", "not reached": "·"}
_STYLE: Final = """
table { border-collapse: collapse; font-size: 13px }
th { font-weight: 500; text-align: left; padding: .2rem .6rem }
thead th { vertical-align: bottom; writing-mode: vertical-rl; transform: rotate(180deg) }
thead th:first-child { writing-mode: initial; transform: none }
td { border: 1px solid var(--line); min-width: 1.5rem; text-align: center }
.trace thead th { writing-mode: initial; transform: none }
.trace td { text-align: left; padding: .1rem .6rem }
.held { background: var(--good-bg); color: var(--good) }
.reported { background: var(--warn-bg); color: var(--warn) }
.failed { background: var(--bad-bg); color: var(--bad) }
"""


def write(path: Path, report: Report, command: str) -> None:
    """Write the page. Raises `OSError`."""
    write_whole(path, build(report, command))


def build(report: Report, command: str) -> str:
    """Return the page as HTML."""
    counts = statuses([trial.judgement for trial in report.trials])
    said = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    left = max(0.0, report.wishes.budget - report.seconds)
    facts = (
        f"{len(report.trials)} of {report.planned} trials in {report.seconds:.0f} s, {left:.0f} s left, "
        f"seed {report.wishes.seed}: {said}."
    )
    if (waiting := report.waiting) is not None:
        facts += f" Faults cost {waiting.median:.1f} s (median), {waiting.p99:.1f} s (p99)."
    signs = ", ".join(f"{sign} {word}" for word, sign in _SIGNS.items())
    sections = [
        frame.section("The hunt", f"<pre>{escaped(command)}</pre>"),
        *(_bug(bug, report, command, number) for number, bug in enumerate(report.confirmed, 1)),
        frame.section("Places and faults", frame.paragraph(f"{signs}; empty: not tried."), *_matrix(report)),
    ]
    return frame.page(
        "1 bug" if len(report.confirmed) == 1 else f"{len(report.confirmed)} bugs",
        sections,
        facts=facts,
        own=_STYLE,
    )


def _bug(bug: Bug, report: Report, command: str, number: int) -> str:
    told = "".join(f"<li>{escaped(each)}</li>" for each in [*bug.trial.judgement.story, bug.finding.words])
    again = escaped(repeating(bug, report, command))
    # Application on the left, servers on the right, time downwards.
    rows = "".join(map(_step, bug.trial.judgement.trace))
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("seconds", "application asks", "", "servers answer")
    )
    table = f'<table class="trace"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    shown = frame.scrolling(table, label=f"What happened, bug {number}")
    trace = f"<details><summary>What happened, request by request</summary>{shown}</details>"
    return frame.section(f"{bug.cause.kind.value} ({bug.rate})", f"<ol>{told}</ol><pre>{again}</pre>", trace)


def _step(step: Step) -> str:
    again = f" (attempt {step.attempt})" if step.attempt > 1 else ""
    kind = "failed" if step.fault else "held" if step.is_ok else "reported"
    arrow = f"✗ {step.fault}" if step.fault else "→"
    return (
        f"<tr><td>{step.at:.3f}</td><td>{escaped(step.place)}{again}</td>"
        f'<td class="{kind}">{escaped(arrow)}</td><td>{escaped(step.answer)}</td></tr>'
    )


def _matrix(report: Report) -> Iterator[str]:
    singles = (trial for trial in report.trials if len(trial.strikes) == 1)
    cells = {(trial.strikes[0].place, trial.strikes[0].fault.name): trial for trial in singles}
    names = [fault.name for fault in FAULTS if any(name == fault.name for _, name in cells)]
    rows = []
    for place in report.baseline.places:
        if any((place, name) in cells for name in names):
            row = "".join(_cell(cells.get((place, name))) for name in names)
            rows.append(f'<tr><th scope="row">{escaped(str(place))}</th>{row}</tr>')
    heads = "".join(f'<th scope="col">{escaped(name)}</th>' for name in names)
    table = (
        f'<table><thead><tr><th scope="col">place</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
    yield frame.scrolling(table, label="Places and faults")
    tried = {strike.place for trial in report.trials for strike in trial.strikes}
    known = Counter(place.kind for place in report.baseline.places)
    untried = known - Counter(place.kind for place in tried)
    yield f"<p>{untried.total()} places were not tried.</p>"


def _cell(trial: Trial | None) -> str:
    if trial is None:
        return "<td></td>"
    status = trial.judgement.status
    plain = f"{status}, and all had been done" if trial.judgement.denied else status
    title = "; ".join(finding.words for finding in trial.judgement.findings) or plain
    return f'<td class="{status}" title="{escaped(title)}">{_SIGNS[status]}</td>'
