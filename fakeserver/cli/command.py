"""`pushbackd serve` as a command of click, and its options as a value."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import click

from fakeserver.cli.config_file import arguments_of
from fakeserver.cli.options import OPTIONS, declared
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ServeOptions = SimpleNamespace
"""The options by their names in the table (`fakeserver.cli.options`)."""

_HELP: Final = """Run a fake MongoDB deployment until Ctrl-C; it takes the options of a mongod.

Standard output gets the connection string when clients can write, and nothing else.
"""
_EXAMPLES: Final = """\b
Examples:
  pushbackd serve --port 27017
  pushbackd serve --replSet rs0 --ui 8080
  pushbackd serve --topology sharded --mongos 3 --setParameter logLevel=1
"""


class ServeCommand(click.Command):
    """Takes options only, and reads those of the file that `--config` names below them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options of the file, then those of the command line. Raises `ClickException`."""
        first = click.Context(
            self, ctx.parent, ctx.info_name, resilient_parsing=ctx.resilient_parsing, **self.context_settings
        )
        super().parse_args(first, list(args))
        file = first.params.get("config")
        if file is not None and not ctx.resilient_parsing:
            try:
                args = [*arguments_of(file), *args]
            except ControlError as error:
                raise click.ClickException(str(error)) from error
        return super().parse_args(ctx, list(args))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by sections."""
        sections = {row.name: row.section.value for row in OPTIONS}
        by_section: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                by_section.setdefault(sections.get(param.name or "", "Control"), []).append(record)
        for title, records in by_section.items():
            with formatter.section(title):
                formatter.write_dl(records)


def serve_command(run: Callable[[ServeOptions, click.Context], Any]) -> click.Command:
    """Return the command; `run` gets the options and their context, and returns the exit code."""

    @click.pass_context
    def callback(context: click.Context, /, **options: Any) -> Any:
        return run(ServeOptions(**options), context)

    return ServeCommand(
        "serve",
        callback=callback,
        params=[declared(row) for row in OPTIONS],
        help=_HELP,
        epilog=_EXAMPLES,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def options_of(arguments: Sequence[str]) -> ServeOptions:
    """Return the options that arguments say, with those of their `--config` below them.

    Raises `click.ClickException` for arguments that `serve` would refuse.
    """
    command = serve_command(lambda options, _: options)
    parent = click.Context(click.Command("pushbackd"), info_name="pushbackd")
    context = command.make_context("serve", list(arguments), parent)
    return ServeOptions(**context.params)
