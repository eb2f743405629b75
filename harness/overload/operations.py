"""A record of the wire that is folded into operations while it is made, so that it may be long.

A drill or a demo may run for hours, and a record that keeps its entries would fill memory. `FoldedRecord`
stands where a deployment expects its record and forgets each entry after counting it: in `totals`, by the
rules of `fakeserver.deployment.records.operations`, and by second for the chart. Whoever reads the totals
calls `totals.finish()` first: only then do operations that failed last, and were never sent again, count as
errors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fakeserver.deployment.records.operations import OperationTotals
from fakeserver.network.wire_entries import Accepted, Closed, Received, Sent
from fakeserver.network.wire_record import WireRecord
from harness.unified.server_side.seen import document_of

if TYPE_CHECKING:
    from fakeserver.network.wire_entries import Entry


@dataclass(slots=True)
class SecondOfTotals:
    """Counts of one second: requests, those refused for overload, errors that reached the application."""

    requests: int = 0
    refused: int = 0
    errors: int = 0


@dataclass(slots=True)
class FoldedRecord(WireRecord):
    """A record of the wire that keeps totals only, so that it may be long."""

    totals: OperationTotals = field(default_factory=OperationTotals)
    seconds: dict[int, SecondOfTotals] = field(default_factory=dict)
    """The counts of each second, by its number on the clock of the record."""

    def enter(self, entry: Entry) -> None:
        """Fold the next entry into the totals."""
        totals = self.totals
        # One entry may count for several things or for none, so the second gets the differences.
        before = totals.requests, totals.overloaded, totals.failures.total()
        fold(entry, totals)
        after = totals.requests, totals.overloaded, totals.failures.total()
        if after != before:
            second = self.seconds.setdefault(int(entry.at), SecondOfTotals())
            second.requests += after[0] - before[0]
            second.refused += after[1] - before[1]
            second.errors += after[2] - before[2]


def fold(entry: Entry, totals: OperationTotals) -> None:
    """Fold the next entry of a record into totals."""
    if isinstance(entry, Received):
        envelope = entry.envelope
        totals.asked(entry.connection, envelope.request_id, document_of(envelope), entry.at)
    elif isinstance(entry, Sent):
        totals.answered(entry.connection, entry.envelope.response_to, document_of(entry.envelope), entry.at)
    elif isinstance(entry, Closed):
        totals.lost(entry.connection, entry.at)
    else:
        assert isinstance(entry, Accepted)
