"""`pushbackd start`, `stop`, `ls`, `prune` and `open`: fake servers in the background.

Standard output is for programs: `start` prints the connection string and nothing else, so that a shell can
take it by `$(…)`; what is for people goes to standard error. The exit code of `start` says whether clients
can write. An entry of the registry may be of a server that was killed, so each command asks the server before
it believes in it.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

import click
from bson import json_util

from fakeserver.control.client import ControlClient, ServerStatus, find
from fakeserver.control.registry import Registry
from harness.commands.options.pairs import refuse_excluded
from harness.commands.options.starting import runner_folder, starting_of, starting_options
from harness.commands.options.types import Duration, FilePath, ServerId
from harness.commands.output import bad_input, table
from harness.deployments.launching import START_SECONDS, LaunchError, end, launch
from harness.planning.result import ExitCode
from harness.report.fitting import columns, echo
from mongowire.documents.errors import ControlError
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fakeserver.control.registry import RegistryEntry


# The files by which the drivers' evergreen tools tell where a server runs.


def write_expansions(folder: Path, variables: Mapping[str, str]) -> None:
    """Write `mo-expansion.yml`, `mo-expansion.sh` and `uri.txt`. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{name}: {json_util.dumps(value)}\n" for name, value in variables.items()]
    write_whole(folder / "mo-expansion.yml", "".join(lines))
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    write_whole(folder / "mo-expansion.sh", "".join(lines))
    write_whole(folder / "uri.txt", variables["MONGODB_URI"] + "\n")


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
def start(
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
        # Without a code, `Popen` would warn that its process still runs when it is collected.
        process.returncode = 0  # it outlives this process, and need not be waited for
        if expansions is not None:
            write_expansions(expansions, ControlClient(entry).about()["variables"])
    click.echo(f"{entry.id} runs (process {entry.pid}); its log is {entry.log}", err=True)
    if entry.page:
        click.echo(f"live page: {entry.page}", err=True)
    click.echo(row(entry, ServerStatus.RUNNING) if as_json else entry.uri)
    return ExitCode.PASSED


@click.command("ls")
@runner_folder
@click.option("as_json", "--json", is_flag=True, help="Write a JSON object for each server.")
def ls(*, runner_folder: Path | None, as_json: bool) -> ExitCode:
    """List the servers: id, status, topology, URI, and the live page of those that have one.

    The status is `running`, `not answering`, or `ended` for a server that was killed; `pushbackd prune`
    removes what such a server left.
    """
    found = [(entry, ControlClient(entry).status()) for entry in Registry(runner_folder).entries()]
    if as_json:
        for entry, status in found:
            click.echo(row(entry, status))
    elif found:
        rows = [
            {
                "id": entry.id,
                "status": str(status),
                "topology": entry.topology,
                "uri": entry.uri,
                **({"page": entry.page} if entry.page else {}),
            }
            for entry, status in found
        ]
        for line in table(rows, columns()):
            echo(line)
    else:
        click.echo("no server runs", err=True)
    return ExitCode.PASSED


def row(entry: RegistryEntry, status: ServerStatus) -> str:
    """Return a server as a JSON object."""
    return json.dumps(
        {
            # Programs read this: a field may join, and none changes its meaning without another number.
            "schema": 1,
            "id": entry.id,
            "status": str(status),
            "uri": entry.uri,
            "topology": entry.topology,
            "pid": entry.pid,
            "log": entry.log,
            "started": entry.started,
            "page": entry.page,
        }
    )


@click.command("stop")
@click.argument("ids", nargs=-1, metavar="[ID]...", type=ServerId())
@click.option("more_ids", "--id", multiple=True, metavar="ID", type=ServerId(), help="Id of a server.")
@click.option("every", "--all", is_flag=True, help="Stop all servers.")
@runner_folder
def stop(
    *, ids: tuple[str, ...], more_ids: tuple[str, ...], every: bool, runner_folder: Path | None
) -> ExitCode:
    """Stop servers: those of the IDs, all, or the only one that runs.

    A server is asked to end over its control listener, and what it left in the registry is removed. A server
    that does not answer is left as it is, and the exit code is 2.
    """
    refuse_excluded(click.get_current_context(), "stop")
    registry = Registry(runner_folder)
    with bad_input(ControlError, OSError):
        if every:
            entries = registry.entries()
        else:
            entries = [find(each, registry=registry) for each in (*ids, *more_ids) or (None,)]
    # One that does not answer keeps none of the others from being stopped.
    failures = []
    for entry in entries:
        try:
            done = "stopped" if end(entry, registry) is ServerStatus.RUNNING else "had ended"
            click.echo(f"{entry.id}: {done}", err=True)
        except (ControlError, OSError) as error:
            failures.append(str(error))
    if failures:
        raise click.ClickException("\n".join(failures))
    return ExitCode.PASSED


@click.command("prune")
@runner_folder
def prune(*, runner_folder: Path | None) -> ExitCode:
    """Remove the entries, sockets and logs of servers that have ended."""
    registry = Registry(runner_folder)
    for name in registry.ids():
        entry = registry.read(name)
        # What is no entry at all is removed too, as a file that was torn by a full disk.
        if entry is None or ControlClient(entry).status() is ServerStatus.ENDED:
            registry.discard(name)
            click.echo(f"{name}: removed", err=True)
    return ExitCode.PASSED


@click.command("open")
@click.argument("server_id", required=False, metavar="[ID]", type=ServerId())
@runner_folder
def open_page(*, server_id: str | None, runner_folder: Path | None) -> ExitCode:
    """Open the live page of the server ID, or of the only one that runs, in the browser.

    The address is printed as well. A server has a page if it was started with --ui.
    """
    with bad_input(ControlError, OSError):
        entry = find(server_id, registry=Registry(runner_folder))
    if not entry.page:
        raise click.ClickException(
            f"{entry.id} has no page: start it with one, by `pushbackd serve --ui 8080`"
        )
    click.echo(entry.page)
    if click.launch(entry.page):
        click.echo("no browser could be started: open the address by hand", err=True)
    return ExitCode.PASSED


commands: Final = {each.name: each for each in (start, ls, stop, prune, open_page)}
