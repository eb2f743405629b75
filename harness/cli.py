"""The `pushbackd` command: a group whose subcommands are imported when they are asked for."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TextIO

import click

from harness import interruption, leaving
from harness.result import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class _Subcommand(NamedTuple):
    module: str
    help: str


SUBCOMMANDS: Final[Mapping[str, _Subcommand]] = {
    "certs": _Subcommand("harness.certs", "Make throw-away certificates for tests with TLS."),
    "conform": _Subcommand("harness.conform", "Run scenarios against a driver and report what conforms."),
    "explain": _Subcommand("harness.explain", "Run one case and show what the driver and the servers did."),
    "govern": _Subcommand("harness.govern", "Have a policy set a running server's request rate limiter."),
    "lint": _Subcommand("harness.lint.command", "Check scenarios without running them."),
    "new": _Subcommand("harness.authoring.new", "Write a commented scenario to start from."),
    "record": _Subcommand("harness.recording.command", "Run a scenario and write down what to expect of it."),
    "report": _Subcommand("harness.report.command", "Make one HTML page of the results of several runs."),
    "schema": _Subcommand("harness.authoring.schema", "Print the JSON Schema of scenarios, for editors."),
    "serve": _Subcommand("harness.serve", "Serve a fake MongoDB deployment (takes the options of mongod)."),
    "to-json": _Subcommand("harness.authoring.to_json", "Write the JSON twins of YAML scenarios."),
}


class LazyGroup(click.Group):
    """Lists its subcommands without importing them, and ends with the exit codes of pytest."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        if cmd_name not in SUBCOMMANDS:
            return None
        command: click.Command = import_module(SUBCOMMANDS[cmd_name].module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = super().resolve_command(ctx, args)
        # Until now there were imports only, and a signal has ended the process on the spot (harness.leaving).
        ctx.with_resource(interruption.listening())
        return found

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _NobodyReadsError from error  # which click would end the process for, with another code

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        with formatter.section("Commands"):
            formatter.write_dl([(name, subcommand.help) for name, subcommand in SUBCOMMANDS.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - click's signature
        **extra: Any,
    ) -> Any:
        """Run the command line; in standalone mode end the process, as click does, with our exit codes."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        sys.exit(self._exit_code(args, prog_name, complete_var, extra))

    def _exit_code(
        self, args: Sequence[str] | None, name: str | None, complete: str | None, extra: Mapping[str, Any]
    ) -> int:
        try:
            try:
                _refuse_unreadable(sys.argv[1:] if args is None else args)
                code = int(super().main(args, name, complete, standalone_mode=False, **extra) or 0)
            except Exception as error:  # noqa: BLE001 - whatever it is, somebody has to be told
                code = _told(error)
            sys.stdout.flush()
        except (BrokenPipeError, _NobodyReadsError):
            return _unread()
        except OSError as error:  # of standard output itself
            _discard(sys.stdout)
            click.echo(f"Error: standard output: {error.strerror}", err=True)
            return ExitCode.BAD_INPUT
        return code


def _refuse_unreadable(arguments: Sequence[str]) -> None:
    """Refuse what is no text: it could be shown in no report, and reach no server."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise click.UsageError(f"{argument!r} is not UTF-8: names of files and values must be") from None


class _NobodyReadsError(Exception):
    """What reads our output has gone."""


_LINE_MAX: Final = 600
_DISK_ERRORS: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


def _told(error: Exception) -> int:
    """Tell of what has ended a command, and return the exit code."""
    if isinstance(error, _NobodyReadsError):
        raise error
    if isinstance(error, click.ClickException):
        _show(error)
        return ExitCode.USAGE if isinstance(error, click.UsageError) else ExitCode.BAD_INPUT
    if isinstance(error, click.Abort):
        end = error.__cause__
        click.echo(str(end) if isinstance(end, interruption.Interrupted) else "interrupted", err=True)
        number = end.number if isinstance(end, interruption.Interrupted) else signal.SIGINT
        return leaving.exit_code(number)
    if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
        place = f"{error.filename}: " if error.filename else ""
        click.echo(f"Error: {place}{error.strerror}", err=True)
        _discard(sys.stdout)  # it may be what is full: that has been told
        return ExitCode.BAD_INPUT
    click.echo(f"pushbackd failed; this is a defect of its own:\n{traceback.format_exc()}", err=True)
    return ExitCode.INTERNAL_ERROR


def _show(error: click.ClickException) -> None:
    """Tell what is wrong, and where to read what would be right, in a line each."""
    first, *others = error.format_message().splitlines() or [""]
    for line in (f"Error: {first}", *others):
        click.echo(_cut(line), err=True)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"'{error.ctx.command_path} --help' tells what there is.", err=True)


def _cut(line: str) -> str:
    """Return a line that a reader can take in, whatever it quotes."""
    return line if len(line) <= _LINE_MAX else f"{line[: _LINE_MAX // 2]} … {line[-_LINE_MAX // 2 :]}"


def _unread() -> int:
    """Make sure that nothing is said any more, not even by the interpreter at its end."""
    _discard(sys.stdout)
    _discard(sys.stderr)
    return ExitCode.NOBODY_READS


def _discard(stream: TextIO) -> None:
    """Point a stream that cannot be written on to where everything is taken."""
    with suppress(OSError, ValueError):  # a test's stream has no number
        number = stream.fileno()
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)
            os.close(nowhere)


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    if wanted:
        from importlib import metadata  # noqa: PLC0415 - costs what no other command need pay

        try:
            version = metadata.version("pushbackd")
        except metadata.PackageNotFoundError:
            version = "(run from its sources, not installed)"
        click.echo(f"pushbackd {version}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version.",
)
def cli() -> None:
    """Fake a MongoDB deployment that can be overloaded, and judge drivers by it."""


def main() -> NoReturn:
    """Run the console command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names of files and texts of drivers are not always ones that the terminal's encoding can hold.
            stream.reconfigure(errors="backslashreplace")
    cli()
    raise AssertionError("click ends the process")


if __name__ == "__main__":
    main()
