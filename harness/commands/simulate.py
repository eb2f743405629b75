"""`pushbackd simulate`: a group whose simulations are imported when they are called.

A simulation needs the models, some need Numba, and all together take seconds to import. So `SIMULATIONS`
repeats the names with a line of help each, and the module is loaded when its name is called; the same idea as
`harness.commands.subcommands`, one level deeper. A new simulation is a module of
`harness.commands.simulations` with a `command`, a line here, and an example in `subcommands.EXAMPLES`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

import click

from harness.commands.subcommands import with_examples

if TYPE_CHECKING:
    from collections.abc import Mapping

SIMULATIONS: Final[Mapping[str, str]] = {
    "governed": "Measure the policies of `govern` through a step, a ramp and a spike.",
    "claim": "Measure what the specifications claim of overload.",
    "rate-limiter": "Say from your numbers whether to limit requests, and at what rate.",
    "overload": "Measure goodput under ten times the load, with four defences.",
    "probing": "Measure where throughput probing settles.",
    "sweep": "Run a grid of scenarios on all cores, or on a cluster.",
    "swarm": "Run seeded fault schedules in virtual time, and check what is promised.",
    "article": "Stop a server, and see which retry interval lets it come back.",
}
"""The simulations by name, with their lines of help; each is a module of `harness.commands.simulations`."""


class _Simulations(click.Group):
    """Lists the simulations without importing them."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(SIMULATIONS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SIMULATIONS:
            return None
        command: click.Command = import_module(
            f"harness.commands.simulations.{cmd_name.replace('-', '_')}"
        ).command
        return with_examples(command, f"simulate {cmd_name}")

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Simulations"):
            formatter.write_dl(list(SIMULATIONS.items()))


@click.command("simulate", cls=_Simulations)
def command() -> None:
    """Simulate clients, servers and faults: in virtual time, or as a model of up to ten million clients."""
