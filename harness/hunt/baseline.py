"""The clean runs: the places of an application, and what is the same whenever nothing fails.

A `Baseline` is made of all clean runs at once, and made anew when there are more. Everything in it errs on
one side: what differs among clean runs is not compared, and bounds (seconds, connections, open cursors) are
the largest that were seen. So a trial may be let off that did wrong; one that is blamed did what no clean
run does.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from harness.hunt.documents import (
    Path,
    arrays,
    canonical,
    differences,
    single_fields,
    varying,
)
from harness.hunt.places import Numbers

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from harness.hunt.documents import Contents, Difference, Field
    from harness.hunt.places import Place, Request
    from harness.hunt.trial import Outcome

# A trial hangs after five clean runs and these seconds: a fault and its retries must fit in, and a short
# command has nothing to multiply.
_FACTOR: Final = 5
_PATIENCE: Final = 12.0
"""Seconds that a trial may take beside a multiple of a clean run."""
_TELLS_OF_TROUBLE: Final = re.compile(
    r"retr|attempt|tries|fail|error|second|elapsed| ms\b|took", re.IGNORECASE
)
_RECORD: Final = re.compile(r"[^\s,;|{\[][^,;|{\[\t]*(?:[,;|\t]\S[^,;|\t]*)+")
"""A line of values between commas, semicolons, bars or tabs, without the spaces of a sentence."""
_LINE_LEAST: Final = 1


class BaselineError(ValueError):
    """The command cannot be hunted: it fails without any fault."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The facts that clean runs have in common."""

    code: int
    seconds: float
    """Seconds that the slowest one took."""
    clean: Mapping[str, Counter[str]]
    """The final documents."""
    varying: frozenset[Path]
    """The fields that differ from run to run."""
    loose: frozenset[str]
    """The collections that are not compared: they differ in more than fields, or the user ignores them."""
    net: Mapping[Field, float]
    places: Mapping[Place, Request]
    """Each place, in the order in which they came, with a request that was there."""
    lines: frozenset[str]
    """The lines of output that every clean run has."""
    records: Mapping[str, int]
    """Those of them that are records of a table, with their number."""
    connections: int
    open_transactions: int
    open_cursors: int
    quiet: float = 0.0
    """Seconds from the last write to the end, at most."""
    apart: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The collections whose values clean runs combine in other ways, with what is compared of them."""
    contents: Contents = field(default_factory=dict)
    """The documents of the first run."""
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The most requests of each name that a run had."""
    numbers: Numbers = field(default_factory=Numbers)

    @classmethod
    def of(cls, runs: Sequence[Outcome], ignore: Collection[str] = ()) -> Baseline:
        """Return the baseline of clean runs; `ignore` names collections, and fields of collections.

        Raises `BaselineError`.
        """
        first = runs[0]
        for run in runs:
            if run.code is None:
                raise BaselineError("the command does not end, with no fault at all")
            if run.code != 0:
                raise BaselineError(
                    f"the command ends with exit code {run.code}, with no fault at all:\n{tail(run)}"
                )
        fields, loose = varying([run.contents for run in runs])
        # The fields that `collection.field` names, of the collections that there are.
        fields |= {
            Path(each, name.removeprefix(f"{each}."))
            for name in ignore
            for each in first.contents
            if name.startswith(f"{each}.")
        }
        fields |= {
            path for name in _side_by_side(runs) for path in arrays(first.contents.get(name, []), name)
        }
        found = {name: single_fields([run.contents for run in runs], name) for name in loose}
        apart = {name: each for name, each in found.items() if each is not None and name not in ignore}
        loose = loose - apart.keys() | frozenset(ignore)
        texts = canonical(first.contents, fields, apart)
        common = {
            name: value for name, value in runs[0].net.items() if all(run.net[name] == value for run in runs)
        }
        counts = (Counter(each.place.kind for each in run.requests if each.attempt == 1) for run in runs)
        # The records that the runs have written, and how often at most.
        records = dict(reduce(or_, (Counter(filter(_RECORD.fullmatch, stable_lines(run))) for run in runs)))
        return cls(
            0,
            max(run.ended.seconds for run in runs),
            {name: each for name, each in texts.items() if name not in loose},
            fields,
            loose,
            common,
            _places(runs),
            frozenset.intersection(*(frozenset(stable_lines(run)) for run in runs)),
            records,
            max(run.connections for run in runs),
            max(run.open_transactions for run in runs),
            max(run.open_cursors for run in runs),
            max(run.quiet for run in runs),
            apart=apart,
            contents=first.contents,
            counts=dict(reduce(or_, counts)),
            numbers=Numbers.of([run.requests for run in runs]),
        )

    @property
    def limit(self) -> float:
        """The seconds after which a trial hangs."""
        return self.seconds * _FACTOR + _PATIENCE

    def differences(self, outcome: Outcome) -> list[Difference]:
        """Return how the final documents of a trial differ."""
        clean, fields = self.clean, self.varying
        # A fault may bring operations side by side that are one after the other in every clean run.
        beside = _side_by_side([outcome]) & self.contents.keys()
        if more := {path for name in beside for path in arrays(self.contents[name], name)} - fields:
            fields |= more
            clean = self._compared(canonical(self.contents, fields, self.apart))
        texts = self._compared(canonical(outcome.contents, fields, self.apart))
        return [each for each in differences(clean, texts) if not each.is_allowed]

    def _compared(self, texts: Mapping[str, Counter[str]]) -> dict[str, Counter[str]]:
        return {name: each for name, each in texts.items() if name not in self.loose}

    @property
    def loose_fields(self) -> list[str]:
        """The fields that are not compared, of collections that are."""
        fields = [each for each in self.varying if each.namespace not in self.loose]
        return [".".join(each) for each in fields if not each.field.endswith("[]")]

    @property
    def uneven(self) -> frozenset[str]:
        """The collections in which clean runs differ."""
        return self.loose | self.apart.keys()

    def missing_lines(self, outcome: Outcome) -> list[str]:
        """Return the lines of output that every clean run has, and the trial has not."""
        there = set(stable_lines(outcome))
        return sorted(line for line in self.lines if line not in there)

    def repeated_records(self, outcome: Outcome) -> list[str]:
        """Return the records of its output that a trial has written more often than any clean run.

        Another line may come again with another try; who reads a table takes each record for one.
        """
        written = Counter(stable_lines(outcome))
        return sorted(line for line, usual in self.records.items() if written[line] > usual)


def _side_by_side(runs: Sequence[Outcome]) -> set[str]:
    """Return the collections that are changed over several connections: their arrays may have any order.

    Drivers lend one to one operation after the other, so several are those of operations side by side.
    """
    connections: dict[tuple[int, str], set[int]] = {}
    for number, run in enumerate(runs):
        for each in run.requests:
            if each.is_write:
                connections.setdefault((number, each.namespace), set()).add(each.connection)
    return {namespace for (_, namespace), found in connections.items() if len(found) > 1}


def stable_lines(outcome: Outcome) -> list[str]:
    """Return the lines of output that say what was done, and not how long it took or how often it failed."""
    lines = (line.strip() for line in outcome.ended.output.splitlines())
    return [line for line in lines if len(line) > _LINE_LEAST and not _TELLS_OF_TROUBLE.search(line)]


def tail(outcome: Outcome, lines: int = 15) -> str:
    """Return the end of what a command wrote."""
    written = [*outcome.ended.output.splitlines(), *outcome.ended.errors.splitlines()]
    return "\n".join(written[-lines:])


def _places(runs: Sequence[Outcome]) -> dict[Place, Request]:
    """Return the places that most runs have, in the order of the first run."""
    counts = Counter(place for run in runs for place in {each.place for each in run.requests})
    found: dict[Place, Request] = {}
    for run in runs:
        for request in run.requests:
            if counts[request.place] * 2 > len(runs):
                found.setdefault(request.place, request)
    return found
