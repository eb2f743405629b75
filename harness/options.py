"""Options that commands which run cases share, and those of `pushbackd conform` as a value."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from fakeserver.profile import DEFAULT_PROFILE, PROFILES
from harness.adapters.base import AdapterLost
from harness.option_types import Seconds, Seed
from harness.registry import DRIVERS, EDITIONS, drivers, is_driver
from harness.report.terminal import Style

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from harness.registry import DriverInfo


MOST_JOBS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line, as click has read it."""

    paths: tuple[Path, ...]
    adapter: tuple[str, ...]
    topology: tuple[str, ...]
    auth: bool
    profiles: tuple[str, ...]
    uri: str | None
    uri_multi: str | None
    time: str
    edition: str | None
    jobs: int | None
    seed: int
    keyword: str | None
    junit: Path | None
    results: Path | None
    html: Path | None
    json: bool
    expectations: Path | None
    journal: Path | None
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

    @property
    def style(self) -> Style:
        """How much to say."""
        return Style(-1 if self.quiet else self.verbose, self.durations)

    @property
    def color(self) -> bool | None:
        """False where styles are unwanted; None leaves it to click, which looks at the terminal."""
        return color_of(no_color=self.no_color)


class DriverName(click.ParamType[str]):
    """The name of a driver, or the command line of an adapter."""

    name = "NAME|cmd:COMMAND"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_driver(str(value)):
            self.fail(
                f"'{value}' is neither one of {', '.join(DRIVERS)} nor 'cmd:' and a command", param, ctx
            )
        return str(value)


class Jobs(click.ParamType[int | None]):
    """A number of processes, or `auto`."""

    name = "N|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value == "auto":
            return None
        text = str(value)
        if not text.isdecimal() or len(text) > len(str(MOST_JOBS)) or not 1 <= int(text) <= MOST_JOBS:
            self.fail(f"'{value}' is neither a number of processes (1 to {MOST_JOBS}) nor 'auto'", param, ctx)
        return int(text)


edition_option = click.option(
    "--edition",
    type=click.Choice(EDITIONS),
    help="The edition of the specifications.  [default: the driver's]",
)
profile_option = click.option(
    "--profile",
    "profiles",
    type=click.Choice(tuple(PROFILES)),
    multiple=True,
    default=(DEFAULT_PROFILE,),
    show_default=True,
    help="The release that the servers play; give it again for more.",
)
seed_option = click.option("--seed", type=Seed(), default=0, show_default=True, help="Of all dice.")
case_timeout_option = click.option(
    "--case-timeout",
    type=Seconds(),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="When a case has hung, on the clock that it runs on; one in virtual time also after so many seconds"
    " of the wall clock, but not before 60.",
)
no_color_option = click.option(
    "--no-color", is_flag=True, help="No styles, not even on a terminal (as with NO_COLOR)."
)


def drivers_named(texts: Iterable[str]) -> dict[str, DriverInfo]:
    """Return the drivers that an option names, by their own names. Raises `ClickException` for a lost one."""
    try:
        return drivers(texts)
    except AdapterLost as lost:
        raise click.ClickException(str(lost)) from lost


def edition_of(name: str, info: DriverInfo, asked: str | None) -> str:
    """Return the edition that a driver will follow. Raises `UsageError` for one that it cannot."""
    if asked and asked not in info.editions:
        follows = ", ".join(info.editions)
        raise click.UsageError(f"--edition {asked}: {name} follows {follows}, which nobody can change")
    return asked or info.editions[0]


def refuse_virtual_time(name: str, info: DriverInfo) -> None:
    """Raise `UsageError` for a driver that cannot run in virtual time."""
    if not info.virtual_time:
        raise click.UsageError(f"--time virtual: {name} has no clock but the wall's; run it with --time real")


def color_of(*, no_color: bool) -> bool | None:
    """Return False where styles are unwanted; None leaves it to click, which looks at the terminal."""
    return False if no_color or os.environ.get("NO_COLOR") else None
