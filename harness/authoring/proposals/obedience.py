"""The obedience of drivers to a rule today: the reference driver without and with the patch, and real ones.

The cases of the rule are those that fail without the patch. The others hold what is so today, and a driver
that fails one breaks another rule: that is told, and judges nothing.

`table_of` takes the reference driver's rows from the proof, where they ran in virtual time. `ask_drivers`
adds real drivers, which run in real time with the adapters of a checkout or of a command line. A driver that
skips all cases is `NOT_JUDGED`, never obedient: it may only lack a feature.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from harness.authoring.proposals.proving import REFERENCE, items_of
from harness.planning.result import ResultStatus
from harness.running.run import jobs_for, run_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.authoring.proposals.proving import Proof
    from harness.authoring.proposals.rule import Rule
    from harness.planning.plan import Settings
    from harness.planning.result import Result

WITH_PATCH: Final = "reference with the patch"


class Obedience(StrEnum):
    """The verdict on a driver and the rule on one deployment."""

    OBEYS = "obeys"
    BREAKS = "breaks it"
    NOT_JUDGED = "not judged"
    """No case ran: the driver, its adapter or the deployment has no such part."""


@dataclass(slots=True)
class Row:
    """A driver in one edition, with its results by deployment; `cases` are the ids of the rule's own."""

    driver: str
    facts: str
    cases: frozenset[str]
    results: dict[str, list[Result]] = field(default_factory=dict)

    def obedience(self, deployment: str) -> Obedience:
        """Return what the cases on a deployment come to."""
        counts = self._counts(deployment)
        if counts[ResultStatus.FAILED]:
            return Obedience.BREAKS
        return Obedience.OBEYS if counts[ResultStatus.PASSED] else Obedience.NOT_JUDGED

    def cell(self, deployment: str) -> str:
        """Return a cell in words: what the cases come to, and how many of those that ran."""
        counts, obedience = self._counts(deployment), self.obedience(deployment)
        if obedience is Obedience.NOT_JUDGED:
            return str(obedience)
        ran = counts[ResultStatus.FAILED] + counts[ResultStatus.PASSED]
        number = counts[ResultStatus.FAILED] if obedience is Obedience.BREAKS else ran
        return f"{obedience} ({number} of {ran})"

    def broken(self) -> list[Result]:
        """Return the failures in cases of the rule, the first of each case."""
        return [result for result in self._failed() if result.id in self.cases]

    def besides(self) -> int:
        """Return the number of other cases that fail: of what is so today."""
        return len(self._failed()) - len(self.broken())

    def _failed(self) -> list[Result]:
        first: dict[str, Result] = {}
        for results in self.results.values():
            for result in results:
                if result.status is ResultStatus.FAILED:
                    first.setdefault(result.id, result)
        return list(first.values())

    def skipped(self) -> str:
        """Return why cases were skipped, the most common reason; empty if none was."""
        reasons = Counter(
            result.reason
            for results in self.results.values()
            for result in results
            if result.status is ResultStatus.SKIPPED
        )
        return reasons.most_common(1)[0][0] if reasons else ""

    def _counts(self, deployment: str) -> Counter[ResultStatus]:
        return Counter(
            result.status for result in self.results.get(deployment, ()) if result.id in self.cases
        )


@dataclass(slots=True)
class ObedienceTable:
    """The rows of a rule, with the deployments that are its columns, and the ids of its own cases."""

    deployments: tuple[str, ...]
    cases: frozenset[str]
    rows: list[Row] = field(default_factory=list)

    def add(self, driver: str, version: str, results: Iterable[Result]) -> None:
        """Add a driver's results, a row for each edition."""
        rows: dict[str, Row] = {}
        for result in results:
            facts = ", ".join(filter(None, (version, result.edition)))
            row = rows.setdefault(result.edition, Row(driver, facts, self.cases))
            row.results.setdefault(result.topology, []).append(result)
        self.rows += rows.values()

    def today(self) -> list[Row]:
        """Return the rows of drivers that are there."""
        return [row for row in self.rows if row.driver != WITH_PATCH]

    def breaks(self, row: Row) -> bool:
        """Return whether a driver breaks the rule somewhere."""
        return any(row.obedience(each) is Obedience.BREAKS for each in self.deployments)

    def headings(self) -> tuple[str, ...]:
        """Return the headings of the columns."""
        return ("driver", "version and edition", *self.deployments, "what changes")

    def lines(self) -> list[tuple[str, ...]]:
        """Return the rows as words."""
        return [
            (row.driver, row.facts, *(row.cell(each) for each in self.deployments), self._change(row))
            for row in self.rows
        ]

    def _change(self, row: Row) -> str:
        """Return what the rule would change for a driver."""
        broken, besides = row.broken(), row.besides()
        if broken:
            first = broken[0]
            told = f"{first.id.partition('::')[2]}: {first.reason.partition(chr(10))[0]}"
            told += f"; {len(broken) - 1} more" if len(broken) > 1 else ""
        else:
            judged = any(row.obedience(each) is Obedience.OBEYS for each in self.deployments)
            told = "nothing" if judged else f"unknown: {row.skipped()}"
        return f"{told} (besides, it fails {besides} of what is so today)" if besides else told


def table_of(proof: Proof, deployments: Sequence[str], version: str) -> ObedienceTable:
    """Return the table with the reference driver as it is, and with the patch."""
    # Where none is red today every case counts, so that the table still says who obeys.
    own = frozenset(each.id for each in proof.red_without) or frozenset(item.id for item in proof.items)
    table = ObedienceTable(tuple(deployments), own)
    table.add(REFERENCE, version, proof.today.values())
    table.add(WITH_PATCH, version, proof.wanted.values())
    return table


def ask_drivers(
    table: ObedienceTable,
    rule: Rule,
    drivers: Mapping[str, str],
    settings: Settings,
    advance: Callable[[float], None],
) -> None:
    """Run the cases of a rule with drivers, each in its edition, in real time, and add what they come to.

    `advance` is called with each case that ends.
    """
    items = dict(enumerate(items_of(rule, drivers, table.deployments)))
    results: dict[int, Result] = {}

    def take(index: int, result: Result) -> None:
        results[index] = result
        advance(1)

    run_items(items, settings, jobs=jobs_for(len(items), settings), on_result=take)
    for name in drivers:
        own = (results[index] for index, item in items.items() if item.adapter == name)
        table.add(name, settings.driver(name), own)
