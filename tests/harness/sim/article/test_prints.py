"""The prints have the article's form, the table compares, and files have all that was measured."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

import pytest
from made_trials import SECONDS, trial

from harness.sim.article import files, pictures
from harness.sim.article.parameters import Strategy
from harness.sim.article.prints import HEADINGS, client_lines, duration, server_lines, table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.spec("RI-13")
def test_clients_print_their_rates_every_five_seconds() -> None:
    lines = list(client_lines(trial()))
    assert lines[0] == "   5.0 s  OK: 100.00 req/sec, errors: 0.00 req/sec, timedout: 0.00 req/sec"
    assert lines[2] == "  15.0 s  OK: 0.00 req/sec, errors: 0.00 req/sec, timedout: 50.00 req/sec"
    assert len(lines) == 5


@pytest.mark.spec("RI-12")
def test_the_server_prints_every_second_but_those_in_which_it_is_stopped() -> None:
    lines = list(server_lines(trial(), [(9, 17)]))
    assert lines == [
        "   9.0 s  concurrency:   10, last delay: 100ms",
        "  10.0 s  concurrency:   10, last delay: 100ms",
        "  16.0 s  concurrency: 1040, last delay: 2.671s",
        "  17.0 s  concurrency: 1040, last delay: 2.671s",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.1, "100ms"), (0.9996, "1s"), (59.9999, "1m0s"), (3723.5, "1h2m3.5s"), (4e5, "4e+05s")],
)
def test_a_delay_is_written_as_the_articles_server_writes_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_table_has_the_goodput_before_during_and_after_and_the_time_to_recover() -> None:
    back, lost = trial(Strategy.EXPONENTIAL), trial(after=0)
    heading, first, second = table([back, lost])
    assert re.split(r"\s{2,}", heading) == list(HEADINGS)
    assert re.split(r"\s{2,}", first) == [
        *("exponential", "model", "100.0", "0.0", "100.0", "1.25", "< 1 s", "1 s", "1351", "100 ms", "500 ms")
    ]
    assert re.split(r"\s{2,}", second)[4:7] == ["0.0", "2.50", "does not recover"]


def test_repeats_are_one_row_of_medians_with_the_least_and_the_most() -> None:
    repeated = [trial(seed=seed, back=back) for seed, back in enumerate((1, 4, 2))]
    _, row = table(repeated)
    assert re.split(r"\s{2,}", row)[6:9] == ["2 s (1 s to 4 s)", "1 s", "1351"]
    _, row = table([*repeated, trial(seed=3, after=0), trial(seed=4, after=0)])
    assert re.split(r"\s{2,}", row)[6] == "4 s (1 s to does not recover)"


def test_files_have_a_row_for_each_second_of_each_trial(tmp_path: Path) -> None:
    trials = [trial(), trial(tier="pymongo")]
    files.write_csv(tmp_path / "a.csv", trials)
    with (tmp_path / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == files.NAMES
    assert [(row["strategy"], row["tier"]) for row in rows[24:26]] == [
        ("fixed", "model"),
        ("fixed", "pymongo"),
    ]
    assert [float(row["ok"]) for row in rows[:SECONDS]] == list(trials[0].outcome.columns["ok"])


@pytest.mark.slow
def test_parquet_has_the_same_rows(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs the extra simulation")
    files.write_parquet(tmp_path / "a.parquet", [trial()])
    read = parquet.read_table(tmp_path / "a.parquet")
    assert tuple(read.column_names) == files.NAMES
    assert read["ok"].to_pylist() == list(trial().outcome.columns["ok"])


@pytest.mark.slow
def test_the_same_numbers_give_the_same_pictures_and_a_page_that_asks_nobody(tmp_path: Path) -> None:
    trials = [trial(), trial(tier="pymongo"), trial(Strategy.EXPONENTIAL, after=0)]
    written = {path.stem: path.read_text() for path in files.write_pictures(tmp_path, trials)}
    assert set(written) == set(pictures.TITLES)
    files.write_page(tmp_path / "a.html", trials)
    page = (tmp_path / "a.html").read_text()
    assert [name for name, title in pictures.TITLES.items() if f"<h2>{title}</h2>" not in page] == []
    assert written == {path.stem: path.read_text() for path in files.write_pictures(tmp_path, trials)}
    assert page.index("fixed, model") < page.index("fixed, pymongo")
    assert not re.search(r"<(?:script|img|iframe)\b|(?:src|href)=\"(?!data:)", page)
