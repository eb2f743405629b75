"""`pushbackd exec`: a command with a fake server of its own.

The server is a process of its own, started as by `start` and ended as by `stop`, so that COMMAND can reach it
by verbs (`PUSHBACKD_ID`) as well as by its connection string. With the id of a server that runs, that one is
used and left as it is, and nothing judges its scenario: others may have met it.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import click

from fakeserver.control.client import ControlClient, ServerStatus
from fakeserver.control.control import DistantControl
from fakeserver.control.registry import HOME_VARIABLE, ID_VARIABLE
from fakeserver.control.verdict import NEEDS_REPLICA_SET
from fakeserver.deployment.spec import Topology
from harness.commands.options.starting import starting_of, starting_options
from harness.commands.options.verdict import Telling, verdict_options
from harness.commands.output import bad_input, check_command
from harness.deployments.launching import LaunchError, launched, run_program
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from pathlib import Path


_NOT_FOUND: Final = 127
"""The exit code of shells for a command that does not exist."""


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@starting_options
@verdict_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- SERVE-OPTIONS] -- COMMAND")
def command(
    *,
    words: tuple[str, ...],
    unmet: str,
    trace: Path | None,
    file: Path | None,
    quiet: bool,
    **options: Any,
) -> int:
    """Run COMMAND with a fake server of its own, which ends with it.

    With the --id of a server that runs, COMMAND gets that one. It finds the connection string in
    `MONGODB_URI`, and the other variables that driver suites read; `PUSHBACKD_ID` lets `pushbackd rule add`
    and its like reach the server.

    At the end, standard error has a verdict: the steps, rules and faults that happened and those that never
    did, and the operations that failed in the application. The exit code is that of COMMAND; where that is 0,
    it is 1 if something of the --scenario never happened.
    """
    # The options of `serve` are there only in front of a second `--`.
    at = words.index("--") if "--" in words else None
    served, program = ((), words) if at is None else (words[:at], words[at + 1 :])
    if not program:
        raise click.UsageError("there is no command: write it behind --", click.get_current_context())
    check_command(program[0])
    with ExitStack() as stack:
        with bad_input(ValueError, LaunchError, OSError):
            starting = starting_of(options, served)
            registry = starting.registry
            entry = registry.read(starting.name)
            if entry is not None and ControlClient(entry).status() is not ServerStatus.RUNNING:
                entry = None
            plays = starting.plays_scenario and entry is None
            if entry is None:
                entry = stack.enter_context(
                    launched(starting.arguments, starting.name, registry, log=starting.log)
                )
        # Before the run, whose failures it may explain: what needs a set cannot run on a standalone.
        if plays and not quiet and starting.topology is Topology.SINGLE:
            click.echo(f"note: {NEEDS_REPLICA_SET}", err=True)
        # The server's variables go before the user's: `MONGODB_URI` may be set to something else in this
        # shell.
        variables = ControlClient(entry).about()["variables"]
        code = run_program(
            program, {**os.environ, **variables, HOME_VARIABLE: str(registry.folder), ID_VARIABLE: entry.id}
        )
        telling = Telling(quiet, file, trace, unmet)
        control = DistantControl(ControlClient(entry).perform)
        try:
            verdict = control.verdict()
        except ControlError as error:  # the command has ended the server
            if not telling.quiet:
                click.echo(f"no verdict: {error}", err=True)
            return code
        judged = telling.code(code, verdict, judges=plays)
        telling.tell(entry.id, verdict, control, code=code, judged=judged)
        return judged
