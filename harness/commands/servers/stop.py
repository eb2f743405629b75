"""`pushbackd stop`: ends servers that run in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fakeserver.control.client import ServerStatus, find
from fakeserver.control.registry import Registry
from harness.commands.options.completing import ServerId
from harness.commands.options.starting import runner_folder
from harness.commands.output.errors import bad_input
from harness.deployments.launching import end
from harness.running.result import ExitCode
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from pathlib import Path

    from fakeserver.control.registry import RegistryEntry


@click.command("stop")
@click.argument("ids", nargs=-1, metavar="[ID]...", type=ServerId())
@click.option("more_ids", "--id", multiple=True, metavar="ID", type=ServerId(), help="Id of a server.")
@click.option("every", "--all", is_flag=True, help="Stop all servers.")
@runner_folder
def command(
    *, ids: tuple[str, ...], more_ids: tuple[str, ...], every: bool, runner_folder: Path | None
) -> ExitCode:
    """Stop servers: those of the IDs, all, or the only one that runs.

    A server is asked to end over its control listener, and what it left in the registry is removed. A server
    that does not answer is left as it is, and the exit code is 2.
    """
    registry = Registry(runner_folder)
    with bad_input(ControlError, OSError):
        entries = _chosen((*ids, *more_ids), registry, every=every)
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


def _chosen(ids: tuple[str, ...], registry: Registry, *, every: bool) -> list[RegistryEntry]:
    """Return the entries to end. Raises `ControlError`."""
    if every:
        return registry.entries()
    return [find(each, registry=registry) for each in ids] if ids else [find(registry=registry)]
