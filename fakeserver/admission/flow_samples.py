"""How many operations lie between two operation times, as far as flow control keeps count of them.

A sample is taken of one operation in so many, and a bounded number of samples is kept: what lies between
two that were not sampled is not known (`Flow Control`).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from fakeserver.oplog import OpTime

_ENOUGH: Final = 2
"""The number of samples that a rate can be worked out from."""


class _Sample(NamedTuple):
    optime: OpTime
    operations: int
    locks: int


class FlowSamples:
    """The samples, the oldest first. `period` is how many operations there are of a sample, `most` the bound.

    Beyond the bound every other sample is dropped, so that those that are left are further apart.
    """

    def __init__(self) -> None:
        self.period = 1
        self.most = 1
        self._operations = 0
        self._sampled = 0
        self._samples: list[_Sample] = []

    def __len__(self) -> int:
        return len(self._samples)

    def record(self, optime: OpTime, locks: int) -> None:
        """Count an operation; `locks` is how many tickets were taken so far."""
        self._operations += 1
        if self._operations - self._sampled < self.period:
            return
        self._sampled = self._operations
        self._samples.append(_Sample(optime, self._operations, locks))
        if len(self._samples) > self.most:
            self._samples = self._samples[::-2][::-1] if self.most > 1 else self._samples[-1:]

    def clear(self) -> None:
        """Forget the samples."""
        self._samples.clear()

    def trim(self, before: OpTime) -> None:
        """Forget the samples that nobody will ask for: those before a time, but for the newest two."""
        del self._samples[: min(self._first_at(before), max(len(self._samples) - _ENOUGH, 0))]

    def between(self, begin: OpTime, end: OpTime) -> int | None:
        """Return about how many operations are later than `begin` and not than `end`; None if too few."""
        first = self._first_at(begin)
        if first == len(self._samples):
            return None
        last = min(self._first_at(end), len(self._samples) - 1)
        found = self._samples[last].operations - self._samples[first].operations
        return found if found > 0 else None

    @property
    def locks_per_operation(self) -> float | None:
        """How many tickets an operation took, between the last two samples."""
        if len(self._samples) < _ENOUGH:
            return None
        before, last = self._samples[-2:]
        return (last.locks - before.locks) / (last.operations - before.operations)

    def _first_at(self, optime: OpTime) -> int:
        return bisect_left(self._samples, optime, key=lambda sample: sample.optime)
