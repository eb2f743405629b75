"""Two runs of the same scenarios: what has been fixed between them, what is broken, and what is as before."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.running.result import ResultStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.report.results_file import RunHeader
    from harness.running.result import Result

_SHOWN: Final = 10
"""How many cases of a kind are listed; those that got worse all are."""


class Change(StrEnum):
    """What has become of a case between two runs."""

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


class _Place(NamedTuple):
    """A case in a run: `number` tells apart what has one id, from 1 on."""

    id: str
    number: int
    adapter: str
    topology: str

    def __str__(self) -> str:
        twice = f" ({self.number})" if self.number > 1 else ""
        return f"{self.id}{twice}  [{self.adapter}, {self.topology}]"


@dataclass(slots=True)
class RunOutcomes:
    """How the cases of a run with a name ended, each with the first line of its reason."""

    name: str
    run: RunHeader
    ended: dict[_Place, tuple[ResultStatus, str]] = field(default_factory=dict)

    def noting(self, results: Iterable[Result]) -> Iterator[Result]:
        """Pass results on, and note those of cases that ran."""
        seen: Counter[tuple[str, str, str]] = Counter()
        for result in results:
            key = (result.id, result.adapter, result.topology)
            seen[key] += 1
            if result.status not in _DID_NOT_RUN:
                place = _Place(result.id, seen[key], result.adapter, result.topology)
                self.ended[place] = (result.status, result.reason.partition("\n")[0])
            yield result

    @property
    def title(self) -> str:
        """The name, with the drivers of the run."""
        adapters = dict.fromkeys(place.adapter for place in self.ended)
        drivers = (self.run.settings.driver(adapter) or adapter for adapter in adapters)
        return f"{self.name} ({', '.join(drivers) or 'no cases'})"


def changes_between(before: RunOutcomes, after: RunOutcomes) -> dict[Change, list[_Place]]:
    """Return the cases of each kind, in the order of their runs; what ended alike is in STILL, or in none."""
    found: dict[Change, list[_Place]] = {change: [] for change in Change}
    for place, (ends, _) in after.ended.items():
        ended, _ = before.ended.get(place, (None, ""))
        if (change := _change(ended, ends)) is not None:
            found[change].append(place)
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


def is_worse(found: Mapping[Change, Sequence[_Place]]) -> bool:
    """Return whether a case fails that did not fail before."""
    return any(found[change] for change in _WORSE)


def change_lines(
    before: RunOutcomes, after: RunOutcomes, found: Mapping[Change, Sequence[_Place]]
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
    counts = ", ".join(f"{len(places)} {change}" for change, places in found.items() if places)
    yield f"{'worse' if is_worse(found) else 'not worse'}: {counts or 'nothing has changed'}"
