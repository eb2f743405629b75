"""The lab's report as a page: pass rates, the smallest schedule of each failure, and two runs side by side.

One file without a script, which makes no requests: tables, and the pictures of one run that passed and of the
smallest that failed, so that a reader sees where they part.
"""

from __future__ import annotations

from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Final

from harness.explaining.text import for_xml
from harness.planning.result import ResultStatus
from harness.report import picture
from harness.report.pages.frame import framed
from harness.report.rerun import rerun_command
from harness.report.terminal import headline
from harness.world.schedule import parse
from mongowire.package import version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.planning.plan import Settings
    from harness.running.flake_lab.cases import FlakyFailure, RepeatedCase

_BAR: Final = 160
"""Width of the picture of a rate, in pixels."""


def page(cases: Sequence[RepeatedCase], settings: Settings, *, created: str) -> str:
    """Return the page on cases that have been run; `created` is when, for readers."""
    ran = [case for case in cases if not case.is_skipped]
    unsound = [case for case in ran if case.counts[ResultStatus.FAILED]]
    drivers = dict.fromkeys(
        f"{headline(case.item.adapter, case.item.edition, settings)} on {case.item.topology}" for case in ran
    )
    skipped = f", {len(cases) - len(ran)} skipped" if len(cases) > len(ran) else ""
    counts = f"{len(unsound)} of {len(ran)} cases failed at least once{skipped}"
    facts = "; ".join([*drivers, counts, f"{settings.time} time, first seed {settings.seed}"])
    body = (
        f'<header>\n<h1>Flake lab</h1>\n<p class="facts">{_text(facts)}</p>\n'
        f'</header>\n<main class="sheet">\n{_rates(ran)}'
        f"{''.join(_card(case, settings) for case in unsound)}</main>\n"
        f"<footer>Made by pushbackd {_text(version())}, {_text(created)}.</footer>"
    )
    own = (resources.files("harness.running.flake_lab") / "page.css").read_text(encoding="utf-8")
    return framed(body, title="Flake lab · pushbackd", sheets=("page", "sequence"), own=own)


def _rates(cases: Sequence[RepeatedCase]) -> str:
    """Return the table of pass rates, the lowest first."""
    in_order = sorted(cases, key=lambda case: (case.rate.rate, case.item.id))
    headings = ("case", "runs", "passed", "rate", "95% interval", "between 0 and 1", "verdict")
    heads = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    rows = "".join(map(_row, in_order))
    return (
        '<section class="card" aria-labelledby="rates">\n<h2 id="rates">Pass rates</h2>\n'
        '<div class="wide tall" tabindex="0" role="region" aria-label="Pass rates of all cases">\n'
        "<table><caption>How often each case passed, and the bounds of its true rate with 95 % confidence"
        f"</caption><thead><tr>{heads}</tr></thead><tbody>\n{rows}</tbody></table>\n</div>\n</section>\n"
    )


def _row(case: RepeatedCase) -> str:
    low, high = case.rate.interval
    status = case.result.status.value
    cells = (
        ("runs", f"{case.rate.runs}"),
        ("passed", f"{case.rate.passed}"),
        ("rate", f"{case.rate.rate:.1%}"),
        ("95% interval", f"{low:.1%} to {high:.1%}"),
        ("between 0 and 1", _bar(case.rate.rate, low, high)),
        ("verdict", f'<span class="verdict {status}">{_text(status)}</span>'),
    )
    data = "".join(f'<td data-name="{name}">{cell}</td>' for name, cell in cells)
    where = f"{case.item.id} [{case.item.adapter}, {case.item.topology}]"
    return f'<tr><th scope="row">{_text(where)}</th>{data}</tr>\n'


def _bar(rate: float, low: float, high: float) -> str:
    """Return a picture of a rate: a stroke, within the band of its interval."""
    title = f"{rate:.1%} passed, between {low:.1%} and {high:.1%}"
    place, first, wide = (f"{value * _BAR:.1f}" for value in (rate, low, high - low))
    return (
        f'<svg class="rate" role="img" width="{_BAR + 4}" height="16" viewBox="-2 0 {_BAR + 4} 16">'
        f'<title>{title}</title><rect class="track" width="{_BAR}" height="10" y="3" rx="3"/>'
        f'<rect class="interval" x="{first}" y="3" width="{wide}" height="10"/>'
        f'<path class="share" d="M{place} 1V15"/></svg>'
    )


def _card(case: RepeatedCase, settings: Settings) -> str:
    """Return all about a case that failed."""
    shown = case.smallest or case.first
    assert shown is not None, "a case that failed has a first failure"
    return f'<section class="card">\n<h2>{_text(case.item.id)}</h2>\n' + "".join(
        [
            *_reasons(case),
            *_schedule(case),
            "<h3>Run it again</h3>\n",
            f'<pre tabindex="0">{_text(rerun_command(shown.result, settings))}</pre>\n',
            # Of a run that passed, if one did, and of the failure, side by side.
            '<div class="traces">\n',
            "" if case.passing is None else _trace("Passed", case.item.id, case.passing),
            _trace("Failed", case.item.id, shown),
            "</div>\n",
            "</section>\n",
        ]
    )


def _reasons(case: RepeatedCase) -> Iterator[str]:
    low, high = case.rate.interval
    failed = case.counts[ResultStatus.FAILED]
    yield (
        f"<p>Failed in {failed} of {case.rate.runs} runs: {case.rate.rate:.1%} passed,"
        f" {low:.1%} to {high:.1%} with 95 % confidence.</p>\n<h3>Reasons</h3>\n<ul>"
    )
    counted = case.reasons.most_common()
    yield from (f"<li>{count} time{'s' * (count != 1)}: {_text(reason)}</li>" for reason, count in counted)
    yield "</ul>\n"


def _schedule(case: RepeatedCase) -> Iterator[str]:
    if case.smallest is None:
        if case.tried:
            yield "<p>With the first failure's schedule it did not fail again.</p>\n"
        return
    schedule = parse(case.smallest.item.schedule or "")
    often = f"with it the case failed in {case.smallest.failed} of {case.smallest.runs} runs"
    yield f"<h3>Smallest schedule</h3>\n<p>The smallest of {case.tried} that were tried; {often}.</p>\n"
    if not schedule:
        yield "<p>It fails without any perturbation.</p>\n"
        return
    met = dict(line.partition("  ")[::2] for line in case.smallest.result.disturbed)
    yield "<dl>"
    for each in schedule.perturbations:
        what = f" ({met[str(each)]})" if met.get(str(each)) else ""
        yield f"<dt>{_text(str(each))}</dt><dd>{_text(each.described() + what)}</dd>"
    yield "</dl>\n"


def _trace(word: str, name: str, run: FlakyFailure) -> str:
    seed = f"seed {run.item.seed}"
    schedule = f", {run.item.schedule}" if run.item.schedule else ""
    title = f"{word}: {name}, {seed}{schedule}"
    drawn = picture.drawing(run.result.timeline, title=title)
    region = f'<div class="wide tall" tabindex="0" role="region" aria-label="{_text(title)}">'
    caption = f"{word}, {_text(f'{seed}{schedule}')}"
    return f"<figure><figcaption>{caption}</figcaption>{region}\n{drawn}</div></figure>\n"


def _text(text: str) -> str:
    """Return a text as HTML."""
    return escape(for_xml(text))
