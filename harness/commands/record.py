"""`pushbackd record`: run a scenario's operations, and write their events down as expectations.

`harness.authoring.recording` does the work: `CaseObserver` runs cases, `Recorder` compares the runs and edits
the text. Here the matrix of drivers, deployments and seeds is put together, and the result goes to standard
output, to `-o` or into FILE. The result is a text and no document: comments and layout are the author's.
"""

from __future__ import annotations

from pathlib import Path

import click

from harness.adapters.registry import DRIVERS
from harness.authoring.recording.observation import CaseFailed, CaseObserver, RunMatrix
from harness.authoring.recording.recorder import Recorder, Wanted
from harness.commands.options.common import (
    DriverName,
    TopologyName,
    case_timeout_option,
    drivers_named,
    edition_of,
    edition_option,
    profile_option,
)
from harness.commands.options.types import FilePath, SeedNumber
from harness.commands.output import bad_input
from harness.deployments import targets
from harness.deployments.embedded import SERVED
from harness.planning.result import ExitCode
from harness.report.outputs import writing
from harness.report.progress import work
from harness.unified.errors import ScenarioError
from harness.unified.loader import load
from harness.world import interruption
from mongowire.whole_file import check_writable, write_whole

_BYTE_ORDER_MARK = "\ufeff".encode()


@click.command("record")
@click.argument("target", metavar="FILE[::CASE]")
@click.option(
    "--adapter",
    "adapters",
    type=DriverName(),
    multiple=True,
    default=("reference",),
    show_default=True,
    help=f"Driver to run: {', '.join(DRIVERS)}, or 'cmd:' and the command line of an adapter. With several"
    " (repeat the option), only events that all of them publish are expected.",
)
@click.option(
    "--topology",
    type=TopologyName(targets.NAMES),
    metavar="NAME[+auth]",
    multiple=True,
    help="Topology to run on; repeat the option for more.  [default: each on which the case applies]",
)
@profile_option
@edition_option
@click.option(
    "--results", is_flag=True, help="Also write expectResult or expectError, where there is neither."
)
@click.option("--outcome", is_flag=True, help="Also write the documents of the collections at the end.")
@click.option(
    "--attempts", is_flag=True, help="Also write what servers saw of operations: attempts, ends and gaps."
)
@click.option("--replace", is_flag=True, help="Also replace expectations that FILE has already.")
@click.option(
    "-o", "--output", type=FilePath(dir_okay=False), help="Write to this file instead of standard output."
)
@click.option("--in-place", is_flag=True, help="Write to FILE itself.")
@click.option(
    "--seed",
    type=SeedNumber(),
    default=0,
    show_default=True,
    help="First of the consecutive seeds to run with.",
)
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
    attempts: bool,
    replace: bool,
    in_place: bool,
    seed: int,
    case_timeout: float,
) -> ExitCode:
    """Run the operations of the cases in FILE, or of one, and write their events as expectEvents.

    Each case runs with several seeds on each deployment to which it applies. Values that are the same in all
    runs are expected, values that vary become operators, and fields that every message carries are left out.
    The rest of FILE stays as it is, comments included. The result has passed with one more seed. Read it
    before you commit it: it states what the driver did, not what it should do.

    The text goes to standard output unless -o or --in-place says otherwise. The exit code is 0 when something
    was recorded, 1 when a case fails, 2 for a wrong command line or a file that cannot be used, 5 when
    there is nothing to record.
    """
    if output is not None and in_place:
        raise click.UsageError("-o and --in-place contradict each other: use one of them")
    path, case = _file_and_case(target)
    infos = drivers_named(adapters)
    if output is not None:
        with writing(output):
            check_writable(output)
    matrix = RunMatrix(
        drivers=infos,
        editions={name: edition_of(name, info, edition) for name, info in infos.items()},
        targets=targets.targets(topology or [str(each) for each in SERVED], profiles=profiles),
        seed=seed,
        case_timeout=case_timeout,
    )
    wanted = Wanted(case, results=results, outcome=outcome, attempts=attempts, replace=replace)
    try:
        with (
            bad_input(ScenarioError),
            interruption.politely(),
            CaseObserver(matrix) as observer,
            work("recording"),
        ):
            recorder = Recorder(path, observer, wanted, lambda note: click.echo(f"note: {note}", err=True))
            text = recorder.run()
    except CaseFailed as failed:
        click.echo(f"nothing is written: {failed}", err=True)
        return ExitCode.FAILED
    if not recorder.recorded:
        click.echo("nothing to record; --replace also replaces expectations that are there already", err=True)
        return ExitCode.NOTHING_RAN
    written = path if in_place else output
    if written is None:
        click.echo(text, nl=False)
        return ExitCode.PASSED
    with writing(written):
        # The text was read without its mark, and the file is to stay as it was.
        mark = _BYTE_ORDER_MARK if path.read_bytes().startswith(_BYTE_ORDER_MARK) else b""
        write_whole(written, mark + text.encode())
    click.echo(written)
    return ExitCode.PASSED


def _file_and_case(target: str) -> tuple[Path, str]:
    """Return the file and the description of the case. Raises `UsageError` when there is no such case."""
    name, _, case = target.partition("::")
    path = Path(name)
    # JSON has no comments, and is made of the YAML file by `to-json`, which would undo the recording.
    if path.suffix == ".json":
        raise click.UsageError(f"{path} is JSON: record into the YAML file, and to-json writes the JSON")
    with bad_input(ScenarioError):
        cases = load(path).cases
    if case and not any(case in (each.description, each.id) for each in cases):
        known = "\n".join(f"  {each.description}" for each in cases)
        raise click.UsageError(f"{path} has no case '{case}'; its cases:\n{known}")
    return path, case
