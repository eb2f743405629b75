"""The `pushbackd` command: a group whose subcommands are imported when they are called."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

import click

from harness.commands.subcommands import FORMER, GROUPS, SUBCOMMANDS, with_examples
from harness.planning.result import ExitCode
from harness.world import immediate_exit as leaving
from harness.world import interruption
from mongowire.documents.command_line import NotAsExpected, show
from mongowire.documents.errors import did_you_mean
from mongowire.package import version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


__all__ = ["SUBCOMMANDS", "LazyGroup", "cli", "main"]


class LazyGroup(click.Group):
    """Lists its subcommands without importing them, and ends with the exit codes of pytest."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        module = import_module(f"harness.commands.{SUBCOMMANDS[cmd_name].module}")
        # A module of one command has `command`, that of the verbs all of theirs by name.
        command: click.Command | None = vars(module).get("command") or module.commands.get(cmd_name)
        return None if command is None else with_examples(command, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in FORMER:
            former, *rest = args
            click.echo(f"pushbackd {former} is called pushbackd {FORMER[former]} now", err=True)
            args = [FORMER[former], *rest]
        if args and not args[0].startswith("-") and args[0] not in SUBCOMMANDS:
            hint = did_you_mean(args[0], SUBCOMMANDS)
            raise click.UsageError(f"no such command: {args[0]!r}" + (f"; {hint}" if hint else ""), ctx)
        found = super().resolve_command(ctx, args)
        # Before this there are imports only, in which a signal ends the process at once (`immediate_exit`).
        ctx.with_resource(interruption.listening())
        if os.environ.get("TERM", "").lower() == "dumb" or os.environ.get(_NO_COLOR):
            ctx.color = False  # click looks whether there is a terminal, and not which
        return found

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _NobodyReadsError from error  # click would exit with another code

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, SUBCOMMANDS[name].help) for name in names])

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
                for argument in sys.argv[1:] if args is None else args:
                    try:
                        argument.encode()
                    except UnicodeEncodeError:  # no report could show it, and no server receive it
                        raise click.UsageError(
                            f"{argument!r} is not UTF-8: names of files and values must be"
                        ) from None
                code = int(super().main(args, name, complete, standalone_mode=False, **extra) or 0)
            except Exception as error:  # noqa: BLE001 - a defect must be reported, too
                code = _report_error(error)
            sys.stdout.flush()
        except (BrokenPipeError, _NobodyReadsError):
            # Nothing may be written any more, not even by the interpreter when it flushes at its end.
            _discard(sys.stdout)
            _discard(sys.stderr)
            return ExitCode.NOBODY_READS
        except OSError as error:  # writing to standard output failed
            _discard(sys.stdout)
            click.echo(f"Error: standard output: {error.strerror}", err=True)
            return ExitCode.BAD_INPUT
        return code


class _NobodyReadsError(Exception):
    """The reader of our output has gone."""


_DISK_ERRORS: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


def _report_error(error: Exception) -> int:
    """Print why a command ended, and return its exit code."""
    if isinstance(error, _NobodyReadsError):
        raise error
    if isinstance(error, click.ClickException):
        show(error)
        return ExitCode.FAILED if isinstance(error, NotAsExpected) else ExitCode.BAD_INPUT
    if isinstance(error, click.Abort):
        end = error.__cause__ if isinstance(error.__cause__, interruption.Interrupted) else None
        click.echo(str(end or "interrupted"), err=True)
        number = end.number if end else signal.SIGINT
        return leaving.exit_code(number)
    if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
        file = f"{error.filename}: " if error.filename else ""
        click.echo(f"Error: {file}{error.strerror}", err=True)
        _discard(sys.stdout)  # it may be the full file itself
        return ExitCode.BAD_INPUT
    click.echo(f"pushbackd failed; this is a defect of pushbackd:\n{traceback.format_exc()}", err=True)
    return ExitCode.INTERNAL_ERROR


def _discard(stream: TextIO) -> None:
    """Redirect a stream that cannot be written to the null device."""
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
        click.echo(f"pushbackd {version()}")
        ctx.exit()


def _without_color(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    """Have this command, its bars and the programs that it starts print no colors."""
    if not value:
        return
    before = os.environ.get(_NO_COLOR)
    os.environ[_NO_COLOR] = "1"
    ctx.color = False

    def put_back() -> None:
        del os.environ[_NO_COLOR]
        if before is not None:
            os.environ[_NO_COLOR] = before

    ctx.call_on_close(put_back)


_NO_COLOR: Final = "NO_COLOR"


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Print the version.",
)
@click.option(
    "--no-color",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_without_color,
    help="Print no colors, whatever the command (as with NO_COLOR).",
)
def cli() -> None:
    """Fake MongoDB deployments that can be overloaded, and test drivers against them.

    `pushbackd COMMAND --help` has examples.
    """


def main() -> NoReturn:
    """Run the console command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names of files and texts of drivers may contain characters that the terminal cannot encode.
            stream.reconfigure(errors="backslashreplace")
    cli()
    raise AssertionError("click ends the process")


if __name__ == "__main__":
    main()
