"""Mistakes on a command line: each is one line, with the command that prints help, and exit code 2."""

from __future__ import annotations

import re
from typing import Final

import click

from mongowire.documents.errors import did_you_mean

BAD_INPUT: Final = 2
"""The command line, a file or a value cannot be used."""
CANNOT_START: Final = 48
"""The exit code of a mongod that cannot listen."""

_LINE_MAX: Final = 600


class NotAsExpected(click.ClickException):
    """A check found something else than was expected; the exit code is 1."""


def show(error: click.ClickException) -> None:
    """Print the error, and the command that prints help, in a line each, on standard error."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return
    first, *others = _message(error).splitlines() or [""]
    for line in (f"Error: {first}", *others):
        click.echo(cut(line), err=True)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"'{error.ctx.command_path} --help' lists arguments and options.", err=True)


def cut(line: str) -> str:
    """Return a line of a length that can be read; of a long argument that it quotes, both ends count."""
    return line if len(line) <= _LINE_MAX else f"{line[: _LINE_MAX // 2]} … {line[-_LINE_MAX // 2 :]}"


def _message(error: click.ClickException) -> str:
    if not isinstance(error, click.exceptions.NoSuchOption):
        # The name that click gives the type of a bounded number says nothing about what was typed.
        return re.sub(
            r"is not a valid (integer|float) range\.?", r"is not a valid \1", error.format_message()
        )
    known = [] if error.ctx is None else list(_spellings(error.ctx))
    hint = did_you_mean(error.option_name, known)
    return f"no such option: {error.option_name}" + (f"; {hint}" if hint else "")


def _spellings(context: click.Context) -> list[str]:
    """Return the spellings of the options that help lists."""
    options = [each for each in context.command.get_params(context) if isinstance(each, click.Option)]
    return [word for each in options if not each.hidden for word in (*each.opts, *each.secondary_opts)]
