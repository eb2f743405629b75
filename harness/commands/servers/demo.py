"""`pushbackd demo`: a replica set under a small shop, with its live page.

The shop, its clients and the table at the end are `harness.overload.demo`. It runs in this process,
deployment included, so that Ctrl-C ends everything and nothing is left in the registry.
"""

from __future__ import annotations

import click

from harness.commands.options.types import Count, Duration
from harness.commands.output import bad_input
from harness.planning.result import ExitCode


@click.command("demo")
@click.option("--port", type=Count(0, 65535), default=0, help="Port of the page.  [default: a free one]")
@click.option("--for", "seconds", type=Duration(), help="End after this time: 30s, 5m.  [default: at Ctrl-C]")
@click.option("open_page", "--open", is_flag=True, help="Open the page in a browser.")
def command(*, port: int, seconds: float | None, open_page: bool) -> ExitCode:
    """Start a replica set, a small shop that orders from it, and the live page on which you break it.

    The shop is three threads with PyMongo and a driver's defaults. At the end, a table says what its
    operations met.
    """
    from harness.overload import demo  # noqa: PLC0415 - a help text needs no driver and no server

    with bad_input(OSError):
        demo.run(port, seconds, open_page=open_page)
    return ExitCode.PASSED
