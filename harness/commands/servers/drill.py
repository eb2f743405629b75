"""`pushbackd drill`: a command against a deployment in which something goes wrong, on purpose.

`harness.overload.drill` makes a scenario for the server of the options and plays it while COMMAND runs. Here
the files are tried first, and at the end the verdict on the scenario decides the exit code: a drill in which
nothing went wrong has rehearsed nothing, and fails although COMMAND did not.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from fakeserver.assembly.description import describe
from fakeserver.cli.values import OneOf
from fakeserver.deployment.spec import Topology, topology_name
from fakeserver.profile import DEFAULT_PROFILE, PROFILES
from harness.commands.options.types import Duration, SeedNumber, Share
from harness.commands.options.verdict import Telling, verdict_options
from harness.commands.output import bad_input, check_command
from harness.commands.simulations.reporting import html_option, write_file
from harness.report.fitting import columns
from harness.report.outputs import writing
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fakeserver.control.control import DistantControl
    from harness.overload.drill import Summary


_SHED: Final = 0.02


@click.command("drill", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--shed",
    type=Share(),
    help="Share of the requests to refuse: 2%, 0.02.  [default: 2%, unless something else goes wrong]",
)
@click.option(
    "--failover",
    type=Duration(),
    help="Have the primary step down so often: 10s, 1m. A second passes without a primary each time.",
)
@click.option("--latency", type=Duration(), help="Time that every request takes longer: 200ms.")
@click.option(
    "--lost",
    type=Share(),
    help="Share of the replies that are lost with their connection, after the request has run: 1%.",
)
@click.option(
    "--seed", type=SeedNumber(), default=0, show_default=True, help="Seed of which requests they are."
)
@click.option(
    "--for",
    "seconds",
    type=Duration(),
    help="Time after which nothing goes wrong any more: 90s, 15m.  [default: to the end of COMMAND]",
)
@click.option(
    "--topology",
    type=OneOf(map(str, Topology), topology_name),
    default="replicaset",
    show_default=True,
    help="Kind of deployment.",
)
@click.option("--members", metavar="N", default="3", show_default=True, help="Members of a replica set.")
@click.option(
    "--profile",
    "--version",
    type=OneOf(PROFILES),
    default=DEFAULT_PROFILE,
    show_default=True,
    help="MongoDB release to imitate.",
)
@html_option
@verdict_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND")
def command(
    *,
    words: tuple[str, ...],
    shed: float | None,
    failover: float | None,
    latency: float | None,
    lost: float | None,
    seed: int,
    seconds: float | None,
    html: Path | None,
    unmet: str,
    trace: Path | None,
    file: Path | None,
    quiet: bool,
    **described: str,
) -> int:
    """Run COMMAND against a deployment in which something goes wrong, and say how it bore that.

    COMMAND finds the connection string in `MONGODB_URI`. Without a choice, a share of its requests is shed as
    a cloud service does it, with the codes 462 and 463, some of them not to be retried. Several kinds go
    together.

    At the end, standard error has a summary: the operations, those that reached the application as errors,
    attempts per success and the longest wait, and what of the drill happened. The exit code is that of
    COMMAND; where that is 0, it is 1 if COMMAND was over before anything went wrong.
    """
    # Unknown options are let through for COMMAND: a mistyped one of ours would be run as a program.
    if words[0].startswith("-"):
        raise click.UsageError(f"no such option: {words[0]}", click.get_current_context())
    check_command(words[0])
    from harness.overload.drill import Drill, run  # noqa: PLC0415 - a help text needs no driver and no server

    for each in (file, trace, html):
        if each is not None:
            with writing(each):  # before COMMAND runs, which may be for long
                if not each.parent.exists():
                    each.parent.mkdir(parents=True)
                each.open("a").close()
    ctx = click.get_current_context()
    topology = described["topology"]
    if (
        ctx.get_parameter_source("members") is ParameterSource.COMMANDLINE
        and topology != Topology.REPLICA_SET
    ):
        raise click.UsageError(
            f"--members: not with --topology {topology}, because it is of replica sets", ctx
        )
    # Shedding is the default trouble, and only where no other was asked for.
    if shed is None:
        shed = 0.0 if failover or latency or lost else _SHED
    telling = Telling(quiet, file, trace, unmet)
    with bad_input(ControlError):
        spec = describe(described | {"seed": seed}).spec
        drill = Drill(spec, shed, seed, seconds, latency or 0.0, failover or 0.0, lost or 0.0)
    with bad_input(OSError, ControlError):
        return run(drill, words, partial(_ended, telling, html, words)).exit_code


def _ended(
    telling: Telling, html: Path | None, words: Sequence[str], summary: Summary, control: DistantControl
) -> int:
    """Tell how the drill ended, and return the exit code."""
    code = summary.exit_code
    verdict: Mapping[str, Any] = control.verdict()
    # The rule for shedding was met by nothing, and the reason is not the rule: COMMAND asked for nothing.
    if summary.refused_nothing_for_want_of_operations and verdict["asExpected"]:
        verdict = {**verdict, "asExpected": False, "reason": "no operation came, so that none was refused"}
    judged = telling.code(code, verdict, judges=True)
    telling.tell(
        *("drill", verdict, control),
        before=summary.lines(columns(err=True)),
        extra=summary.to_document(),
        code=code,
        judged=judged,
    )
    write_file(html, lambda: summary.page(words, verdict))
    return judged
