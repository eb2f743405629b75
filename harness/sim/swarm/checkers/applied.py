"""The number of times that a write was applied, by the documents of a member and by the log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from harness.sim.swarm.history import READS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import RunHistory, WorkloadOperation

LOG: Final = "the log"


@dataclass(frozen=True)
class Applied:
    """The applications of one history's writes; made once, as members hold many lists."""

    history: RunHistory

    def of(self, operation: WorkloadOperation) -> Iterator[tuple[str, str, int]]:
        """Yield each key that an operation writes, where that was counted, and how often it is there.

        Lists and documents keep their writes, so each member is asked. Other values are overwritten: of them
        the log tells.
        """
        for key in () if operation.kind in {*READS, "delete"} else operation.keys:
            if key.startswith(("list:", "document:")):
                for member, counts in self._kept.items():
                    yield key, member, counts[operation.number, key]
            else:
                yield key, LOG, self._logged[operation.number, key]

    def kept(self) -> Iterator[tuple[str, str, int]]:
        """Yield member, key and operation of each write that is kept in a list or as a document."""
        for member, counts in self._kept.items():
            yield from ((member, key, number) for number, key in counts)

    @cached_property
    def _logged(self) -> Counter[tuple[int, str]]:
        return Counter((entry.operation, entry.key) for entry in self.history.ending.log)

    @cached_property
    def _kept(self) -> dict[str, Counter[tuple[int, str]]]:
        kept = {}
        for member, documents in self.history.ending.documents.items():
            counts: Counter[tuple[int, str]] = Counter()
            for key, value in documents.items():
                if key.startswith("list:"):
                    counts.update((number, key) for number in value)
                elif key.startswith("document:"):
                    counts[int(key.partition(":")[2]), key] += value
            kept[member] = counts
        return kept
