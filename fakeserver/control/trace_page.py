"""The trace of a run as one HTML page: the verdict on it, and what the servers were asked and did, in order.

It opens from a disk, makes no request and runs no script. What repeats is one row with its count, as in the
lines of a test that failed.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

from fakeserver.deployment.records.folding import folded
from fakeserver.deployment.records.record import words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fakeserver.deployment.records.folding import Fold

MOST_ROWS: Final = 2000

_HEAD: Final = (
    '<th scope="col">Seconds</th><th scope="col" class="wide">Record</th>'
    '<th scope="col">Server</th><th scope="col">What</th>'
)

_STYLE: Final = """
:root { color-scheme: light dark; --text: #1c2733; --dim: #5b6875; --line: #d9dfe5; --back: #ffffff;
  --error: #b3261e; --event: #0b5c8a; }
@media (prefers-color-scheme: dark) { :root { --text: #e6eaee; --dim: #a3afba; --line: #33414e;
  --back: #12181e; --error: #ff9d94; --event: #8fcdf2; } }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; font: 15px/1.5 system-ui, sans-serif;
  color: var(--text); background: var(--back); }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 13px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th:first-child, td:first-child { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.dim { color: var(--dim); } .error { color: var(--error); } .event { color: var(--event); }
@media (max-width: 40rem) { .wide { display: none; } }
"""


def trace_page(title: str, verdict: Mapping[str, Any], documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the page of a run, made of its verdict and of the records of its journal as documents."""
    kept, left_out = folded(documents, MOST_ROWS)
    outcome = "as expected" if verdict["asExpected"] else "not as expected"
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>",
        f"<h1>{escape(title)}: {outcome}</h1>",
        f"<pre>{escape(chr(10).join(verdict['lines']))}</pre>",
        "<h2>What happened</h2>",
        f'<p class="dim">{_legend(kept, left_out)}</p>',
        f"<table><thead><tr>{_HEAD}</tr></thead><tbody>",
        *_rows(kept),
        "</tbody></table></main></body></html>\n",
    ]
    return "\n".join(parts)


def _legend(kept: Sequence[Fold], left_out: int) -> str:
    more = f", {left_out} records left out" if left_out else ""
    return f"{len(kept)} rows{more}. Requests that failed begin with ✗, faults and verbs with ●."


def _rows(folds: Sequence[Fold]) -> Iterator[str]:
    for fold in folds:
        first = fold.first
        kind, mark = ("error", "✗ ") if fold.is_error else ("event", "● ") if fold.is_event else ("", "")
        times = "" if fold.size == 1 else f' <span class="dim">{fold.size} times</span>'
        cells = (
            f"<td>{first['at']:.3f}</td>",
            f'<td class="dim wide">#{first["seq"]}</td>',
            f"<td>{escape(str(first['node']))}</td>",
            f'<td class="{kind}">{mark}{escape(words_of(first))}{times}</td>',
        )
        yield f"<tr>{''.join(cells)}</tr>"
