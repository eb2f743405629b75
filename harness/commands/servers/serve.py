"""`pushbackd serve`: the fake server's own command line, under the common name."""

from __future__ import annotations

import argparse
from typing import Any

import click

from fakeserver.cli import main, parser


class _PassedOn(click.Command):
    """Takes every argument as it is, `--help` and `--` too: they are the server's.

    Its options are known to the completion of the shell alone.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def get_params(self, _ctx: click.Context) -> list[click.Parameter]:
        return [_option(action) for action in parser()._actions if action.help != argparse.SUPPRESS]  # noqa: SLF001 - argparse tells them by no other way

    def invoke(self, ctx: click.Context) -> int:
        return main(ctx.args) or 0


def _option(action: argparse.Action) -> click.Option:
    """Return an option of the server as one of click."""
    facts: dict[str, Any] = {"help": action.help}
    if action.nargs == 0:
        facts["is_flag"] = True
    elif action.choices is not None:
        facts["type"] = click.Choice(list(map(str, action.choices)))
    elif action.metavar in {"FILE", "FILE|NAME"}:
        facts["type"] = click.Path()
    elif action.metavar == "FOLDER":
        facts["type"] = click.Path(file_okay=False)
    return click.Option([action.dest, *action.option_strings], **facts)


command = _PassedOn("serve", add_help_option=False)
