"""`pushbackd simulate sweep`: every combination of some parameters of a fleet, on all cores or a cluster.

`harness.sim.sweep` reads the grid, runs its points and keeps the results. The file of results is the memory
of a sweep: a point is appended as soon as it has run, known by a digest of its scenario and seed, and never
run twice. A sweep that was ended goes on where it was, and a grid that has grown runs what is new. CSV,
Parquet and the page are made of that file at the end, so they are complete or not there.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from harness.commands.options.types import FilePath, Filled, Jobs
from harness.commands.output import bad_input
from harness.commands.simulations.reporting import check_files, html_option, write_file
from harness.report.fitting import aligned, columns, echo
from harness.report.outputs import writing
from harness.report.progress import work
from harness.running.cluster import ClusterError, on_cluster
from harness.sim import parquet as parquet_files
from harness.sim.fleet.scenario import Scenario
from harness.sim.sweep.grid import read_grid
from harness.sim.sweep.results import ResultsError, measure, results_in, table, write_csv, write_parquet
from harness.sim.sweep.run import PointFailedError, run_points
from harness.sim.sweep.summary import page, summary
from harness.unified.errors import ScenarioError
from harness.world import interruption
from harness.world.processes import processes, processors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from harness.sim.sweep.grid import GridPoint
from harness.sim.sweep.results import Results

# Rows on a terminal: what is left out is counted.
_MOST_ROWS: Final = 40


@click.command("sweep")
@click.option(
    "--grid",
    type=FilePath(dir_okay=False),
    required=True,
    metavar="FILE",
    help="YAML file with a scenario, and the lists of values that some of its fields take.",
)
@click.option(
    "--results",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="JSON Lines file to append the result of each point to. Points that it has are not run again."
    "  [default: the grid's name with .jsonl]",
)
@click.option(
    "--csv", type=FilePath(dir_okay=False), metavar="FILE", help="Write all results to this file as CSV."
)
@click.option(
    "--parquet",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Write all results to this file as Parquet.",
)
@html_option
@click.option(
    "--jobs", type=Jobs(), default="auto", show_default=True, help="Number of processes; auto is one a core."
)
@click.option(
    "--scheduler",
    type=Filled(),
    metavar="ADDRESS",
    help="Run on the cluster of this Dask scheduler, as tcp://HOST:8786, instead of this machine.",
)
def command(
    *,
    grid: Path,
    results: Path | None,
    csv: Path | None,
    parquet: Path | None,
    html: Path | None,
    jobs: int | None,
    scheduler: str | None,
) -> None:
    """Simulate every combination of the values in a grid, and end with a table of them over their seeds.

    After Ctrl-C, or whatever else ends it, the same command goes on with the points that are left. A file of
    results that has points of another grid is refused; a grid may grow.
    """
    if scheduler is not None and jobs is not None:
        raise click.UsageError("--jobs counts processes of this machine; --scheduler uses none of them")
    with bad_input(ScenarioError):
        points = read_grid(grid, Scenario)
    outputs = {
        path: write for path, write in ((csv, write_csv), (parquet, write_parquet)) if path is not None
    }
    # Its library is an extra, and its absence is found out before hours of work.
    if parquet is not None:
        with bad_input(ImportError):
            parquet_files.check()
    check_files(*outputs, html)
    path = results or grid.with_suffix(".jsonl")
    with interruption.politely():
        rows = _run(points, path, jobs, scheduler)
    for output, write in outputs.items():
        with writing(output):
            write(output, table(rows))
    write_file(html, lambda: page(grid, table(rows)))
    told = summary(rows)
    # All rows have the same fields: the grid's own, then the measures.
    heads = list(told[0])
    shown = [heads, *([row[head] for head in heads] for row in told[:_MOST_ROWS])]
    for line in aligned(shown, columns()):
        echo(line)
    if len(told) > _MOST_ROWS:
        click.echo(f"… {len(told) - _MOST_ROWS} more rows; --csv writes all")


def _run(
    points: Sequence[GridPoint], path: Path, jobs: int | None, scheduler: str | None
) -> Sequence[Mapping[str, Any]]:
    """Run the points that the file lacks; return the rows of all, in the order of the grid."""
    with writing(path), bad_input(ResultsError, ClusterError, PointFailedError), ExitStack() as stack:
        results = stack.enter_context(results_in(path, {point.key for point in points}))
        if results.torn:
            click.echo(f"{path}: its last line was torn; that point runs again", err=True)
        left = [point for point in points if point.key not in results.rows]
        if left:
            executor = stack.enter_context(_executor(jobs, len(left), scheduler))
            stack.enter_context(_telling(results, len(points), path))
            advance = stack.enter_context(work("points", len(points), done=len(results.rows)))

            def on_done(point: GridPoint, measures: Mapping[str, Any]) -> None:
                results.add(point, measures)
                advance(1)

            run_points(left, measure, executor, on_done)
        click.echo(f"{path}: {len(points)} points, {len(left)} of them run now")
        return [results.rows[point.key] for point in points]


@contextmanager
def _telling(results: Results, total: int, path: Path) -> Iterator[None]:
    """Say how far a sweep has come that ends early."""
    try:
        yield
    except BaseException:
        click.echo(
            f"{path}: {len(results.rows)} of {total} points; the same command runs the others", err=True
        )
        raise


@contextmanager
def _executor(jobs: int | None, points: int, scheduler: str | None) -> Iterator[Executor]:
    with on_cluster(scheduler) if scheduler else processes(min(jobs or processors(), points)) as executor:
        yield executor
