"""The page of drivers and rules: one HTML file without scripts, for a phone too, that makes no requests.

The template and the style are `drivers.html` and `drivers.css` in the folder `html` above. Everything that
can be opened is a `details` element, and the choice of a specification is a radio button with a style for
each: so no script is needed, and the page also works where scripts are forbidden, as among the artefacts of a
CI server.
"""

from __future__ import annotations

from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Final

from harness.report.page import minute_of
from harness.report.pages import frame
from harness.report.rules.rulebook import rules, shown, specifications
from harness.report.rules.table import RuleVerdict
from mongowire.package import version
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.report.rules.rulebook import Rule, Specification
    from harness.report.rules.table import Driver, Evidence, RuleTable

_LETTERS: Final = {
    RuleVerdict.KEPT: "✓",
    RuleVerdict.BROKEN: "✗",
    RuleVerdict.ABSENT: "-",
    RuleVerdict.NOT_SHOWN: "",
    RuleVerdict.NOT_RUN: "",
}
_MEANINGS: Final = {
    RuleVerdict.KEPT: "scenarios that a breach would have failed passed",
    RuleVerdict.BROKEN: "a scenario that shows the rule failed (it may show others: the evidence says which)",
    RuleVerdict.ABSENT: "the driver, its edition of the specifications or its adapter has no such part",
    RuleVerdict.NOT_SHOWN: "no scenario can lose here",
    RuleVerdict.NOT_RUN: "the results have no scenario of the rule",
}
_MOST_EVIDENCE: Final = 5
"""The failures of a cell that are shown; of the others there is the number."""
# The end of a timeline: the failure stands there.
_MOST_LINES: Final = 60


def write(path: Path, table: RuleTable, *, utc: float) -> None:
    """Write the page, made at an instant in seconds since 1970. Raises `OSError`."""
    write_whole(path, build(table, created=minute_of(utc)))


def build(table: RuleTable, *, created: str) -> str:
    """Return the page."""
    drivers = table.drivers
    specs = specifications()
    parts = {
        "facts": escape(f"{len(drivers)} drivers, made {created} by pushbackd {version()}"),
        "meanings": "".join(
            f"<dt>{_mark(verdict)} {verdict}</dt><dd>{escape(meaning)}</dd>"
            for verdict, meaning in _MEANINGS.items()
        ),
        "filters": "".join(
            f'<label><input type="radio" name="spec" id="only-{spec.prefix}"> {escape(spec.title)}</label>'
            for spec in specs
        ),
        "numbers": _numbers(table),
        "tables": "".join(_section(spec, table) for spec in specs),
    }
    # Hide the other specifications when one is chosen: without a script.
    style = "\n".join(
        f"body:has(#only-{spec.prefix}:checked) section:not(#{spec.prefix}) {{ display: none; }}"
        for spec in specs
    )
    own = _file("drivers.css") + style
    body = frame.filled(_file("drivers.html"), parts)
    return frame.framed(body, title="Drivers and rules", sheets=("page",), own=own)


def _file(name: str) -> str:
    return (resources.files("harness.report") / "html" / name).read_text(encoding="utf-8")


def _mark(verdict: RuleVerdict) -> str:
    return f'<span class="mark {_class(verdict)}" aria-hidden="true">{_LETTERS[verdict]}</span>'


def _class(verdict: RuleVerdict) -> str:
    return verdict.value.replace(" ", "-")


def _numbers(table: RuleTable) -> str:
    rows = []
    for driver in table.drivers:
        counts = table.counts(rules().values(), driver)
        rows.append((f"{driver.name} {driver.facts}", *(str(counts[verdict]) for verdict in RuleVerdict)))
    return frame.table(("driver", *RuleVerdict), rows, caption="Rules by driver and verdict")


def _section(spec: Specification, table: RuleTable) -> str:
    head = "".join(
        f'<th scope="col">{escape(driver.name)} <small>{escape(driver.facts)}</small></th>'
        for driver in table.drivers
    )
    rows = "".join(_row(rule, table) for rule in spec.rules)
    edition = f" <small>{escape(spec.edition)}</small>" if spec.edition else ""
    return (
        f'<section id="{spec.prefix}"><h2>{escape(spec.title)}{edition}</h2><div class="wide"><table>'
        f'<thead><tr><th scope="col">rule</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
        "</section>"
    )


def _row(rule: Rule, table: RuleTable) -> str:
    differs = ' class="differs"' if table.differs(rule) else ""
    cells = "".join(_cell(rule, driver, table) for driver in table.drivers)
    asked = f"{', '.join(rule.keywords)}: {rule.text}"
    head = f'<a href="#{rule.id}">{rule.id}</a> {escape(asked)}{_scenarios(rule)}'
    return f'<tr id="{rule.id}"{differs}><th scope="row">{head}</th>{cells}</tr>'


def _scenarios(rule: Rule) -> str:
    """Return the command that runs what shows a rule, or why nothing can."""
    if rule.reason is not None:
        return f"<p>not applicable: {escape(rule.reason)}</p>"
    files = dict.fromkeys(note.path for note in shown().get(rule.id, ()))
    if not files:
        return f"<p>not visible: {escape(rule.unseen)}</p>" if rule.unseen else ""
    command = f"pushbackd conform {' '.join(files)} --topology matrix --adapter DRIVER"
    return f"<details><summary>{escape(rule.section)}</summary><code>{escape(command)}</code></details>"


def _cell(rule: Rule, driver: Driver, table: RuleTable) -> str:
    verdict, cell = table.verdict(rule, driver), table.cell(rule, driver)
    label = f'<span class="hidden">{escape(driver.name)}: {verdict}</span>'
    shown_as = f"{_mark(verdict)}{label}"
    if verdict is RuleVerdict.BROKEN:
        # One case may break several rules: each of its timelines is a region of its own.
        place = f"{rule.id}, {driver.name}"
        evidence = (
            part
            for each in cell.failed[:_MOST_EVIDENCE]
            for part in _parts(each, f"Timeline of {place}: {each.case_id}, {each.topology}")
        )
        failed = len(cell.failed)
        more = f"<p>and {failed - _MOST_EVIDENCE} more</p>" if failed > _MOST_EVIDENCE else ""
        body = "".join(evidence) + more
        summary = f"{shown_as} {cell.broken_cases} of {cell.cases}"
        return f'<td class="broken"><details><summary>{summary}</summary>{body}</details></td>'
    if verdict is RuleVerdict.ABSENT:
        lines = (f"<li>{escape(reason)}</li>" for reason, _ in cell.skipped.most_common(_MOST_EVIDENCE))
        reasons = f"<ul>{''.join(lines)}</ul>"
        return f'<td class="absent"><details><summary>{shown_as}</summary>{reasons}</details></td>'
    number = f" {cell.cases}" if verdict is RuleVerdict.KEPT else ""
    return f'<td class="{_class(verdict)}">{shown_as}{number}</td>'


def _parts(evidence: Evidence, timeline: str) -> Iterator[str]:
    yield f"<h3>{escape(evidence.case_id)} <small>{escape(evidence.topology)}</small></h3>"
    yield f"<p>{escape(evidence.reason)}</p>"
    for cause in evidence.causes:
        yield f"<p>likely cause: {escape(cause)}</p>"
    lines = evidence.timeline[-_MOST_LINES:]
    if lines:
        text = escape(chr(10).join(lines))
        yield f'<pre tabindex="0" role="region" aria-label="{escape(timeline)}">{text}</pre>'
    yield f"<code>{escape(evidence.again)}</code>"
