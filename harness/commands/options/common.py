"""The options that several commands share, and the command line of `pushbackd conform` as a value.

Functions below the options turn them into what a run needs: `drivers_named` starts adapters once to learn
what they are, `commands_of` and `versions_of` go into the `Settings` that worker processes and results files
get, `edition_of` and `refuse_virtual_time` refuse what a driver cannot do. `conform`, `explain`, `record` and
`propose` call them in that order.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from fakeserver.profile import DEFAULT_PROFILE, PROFILES
from harness.adapters.base import AdapterLost
from harness.adapters.registry import DRIVERS, EDITIONS, drivers, is_driver
from harness.commands.options.types import Duration, FilePath, SeedNumber
from harness.commands.output import bad_input
from harness.deployments.targets import our_spelling
from harness.report.outputs import writing
from mongowire.documents.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from harness.adapters.registry import DriverEntry


WIRE_VERBOSITY: Final = 2
"""The number of `-v` that shows every message on the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line of `pushbackd conform`, as click has parsed it.

    `explicit` has the names of the parameters that stand on the command line itself: a default or a variable
    of the environment is no contradiction to another option.
    """

    explicit: frozenset[str]
    names: tuple[str, ...]
    adapter: tuple[str, ...]
    topology: tuple[str, ...]
    auth: bool
    profiles: tuple[str, ...]
    uri: str | None
    uri_multi: str | None
    server_scenario: str | None
    time: str | None
    edition: str | None
    jobs: int | None
    scheduler: str | None
    reruns: int
    maxfail: int | None
    exitfirst: bool
    seed: int
    keyword: str | None
    changed: str | None
    last_failed: bool
    junit: Path | None
    results: Path | None
    html: Path | None
    json: bool
    expectations: Path | None
    write_expectations: Path | None
    journal: Path | None
    trace_adapter: Path | None
    case_timeout: float
    loop_iterations: int
    loop_seconds: float | None
    interrupt_ends_loops: bool
    no_color: bool
    verbose: int
    quiet: bool
    durations: int
    watch: bool
    github: bool
    repeat: int
    perturb: bool
    schedule: str | None
    max_delay: int
    paths: tuple[Path, ...] = ()
    """The files and folders that `names` stand for."""
    cases: Mapping[Path, frozenset[str]] = field(default_factory=dict)
    """The ids of the cases that `names` ask for, in files of which they do not ask for all."""

    @classmethod
    def of(cls, context: click.Context) -> Options:
        """Return the parameters of a context."""
        source = context.get_parameter_source
        # click sets variables of the environment and defaults apart from words of the command line, and only
        # those can contradict each other: the user has typed both.
        explicit = frozenset(name for name in context.params if source(name) is ParameterSource.COMMANDLINE)
        return cls(explicit=explicit, **context.params)


class DriverName(click.ParamType[str]):
    """The name of a driver, or the command line of an adapter."""

    name = "NAME|cmd:COMMAND"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002 - click's signature
        """Return the name as it is: click would upper-case the literal `cmd:`."""
        return self.name

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002 - click's signature
        return [CompletionItem(each) for each in DRIVERS if each.startswith(incomplete)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_driver(str(value)):
            # A command line may be long, and comparing it with names takes the square of its length.
            hint = did_you_mean(str(value)[:100], DRIVERS)
            self.fail(
                f"'{value}' is neither one of {', '.join(DRIVERS)} nor 'cmd:' and a command"
                + (f"; {hint}" if hint else ""),
                param,
                ctx,
            )
        return str(value)


class TopologyName(click.Choice[str]):
    """The name of a deployment; other spellings of its topology are accepted."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(our_spelling(str(value)), param, ctx)


edition_option = click.option(
    "--edition",
    type=click.Choice(EDITIONS),
    help="Edition of the specifications that the driver follows.  [default: the driver's]",
)
profile_option = click.option(
    "--profile",
    "profiles",
    type=click.Choice(tuple(PROFILES)),
    multiple=True,
    default=(DEFAULT_PROFILE,),
    show_default=True,
    help="MongoDB release that the fake servers imitate; repeat the option for more releases.",
)
seed_option = click.option(
    "--seed",
    type=SeedNumber(),
    default=0,
    show_default=True,
    help="Seed for every random choice; the same seed gives the same run in virtual time.",
)
case_timeout_option = click.option(
    "--case-timeout",
    type=Duration(),
    default="60s",
    show_default=True,
    help="Time limit of a case, on the clock that it runs on. In virtual time the same limit, but at least 60"
    " seconds, also holds on the wall clock.",
)
trace_option = click.option(
    "--trace-adapter",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Write each line to an adapter in a process of its own, and from it, to this file.",
)
no_color_option = click.option(
    "--no-color", is_flag=True, help="Print no colors, not even on a terminal (as with NO_COLOR)."
)


def drivers_named(texts: Iterable[str]) -> dict[str, DriverEntry]:
    """Return the drivers that an option names, by their own names. Raises `ClickException` for a lost one."""
    with bad_input(AdapterLost):
        return drivers(texts)


def commands_of(infos: Mapping[str, DriverEntry]) -> tuple[tuple[str, str], ...]:
    """Return the command lines of those drivers that are processes of their own, for `Settings.commands`."""
    return tuple((name, info.command) for name, info in infos.items() if info.command)


def versions_of(infos: Mapping[str, DriverEntry]) -> tuple[tuple[str, str], ...]:
    """Return the names and versions of the drivers that tell theirs, for `Settings.drivers`."""
    return tuple((name, info.version) for name, info in infos.items() if info.version)


def trace_of(path: Path | None, infos: Mapping[str, DriverEntry]) -> str:
    """Return the absolute path of the file for `Settings.trace`, which is empty then; "" for None.

    Raises `UsageError` where no adapter is a process of its own, and `ClickException` for a file that cannot
    be written.
    """
    if path is None:
        return ""
    if not any(info.command for info in infos.values()):
        raise click.UsageError("--trace-adapter: no --adapter is a process of its own (cmd:COMMAND)")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Emptied before the first line: processes of one run append to it.
        path.write_bytes(b"")
    # Worker processes may have another working directory.
    return str(path.absolute())


def edition_of(name: str, info: DriverEntry, edition: str | None) -> str:
    """Return the edition that a driver will follow. Raises `UsageError` for one that it cannot."""
    if edition and edition not in info.editions:
        follows = ", ".join(info.editions)
        raise click.UsageError(f"--edition {edition}: {name} follows {follows}, which cannot be changed")
    return edition or info.editions[0]


def refuse_virtual_time(name: str, info: DriverEntry) -> None:
    """Raise `UsageError` for a driver that cannot run in virtual time."""
    if not info.virtual_time:
        raise click.UsageError(f"--time virtual: {name} runs on the wall clock only; use --time real")


def color_of(*, no_color: bool) -> bool | None:
    """Return False where colors are unwanted; None leaves it to click, which looks at the terminal."""
    return False if no_color or not has_colors(os.environ) else None


def has_colors(environment: Mapping[str, str]) -> bool:
    """Return whether output may be colored: not with NO_COLOR, and not on a dumb terminal."""
    return not environment.get("NO_COLOR") and environment.get("TERM", "").lower() != "dumb"
