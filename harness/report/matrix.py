"""Several runs as one matrix: a row for each case, a column for each configuration of a run.

A column is a driver in one version, with its edition, on a deployment, in real or virtual time, against one
version of the server; a run with a name has columns of its own. When two runs fill the same cell, the later
one wins. A file may say the same description twice: the first of them is one row, the second another.

`Matrix` is filled in two ways: `add` takes a run from a file at once, `Filling` takes results while a run
goes on, and is merged when it is complete. Cells keep their details compressed, since there may be many
thousands, each with a picture. The second part of the file compares two runs that have names, without
pictures.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from harness.planning.result import ResultStatus
from harness.report.picture import drawing
from harness.report.rerun import rerun_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.planning.plan import Settings
    from harness.planning.result import Result
    from harness.report.results_file import RunHeader


@dataclass(frozen=True, slots=True, order=True)
class Column:
    """A configuration in which cases ran; `run` is empty unless the run has a name.

    `driver` is the driver's own name and version, empty where its adapter does not tell.
    """

    adapter: str
    edition: str
    topology: str
    time: str
    server: str = ""
    run: str = ""
    driver: str = ""

    @property
    def key(self) -> str:
        """The column's name in links, which stays the same from report to report."""
        parts = (self.adapter, self.edition, self.topology, self.time, self.server, self.run, self.driver)
        return "/".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class CaseKey:
    """A row: the case's id, and its number among those of the same id, from 1 on."""

    id: str
    number: int = 1

    @property
    def spec(self) -> str:
        """The specification: the first part of the id."""
        return self.id.partition("/")[0]

    @property
    def file(self) -> str:
        """The rest of the id up to the description."""
        return self.id.partition("::")[0].partition("/")[2]

    @property
    def description(self) -> str:
        """The description of the case."""
        description = self.id.partition("::")[2] or self.id
        return description if self.number == 1 else f"{description} ({self.number})"


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of a case in a column; details are compressed, as there are many."""

    status: ResultStatus
    duration_ms: float
    _details: bytes

    @classmethod
    def of(cls, result: Result, settings: Settings) -> Cell:
        """Return the cell of a result: here the picture is drawn."""
        # Level 1: the page packs everything once more, and better.
        details = json.dumps(details_of(result, settings), ensure_ascii=False, separators=(",", ":"))
        return cls(result.status, result.duration_ms, zlib.compress(details.encode(errors="replace"), 1))

    @property
    def details(self) -> str:
        """The details as JSON."""
        return zlib.decompress(self._details).decode()


def details_of(result: Result, settings: Settings) -> dict[str, Any]:
    """Return the details of a cell for readers, without empty ones."""
    details: dict[str, Any] = {
        "reason": result.reason,
        "place": result.location,
        "mismatch": "" if result.mismatch in result.reason else result.mismatch,
        "expected": result.expected,
        "actual": result.actual,
        "comparison": result.comparison,
        "causes": (*result.causes, *filter(None, (result.blame,))),
        "again": rerun_command(result, settings),
        "picture": drawing(result.timeline, title=result.id, whole=settings.wire),
    }
    return {name: value for name, value in details.items() if value not in (None, "", ())}


@dataclass(slots=True)
class Matrix:
    """All runs of a report, each with its name or ""."""

    runs: list[tuple[RunHeader, str]] = field(default_factory=list)
    cells: dict[CaseKey, dict[Column, Cell]] = field(default_factory=dict)

    def add(self, run: RunHeader, results: Iterable[Result], *, name: str = "") -> None:
        """Add a run; `name` gives it columns of its own."""
        filling = Filling(run, name)
        for result in results:
            filling.add(result)
        self.merge(filling)

    def merge(self, filling: Filling) -> None:
        """Take over the cells of a run that is complete."""
        self.runs.append((filling.run, filling.name))
        for case, column, cell in filling.cells():
            self.cells.setdefault(case, {})[column] = cell

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns, in the order in which runs brought them, those of one driver beside each other."""
        found = dict.fromkeys(column for row in self.cells.values() for column in row)

        def driver(column: Column) -> tuple[str, str, str, str]:
            return column.run, column.adapter, column.driver, column.edition

        drivers = list(dict.fromkeys(map(driver, found)))
        return tuple(sorted(found, key=lambda column: drivers.index(driver(column))))

    def rows(self) -> Iterator[tuple[CaseKey, Mapping[Column, Cell]]]:
        """Yield the rows by specification and file; in a file they keep their order."""
        yield from sorted(self.cells.items(), key=lambda row: (row[0].spec, row[0].file))


class Filling:
    """One run while its results come: the server's version is unknown until the first case has run."""

    def __init__(self, run: RunHeader, name: str = "") -> None:
        self.run = run
        self.name = name
        self._cells: dict[tuple[CaseKey, Column], Cell] = {}
        self._seen: Counter[tuple[str, Column]] = Counter()
        self._servers: dict[Column, str] = {}

    def add(self, result: Result) -> None:
        """Add a result."""
        settings = self.run.settings
        column = Column(
            *(result.adapter, result.edition, result.topology, settings.time),
            run=self.name,
            driver=settings.driver(result.adapter),
        )
        if result.server_version:
            self._servers.setdefault(column, result.server_version)
        self._seen[result.id, column] += 1
        case = CaseKey(result.id, self._seen[result.id, column])
        self._cells[case, column] = Cell.of(result, self.run.settings)

    def cells(self) -> Iterator[tuple[CaseKey, Column, Cell]]:
        """Yield all cells, in columns that have a server's version."""
        for (case, column), cell in self._cells.items():
            yield case, replace(column, server=self._servers.get(column, "")), cell


# Two runs of the same scenarios: what has been fixed between them, what is broken, and what is as before.


_SHOWN: Final = 10
"""How many cases of a kind are listed; those that got worse all are."""


class Change(StrEnum):
    """The change of a case between two runs."""

    BROKEN = "broken"
    """It passed before, and fails now."""
    NEW = "new and failing"
    """It did not run before, and fails now."""
    FIXED = "fixed"
    """It failed before, and passes now."""
    STILL = "still failing"
    ACCEPTED = "now known to fail"
    """It passed or failed before; expectations have a reason why it fails now."""
    GONE = "no longer run"
    """It ran before, and was skipped now, or is not there."""


_WORSE: Final = (Change.BROKEN, Change.NEW)

_PASSED: Final = (ResultStatus.PASSED, ResultStatus.UNEXPECTED_PASS)
_DID_NOT_RUN: Final = (ResultStatus.SKIPPED, ResultStatus.NOT_RUN)


class Place(NamedTuple):
    """A case in a run: `number` tells apart what has one id, from 1 on."""

    id: str
    number: int
    adapter: str
    topology: str

    @property
    def row(self) -> str:
        """The case as a report's address has it."""
        return f"{self.id} ({self.number})" if self.number > 1 else self.id

    def __str__(self) -> str:
        return f"{self.row}  [{self.adapter}, {self.topology}]"


@dataclass(slots=True)
class RunOutcomes:
    """The ends of the cases of a run with a name, each with the first line of its reason."""

    name: str
    run: RunHeader
    ended: dict[Place, tuple[ResultStatus, str]] = field(default_factory=dict)

    def noting(self, results: Iterable[Result]) -> Iterator[Result]:
        """Pass results on, and note those of cases that ran."""
        seen: Counter[tuple[str, str, str]] = Counter()
        for result in results:
            key = (result.id, result.adapter, result.topology)
            seen[key] += 1
            if result.status not in _DID_NOT_RUN:
                place = Place(result.id, seen[key], result.adapter, result.topology)
                self.ended[place] = (result.status, result.reason.partition("\n")[0])
            yield result

    @property
    def title(self) -> str:
        """The name, with the drivers of the run."""
        adapters = dict.fromkeys(place.adapter for place in self.ended)
        drivers = (self.run.settings.driver(adapter) or adapter for adapter in adapters)
        return f"{self.name} ({', '.join(drivers) or 'no cases'})"

    def is_comparable(self, other: RunOutcomes) -> bool:
        """Return whether a case is in both; a run in which none ran is compared with any other."""
        return not (self.ended and other.ended) or bool(self.ended.keys() & other.ended.keys())


def changes_between(before: RunOutcomes, after: RunOutcomes) -> dict[Change, list[Place]]:
    """Return the cases of each kind, in the order of their runs; what ended alike is in STILL, or in none."""
    found: dict[Change, list[Place]] = {change: [] for change in Change}
    for place, (ends, _) in after.ended.items():
        ended, _ = before.ended.get(place, (None, ""))
        if (change := _change(ended, ends)) is not None:
            found[change].append(place)
    # Gone is what ran before: cases that were skipped now are not among those that ran.
    found[Change.GONE] = [place for place in before.ended if place not in after.ended]
    return found


def _change(ended: ResultStatus | None, ends: ResultStatus) -> Change | None:
    passed = ended in _PASSED
    if ends in _PASSED:
        return None if passed or ended is None else Change.FIXED
    if ends is ResultStatus.KNOWN_FAILING:
        return None if ended in (None, ends) else Change.ACCEPTED
    if ended is None:
        return Change.NEW
    return Change.BROKEN if passed else Change.STILL


def is_worse(found: Mapping[Change, Sequence[Place]]) -> bool:
    """Return whether a case fails that did not fail before."""
    return any(found[change] for change in _WORSE)


def change_lines(
    before: RunOutcomes, after: RunOutcomes, found: Mapping[Change, Sequence[Place]]
) -> Iterator[str]:
    """Yield what has changed, line by line; the last one is the sum."""
    yield f"{after.title} against {before.title}"
    for change, places in found.items():
        if not places:
            continue
        yield f"{change}: {len(places)}"
        shown = places if change in _WORSE or len(places) <= _SHOWN else places[: _SHOWN - 1]
        for place in shown:
            reason = f": {after.ended[place][1]}" if change in _WORSE else ""
            yield f"  {place}{reason}"
        if len(shown) < len(places):
            yield f"  and {len(places) - len(shown)} more"
    yield change_sum(found)


def change_sum(found: Mapping[Change, Sequence[Place]]) -> str:
    """Return whether it is worse, and how many cases of each kind there are."""
    counts = ", ".join(f"{len(places)} {change}" for change, places in found.items() if places)
    return f"{'worse' if is_worse(found) else 'not worse'}: {counts or 'nothing has changed'}"
