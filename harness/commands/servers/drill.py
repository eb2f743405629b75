"""`pushbackd drill`: a command against a deployment that sheds load as a cloud service does."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import click

from fakeserver.assembly.description import describe
from fakeserver.profile import DEFAULT_PROFILE
from harness.commands.options.types import Duration, FilePath, SeedNumber
from harness.commands.output.errors import bad_input
from harness.report.outputs import writing
from mongowire.documents.arguments import share
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class _Read(click.ParamType[float]):
    """A value with a unit, read as the verbs of a deployment read theirs."""

    def __init__(self, name: str, read: Callable[[Any], float]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return self._read(value)
        except ControlError as error:
            self.fail(str(error), param, ctx)


@click.command("drill", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--shed",
    type=_Read("SHARE", share),
    default="2%",
    show_default=True,
    help="Share of the requests to refuse, as a percentage or a number from 0 to 1.",
)
@click.option(
    "--seed", type=SeedNumber(), default=0, show_default=True, help="Seed of which requests they are."
)
@click.option(
    "--for",
    "seconds",
    type=Duration(),
    help="Time after which all requests are served: 90s, 15m.  [default: to the end of COMMAND]",
)
@click.option(
    "--topology",
    metavar="NAME",
    default="replicaset",
    show_default=True,
    help="Topology of the deployment: single, replicaset, sharded or load-balanced.",
)
@click.option("--members", metavar="N", default="3", show_default=True, help="Members of a replica set.")
@click.option(
    "--profile", default=DEFAULT_PROFILE, show_default=True, help="Release that the servers imitate."
)
@click.option("--json", "file", type=FilePath(dir_okay=False), help="Write the summary to this file as JSON.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND")
def command(
    *,
    words: tuple[str, ...],
    file: Path | None,
    shed: float,
    seed: int,
    seconds: float | None,
    **described: str,
) -> int:
    """Run COMMAND against a deployment that sheds a share of its requests, as a cloud service does.

    COMMAND finds the connection string in `MONGODB_URI`. Requests are refused with the codes 462 and 463,
    some of them not to be retried. At the end, standard error has a summary: the operations, those that
    reached the application as errors, attempts per success and the longest wait. The exit code is that of
    COMMAND.
    """
    if words[0].startswith("-"):
        raise click.UsageError(f"no such option: {words[0]}", click.get_current_context())
    if shutil.which(words[0]) is None:
        raise click.ClickException(f"{words[0]}: no such command")
    from harness.overload.drill import Drill, run  # noqa: PLC0415 - a help text needs no driver and no server

    if file is not None:
        with writing(file):  # before COMMAND runs, which may be for long
            file.parent.mkdir(parents=True, exist_ok=True)
            file.open("a").close()
    with bad_input(ControlError):
        spec = describe(described | {"seed": seed}).spec
    with bad_input(OSError):
        summary = run(Drill(spec, shed, seed, seconds), words)
    for line in summary.lines():
        click.echo(line, err=True)
    if file is not None:
        with bad_input(OSError):
            file.write_text(json.dumps(summary.to_document(), indent=2) + "\n")
    return summary.exit_code
