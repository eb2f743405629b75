"""`pushbackd open`: shows the live page of a running server in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fakeserver.control.client import find
from fakeserver.control.registry import Registry
from harness.commands.options.completing import ServerId
from harness.commands.options.starting import runner_folder
from harness.commands.output.errors import bad_input
from harness.running.result import ExitCode
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from pathlib import Path


@click.command("open")
@click.argument("server_id", required=False, metavar="[ID]", type=ServerId())
@runner_folder
def command(*, server_id: str | None, runner_folder: Path | None) -> ExitCode:
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
