"""`pushbackd record`: run a scenario's operations, and write down what to expect of them."""

from __future__ import annotations

from pathlib import Path

import click

from harness import interruption, targets
from harness.deployment import SERVED
from harness.option_types import FilePath, Seed
from harness.options import (
    DriverName,
    case_timeout_option,
    drivers_named,
    edition_of,
    edition_option,
    profile_option,
)
from harness.recording.observation import CaseFailed, Places, Stage
from harness.recording.recorder import Recorder, Wanted
from harness.registry import DRIVERS
from harness.report.keeping import writing
from harness.result import ExitCode
from harness.unified.errors import ScenarioError
from harness.unified.loader import load
from mongowire.whole_file import check_writable, write_whole

_MARK = "\ufeff".encode()


@click.command("record")
@click.argument("target", metavar="FILE[::CASE]")
@click.option(
    "--adapter",
    "adapters",
    type=DriverName(),
    multiple=True,
    default=("reference",),
    show_default=True,
    help=f"The driver to run: {', '.join(DRIVERS)}, or 'cmd:' and a command line; give it again for"
    " another one, and only what all of them do is expected.",
)
@click.option(
    "--topology",
    type=click.Choice(targets.NAMES),
    metavar="NAME[+auth]",
    multiple=True,
    help="The deployment to run on; again for more.  [default: each on which the case applies]",
)
@profile_option
@edition_option
@click.option("--results", is_flag=True, help="Also expectResult or expectError, where there is neither.")
@click.option("--outcome", is_flag=True, help="Also what collections hold at the end.")
@click.option("--replace", is_flag=True, help="Record also what is there already.")
@click.option("-o", "--output", type=FilePath(dir_okay=False), help="Write to a file.")
@click.option("--in-place", is_flag=True, help="Write to FILE itself.")
@click.option("--seed", type=Seed(), default=0, show_default=True, help="The first of the seeds.")
@case_timeout_option
def command(
    target: str,
    adapters: tuple[str, ...],
    topology: tuple[str, ...],
    profiles: tuple[str, ...],
    edition: str | None,
    output: Path | None,
    *,
    results: bool,
    outcome: bool,
    replace: bool,
    in_place: bool,
    seed: int,
    case_timeout: float,
) -> ExitCode:
    """Run the operations of the cases in FILE, or of one, and write the expectEvents that they produced.

    Each case runs with several seeds wherever it applies: what is the same everywhere is expected, what
    varies becomes an operator, and what every message carries is left out. Everything else in FILE stays as
    it is, comments too. What is written has passed under yet another seed. Read it before you keep it: it
    says what the driver did, not what it should do.

    The text goes to standard output unless -o or --in-place says otherwise. The exit code is 0 when something
    was recorded, 1 when a case fails, 2 for a file that cannot be used, 4 for a wrong command line, 5 when
    there is nothing to record.
    """
    if output is not None and in_place:
        raise click.UsageError("-o and --in-place are two places to write to; give one")
    path, case = _target(target)
    infos = drivers_named(adapters)
    if output is not None:
        with writing(output):
            check_writable(output)
    places = Places(
        drivers=infos,
        editions={name: edition_of(name, info, edition) for name, info in infos.items()},
        targets=targets.targets(topology or [str(each) for each in SERVED], profiles=profiles),
        seed=seed,
        case_timeout=case_timeout,
    )
    wanted = Wanted(case, results=results, outcome=outcome, replace=replace)
    try:
        with interruption.politely(), Stage(places) as stage:
            recorder = Recorder(path, stage, wanted, _note)
            text = recorder.run()
    except ScenarioError as error:
        raise click.ClickException(str(error)) from error
    except CaseFailed as failed:
        click.echo(f"nothing is written: {failed}", err=True)
        return ExitCode.FAILED
    if not recorder.recorded:
        click.echo("nothing to record; --replace records what is there already", err=True)
        return ExitCode.NOTHING_RAN
    _write(text, path if in_place else output, marked=path.read_bytes().startswith(_MARK))
    return ExitCode.PASSED


def _target(target: str) -> tuple[Path, str]:
    """Return the file and the description of the case. Raises `UsageError` when there is no such case."""
    name, _, case = target.partition("::")
    path = Path(name)
    if path.suffix == ".json":
        raise click.UsageError(f"{path} is JSON: record into its YAML, and to-json writes the twin")
    try:
        cases = load(path).cases
    except ScenarioError as error:
        raise click.ClickException(str(error)) from error
    if case and not any(case in (each.description, each.id) for each in cases):
        known = "\n".join(f"  {each.description}" for each in cases)
        raise click.UsageError(f"{path} has no case '{case}'; its cases:\n{known}")
    return path, case


def _note(sentence: str) -> None:
    click.echo(f"note: {sentence}", err=True)


def _write(text: str, path: Path | None, *, marked: bool) -> None:
    if path is None:
        click.echo(text, nl=False)
        return
    with writing(path):
        write_whole(path, (_MARK if marked else b"") + text.encode())
    click.echo(path)
