"""Tries the wrong drivers and servers of the catalogue with our suites, and records what kills each.

`python tests/support/mutant_matrix.py` takes the options of `pushbackd mutants`, and these:

- `--suite scenarios|corpus|tests|swarm`, more than once: our scenarios, the public specification tests, our
  unit tests, or drawn schedules (`--schedules` says how many). `--together` takes all as one.
- `--search known`: only the case that killed each mutant the last time. Other searches begin with it.
- `--record` writes the killers to tests/mutants/results.json.
- `--write` writes the second part of docs/MUTANTS.md from that file.
- `--kills` writes all scenarios that kill each wrong driver to harness/explaining/kill_matrix.json,
  which keeps the other drivers that it has.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click
from corpus_checkout import find_corpus
from mutant_page import write_page
from mutant_record import CORPUS, SCENARIOS, SUITES, SURVIVED, SWARM, TESTS, MutantRecord
from mutant_tests import run_tests

from harness.adapters.registry import EDITIONS
from harness.authoring.mutants.matrix import (
    Belongs,
    KillerSearch,
    MutantMatrix,
    is_any,
    planned,
    scenario_items,
)
from harness.authoring.mutants.mutant import CATALOGUE, load_mutants
from harness.authoring.mutants.survey import passing
from harness.authoring.mutants.trial import MutantVerdict, key_of, of_items
from harness.authoring.swarm.drawing import draw
from harness.authoring.swarm.running import item_of
from harness.authoring.swarm.work import driver_of
from harness.commands.mutants import command as users_command
from harness.commands.mutants import print_verdict, progress, report, selected
from harness.explaining.kill_matrix import PATH as KILLS
from harness.explaining.kill_matrix import WrongDriver, read
from harness.planning.discovery import BadInputError, discover
from harness.world.processes import processors
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.authoring.mutants.mutant import Mutant
    from harness.planning.plan import Item

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "tests" / "mutants"
PAGE: Final = ROOT / "docs" / "MUTANTS.md"
KNOWN: Final = "known"

CORPUS_DEPLOYMENTS: Final = {
    EDITIONS[0]: ("replicaset", "sharded", "load-balanced"),
    EDITIONS[1]: ("replicaset",),
}
CORPUS_FOLDERS: Final = (
    "client-backpressure",
    "client-side-operations-timeout",
    "connection-monitoring-and-pooling",
    "load-balancers",
    "mongodb-handshake",
    "retryable-reads",
    "retryable-writes",
    "server-discovery-and-monitoring",
    "server-selection",
    "sessions",
    "transactions",
)
"""The public specifications that mutants break, and their neighbours."""

_MEANT_TO_BE_REFUSED: Final = ("invalid", "schemaVersion-unsupported")


@dataclass(slots=True)
class RecordedMatrix(MutantMatrix):
    """A matrix that tries recorded killers first, and notes what it finds."""

    record: MutantRecord = field(default_factory=MutantRecord)
    is_drawn: bool = False
    """Whether the items are of no specification: each is tried with every mutant, on its own deployment."""

    def try_known(self, mutants: Sequence[Mutant]) -> None:
        """Try each mutant with the case that killed it the last time."""
        wanted = {mutant.name: self.record.killer(mutant.name, self.suite) for mutant in mutants}
        keys = set(wanted.values())
        known = passing([item for item in self.items if key_of(item) in keys])
        trials = [
            of_items(mutant, [known[killer]])
            for mutant in mutants
            if (killer := wanted[mutant.name]) is not None and killer in known
        ]
        self._take(trials, f"{self.suite}: known killers", is_last=False)

    def give_up(self, mutants: Sequence[Mutant]) -> None:
        """Say of mutants that have no verdict that they survive; one that was never tried stays untried."""
        for mutant in mutants:
            if mutant.name not in self.verdicts:
                if self.record.killer(mutant.name, self.suite) is None:
                    self.on_verdict(mutant, MutantVerdict())
                else:
                    self._conclude(mutant, MutantVerdict())

    def kills(self, mutants: Sequence[Mutant]) -> dict[str, tuple[str, ...]]:
        """Return the ids of all cases that kill each mutant; a case runs where it passes first."""
        self._search(mutants, is_any, everywhere=False, is_last=True, stops=False)
        killers = {mutant.name: self.verdicts[mutant.name].killed_by for mutant in mutants}
        return {
            name: tuple(sorted({key.rpartition(" [")[0] for key in each})) for name, each in killers.items()
        }

    def _rounds(self, search: KillerSearch, *, everything: bool) -> list[tuple[Belongs, bool]]:
        if self.is_drawn:
            return [(is_any, True)]
        return MutantMatrix._rounds(self, search, everything=everything)

    def _conclude(self, mutant: Mutant, verdict: MutantVerdict) -> None:
        MutantMatrix._conclude(self, mutant, verdict)
        self.record.note(mutant.name, self.suite, next(iter(verdict.killed_by), SURVIVED))


def _options() -> list[click.Parameter]:
    """Return the options of `pushbackd mutants` that fit here."""
    return [each for each in users_command.params if each.name not in ("search", "html", "folder")]


@click.option("--suite", "suites", type=click.Choice([*SUITES, SWARM]), multiple=True, default=(SCENARIOS,))
@click.option("--schedules", type=click.IntRange(1), default=2000)
@click.option("--search", type=click.Choice([KNOWN, *(each.value for each in KillerSearch)]), default="own")
@click.option("--together", is_flag=True)
@click.option("--record", is_flag=True)
@click.option("--write", is_flag=True)
@click.option("--kills", is_flag=True)
@click.command(help=__doc__)
def main(**options: Any) -> None:
    """Try mutants, and exit with 1 if a suite kills fewer than `--least`."""
    every, record = load_mutants(CATALOGUE), MutantRecord.read(FOLDER)
    mutants = selected(every, options["kind"], options["keyword"], options["sample"])
    jobs = options["jobs"] or processors()
    if options["kills"]:
        write_kills(mutants, every, record, paths=options["paths"], jobs=jobs)
        return
    try:
        worst = _tried_with_all(mutants, record, options)
    finally:
        if options["record"]:  # also what an interrupted run has found
            record.write(FOLDER, [mutant.name for mutant in every])
    if options["write"]:
        write_page(PAGE, every, record)
    sys.exit(worst < (options["least"] or 0))


main.params += _options()


def _tried_with_all(mutants: Sequence[Mutant], record: MutantRecord, options: dict[str, Any]) -> float:
    """Try mutants with all suites, and return the smallest percentage that one kills."""
    if not options["together"]:
        return min(_tried(suite, mutants, record, options) for suite in options["suites"])
    left = list(mutants)
    for suite in options["suites"]:
        if left:
            _tried(suite, left, record, options)
        left = [mutant for mutant in left if record.killer(mutant.name, suite) in (None, SURVIVED)]
    killed = len(mutants) - len(left)
    share = 100 * killed / len(mutants)
    click.echo(f"{' and '.join(options['suites'])}: {killed} of {len(mutants)} killed ({share:.1f} %)")
    return share


def _tried(suite: str, mutants: Sequence[Mutant], record: MutantRecord, options: dict[str, Any]) -> float:
    """Try mutants with one suite, print what came of it, and return the percentage that it kills."""
    jobs, known_only = options["jobs"] or processors(), options["search"] == KNOWN
    source = find_corpus() if suite == CORPUS else None
    if suite == CORPUS and source is None:
        click.echo("corpus: the public specification tests are not present", err=True)
        return 100.0
    click.echo(f"{suite}:")
    reached: dict[str, int] = {}
    with progress() as advance, TemporaryDirectory(prefix="swarm-") as drawn:
        if suite == TESTS:
            for mutant, killer in run_tests(mutants, record, root=ROOT, jobs=jobs, known=known_only):
                advance("", 1)
                if options["verbose"]:
                    click.echo(f"{mutant.name}: {killer or 'survives'}")
        else:
            items = _items(suite, options, source, Path(drawn))
            matrix = RecordedMatrix(
                *(suite, items, jobs, advance),
                is_named=bool(options["paths"]),
                record=record,
                is_drawn=suite == SWARM,
            )
            if options["verbose"]:
                matrix.on_verdict = print_verdict
            if not options["everything"]:
                matrix.try_known(mutants)
            if known_only:
                matrix.give_up(mutants)
            else:
                search = KillerSearch(options["search"])
                matrix.run(mutants, search=search, everything=options["everything"])
            reached = matrix.reached
    killers = {mutant.name: record.killer(mutant.name, suite) or SURVIVED for mutant in mutants}
    return report(mutants, killers, reached)


def _items(suite: str, options: dict[str, Any], source: Path | None, drawn: Path) -> Sequence[Item]:
    """Return the items of a suite; drawn schedules are written to a folder."""
    if suite == SWARM:
        return swarm_items(drawn, options["schedules"])
    return scenario_items(options["paths"]) if source is None else corpus_items(source)


def corpus_items(source: Path) -> tuple[Item, ...]:
    """Return the items of the public specification tests."""
    folders = [folder for name in CORPUS_FOLDERS if (folder := source / name).is_dir()]
    files = [
        path for path in discover(folders) if not any(word in str(path) for word in _MEANT_TO_BE_REFUSED)
    ]
    return planned(files, CORPUS_DEPLOYMENTS)


def swarm_items(folder: Path, count: int) -> tuple[Item, ...]:
    """Return the items of so many drawn schedules, by turns in each edition, written to a folder."""
    drivers = [driver_of("reference", edition) for edition in EDITIONS]
    return tuple(
        item_of(draw(seed, edition=edition), driver, folder / f"seed-{seed}.yml")
        for seed in range(count)
        for edition, driver in [(EDITIONS[seed % len(EDITIONS)], drivers[seed % len(EDITIONS)])]
    )


# The kill matrix, with which `conform` compares a driver's failures.


def write_kills(
    mutants: Sequence[Mutant],
    every: Sequence[Mutant],
    record: MutantRecord,
    *,
    paths: Sequence[Path],
    jobs: int,
) -> None:
    """Find all scenarios that kill each of some wrong drivers, and write them with those of the others.

    What is known of files that are not tried stays.
    """
    wrong = [mutant for mutant in mutants if mutant.kind == "driver"]
    known = {driver.name: driver for driver in read(KILLS)} if KILLS.exists() else {}
    items = scenario_items(paths)
    tried = {file_of(item.id) for item in items}
    with progress() as advance:
        kills = RecordedMatrix(SCENARIOS, items, jobs, advance).kills(wrong)
    for mutant in wrong:
        # The recorded killer may need another edition or deployment than the case passes first on.
        recorded = (record.killer(mutant.name, SCENARIOS) or "").rpartition(" [")[0]
        before = known[mutant.name].fails if mutant.name in known else ()
        elsewhere = (case for case in before if file_of(case) not in tried)
        fails = frozenset(filter(None, (*kills[mutant.name], *elsewhere, recorded)))
        known[mutant.name] = WrongDriver(mutant.name, mutant.rule, mutant.wrong, fails)
    left = {mutant.name for mutant in every}
    write_kill_matrix(KILLS, [driver for name, driver in known.items() if name in left])
    click.echo(f"{KILLS}: {len(wrong)} wrong drivers tried")


def file_of(case: str) -> str:
    """Return the file of a case, without its suffix."""
    return case.partition("::")[0]


def write_kill_matrix(path: Path, drivers: Iterable[WrongDriver]) -> None:
    """Write wrong drivers by name, the cases of each by file; without drivers that nothing fails."""
    document: dict[str, Any] = {}
    for driver in sorted(drivers, key=lambda each: each.name):
        fails: dict[str, list[str]] = {}
        for case in sorted(driver.fails):
            group, _, description = case.partition("::")
            fails.setdefault(group, []).append(description)
        if fails:
            document[driver.name] = {"rule": driver.rule, "wrong": driver.wrong, "fails": fails}
    write_whole(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    try:
        main()
    except BadInputError as error:
        sys.exit(f"mutant_matrix: {error}")
