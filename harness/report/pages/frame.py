"""The frame of a page: one file that asks nobody, with its landmarks, in light and dark, for a phone too.

`framed` is the one place that writes a head. Its policy forbids every request and every script but the one
whose digest it names, so a page shows data of a driver without running any of it. `page` is for reports
without a script; the report of cases and that of rules bring a template, which `filled` completes.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from harness.report.pages import chart
from harness.report.pages.markup import escaped, palette, sheet
from mongowire.package import version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.report.pages.chart import Bars, Panel


_HEAD: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
"""
_POLICY: Final = (
    "default-src 'none'; script-src {script}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
)
_SLOT: Final = re.compile(r"\{\{(\w+)\}\}")
SHEETS: Final = ("page", "chart")
"""The sheets of a page of tables and charts; one with a sequence diagram has `sequence` as well."""


def framed(body: str, *, title: str, sheets: Sequence[str] = SHEETS, own: str = "", script: str = "") -> str:
    """Return a page: its head around a body, with these sheets, its `own` styles, and its only script."""
    hashed = b64encode(sha256(script.encode()).digest()).decode()
    head = _HEAD.format(
        policy=_POLICY.format(script=f"'sha256-{hashed}'" if script else "'none'"),
        title=escaped(title),
        style="\n".join((palette(), *map(sheet, sheets), own)),
    )
    return f"{head}{body}{f'<script>{script}</script>' if script else ''}\n</body>\n</html>\n"


def filled(template: str, parts: Mapping[str, str]) -> str:
    """Return a template with its `{{slots}}` filled."""
    return _SLOT.sub(lambda slot: parts[slot[1]], template)


def page(
    title: str,
    sections: Iterable[str],
    *,
    facts: str = "",
    sheets: Sequence[str] = SHEETS,
    own: str = "",
) -> str:
    """Return a page without a script: a header with a line of facts, sections, and who made it."""
    told = f'<p class="facts">{escaped(facts)}</p>' if facts else ""
    body = (
        f"<header>\n<h1>{escaped(title)}</h1>\n{told}\n</header>\n"
        f'<main class="sheet">\n{"".join(sections)}</main>\n'
        f"<footer>Made by pushbackd {escaped(version())}.</footer>"
    )
    return framed(body, title=f"{title} · pushbackd", sheets=sheets, own=own)


def section(title: str, *parts: str) -> str:
    """Return a part of a page with its heading."""
    return f'<section class="card">\n<h2>{escaped(title)}</h2>\n{"".join(parts)}</section>\n'


def paragraph(text: str) -> str:
    """Return a paragraph of text."""
    return f"<p>{escaped(text)}</p>\n"


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str, words: Iterable[int] = (0,)
) -> str:
    """Return a table whose rows a phone shows as cards; columns of `words` are no numbers."""
    worded = set(words)
    heads = "".join(
        f'<th scope="col"{_word(number, worded)}>{escaped(heading)}</th>'
        for number, heading in enumerate(headings)
    )
    lines = []
    for name, *cells in rows:
        data = "".join(
            f'<td data-name="{escaped(heading)}"{_word(number, worded)}>{escaped(cell)}</td>'
            for number, (heading, cell) in enumerate(zip(headings[1:], cells, strict=True), 1)
        )
        lines.append(f'<tr><th scope="row">{escaped(name)}</th>{data}</tr>\n')
    return (
        f'<table class="numbers"><caption>{escaped(caption)}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>\n{''.join(lines)}</tbody></table>\n"
    )


def _word(number: int, worded: set[int]) -> str:
    return ' class="word"' if number in worded else ""


def panels(drawn: Iterable[Panel | Bars], *, title: str) -> str:
    """Return charts side by side where there is room, one below the other where there is not."""
    return f'<div class="panels">\n{"".join(chart.elements(drawn, title=title))}</div>\n'


def scrolling(part: str, *, label: str, tall: bool = False) -> str:
    """Return a part that may be wider than the page, or taller than the window, in a region that scrolls."""
    kind = "wide tall" if tall else "wide"
    return f'<div class="{kind}" tabindex="0" role="region" aria-label="{escaped(label)}">\n{part}</div>\n'
