"""The program: from a command line to an exit code."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fakeserver.cli.config_file import arguments_of
from fakeserver.cli.description import scenario_of, spec_of
from fakeserver.cli.options import BAD_INPUT, CANNOT_START, IGNORED_FLAGS, IGNORED_VALUES, cut, parser
from fakeserver.cli.running import Serving, drop_stderr, log_output, serve
from fakeserver.control.client import ControlClient, ServerStatus
from fakeserver.control.registry import Registry, check_id
from fakeserver.control.scenario.loader import ScenarioFileError
from fakeserver.deployment.garbage import collected_when_idle
from fakeserver.errors import CommandError
from fakeserver.profile import PROFILES
from fakeserver.settings.failpoints import NAMES
from fakeserver.settings.server_parameters import TABLE
from mongowire.documents.errors import ControlError
from mongowire.documents.suggestions import did_you_mean
from mongowire.loops import fast_loop
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from fakeserver.control.scenario.model import Scenario
    from fakeserver.deployment.spec import ClusterSpec


_UNKNOWN: Final = re.compile(r"unrecognized parameter \[(?P<parameter>\w+)\]|(?P<fail_point>\w+) not found")


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code."""
    parse = parser()
    options = options_of(sys.argv[1:] if argv is None else argv)
    if options.version:
        sys.stdout.write(f"db version v{PROFILES[options.profile].version}\n")
        return 0
    if options.fork:
        parse.error("--fork is not supported: `pushbackd start` runs a server in the background")
    if options.shutdown:
        parse.error("--shutdown is not supported: `pushbackd stop` ends a server")
    try:
        spec = scenario_of(options) if options.scenario is not None else spec_of(options, os.environ)
        _check_id(options)
    except ScenarioFileError as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT
    except ValueError as error:
        parse.error(str(error))
    return _run(spec, options)


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options, with those of the file that `--config` names below them.

    A mistake in either ends the process.
    """
    parse = parser()
    options = parse.parse_args(arguments)
    if options.config is None:
        return options
    try:
        of_file = arguments_of(options.config)
    except ControlError as error:
        parse.exit(BAD_INPUT, f"Error: {error}\n")
    return parse.parse_args([*of_file, *arguments])


def _check_id(options: argparse.Namespace) -> None:
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


def _run(spec: ClusterSpec | Scenario, options: argparse.Namespace) -> int:
    try:
        with (
            log_output(
                options.logpath or "", append=options.logappend, syslog=options.syslog, quiet=options.quiet
            ) as log,
            _pid_file(options.pidfilepath),
            collected_when_idle(),
            asyncio.Runner(loop_factory=fast_loop()) as runner,
        ):
            runner.run(serve(spec, _serving(options, log)))
    except (CommandError, ControlError, OSError) as error:
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


def _serving(options: argparse.Namespace, log: Callable[[str], None]) -> Serving:
    ignored = [option for option in (*IGNORED_VALUES, *IGNORED_FLAGS) if getattr(options, option)]
    file = str(Path(options.logpath).absolute()) if options.logpath else ""
    return Serving(
        control=options.control,
        id=options.id or "",
        log=log,
        log_file=file,
        ignored=ignored,
        ui=options.ui,
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
