"""`pushbackd hunt`: each fault at each place of a command.

`harness.hunt` plans, runs and judges trials; here the options become its `Wishes` and its `Setting`, and its
report becomes lines, files and an exit code. Words in between: a place is where something can go wrong, a
strike one fault at one place, a trial one run of COMMAND with strikes.

The budget has two parts. Trials take the most of it. Where the command is a runner of tests that is known, a
share is kept for finding the shortest command of each bug (`harness.hunt.shortening`), together with whatever
the trials have left.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fakeserver.assembly.description import describe
from fakeserver.cli.values import OneOf, ScenarioName
from fakeserver.deployment.spec import Topology, topology_name
from harness.commands.options.pairs import refuse_excluded
from harness.commands.options.types import Count, Duration, FilePath, SeedNumber
from harness.commands.output import bad_input, check_command
from harness.commands.simulations.reporting import check_files
from harness.hunt import invariants, page, results, writing
from harness.hunt.baseline import BaselineError
from harness.hunt.hunting import Hunt
from harness.hunt.planning import Facts
from harness.hunt.program import Programs, watcher
from harness.hunt.shortening import SHARE, Shortening, suite_of
from harness.hunt.terminal import lines
from harness.hunt.trial import Setting, run
from harness.hunt.wishes import recalled, remember, wishes_of
from harness.report import github
from harness.report.progress import work
from harness.world import interruption
from mongowire.documents.errors import ControlError, DocumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.hunt.hunting import Report
    from harness.hunt.places import Numbers
    from harness.hunt.shortening import Suite
    from harness.hunt.trial import Outcome
    from harness.hunt.wire import Strike

# Each has a deployment and a process of COMMAND.
_JOBS_MAX: Final = 64


@click.command("hunt", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--budget", type=Duration(), default="3m", show_default=True, help="Time for all trials: 90s, 5m."
)
@click.option("--seed", type=SeedNumber(), default=0, show_default=True, help="Seed of the order of trials.")
@click.option("--jobs", type=Count(1, _JOBS_MAX), help="Trials at a time.  [default: two for each processor]")
@click.option("--faults", metavar="NAMES", help="Only these faults, separated by commas.  [default: all]")
@click.option(
    "--only", metavar="TRIAL", multiple=True, help="Only this trial, as a hunt prints it: 'FAULT @ PLACE'."
)
@click.option(
    "--invariants", "file", type=FilePath(dir_okay=False), help="File with what must hold after each run."
)
@click.option(
    "--confirm", type=Count(0, 100), default=10, show_default=True, help="Repetitions of what was found."
)
@click.option(
    "--restart", type=Count(0, 100), default=0, show_default=True, help="Runs again of a command that failed."
)
@click.option(
    "--topology",
    type=OneOf(map(str, Topology), topology_name),
    default="replicaset",
    show_default=True,
    help="Kind of deployment.",
)
@click.option(
    "--scenario", type=ScenarioName(), help="Scenario for servers, with the deployment and its data."
)
@click.option("--singles", is_flag=True, help="Try single faults only, and no pairs of them.")
@click.option("--exitfirst", "--first", "first", "-x", is_flag=True, help="End with the first bug.")
@click.option(
    "--memory", type=FilePath(dir_okay=False), help="File that remembers trials: failed first, held last."
)
@click.option(
    "--results", "--json", "json_file", type=FilePath(dir_okay=False), help="Write the report as JSON."
)
@click.option("--junit", "junit_file", type=FilePath(dir_okay=False), help="Write the trials as JUnit's XML.")
@click.option(
    "--html", "--page", "page_file", type=FilePath(dir_okay=False), help="Write the report as a page of HTML."
)
@click.option(
    "--write", "folder", type=FilePath(file_okay=False), help="Write a test and a scenario for each bug here."
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND")
def command(
    *, words: tuple[str, ...], file: Path | None, topology: str, scenario: str | None, **given: Any
) -> int:
    """Run COMMAND again and again, with one fault at one place each time, and judge what becomes of it.

    COMMAND finds the connection string in `MONGODB_URI`. It is run without faults first. The exit code is 0
    if every trial held, 1 if a bug was found, and 2 if COMMAND fails without any fault.
    """
    # Unknown options are let through for COMMAND, so a mistyped one of ours would arrive as its first word.
    if words[0].startswith("-"):
        raise click.UsageError(f"no such option: {words[0]}", click.get_current_context())
    refuse_excluded(click.get_current_context(), "hunt")
    check_command(words[0])
    check_files(given["json_file"], given["junit_file"], given["page_file"], given["memory"])
    with bad_input(ControlError, DocumentError, ValueError, OSError):
        described = {"scenario": scenario} if scenario else {"topology": topology}
        description = describe(described | {"seed": given["seed"]})
        line, memory_file = shlex.join(words), given["memory"]
        # By the command's words: a file may remember several commands.
        remembered = {} if memory_file is None else recalled(memory_file, line)
        known = None if file is None else invariants.read(file)
        # The options that make a trial what it is, but for those that nobody gave.
        restarts = given["restart"]
        found = [] if topology == Topology.REPLICA_SET else ["--topology", topology]
        found += [] if scenario is None else ["--scenario", scenario]
        found += [] if file is None else ["--invariants", str(file)]
        found += ["--restart", str(restarts)] if restarts else []
        besides = tuple(found)
        wishes = replace(wishes_of(given, known, remembered), besides=besides)
    # Trials that are named by hand are repeated as they are.
    tests = None if wishes.only else suite_of(words, Path.cwd())
    kept = 0.0 if tests is None else wishes.budget * SHARE
    programs = Programs(words)
    setting = Setting(description.started, programs, restarts=given["restart"])
    must_answer = wishes.invariants is not None and wishes.invariants.within is not None
    if must_answer:
        # Where an answer must come in time, the invariant decides what is too late, and not the harness.
        setting = replace(setting, outage=math.inf)
    facts = Facts(description.spec.topology == "replicaset", reads_secondaries=False, must_answer=must_answer)
    with bad_input(BaselineError, OSError), work("hunt, in seconds", round(wishes.budget)) as advance:
        to_find = replace(wishes, budget=wishes.budget - kept)
        report = Hunt(partial(run, setting), facts, to_find, _advancing(advance), programs.end_all).run()
        # The report tells the whole budget, not the part that the trials had.
        report.wishes = wishes
        if tests is not None:
            _shorten(tests, report, setting, kept)
    for each in lines(report, line):
        click.echo(each)
    with bad_input(OSError, ValueError):
        _write(report, words, given)
    # A place is named by its number in the run: with another command, it may be none today.
    if wishes.only and not all(trial.judgement.reached for trial in report.trials):
        raise click.ClickException("a place was not reached: hunt again for the names of today's places")
    return 130 if report.interrupted else 1 if report.confirmed else 0


def _shorten(tests: Suite, report: Report, setting: Setting, kept: float) -> None:
    """Look for the shortest command of each bug, in the time that is left and was kept for it."""
    left = watcher(max(kept, report.wishes.budget - report.seconds))

    def again(words: Sequence[str], strikes: tuple[Strike, ...], limit: float, known: Numbers) -> Outcome:
        programs = Programs(words)
        try:
            return run(replace(setting, programs=programs), strikes, limit, 0, known)
        finally:
            programs.end_all()

    shortening = Shortening(tests, report, again, lambda: left() <= 0)
    try:
        for bug in () if report.interrupted else report.confirmed:
            shortening.shorten(bug)
    except KeyboardInterrupt:
        report.interrupted = True
        # The report is written all the same, and its files are not to be interrupted by the same signal
        # again.
        interruption.forget()


def _write(report: Report, words: tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Write what the options ask for. Raises `OSError`, and `ValueError` for a file of another kind."""
    line = shlex.join(words)
    if given["json_file"] is not None:
        results.write_json(given["json_file"], report, line)
    if given["junit_file"] is not None:
        results.write_junit(given["junit_file"], report, line)
    if given["page_file"] is not None:
        page.write(given["page_file"], report, line)
    if given["memory"] is not None:
        remember(given["memory"], line, report)
    if given["folder"] is not None:
        for path in writing.write(given["folder"], report, words):
            click.echo(f"wrote {path}", err=True)
    # Into GITHUB_STEP_SUMMARY, where there is one; elsewhere it does nothing.
    github.write_summary(results.markdown(report, line))


def _advancing(advance: Callable[[float], None]) -> Callable[[Report], None]:
    """Return what is called after each trial: it advances by the seconds of the budget that have passed."""
    passed = 0.0

    def show(report: Report) -> None:
        nonlocal passed
        # Whole seconds on both sides, or rounding would lose some of each trial.
        advance(round(report.seconds) - round(passed))
        passed = report.seconds

    return show
