"""The report of a hunt as one page: the bugs in words, and the matrix of places and faults.

It holds everything, opens from a disk, has no script and makes no requests.
"""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING, Final

from harness.hunt.faults import FAULTS
from harness.hunt.hunting import statuses
from harness.hunt.results import repeating
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.hunt.findings import Bug, Trial
    from harness.hunt.hunting import Report
    from harness.hunt.places import Place

_SIGNS: Final = {"held": "✓", "reported": "!", "failed": "✗", "not reached": "·"}
_STYLE: Final = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem }
code { font-size: 13px; overflow-wrap: anywhere }
section { border-left: 4px solid #b3261e; margin: 1.5rem 0; padding: .1rem 1rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: 13px }
th { font-weight: 500; text-align: left; padding: .2rem .6rem .2rem 0 }
thead th { vertical-align: bottom; writing-mode: vertical-rl; transform: rotate(180deg) }
thead th:first-child { writing-mode: initial; transform: none }
td { border: 1px solid #8884; min-width: 1.5rem; text-align: center }
.held { background: #2e7d3233 } .reported { background: #f9a82544 }
.failed { background: #b3261e; color: white }
"""


def write(path: Path, report: Report, command: str) -> None:
    """Write the page. Raises `OSError`."""
    write_whole(path, build(report, command))


def build(report: Report, command: str) -> str:
    """Return the page as HTML."""
    counts = statuses([trial.judgement for trial in report.trials])
    said = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    left = max(0.0, report.wishes.budget - report.seconds)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>pushbackd hunt</title>",
        "<meta name=viewport content='width=device-width'>",
        f"<style>{_STYLE}</style><h1>{len(report.confirmed)} bugs</h1><p><code>{escape(command)}</code></p>",
        f"<p>{len(report.trials)} of {report.planned} trials in {report.seconds:.0f} s, {left:.0f} s left,",
        f"seed {report.wishes.seed}: {said}.</p>",
        *(text for bug in report.confirmed for text in _bug(bug, command)),
        "<h2>Places and faults</h2>",
        f"<p>{', '.join(f'{sign} {word}' for word, sign in _SIGNS.items())}; empty: not tried.</p>",
        *_matrix(report),
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _bug(bug: Bug, command: str) -> Iterator[str]:
    yield f"<section><h2>{escape(bug.cause.kind.value)} <small>({bug.rate})</small></h2><ol>"
    yield from (f"<li>{escape(each)}</li>" for each in bug.trial.judgement.story)
    yield f"<li>{escape(bug.finding.words)}</li></ol>"
    yield f"<p><code>{escape(repeating(bug, command))}</code></p></section>"


def _matrix(report: Report) -> Iterator[str]:
    cells = {(trial.strikes[0].place, trial.strikes[0].fault.name): trial for trial in _singles(report)}
    names = [fault.name for fault in FAULTS if any(name == fault.name for _, name in cells)]
    yield "<div class=scroll><table><thead><tr><th>place</th>"
    yield "".join(f"<th>{escape(name)}</th>" for name in names) + "</tr></thead><tbody>"
    for place in report.baseline.places:
        if any((place, name) in cells for name in names):
            row = "".join(_cell(cells.get((place, name))) for name in names)
            yield f"<tr><th>{escape(str(place))}</th>{row}</tr>"
    yield "</tbody></table></div>"
    untried = Counter(place.kind for place in report.baseline.places) - Counter(_tried(report))
    yield f"<p>{untried.total()} places were not tried.</p>"


def _singles(report: Report) -> Iterator[Trial]:
    yield from (trial for trial in report.trials if len(trial.strikes) == 1)


def _tried(report: Report) -> Iterator[tuple[str, str]]:
    places: set[Place] = {strike.place for trial in report.trials for strike in trial.strikes}
    yield from (place.kind for place in places)


def _cell(trial: Trial | None) -> str:
    if trial is None:
        return "<td></td>"
    status = trial.judgement.status
    title = "; ".join(finding.words for finding in trial.judgement.findings) or status
    return f"<td class='{status}' title='{escape(title, quote=True)}'>{_SIGNS[status]}</td>"
