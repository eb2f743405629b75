"""The files of a comparison: its rows as CSV or Parquet, and one page with its pictures and prints."""

from __future__ import annotations

import csv
from io import StringIO
from typing import TYPE_CHECKING, Final

from harness.report.pages import frame
from harness.report.pages.markup import escaped
from harness.sim import parquet
from harness.sim.article import pictures
from harness.sim.article.pictures import TITLES
from harness.sim.article.prints import HEADINGS, cells, client_lines
from harness.sim.article.scenario import DESCRIPTIONS, repeats
from harness.sim.fleet.outcome import COLUMNS
from mongowire.whole_file import beside, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from harness.sim.article.scenario import ArticleTrial

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
    """Write every picture to a folder, which is made, and yield the paths. Raises `OSError`."""
    for name, drawn in pictures.files(trials):
        path = folder / f"{name}.svg"
        write_whole(path, drawn)
        yield path


def write_page(path: Path, trials: Sequence[ArticleTrial]) -> None:
    """Write one page that holds everything and makes no requests. Raises `OSError`."""
    own = trials[0].parameters
    seeds = list(dict.fromkeys(trial.parameters.seed for trial in trials))
    several = f" to {seeds[-1]}: medians, with the least and the most" if len(seeds) > 1 else ""
    facts = (
        f"{own.clients} clients, a request every {own.mean_gap:g} s each, given up after "
        f"{own.timeout:g} s. The server stops at {own.stops_at:g} s and runs again at "
        f"{own.resumes_at:g} s. Seed {own.seed}{several}."
    )
    page = frame.page("Retry intervals: the article's simulation", _sections(trials), facts=facts)
    write_whole(path, page)


def _rows(trials: Sequence[ArticleTrial]) -> Iterator[tuple[object, ...]]:
    for trial in trials:
        for row in trial.outcome.rows():
            seed = trial.parameters.seed
            yield (str(trial.strategy), trial.tier, seed, *(float(row[name]) for name in COLUMNS))


def _sections(trials: Sequence[ArticleTrial]) -> Iterator[str]:
    rows = list(map(cells, repeats(trials)))
    strategies = "".join(
        f"<dt>{strategy}</dt><dd>{escaped(DESCRIPTIONS[strategy])}</dd>"
        for strategy in dict.fromkeys(trial.strategy for trial in trials)
    )
    yield frame.section(
        "The strategies compared",
        frame.table(HEADINGS, rows, caption="The strategies compared", words=(0, 1)),
        f"<h3>What they are</h3><dl>{strategies}</dl>",
    )
    for name, panels in pictures.pictures(trials):
        yield frame.section(TITLES[name], frame.panels(panels, title=TITLES[name]))
    prints = "".join(
        f"<div><h3>{escaped(trial.tier_and_strategy)}</h3><pre>{escaped(chr(10).join(client_lines(trial)))}</pre></div>"
        for trial, *_ in repeats(trials)
    )
    yield frame.section("What the clients print", f'<div class="prints">{prints}</div>')
