"""The files of a comparison: its rows as CSV or Parquet, and one page with its pictures and prints."""

from __future__ import annotations

import csv
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Final

from harness.sim import parquet
from harness.sim.article.pictures import TITLES, pictures
from harness.sim.article.prints import HEADINGS, cells, client_lines
from harness.sim.article.scenario import DESCRIPTIONS
from harness.sim.article.trial import repeats
from harness.sim.fleet.outcome import COLUMNS
from mongowire.whole_file import beside, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from harness.sim.article.trial import ArticleTrial

NAMES: Final = ("strategy", "tier", "seed", *COLUMNS)
"""The columns of the files: whose row it is, then those of an outcome."""


def write_csv(path: Path, trials: Sequence[ArticleTrial]) -> None:
    """Write a row for each second of each trial, below a line of names. Raises `OSError`."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(NAMES)
    writer.writerows(_rows(trials))
    write_whole(path, text.getvalue())


def write_parquet(path: Path, trials: Sequence[ArticleTrial]) -> None:
    """Write the same rows as a Parquet file. Raises `OSError`, and `ImportError` without the extra."""
    parquet.check()
    columns = zip(*_rows(trials), strict=True)
    with beside(path) as unfinished:
        parquet.write(unfinished, dict(zip(NAMES, map(list, columns), strict=True)))


def write_pictures(folder: Path, trials: Sequence[ArticleTrial]) -> Iterator[Path]:
    """Write every picture to a folder, which is made, and yield the paths.

    Raises `OSError`, and `MissingPlotsError` without the extra `plots`.
    """
    for name, drawn in pictures(trials):
        path = folder / f"{name}.svg"
        write_whole(path, drawn)
        yield path


def write_page(path: Path, trials: Sequence[ArticleTrial]) -> None:
    """Write one page that holds everything and makes no requests.

    Raises `OSError`, and `MissingPlotsError` without the extra `plots`.
    """
    write_whole(path, "\n".join(_page(trials)) + "\n")


def _rows(trials: Sequence[ArticleTrial]) -> Iterator[tuple[object, ...]]:
    for trial in trials:
        for row in trial.outcome.rows():
            seed = trial.parameters.seed
            yield (str(trial.strategy), trial.tier, seed, *(float(row[name]) for name in COLUMNS))


_HEAD: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Retry intervals: the article's simulation</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse } th, td { padding: .2rem .7rem; text-align: right }
th:first-child, td:first-child { text-align: left } tr + tr { border-top: 1px solid #ddd }
svg { max-width: 100%; height: auto } .prints { display: flex; flex-wrap: wrap; gap: 1rem }
</style>
<h1>Retry intervals: the article's simulation</h1>"""


def _page(trials: Sequence[ArticleTrial]) -> Iterator[str]:
    own = trials[0].parameters
    seeds = list(dict.fromkeys(trial.parameters.seed for trial in trials))
    yield _HEAD
    yield (
        f"<p>{own.clients} clients, a request every {own.mean_gap:g} s each, given up after "
        f"{own.timeout:g} s. The server stops at {own.stops_at:g} s and runs again at "
        f"{own.resumes_at:g} s. Seed {own.seed}"
        + (f" to {seeds[-1]}: medians, with the least and the most" if len(seeds) > 1 else "")
        + ".</p>"
    )
    yield "<table>"
    yield f"<tr>{''.join(f'<th>{heading}</th>' for heading in HEADINGS)}</tr>"
    for group in repeats(trials):
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells(group))}</tr>"
    yield "</table>\n<ul>"
    for strategy in dict.fromkeys(trial.strategy for trial in trials):
        yield f"<li><b>{strategy}</b>: {DESCRIPTIONS[strategy]}</li>"
    yield "</ul>"
    for name, drawn in pictures(trials):
        # What stands before the element is for a file of its own.
        yield f"<h2>{TITLES[name]}</h2>\n{drawn[drawn.index('<svg') :]}"
    yield "<h2>What the clients print</h2>\n<div class=prints>"
    for trial, *_ in repeats(trials):
        lines = "\n".join(client_lines(trial))
        yield f"<div><h3>{escape(trial.tier_and_strategy)}</h3><pre>{lines}</pre></div>"
    yield "</div>\n</html>"
