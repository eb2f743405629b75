"""`pushbackd simulate article`: retry at a fixed interval or with exponential backoff, after an outage.

`harness.sim.article` has the article's scenario, its strategies and its prints; `harness.sim.fleet` the
engines of the model. A trial is one strategy with one seed, as a model or live. Order matters to readers: all
trials of a strategy stand together, the live one behind its model, so that both can be compared line by line.

Options of the model are the fields of `ArticleParameters`, with its defaults; a field without an option
cannot be set here.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from harness.commands.options.types import Count, Duration, FilePath, Number, SeedNumber
from harness.commands.output import bad_input
from harness.planning.result import ExitCode
from harness.report.fitting import columns, echo
from harness.report.progress import work
from harness.sim import parquet
from harness.sim.article import files
from harness.sim.article.parameters import (
    ARTICLE_STRATEGIES,
    LIVE,
    OF_THE_APPLICATION,
    ArticleParameters,
    Strategy,
)
from harness.sim.article.prints import client_lines, server_lines, table
from harness.sim.article.scenario import (
    BACKLOG,
    DRIVER_BACKLOG,
    ArticleTrial,
    repeats,
    run_model,
    scenario_of,
)
from harness.sim.fleet.running import engine_for, rough_time, seconds_of
from mongowire.whole_file import check_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.sim.article.scenario import Abandoned
    from harness.sim.fleet import Engine

OTHERS: Final = tuple(strategy.value for strategy in Strategy if strategy not in ARTICLE_STRATEGIES)
ALL: Final = "all"
ABANDONED: Final[Mapping[str, Abandoned]] = {
    "never": "never",
    "atInterruptCheck": "at a check",
    "atOnce": "at once",
}
"""The values of the server's parameter, and what the model calls them."""
# Rows of numbers for ten million clients fit into memory; a live client is a task or a thread with sockets.
MOST_CLIENTS: Final = 10_000_000
MOST_LIVE_CLIENTS: Final = 2_000
MOST_REPEATS: Final = 1_000
_AROUND: Final = (3.0, 10.0)
"""Seconds before the server stops, and after it runs again, in which its prints are shown unasked."""

_DEFAULTS: Final = ArticleParameters()


def _parameter(option: str, name: str, kind: click.ParamType[Any], text: str) -> Callable[[Any], Any]:
    """Return the decorator of an option for a field of `ArticleParameters`, with its default."""
    default = getattr(_DEFAULTS, name)
    shown = f"{default:g}s" if isinstance(kind, Duration) else f"{default:g}"
    metavar = "N" if isinstance(kind, Count) else None
    return click.option(option, name, type=kind, default=shown, show_default=True, metavar=metavar, help=text)


def _article_options(command: Any) -> Any:
    """Add an option for each parameter of the article."""
    options = (
        _parameter("--clients", "clients", Count(1, MOST_CLIENTS), "Number of clients."),
        _parameter("--mean-gap", "mean_gap", Duration(), "Mean time from an answer to the next request."),
        _parameter("--timeout", "timeout", Duration(), "Time after which a client gives a request up."),
        _parameter("--simple-delay", "simple_delay", Duration(), "The fixed interval."),
        _parameter("--min-delay", "minimum_delay", Duration(), "Backoff: the first delay."),
        _parameter("--factor", "factor", Number(least=1), "Backoff: growth of the delay by attempt."),
        _parameter("--max-delay", "maximum_delay", Duration(), "Backoff: the longest delay."),
        _parameter(
            "--jitter", "jitter", Number(least=0), "Backoff: standard deviation, relative to the delay."
        ),
        _parameter("--base-delay", "base_delay", Duration(), "Server: time for a request up to the limit."),
        _parameter("--limit", "limit", Count(0), "Server: requests at a time that do not slow it down."),
        _parameter(
            "--growth", "growth", Number(least=1), "Server: growth of its time by each --k requests beyond."
        ),
        _parameter("--k", "k", Number(above=0), "Server: requests that make it slower by --growth."),
        _parameter("--recompute", "recompute", Duration(), "Server: time between two looks at a request."),
        _parameter("--steady", "steady", Duration(), "Time before the server stops."),
        _parameter("--stopped", "stopped", Duration(), "Time in which it is stopped."),
        _parameter("--resumed", "resumed", Duration(), "Time after it runs again."),
        _parameter("--seed", "seed", SeedNumber(), "Seed of all random choices."),
    )
    # click lists options in the order in which decorators stand, the last applied first.
    for option in reversed(options):
        command = option(command)
    return command


@click.command("article")
@_article_options
@click.option(
    "--as-the-program",
    is_flag=True,
    help="Backoff as in the article's program: the first delay grows from the gap before the request,"
    " and --jitter is in seconds.",
)
@click.option("--fixed", is_flag=True, help="Run the fixed interval only.")
@click.option("--exponential-backoff", is_flag=True, help="Run exponential backoff only.")
@click.option(
    "--with",
    "others",
    type=click.Choice([*OTHERS, ALL]),
    multiple=True,
    help="Run this strategy as well; repeat the option for more.",
)
@click.option(
    "--abandoned",
    type=click.Choice(list(ABANDONED)),
    default="never",
    show_default=True,
    help="When the server notices that a client has gone; as its parameter abandonedRequests.",
)
@click.option(
    "--repeats",
    type=Count(1, MOST_REPEATS),
    default=1,
    show_default=True,
    metavar="N",
    help="Run each so often, with the seeds from --seed on. The table has medians, and the least and the most"
    " behind; prints and lines of pictures are of the first.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Run the scenario in real time as well, with a fake server over TCP that is stopped. Parameters"
    " that are not given are those of 200 clients and a slower server.",
)
@click.option(
    "--driver",
    type=click.Choice(["pymongo", "reference"]),
    default="pymongo",
    show_default=True,
    help="Driver of the clients of --live. PyMongo runs the strategies of applications; those of"
    " Client Backpressure need the reference driver.",
)
@click.option(
    "--stop-with",
    type=click.Choice(["signal", "pause"]),
    default="signal",
    show_default=True,
    help="How the server of --live is stopped: by SIGSTOP, or by its own pause, in which its process goes on"
    " to accept connections.",
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "plain", "compiled"]),
    default="auto",
    show_default=True,
    help="Engine of the model: plain Python, or compiled by Numba; both give the same result.",
)
@click.option("--csv", type=FilePath(dir_okay=False), help="Write a row for each second to this file.")
@click.option("--parquet", type=FilePath(dir_okay=False), help="Write the same rows as a Parquet file.")
@click.option(
    "--plot", metavar="FOLDER", type=FilePath(file_okay=False), help="Write SVG pictures to this folder."
)
@click.option(
    "--html", type=FilePath(dir_okay=False), help="Write one page with the pictures and the prints."
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Print the server's line for every second of the scenario."
)
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> ExitCode:
    """Simulate clients that retry at a fixed interval, or with exponential backoff, when a server stops.

    The server is stopped for a while and runs again. With the fixed interval the service does not come back,
    with exponential backoff it does. Printed are what the article's clients and server print, and a table
    that compares the strategies. A length of time has its unit: 200ms, 2s, 1m30s.
    """
    parameters = _parameters(ctx, options)
    _check(ctx, parameters, options)
    strategies = _strategies(options)
    _announce(parameters, len(strategies) * options["repeats"], options["engine"])
    trials = list(_run(parameters, strategies, options))
    _print(trials, verbose=options["verbose"])
    _write(trials, options)
    return ExitCode.PASSED


def _parameters(ctx: click.Context, options: dict[str, Any]) -> ArticleParameters:
    """Return the article's parameters as the options give them. Raises `click.UsageError`."""
    values = {field.name: options[field.name] for field in fields(ArticleParameters)}
    # Given options win; all others become those of a scenario that one machine can play in real time.
    if options["live"]:
        values |= {name: getattr(LIVE, name) for name in values if not _is_given(ctx, name)}
    try:
        return ArticleParameters(**values)
    except ValueError as error:
        # The error names fields, and the user knows options.
        text = str(error)
        for option in ctx.command.params:
            text = re.sub(rf"\b{option.name}\b", option.opts[0], text)
        raise click.UsageError(text, ctx) from error


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not ParameterSource.DEFAULT


def _strategies(options: dict[str, Any]) -> list[Strategy]:
    """Return the strategies to run: the article's two, unless one is asked for, and others."""
    fixed, exponential, others = options["fixed"], options["exponential_backoff"], options["others"]
    chosen = list(ARTICLE_STRATEGIES)
    if fixed != exponential:
        chosen = [Strategy.FIXED if fixed else Strategy.EXPONENTIAL]
    return [*chosen, *(Strategy(each) for each in OTHERS if ALL in others or each in others)]


def _check(ctx: click.Context, parameters: ArticleParameters, options: dict[str, Any]) -> None:
    """Find out before the run whether it can be run, and whether its files can be written."""
    if options["live"] and parameters.clients > MOST_LIVE_CLIENTS:
        raise click.UsageError(
            f"--clients is {parameters.clients}; with --live it has to be at most {MOST_LIVE_CLIENTS}", ctx
        )
    for name in ("driver", "stop_with"):
        if not options["live"] and _is_given(ctx, name):
            raise click.UsageError(f"--{name.replace('_', '-')} is of use with --live only", ctx)
    with bad_input(ImportError, OSError):
        if options["parquet"]:
            parquet.check()
        for name in ("csv", "parquet", "html"):
            if options[name]:
                check_writable(options[name])
        if options["plot"]:
            check_writable(Path(options["plot"]) / "article-intervals.svg")


def _run(
    parameters: ArticleParameters, strategies: Sequence[Strategy], options: dict[str, Any]
) -> Iterator[ArticleTrial]:
    """Run each strategy as a model and, where that is asked for and the driver has it, live."""
    engine: Engine = options["engine"]
    abandoned, driver = options["abandoned"], options["driver"]
    # The model is compared with the live trial, whose drivers wait for a handshake before they send anything.
    backlog = DRIVER_BACKLOG if options["live"] else BACKLOG
    every = [replace(parameters, seed=parameters.seed + number) for number in range(options["repeats"])]
    for strategy, parameters in product(strategies, every):  # noqa: PLR1704 - each has its seed
        with _progress(f"{strategy}, model", parameters) as heard, bad_input(ImportError, ValueError):
            yield run_model(
                parameters,
                strategy,
                engine=engine,
                abandoned=ABANDONED[abandoned],
                backlog=backlog,
                on_progress=heard,
            )
        if options["live"]:
            from harness.sim.article.live import run_live  # noqa: PLC0415 - a model needs no servers

            # Left out and not refused: `--with all` names strategies of both kinds.
            if driver == "pymongo" and strategy not in OF_THE_APPLICATION:
                continue
            with _progress(f"{strategy}, {driver}", parameters) as heard, bad_input(OSError):
                outcome = run_live(
                    parameters,
                    strategy,
                    driver=driver,
                    abandoned=abandoned,
                    stop_with=options["stop_with"],
                    on_progress=heard,
                )
            yield ArticleTrial(parameters=parameters, strategy=strategy, tier=driver, outcome=outcome)


@contextmanager
def _progress(label: str, parameters: ArticleParameters) -> Iterator[Callable[[float], None]]:
    """Show how far a trial is, on standard error; give what hears the simulated seconds."""
    told = 0.0
    with work(f"{label}, simulated seconds", round(parameters.seconds)) as advance:

        def hear(seconds: float) -> None:
            nonlocal told
            advance(seconds - told)
            told = seconds

        yield hear


def _announce(parameters: ArticleParameters, runs: int, engine: str) -> None:
    """Say which engine the model takes, how long that will be, and how it would be faster."""
    scenario = scenario_of(parameters, Strategy.FIXED)
    if engine == "auto":
        engine = engine_for(scenario)
    seconds = seconds_of(scenario, engine)
    if seconds < _WORTH_TELLING:
        return
    text = f"engine: {engine}, about {rough_time(seconds)} for each of {runs} run{'s' * (runs > 1)}"
    if engine == "plain" and not find_spec("numba"):
        faster = rough_time(seconds_of(scenario, "compiled"))
        text += f"; compiled it is {faster}: pip install 'pushbackd[simulation]'"
    elif engine == "plain":
        text += "; --engine compiled is faster"
    elif engine == "compiled":
        # Numba keeps what it has compiled for later runs; here nobody knows whether it has.
        text += ", and half a minute more when it is compiled for the first time"
    click.echo(text, err=True)


_WORTH_TELLING: Final = 5.0
"""Seconds from which a run is announced."""


def _print(trials: Sequence[ArticleTrial], *, verbose: bool) -> None:
    before, after = _AROUND
    for trial, *_ in repeats(trials):
        own = trial.parameters
        spans = [(own.stops_at - before, own.stops_at), (own.resumes_at, own.resumes_at + after)]
        click.echo(f"{trial.tier_and_strategy}\n\n  clients")
        for line in client_lines(trial):
            echo(line)
        click.echo("\n  server")
        for line in server_lines(trial, [(0.0, own.seconds)] if verbose else spans):
            echo(line)
        click.echo()
    for line in table(trials, columns()):
        echo(line)


def _write(trials: Sequence[ArticleTrial], options: dict[str, Any]) -> None:
    with bad_input(OSError):
        if options["csv"]:
            files.write_csv(options["csv"], trials)
        if options["parquet"]:
            files.write_parquet(options["parquet"], trials)
        if options["plot"]:
            for path in files.write_pictures(options["plot"], trials):
                click.echo(f"wrote {path}", err=True)
        if options["html"]:
            files.write_page(options["html"], trials)
