"""The `pushbackd` command: a group whose subcommands are imported when they are asked for."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import click

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
            return int(super().main(args, name, complete, standalone_mode=False, **extra) or 0)
        except click.UsageError as error:
            error.show()
            return ExitCode.USAGE
        except click.ClickException as error:
            error.show()
            return ExitCode.BAD_INPUT
        except click.Abort:
            click.echo("interrupted", err=True)
            return ExitCode.BAD_INPUT
        except Exception:  # noqa: BLE001 - whatever it is, it is ours to be ashamed of
            click.echo(f"pushbackd failed; this is a defect of its own:\n{traceback.format_exc()}", err=True)
            return ExitCode.INTERNAL_ERROR


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
    cli()
    raise AssertionError("click ends the process")


if __name__ == "__main__":
    main()
