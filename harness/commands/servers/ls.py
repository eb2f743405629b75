"""`pushbackd ls`: the servers in the registry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from fakeserver.control.client import ControlClient, ServerStatus
from fakeserver.control.registry import Registry
from harness.commands.options.starting import runner_folder
from harness.commands.output.documents import table
from harness.report.fitting import columns, echo
from harness.running.result import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from fakeserver.control.registry import RegistryEntry


@click.command("ls")
@runner_folder
@click.option("as_json", "--json", is_flag=True, help="Write a JSON object for each server.")
def command(*, runner_folder: Path | None, as_json: bool) -> ExitCode:
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
