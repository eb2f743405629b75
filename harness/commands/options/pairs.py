"""Options that exclude each other: the tables of all such pairs.

An option that would be dropped without a word beside another is refused beside it. `conform`, with its many
options, has a table of its own, `CLASHES`; `EXCLUSIONS` is that of the other commands. Whatever is not in
them goes together, which a test tries with all pairs.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.commands.options.common import Options


class Clash(NamedTuple):
    """Two options that exclude each other, and why: what the first does that the second makes impossible."""

    option: str
    other: str
    why: str

    def __str__(self) -> str:
        return f"{self.option}: not with {self.other}, because it {self.why}"


ASKED: Final[Mapping[str, Callable[[Options], bool]]] = {
    "--auth": lambda options: "auth" in options.explicit,
    "--changed": lambda options: options.changed is not None,
    "--durations": lambda options: options.durations > 0,
    "--exitfirst": lambda options: options.exitfirst,
    "--interrupt-ends-loops": lambda options: options.interrupt_ends_loops,
    "--jobs": lambda options: options.jobs is not None,
    "--jobs 2": lambda options: (options.jobs or 1) > 1,
    "--journal": lambda options: options.journal is not None,
    "--json": lambda options: options.json,
    "--max-delay": lambda options: "max_delay" in options.explicit,
    "--maxfail": lambda options: options.maxfail is not None,
    "--perturb": lambda options: options.perturb,
    "--profile": lambda options: "profiles" in options.explicit,
    "--quiet": lambda options: options.quiet,
    "--repeat": lambda options: options.repeat > 1,
    "--reruns": lambda options: "reruns" in options.explicit,
    "--schedule": lambda options: options.schedule is not None,
    "--scheduler": lambda options: options.scheduler is not None,
    "--server-scenario": lambda options: bool(options.server_scenario),
    "--time virtual": lambda options: options.time == "virtual",
    "--topology": lambda options: "topology" in options.explicit,
    "--trace-adapter": lambda options: options.trace_adapter is not None,
    "--uri": lambda options: options.uri is not None,
    "--verbose": lambda options: options.verbose > 0,
    "--watch": lambda options: options.watch,
    "--write-expectations": lambda options: options.write_expectations is not None,
}
"""Whether a command line asks for an option of the table; a default asks for nothing."""

_LAB: Final = ("--repeat", "--perturb", "--schedule")


def _clashes() -> Iterator[Clash]:
    # The keys of each table are excluded by the option behind it; the reason completes the sentence of
    # `Clash`.
    for option, why in {
        "--jobs": "counts processes of this machine",
        "--uri": "has servers that all cases share",
        "--journal": "would be written on the machines of the cluster",
        "--interrupt-ends-loops": "sends a signal to processes of this machine",
        "--trace-adapter": "would be written on the machines of the cluster",
        **dict.fromkeys(_LAB, "chooses each run by those before it"),
    }.items():
        yield Clash(option, "--scheduler", why)
    for option, why in {
        "--topology": "is that of the servers",
        "--auth": "is that of the servers",
        "--profile": "is the release of the servers",
        "--server-scenario": "is for fake servers",
        "--time virtual": "has no network for such servers, which run on the wall clock",
        "--jobs 2": "runs cases at the same time, which disturb each other there",
        "--perturb": "cannot disturb servers by URI",
        "--schedule": "cannot disturb servers by URI",
    }.items():
        yield Clash(option, "--uri", why)
    for option, why in {
        "--write-expectations": "takes the results of one run, not of repeated ones",
        "--maxfail": "ends one run, and repeated ones are counted",
        "--exitfirst": "ends one run, and repeated ones are counted",
        "--durations": "is about one run of each case",
        "--reruns": "repeats what failed, and here everything is repeated",
    }.items():
        yield from (Clash(option, lab, why) for lab in _LAB)
    yield Clash("--schedule", "--perturb", "is one disturbance, and the other draws many")
    yield Clash("--max-delay", "--schedule", "limits what is drawn, and a schedule is not")
    yield Clash("--changed", "--watch", "chooses files once, and the other those that are saved")
    yield Clash("--exitfirst", "--maxfail", "is --maxfail 1")
    yield Clash("--quiet", "--verbose", "prints less, and the other more")
    yield Clash("--durations", "--json", "is printed for people")


CLASHES: Final = tuple(_clashes())


def refuse_clashes(options: Options) -> None:
    """Raise `click.UsageError` for two options of a command line of which one would be dropped."""
    asked = {option for option, is_asked in ASKED.items() if is_asked(options)}
    for clash in CLASHES:
        if {clash.option, clash.other} <= asked:
            raise click.UsageError(str(clash))
    # An option that needs another one is no pair of the tables.
    if "--max-delay" in asked and "--perturb" not in asked:
        raise click.UsageError("--max-delay limits what --perturb draws: use both")


def _beside(other: str, why: str, *names: str) -> Iterator[Clash]:
    yield from (Clash(name, other, why) for name in names)


EXCLUSIONS: Final[Mapping[str, tuple[Clash, ...]]] = {
    "hunt": (Clash("--topology", "--scenario", "is the topology that the scenario has"),),
    "lint": tuple(
        _beside("--rules", "checks files, and the other only lists the rules", "PATHS", "--fix", "--watch")
    ),
    "schema": (
        *(
            Clash(one, other, "is a schema of its own")
            for one, other in combinations(("--format", "--server", "--adapter"), 2)
        ),
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
        # The long spelling, by which the tables have it.
        max(parameter.opts, key=len)
        if isinstance(parameter, click.Option)
        else (parameter.name or "").upper()
        for parameter in ctx.command.params
        if ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    }
    for clash in EXCLUSIONS.get(name, ()):
        if {clash.option, clash.other} <= given:
            raise click.UsageError(str(clash), ctx)
