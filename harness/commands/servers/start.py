"""`pushbackd start`: a fake server in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fakeserver.control.client import ControlClient, ServerStatus
from harness.commands.options.starting import starting_of, starting_options
from harness.commands.options.types import Duration, FilePath
from harness.commands.output.errors import bad_input
from harness.commands.output.expansions import write_expansions
from harness.commands.servers.ls import row
from harness.deployments.launching import START_SECONDS, LaunchError, launch
from harness.running.result import ExitCode

if TYPE_CHECKING:
    from pathlib import Path


@click.command("start", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@starting_options
@click.option(
    "--timeout",
    type=Duration(),
    default=f"{START_SECONDS:g}s",
    show_default=True,
    help="Time to wait until it is ready.",
)
@click.option(
    "--expansions",
    type=FilePath(file_okay=False),
    help="Write mo-expansion.yml, mo-expansion.sh and uri.txt into this folder.",
)
@click.option("as_json", "--json", is_flag=True, help="Write a JSON object instead of the URI.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- SERVE-OPTIONS]")
def command(
    *, timeout: float, expansions: Path | None, as_json: bool, arguments: tuple[str, ...], **options: Any
) -> ExitCode:
    """Start a fake server in the background, and print its URI when clients can write.

    Options behind `--` are those of `pushbackd serve`: `-- --port 27017` for fixed ports, which are free ones
    otherwise. `pushbackd ls` lists the servers, `pushbackd stop` ends them. Standard output gets the URI
    alone.

    `TOPOLOGY`, `AUTH`, `SSL` (with `TLS_PEM_KEY_FILE`), `MONGODB_VERSION`, `REQUIRE_API_VERSION`,
    `LOAD_BALANCER` and `DISABLE_TEST_COMMANDS` in the environment mean what they mean to the drivers'
    evergreen tools.
    """
    with bad_input(ValueError, LaunchError, OSError):
        starting = starting_of(options, arguments)
        entry, process = launch(
            starting.arguments, starting.name, starting.registry, log=starting.log, timeout=timeout
        )
        process.returncode = 0  # it outlives this process, and need not be waited for
        if expansions is not None:
            write_expansions(expansions, ControlClient(entry).about()["variables"])
    click.echo(f"{entry.id} runs (process {entry.pid}); its log is {entry.log}", err=True)
    if entry.page:
        click.echo(f"live page: {entry.page}", err=True)
    click.echo(row(entry, ServerStatus.RUNNING) if as_json else entry.uri)
    return ExitCode.PASSED
