"""`pushbackd serve`: the fake server's own command line, under the common name."""

from __future__ import annotations

import click


class _PassedOn(click.Command):
    """Takes every argument as it is, `--help` and `--` too: they are the server's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def invoke(self, ctx: click.Context) -> int:
        from fakeserver.cli import main  # noqa: PLC0415 - a help text needs no server

        return main(ctx.args) or 0


command = _PassedOn("serve", add_help_option=False)
