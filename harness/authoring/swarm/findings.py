"""What a swarm has found: how many schedules ran, and which rules were broken by which seeds."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.authoring.swarm.shrinking import broken_by
from harness.running.result import ResultStatus
from harness.unified.server_side.oracles import ORACLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.authoring.swarm.schedule import SwarmSchedule
    from harness.running.result import Result


@dataclass(slots=True)
class Findings:
    """The schedules that have run, by their end, and the seeds that broke each rule.

    What failed without breaking a rule, an adapter that was lost or a case that never ended, has the empty
    name.
    """

    counts: Counter[ResultStatus] = field(default_factory=Counter)
    seeds: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    sentences: dict[str, str] = field(default_factory=dict)

    def add(self, schedule: SwarmSchedule, result: Result) -> None:
        """Take the result of a schedule."""
        self.counts[result.status] += 1
        if result.status is ResultStatus.FAILED:
            oracle = broken_by(result)
            self.seeds[oracle].append(schedule.seed)
            self.sentences.setdefault(oracle, sentence_of(result))

    @property
    def failed(self) -> int:
        """How many schedules failed."""
        return self.counts[ResultStatus.FAILED]

    def summary(self) -> Iterator[str]:
        """Yield a line on the run, then one for each rule that was broken."""
        ended = ", ".join(f"{count} {status.value}" for status, count in sorted(self.counts.items()))
        yield f"{self.counts.total()} schedules: {ended or 'none'}"
        for name in sorted(self.seeds, key=lambda each: (-len(self.seeds[each]), each)):
            seeds = self.seeds[name]
            what = str(ORACLES[name]) if name else "not judged"
            shown = ", ".join(map(str, sorted(seeds)[:SHOWN]))
            more = f" and {len(seeds) - SHOWN} more" if len(seeds) > SHOWN else ""
            yield f"{what}: {len(seeds)} (seeds {shown}{more}): {self.sentences[name]}"

    def document(self) -> dict[str, Any]:
        """Return the summary as a document."""
        return {
            "schedules": self.counts.total(),
            **{status.value: count for status, count in sorted(self.counts.items())},
            "broken": {name or "not judged": sorted(seeds) for name, seeds in sorted(self.seeds.items())},
        }


SHOWN = 5
"""Seeds of one rule that a line names."""


def sentence_of(result: Result) -> str:
    """Return what was found, in one line."""
    return result.reason.partition(" is broken: ")[2] or result.reason.partition("\n")[0]


def line_of(schedule: SwarmSchedule, result: Result) -> dict[str, Any]:
    """Return a schedule and its result as a document, for a line of JSON."""
    oracle = broken_by(result)
    found: dict[str, Any] = {
        "seed": schedule.seed,
        "topology": schedule.target,
        "edition": schedule.edition,
        "status": result.status.value,
    }
    if result.status is not ResultStatus.PASSED:
        found["reason"] = sentence_of(result)
    if oracle:
        found |= {"oracle": oracle, "rules": list(ORACLES[oracle].rules)}
    return found
