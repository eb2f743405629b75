"""What an option of a command cannot do together with another one, for all commands but `conform`.

An option that would be dropped without a word beside another is refused beside it. `conform`, with its many
options, has a table of its own (`pairs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from harness.commands.options.pairs import Clash

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def _among(names: Sequence[str], why: str) -> Iterator[Clash]:
    for number, name in enumerate(names):
        yield from (Clash(name, other, why) for other in names[number + 1 :])


def _beside(other: str, why: str, *names: str) -> Iterator[Clash]:
    yield from (Clash(name, other, why) for name in names)


EXCLUSIONS: Final[Mapping[str, tuple[Clash, ...]]] = {
    "hunt": (Clash("--topology", "--scenario", "is the topology that the scenario has"),),
    "lint": tuple(
        _beside("--rules", "checks files, and the other only lists the rules", "PATHS", "--fix", "--watch")
    ),
    "schema": (
        *_among(("--format", "--server", "--adapter"), "is a schema of its own"),
        *_beside(
            "--format", "is a version of the unified format, and the others have none of theirs", "--minor"
        ),
        *_beside("--server", "is a version of the unified format", "--minor"),
        *_beside("--adapter", "is a version of the unified format", "--minor"),
    ),
    "simulate claim": tuple(_beside("--all", "is one claim, and the other all of them", "NAME")),
    "simulate swarm": (
        Clash("--replay", "--schedule", "is the schedule of a seed, and the other one of yours"),
        *_beside(
            *("--replay", "is about many schedules, and the other shows one"),
            *("--seeds", "--from", "--jobs", "--quiet"),
        ),
        *_beside(
            *("--schedule", "is about many schedules, and the other shows one"),
            *("--seeds", "--from", "--jobs", "--quiet"),
        ),
    ),
    "stop": tuple(_beside("--all", "names servers, and the other means each of them", "IDS", "--id")),
    "swarm": tuple(
        _beside(
            *("--seed", "is about many schedules, and the other runs one"),
            *("--seeds", "--from", "--budget"),
        )
    ),
}
"""By command; an argument stands by its name in capitals."""


def refuse_excluded(ctx: click.Context, name: str) -> None:
    """Raise `click.UsageError` for two parameters of a command line of which one would be dropped."""
    given = {
        max(parameter.opts, key=len)
        if isinstance(parameter, click.Option)
        else (parameter.name or "").upper()
        for parameter in ctx.command.params
        if ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    }
    for clash in EXCLUSIONS.get(name, ()):
        if {clash.option, clash.other} <= given:
            raise click.UsageError(str(clash), ctx)
