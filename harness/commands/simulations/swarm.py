"""`pushbackd simulate swarm`: drawn fault schedules under the reference driver, judged by checkers.

`harness.sim.swarm` draws a schedule from a seed, performs it in one virtual world, and judges the histories
of its clients by pure checkers. A seed is all that a failure needs to come again; a schedule as text is for
one that was shrunk, or edited by hand. Schedules are judged by a pool of processes, and reported in the order
of their seeds, whatever process is done first.
"""

from __future__ import annotations

import shlex
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from harness.commands.options.pairs import refuse_excluded
from harness.commands.options.types import Count, FilePath, Filled, Jobs
from harness.commands.output import bad_input
from harness.report.progress import counted
from harness.sim.swarm.drawing import draw
from harness.sim.swarm.judging import judged
from harness.sim.swarm.schedule import ScheduleError, parse
from harness.sim.swarm.timeline import page_of, summary_of, text_of
from harness.world import interruption
from harness.world.processes import processors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.sim.swarm.judging import ScheduleVerdict
    from harness.sim.swarm.schedule import Schedule

# A seed stands in JSON, where greater numbers are not exact for every reader.
_MOST_SEED: Final = 2**53
_SHRUNK: Final = 3
"""The failures of a run that are shrunk; of the others there is the command that repeats them."""


@click.command("swarm")
@click.option("--seeds", type=Count(1), default=1000, show_default=True, help="Number of schedules.")
@click.option("--from", "first", type=Count(0, _MOST_SEED), default=0, show_default=True, help="First seed.")
@click.option(
    "--jobs", type=Jobs(), default="auto", show_default=True, help="Processes; auto is one for each core."
)
@click.option("--replay", type=Count(0, _MOST_SEED), metavar="SEED", help="Show the timeline of one seed.")
@click.option("--schedule", type=Filled(), metavar="TEXT|FILE", help="Show the timeline of one schedule.")
@click.option(
    "--html",
    type=FilePath(dir_okay=False),
    help="With --replay or --schedule: write the timeline to this file, as a page.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print no lines about schedules that pass.")
def command(*, replay: int | None, schedule: str | None, html: Path | None, **options: Any) -> int:
    """Run the reference driver against the fake servers under drawn faults, in virtual time.

    Each seed draws a deployment, clients, their work and at least three kinds of fault, and is judged by
    what is promised: acknowledged writes, transactions, sessions, deadlines, pools. A failure is shrunk and
    printed with the command that repeats it. The exit code is 1 if a schedule failed.
    """
    refuse_excluded(click.get_current_context(), "simulate swarm")
    if html is not None and replay is None and schedule is None:
        raise click.UsageError("--html needs --replay or --schedule")
    if replay is None and schedule is None:
        return _run(**options)

    with bad_input(ScheduleError, OSError, UnicodeDecodeError):
        if replay is not None:
            chosen = draw(replay)
        else:
            text = schedule or ""
            # A schedule has a seed or an instant, and so one of these characters; a name of a file usually
            # has neither.
            is_file = "=" not in text and "@" not in text
            chosen = parse(Path(text).read_text(encoding="utf-8") if is_file else text)
    return _show(chosen, html)


def _run(*, seeds: int, first: int, jobs: int | None, quiet: bool) -> int:
    wanted = range(first, first + seeds)
    failures = done = 0
    operations = Counter[str]()
    verdicts = judged(wanted, jobs=jobs or min(processors(), seeds))
    try:
        with interruption.politely(), closing(verdicts), counted(seeds) as advance:
            # What the seeds draw is known without running one: a reader sees first what a run will have
            # tried.
            for line in _drawn(wanted):
                click.echo(line)
            for seed, verdict in zip(wanted, verdicts, strict=True):
                done += 1
                operations.update(ok=verdict.ok, failed=verdict.failed, unknown=verdict.unknown)
                if not (quiet and verdict.passed):
                    click.secho(_line(seed, verdict), fg=None if verdict.passed else "red")
                if not verdict.passed:
                    failures += 1
                    _explain(seed, verdict, shrinks=failures <= _SHRUNK)
                advance(f"{failures} failed" if failures else "")
    # After Ctrl-C as well: what was judged so far is summed up.
    finally:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in operations.items())
        click.echo(f"{done} of {seeds} schedules, {failures} failed; operations: {counts or 'none'}")
    return 1 if failures else 0


def _drawn(seeds: Iterable[int]) -> Iterator[str]:
    """Yield a line for each sort of thing that the seeds draw, with how many schedules have it."""
    counts: dict[str, Counter[str]] = {"deployments": Counter(), "work": Counter(), "faults": Counter()}
    for schedule in map(draw, seeds):
        for sort, names in zip(
            counts.values(), ((schedule.topology,), schedule.work, schedule.kinds), strict=True
        ):
            sort.update(names)
    for name, sort in counts.items():
        yield f"{name}: " + ", ".join(f"{count} {each}" for each, count in sort.most_common())


def _line(seed: int, verdict: ScheduleVerdict) -> str:
    """Return the line of a seed: what ran, what was disturbed, and what came of it."""
    schedule = parse(verdict.text)
    work = ",".join(schedule.work)
    counts = f"{verdict.ok} ok {verdict.failed} failed {verdict.unknown} unknown"
    checkers = sorted({checker for checker, _ in verdict.violations})
    found = "passed" if verdict.passed else f"FAILED {','.join(checkers)}"
    faults = " ".join(schedule.kinds)
    return (
        f"{seed:>6}  {schedule.topology:11}  {schedule.clients:>2} clients  {work}  [{faults}]"
        f"  {counts}  {verdict.seconds:.2f} s  {found}"
    )


def _explain(seed: int, verdict: ScheduleVerdict, *, shrinks: bool) -> None:
    """Print what was found, the command that repeats it, and the shrunk schedule."""
    from harness.sim.swarm.judging import shrink  # noqa: PLC0415 - a help text needs no driver

    for _, text in verdict.violations[:5]:
        click.echo(f"        {text}")
    click.echo(f"        replay: pushbackd simulate swarm --replay {seed}")
    if not shrinks:
        return
    smallest, found = shrink(parse(verdict.text), verdict.violations[0][0])
    for _, text in () if found is None else found.violations[:1]:
        click.echo(f"        shrunk: {text}")
    click.echo(f"        pushbackd simulate swarm --schedule {shlex.quote(str(smallest))}")


def _show(schedule: Schedule, html: Path | None) -> int:
    """Print the timeline of a schedule, or write its page."""
    from harness.sim.swarm import judging, run  # noqa: PLC0415 - a help text needs no driver

    click.echo(str(schedule))
    performed = run.perform(schedule)
    verdict = judging.verdict_of(schedule, performed)
    if html is None:
        for line in text_of(performed, verdict):
            click.echo(line)
    else:
        with bad_input(OSError):
            html.write_text(
                page_of(performed, verdict, title=f"Swarm, seed {schedule.seed}"), encoding="utf-8"
            )
        click.echo(summary_of(verdict))
        for _, text in verdict.violations:
            click.echo(text)
    return 0 if verdict.passed else 1
