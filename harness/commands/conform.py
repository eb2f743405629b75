"""`pushbackd conform`: run scenarios against drivers on fake deployments, and report what conforms.

`run_of` turns the command line into a `PreparedRun` (the plan, the settings, the expectations, how to
report), and `_execute` performs it by `harness.running.conformance`, or by the flake lab where cases are
repeated. Options that contradict each other are refused before anything is started or asked, and no case runs
before every file that will be written has been tried: a run of half an hour must not end with a path that
cannot be written.

The plan is made of cases, drivers and deployments in a fixed order, so that two runs of the same command line
can be compared line by line. With `--watch` the same command line is run again for the files that were saved.
"""

from __future__ import annotations

import gc
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from harness.adapters.registry import DRIVERS
from harness.commands.options.common import (
    WIRE_VERBOSITY,
    DriverName,
    Options,
    case_timeout_option,
    color_of,
    commands_of,
    drivers_named,
    edition_of,
    edition_option,
    no_color_option,
    refuse_virtual_time,
    seed_option,
    trace_of,
    trace_option,
    versions_of,
)
from harness.commands.options.deployment import deployment_options, deployments_of, external_uris
from harness.commands.options.flaky import lab_options, repeats_of
from harness.commands.options.naming import ScenarioName, paths_and_cases
from harness.commands.options.pairs import refuse_clashes
from harness.commands.options.selecting import (
    SelectingCommand,
    among_last_failed,
    cases_of,
    files_of,
    is_selected,
    selecting_options,
)
from harness.commands.options.types import MOST_WHOLE, Count, FilePath, Filled, Jobs, Seconds
from harness.commands.output import bad_input
from harness.planning.discovery import BadInputError, bundled_root
from harness.planning.expectations import ExpectationsError, drafted, nowhere, of_adapter
from harness.planning.plan import Load, Settings, forget, left_out, load_all, plan
from harness.planning.result import ExitCode
from harness.report.fitting import aligned, columns, echo
from harness.report.outputs import Outputs, result_files, writing
from harness.report.terminal import Style
from harness.running.conformance import Conformance
from harness.running.flake_lab.lab import LabRun
from harness.running.run import RERUNS, PreparedRun
from harness.running.watch import watch
from harness.unified import loops
from harness.world import interruption
from harness.world.processes import collecting_seldom, never_collecting
from mongowire.whole_file import check_writable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.adapters.registry import DriverEntry
    from harness.deployments.external import ExternalUris
    from harness.planning.expectations import Expectations


# Printed once, after the first command of a newcomer: one without any option, all of whose cases passed.
_DONE: Final = (
    "The scenarios drove the reference driver against fake servers, and held what both did to the"
    " specifications."
)
_NEXT: Final = (
    ("Next: pushbackd demo", "break a replica set under a small shop, on a live page"),
    ("      pushbackd conform --adapter pymongo", "the same scenarios on PyMongo"),
    ("      pushbackd new first.yml", "a scenario of your own, in ten minutes (docs/TUTORIAL.md)"),
)


@click.command("conform", cls=SelectingCommand)
@click.argument("names", nargs=-1, type=ScenarioName(), metavar="[PATH[::CASE]]...")
@click.option(
    "--adapter",
    type=DriverName(),
    multiple=True,
    default=("reference",),
    show_default=True,
    help=f"Driver to test: {', '.join(DRIVERS)}, or 'cmd:' and the command line of an adapter"
    " (docs/WRITING-ADAPTERS.md); repeat the option for more drivers.",
)
@deployment_options
@click.option(
    "--time",
    type=click.Choice(["real", "virtual"]),
    help="Clock of the run. In virtual time waiting takes no time, a seed repeats the run exactly, and"
    " messages travel in memory; it needs fake servers, and drivers that take clock and network from the"
    " harness. In real time they travel over TCP.  [default: virtual where every driver and the servers can,"
    " else real]",
)
@edition_option
@click.option(
    "--jobs",
    type=Jobs(),
    default="auto",
    show_default=True,
    help="Number of worker processes; 1 runs every case in this process.",
)
@click.option(
    "--scheduler",
    type=Filled(),
    metavar="ADDRESS",
    help="Run the cases on the cluster of this Dask scheduler, as tcp://HOST:8786. Its workers need pushbackd"
    " and the scenario files at the same paths.",
)
@seed_option
@click.option(
    "--reruns",
    type=Count(0),
    default=RERUNS,
    show_default=True,
    metavar="N",
    help="How often a case that failed in real time runs again, alone, after all others: a busy machine is"
    " late. Up to 20 cases do; the report names those that passed then.",
)
@click.option(
    "--maxfail",
    type=Count(1),
    metavar="N",
    help="End the run when N cases have failed; a case that was late counts at once.",
)
@click.option("-x", "--exitfirst", is_flag=True, help="End the run at the first failure: --maxfail 1.")
@selecting_options
@click.option("--junit", type=FilePath(dir_okay=False), help="Write a JUnit report to this file.")
@click.option(
    "--results",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Write all results with their timelines to this file, for `pushbackd report`; compressed if its name"
    " ends in .gz. Of a repeated case it has one: the first failure, if there is one.",
)
@click.option(
    "--html",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Write the results as one HTML page with a picture of each case; of repeated cases their pass rates,"
    " the smallest schedules that fail, and a run that passed beside one that failed.",
)
@click.option(
    "--json",
    is_flag=True,
    help="Write one JSON object per case to standard output, then one with the totals.",
)
@click.option(
    "--expectations",
    type=FilePath(),
    metavar="FILE",
    help="File that lists the cases known to fail.  [default: the bundled files]",
)
@click.option(
    "--write-expectations",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Add the cases that failed to this file of expectations, each with a reason to fill in. A file that"
    " exists keeps its entries and comments.",
)
@click.option(
    "--journal",
    type=FilePath(file_okay=False),
    metavar="FOLDER",
    help="Folder to write a journal of each case to.",
)
@trace_option
@case_timeout_option
@click.option(
    "--loop-iterations",
    type=Count(1, MOST_WHOLE),
    default=loops.ITERATIONS,
    show_default=True,
    metavar="N",
    help="Number of iterations after which a loop operation ends; it has no end of its own.",
)
@click.option(
    "--loop-seconds",
    type=Seconds(),
    metavar="SECONDS",
    help="Time limit of a loop operation, on the clock of its case."
    f"  [default: {loops.SECONDS:g}, or half of --case-timeout]",
)
@click.option(
    "--interrupt-ends-loops",
    is_flag=True,
    help="Let the first Ctrl-C (SIGINT) end loops, and the second one the run.",
)
@no_color_option
@click.option(
    "-v",
    "--verbose",
    count=True,
    help="Print a line for each case; with -vv, failures show every message on the wire.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only failures and totals.")
@click.option(
    "--durations",
    type=Count(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Print the N longest cases.",
)
@click.option(
    "--github/--no-github",
    envvar="GITHUB_ACTIONS",
    show_envvar=True,
    help="Print annotations and write a step summary for GitHub Actions.",
)
@click.option("--watch", is_flag=True, help="Run files again when they are saved, until Ctrl-C.")
@lab_options
def command(**_: Any) -> ExitCode:
    """Run scenarios against a driver: those of each PATH (a file or a folder), by default the bundled ones.

    A PATH may be a short name as reports print it (retryable-writes/batches), also of a bundled scenario;
    after two colons stands the description of one case, or a part of it that no other has.

    Scenarios are in the unified test format, or in one of the formats that test parts of the reference driver
    (docs/FORMATS.md).

    The first Ctrl-C ends the run, and so does a SIGTERM: the reports list the cases that did not run.

    The exit code is 0 when all cases passed, 1 when one failed, 2 for a wrong command line, a file or a case
    that cannot be used, 3 for a defect of this program, 5 when nothing ran, 6 when a case passed that is
    known to fail, 130 after Ctrl-C, 143 after SIGTERM, 141 when the reader of the output has gone.
    """
    options = Options.of(click.get_current_context())
    paths, cases = paths_and_cases(options.names)
    options = replace(options, paths=paths, cases=cases)
    if options.interrupt_ends_loops:
        click.echo("the first Ctrl-C ends loops, the second one ends the run", err=True)
    with interruption.politely():
        # Signals are noted from here on, also while a watch waits for a file; `watch` ends with the code of
        # its last run.
        if not options.watch:
            return _conform(options)

        def conform_saved(paths: Sequence[Path]) -> ExitCode:
            # The parsed files of the last run are kept by path, and one of them has just been saved.
            forget()
            return _conform(replace(options, paths=tuple(paths)))

        return watch(options.paths, conform_saved)


def _conform(options: Options) -> ExitCode:
    """Run what a command line asks for, once."""
    # Reading makes many objects without cycles, which stay to the end: the collector would go over them again
    # and again, and workers that are forked share them with this process.
    with never_collecting():
        run = run_of(options)
        gc.freeze()  # what was read stays to the end
    with collecting_seldom():
        return _execute(run, options)


def _execute(run: PreparedRun, options: Options) -> ExitCode:
    # Nothing to do is a success here: a hook or a CI step asks with --changed at every commit.
    if options.changed is not None and not run.complaints and not run.items and not options.keyword:
        click.echo(f"no scenario differs from {options.changed}", err=True)
        return ExitCode.PASSED
    # A file that cannot be written is found out before the first case, not after the last.
    if (path := run.draft) is not None:
        with writing(path), bad_input(ExpectationsError):
            drafted(path)
            check_writable(path)
    if (path := run.outputs.junit) is not None:
        with writing(path):
            check_writable(path)
    if (folder := options.journal) is not None:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
    if run.repeats.wanted and (path := options.html) is not None:
        with writing(path):
            check_writable(path)
    # The lab draws a page of its own at its end, from all runs of each case.
    page = None if run.repeats.wanted else options.html
    with result_files(run.settings, results=options.results, html=page) as files:
        of_run = LabRun(run, files, options.html) if run.repeats.wanted else Conformance(run, files)
        code = of_run.execute()
    # A default in the environment counts as the user's word: CI systems set some.
    if code is ExitCode.PASSED:
        ctx = click.get_current_context()
        is_bare = all(ctx.get_parameter_source(name) is ParameterSource.DEFAULT for name in ctx.params)
        if is_bare:  # a newcomer's first command
            _say_what_next()
    return code


def _say_what_next() -> None:
    """Say what was done and what to type next: beside each command what it does, or below it."""
    click.echo()
    echo(_DONE)
    beside = aligned([("", ""), *_NEXT], None)[1:]
    fits = (columns() or inf) >= max(map(len, beside))
    for line in beside if fits else (line for command, what in _NEXT for line in (command, f"{'':8}{what}")):
        echo(line)


def run_of(options: Options) -> PreparedRun:
    """Return the run that a command line describes. Raises `click.ClickException`, and `UsageError` as one.

    What the command line alone can contradict is refused first, then what files say, and last of all
    somebody's servers are asked what they are.
    """
    refuse_clashes(options)
    uris = external_uris(options)
    # Adapters of the user's are started here for the first time, to learn their names, features and editions.
    infos = drivers_named(options.adapter)
    settings = _settings(options, infos, uris)
    for name, info in infos.items():
        if options.time == "virtual":
            refuse_virtual_time(name, info)
    if options.write_expectations is not None and len(infos) > 1:
        raise click.UsageError("--write-expectations takes the failures of one driver: name one --adapter")
    editions = {name: edition_of(name, info, options.edition) for name, info in infos.items()}
    wanted = is_selected(options.keyword)
    with bad_input(ExpectationsError, BadInputError):
        expectations = {adapter: of_adapter(adapter, options.expectations) for adapter in editions}
        scenarios = load_all(files_of(options))
    # With one usable file the run goes on, and the complaints are part of its report and of its exit code.
    if not scenarios.files and scenarios.complaints:
        raise click.ClickException("\n".join(scenarios.complaints))
    # A file of the user's is meant for the cases of this run, so each of its entries has to match one
    # somewhere.
    own, bundled = options.expectations, bundled_root().resolve()
    is_users = own is not None and not own.resolve().is_relative_to(bundled)
    _refuse_unmatched(expectations, scenarios, everywhere=is_users)
    deployments = deployments_of(options, uris)
    cases = cases_of(options, scenarios)
    return PreparedRun(
        items=among_last_failed(
            plan(cases, drivers=editions, topologies=deployments, wanted=wanted), options
        ),
        settings=settings,
        expectations=expectations,
        complaints=scenarios.complaints,
        note=left_out(cases, editions, wanted),
        jobs=options.jobs,
        scheduler=options.scheduler,
        reruns=options.reruns,
        repeats=repeats_of(options, deployments),
        outputs=Outputs(
            style=Style(-1 if options.quiet else options.verbose, options.durations),
            color=color_of(no_color=options.no_color),
            json=options.json,
            github=options.github,
            junit=options.junit,
        ),
        is_watched=options.watch,
        draft=options.write_expectations,
        failures=1 if options.exitfirst else options.maxfail,
    )


def _settings(options: Options, infos: Mapping[str, DriverEntry], uris: ExternalUris | None) -> Settings:
    loop_seconds, case_timeout = options.loop_seconds, options.case_timeout
    if loop_seconds is None:
        loop_seconds = min(loops.SECONDS, case_timeout / 2)
    elif loop_seconds >= case_timeout:
        raise click.UsageError(
            f"--loop-seconds {loop_seconds:g} must be less than --case-timeout, which is {case_timeout:g}s:"
            " a case whose loop takes so long counts as hung"
        )
    # One driver that needs real time brings the whole run to it: results of both kinds would not be
    # comparable.
    can = uris is None and all(info.virtual_time for info in infos.values())
    return Settings(
        uri=uris.uri if uris else "",
        uri_multi=uris.uri_multi if uris else "",
        server_scenario=options.server_scenario or "",
        time="virtual" if options.time == "virtual" or (options.time is None and can) else "real",
        seed=options.seed,
        case_timeout=case_timeout,
        loop_iterations=options.loop_iterations,
        loop_seconds=loop_seconds,
        interrupt_ends_loops=options.interrupt_ends_loops,
        journal_dir=str(options.journal) if options.journal else "",
        commands=commands_of(infos),
        drivers=versions_of(infos),
        wire=options.verbose >= WIRE_VERBOSITY,
        trace=trace_of(options.trace_adapter, infos),
        # Timelines of cases that pass cost time and memory; only files show them.
        detail="all" if options.results or options.html else "failures",
    )


def _refuse_unmatched(expectations: Mapping[str, Expectations], scenarios: Load, *, everywhere: bool) -> None:
    """Refuse entries that match no case.

    The bundled files also speak of public scenarios, which need not be on this machine. They are held to the
    bundled scenarios of the run only: a file of the user's may have the same name.
    """
    bundled = bundled_root()
    ids = [case.id for case in scenarios.cases if everywhere or case.path.is_relative_to(bundled)]
    paths = [file.path for file in scenarios.files]
    complaints = [
        complaint
        for each in expectations.values()
        for complaint in (nowhere(each, ids, paths) if everywhere else each.unmatched(ids))
    ]
    if complaints:
        raise click.ClickException("\n".join(dict.fromkeys(complaints)))
