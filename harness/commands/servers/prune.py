"""`pushbackd prune`: removes what servers left in the registry that have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fakeserver.control.client import ControlClient, ServerStatus
from fakeserver.control.registry import Registry
from harness.commands.options.starting import runner_folder
from harness.running.result import ExitCode

if TYPE_CHECKING:
    from pathlib import Path


@click.command("prune")
@runner_folder
def command(*, runner_folder: Path | None) -> ExitCode:
    """Remove the entries, sockets and logs of servers that have ended."""
    registry = Registry(runner_folder)
    for name in registry.ids():
        entry = registry.read(name)
        if entry is None or ControlClient(entry).status() is ServerStatus.ENDED:
            registry.discard(name)
            click.echo(f"{name}: removed", err=True)
    return ExitCode.PASSED
