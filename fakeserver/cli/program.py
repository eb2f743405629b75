"""The program: from a command line to an exit code."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fakeserver.cli.command import serve_command
from fakeserver.cli.description import scenario_of, spec_of
from fakeserver.cli.options import OPTIONS
from fakeserver.cli.running import Serving, drop_stderr, errors_only, is_watched, log_output, serve
from fakeserver.control.client import ControlClient, ServerStatus
from fakeserver.control.registry import Registry, check_id
from fakeserver.control.scenario.loader import ScenarioFileError
from fakeserver.deployment.garbage import collected_when_idle
from fakeserver.errors import CommandError
from fakeserver.profile import PROFILES
from fakeserver.settings.failpoints import NAMES
from fakeserver.settings.server_parameters import TABLE
from mongowire.documents.command_line import BAD_INPUT, CANNOT_START, cut, show
from mongowire.documents.errors import ControlError, did_you_mean
from mongowire.system import fast_loop
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fakeserver.cli.command import ServeOptions
    from fakeserver.control.scenario.model import Scenario
    from fakeserver.deployment.spec import ClusterSpec


_UNKNOWN: Final = re.compile(r"unrecognized parameter \[(?P<parameter>\w+)\]|(?P<fail_point>\w+) not found")


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        code = serve_command(run).main(arguments, prog_name="pushbackd serve", standalone_mode=False)
    except click.ClickException as error:
        show(error)
        return BAD_INPUT
    return int(code or 0)


def run(options: ServeOptions, context: click.Context | None = None) -> int:
    """Serve what options describe; return the exit code. Raises `click.ClickException` for wrong ones."""
    if options.version:
        click.echo(f"db version v{PROFILES[options.profile].version}")
        return 0
    if options.fork:
        raise click.UsageError(
            "--fork is not supported: `pushbackd start` runs a server in the background", context
        )
    if options.shutdown:
        raise click.UsageError("--shutdown is not supported: `pushbackd stop` ends a server", context)
    try:
        spec = scenario_of(options) if options.scenario is not None else spec_of(options, os.environ)
        _check_id(options)
    except ScenarioFileError as error:
        raise click.ClickException(str(error)) from error
    except ValueError as error:
        raise click.UsageError(str(error), context) from error
    return _run(spec, options)


def _check_id(options: ServeOptions) -> None:
    """Refuse an id that cannot be had. Raises `ControlError`."""
    if not options.id:
        return
    check_id(options.id)
    if options.control == "none":
        raise ControlError("--id names a server by its control listener; leave --control none away")
    entry = Registry().read(options.id)
    if entry is not None and ControlClient(entry).status() is not ServerStatus.ENDED:
        raise ControlError(
            f"--id {options.id}: a server of this id runs; `pushbackd stop {options.id}` ends it"
        )


def _run(spec: ClusterSpec | Scenario, options: ServeOptions) -> int:
    try:
        with (
            log_output(
                options.logpath or "", append=options.logappend, syslog=options.syslog, quiet=options.quiet
            ) as log,
            _pid_file(options.pidfilepath),
            collected_when_idle(),
            asyncio.Runner(loop_factory=fast_loop()) as runner,
        ):
            is_logged = options.logpath or options.syslog or options.verbose
            for_people = is_watched() and not is_logged
            serving = _serving(options, errors_only(log) if for_people else log)
            runner.run(serve(spec, replace(serving, for_people=for_people)))
    except (CommandError, ControlError, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:  # a file that cannot be written
            sys.stderr.write(cut(f"Error: {os.fsdecode(error.filename)}: {error.strerror}") + "\n")
            return BAD_INPUT
        sys.stderr.write(cut(f"Error: cannot start: {error}{_cure(str(error))}") + "\n")
        return CANNOT_START if isinstance(error, OSError) else BAD_INPUT
    try:
        sys.stderr.flush()
    except OSError:
        drop_stderr()
    return 0


def _cure(message: str) -> str:
    """Return what was meant by the name of a parameter or a fail point that does not exist."""
    found = _UNKNOWN.search(message)
    if found is None:
        return ""
    known = list(TABLE if found["parameter"] else NAMES)
    hint = did_you_mean(found["parameter"] or found["fail_point"], known)
    return f"; {hint}" if hint else ""


def _serving(options: ServeOptions, log: Callable[[str], None]) -> Serving:
    ignored = [row.option for row in OPTIONS if row.ignored and getattr(options, row.name)]
    file = str(Path(options.logpath).absolute()) if options.logpath else ""
    return Serving(
        control=options.control,
        id=options.id or "",
        log=log,
        log_file=file,
        ignored=ignored,
        ui=options.ui,
        # Where the log has standard error for itself, programs may read it: the verdict is a line of the log.
        tells_verdict=not options.quiet and (bool(file) or options.syslog or sys.stderr.isatty()),
        unix_folder="" if options.nounixsocket else options.unixSocketPrefix or "",
    )


@contextmanager
def _pid_file(path: str | None) -> Iterator[None]:
    """Keep the number of the process in a file. Raises `OSError`."""
    if path is None:
        yield
        return
    file = Path(path)
    write_whole(file, f"{os.getpid()}\n")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
