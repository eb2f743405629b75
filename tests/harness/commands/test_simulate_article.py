"""`pushbackd simulate article`: options, prints, files, and what it says to wrong options."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result

from harness.cli import cli
from harness.commands.simulate import SIMULATIONS
from harness.commands.simulations.article import ABANDONED, OTHERS
from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

OF_THE_REFERENCE_DRIVER = "backpressure-2026-07-08"

SMALL = ("--clients", "40", "--steady", "6s", "--stopped", "3s", "--resumed", "4s", "--engine", "plain")


def article(*arguments: object, small: bool = True) -> Result:
    return CliRunner().invoke(cli, ["simulate", "article", *(SMALL if small else ()), *map(str, arguments)])


def strategies(done: Result) -> list[str]:
    """Return the first words of the rows of the table."""
    assert done.exit_code == 0, done.output
    _, table = done.stdout.split("\nstrategy ")
    return [line.split()[0] for line in table.splitlines()[1:]]


def test_both_strategies_are_compared_by_default() -> None:
    done = article()
    assert strategies(done) == ["fixed", "exponential"]
    assert done.stdout.startswith("fixed, model\n\n  clients\n   5.0 s  OK: ")
    assert "  server\n   3.0 s  concurrency: " in done.stdout


@pytest.mark.parametrize(
    ("options", "run"),
    [
        (["--fixed"], ["fixed"]),
        (["--exponential-backoff"], ["exponential"]),
        (["--fixed", "--exponential-backoff"], ["fixed", "exponential"]),
        (["--fixed", "--with", "no-retry"], ["fixed", "no-retry"]),
    ],
    ids=" ".join,
)
def test_strategies_are_chosen(options: list[str], run: list[str]) -> None:
    assert strategies(article(*options)) == run


@pytest.mark.slow
def test_all_strategies_are_compared() -> None:
    assert strategies(article("--with", "all")) == ["fixed", "exponential", *OTHERS]


def test_the_same_seed_prints_the_same_and_another_does_not() -> None:
    first, again, other = (article("--seed", seed).stdout for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("abandoned", ABANDONED)
def test_the_server_may_notice_that_a_client_has_gone(abandoned: str) -> None:
    assert strategies(article("--abandoned", abandoned)) == ["fixed", "exponential"]


@pytest.mark.slow
@pytest.mark.parametrize(("driver", "live"), [("pymongo", set()), ("reference", {OF_THE_REFERENCE_DRIVER})])
def test_what_was_measured_live_stands_beside_the_model(driver: str, live: set[str], tmp_path: Path) -> None:
    done = article(
        *("--live", "--driver", driver, "--fixed", "--with", OF_THE_REFERENCE_DRIVER, "--clients", 10),
        *("--mean-gap", "300ms", "--steady", "500ms", "--stopped", "500ms", "--resumed", "1s"),
        *("--csv", tmp_path / "rows.csv"),
        small=False,
    )
    assert done.exit_code == 0, done.output
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["strategy"] for row in rows if row["tier"] == driver} == {"fixed"} | live
    assert {row["strategy"] for row in rows if row["tier"] == "model"} == {"fixed", OF_THE_REFERENCE_DRIVER}
    assert f"\nfixed, {driver}\n" in done.stdout


def test_every_second_of_the_server_is_printed_if_that_is_asked_for() -> None:
    assert article("-v", "--fixed").stdout.count("concurrency: ") == 13 - 3


def test_rows_are_written(tmp_path: Path) -> None:
    done = article("--csv", tmp_path / "rows.csv")
    assert done.exit_code == 0, done.output
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 13
    assert {row["strategy"] for row in rows} == {"fixed", "exponential"}


@pytest.mark.slow
def test_pictures_and_a_page_are_written(tmp_path: Path) -> None:
    done = article("--plot", tmp_path / "pictures", "--html", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "pictures").glob("article-*.svg"))) == 5
    assert "exponential" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("library", "option", "cure"),
    [
        ("pyarrow", "--parquet", "pip install 'pushbackd[simulation]'"),
    ],
)
def test_a_missing_library_is_named_before_the_run(
    library: str, option: str, cure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    done = article(option, tmp_path / "file", small=False)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert done.stderr.count("\n") == 1
    assert cure in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = article("--csv", tmp_path / "file" / "rows.csv", small=False)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert done.stderr.startswith("Error: ")
    assert not done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--clients", "0"], "'--clients': 0 is not in the range"),
        (["--clients", "9" * 30], "is not in the range"),
        (["--timeout", "0s"], "'--timeout': 0s is not above 0"),
        (["--timeout", "2 weeks"], "'--timeout': '2 weeks' is no duration"),
        (["--mean-gap", "-1"], "'--mean-gap': '-1' is negative"),
        (["--steady", "2h"], "--steady is 7200.0; it has to be above 0 and at most 3600 seconds"),
        (["--factor", "nan"], "'--factor': nan is no finite number"),
        (["--factor", "0.9"], "'--factor': 0.9 is below 1"),
        (["--k", "0"], "'--k': 0 is not above 0"),
        (["--jitter", "x"], "'--jitter': 'x' is no number"),
        (["--max-delay", "10ms"], "--max-delay is 0.01; it has to be at least --min-delay, 0.1"),
        (["--seed", "x"], "'--seed': 'x' is not a valid integer"),
        (["--with", "hope"], "'--with': 'hope' is not one of"),
        (["--engine", "steam"], "'--engine': 'steam' is not one of"),
        (["--abandoned", "soon"], "'--abandoned': 'soon' is not one of"),
        (["--driver", "reference"], "--driver is of use with --live only"),
        (["--stop-with", "pause"], "--stop-with is of use with --live only"),
        (["--live", "--clients", "2001"], "--clients is 2001; with --live it has to be at most 2000"),
        (["--csv", ""], "the name of a file is empty"),
        (["more"], "unexpected extra argument"),
    ],
    ids=lambda each: " ".join(each)[:40] if isinstance(each, list) else "",
)
def test_an_option_that_cannot_be_is_named_with_its_bounds(arguments: list[str], said: str) -> None:
    done = article(*arguments, small=False)
    assert done.exit_code == ExitCode.BAD_INPUT
    first, cure = done.stderr.splitlines()
    assert said in first
    assert "--help" in cure
    assert not done.stdout


def test_a_number_of_many_digits_is_shortened() -> None:
    done = article("--timeout", "9" * 20_000, small=False)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert len(done.stderr) < 800


@pytest.mark.parametrize("name", SIMULATIONS)
def test_every_simulation_has_a_help(name: str) -> None:
    group = cli.get_command(click.Context(cli), "simulate")
    assert isinstance(group, click.Group)
    assert name in group.list_commands(click.Context(group))
    assert CliRunner().invoke(cli, ["simulate", name, "--help"]).exit_code == 0
