"""Requests by verdict: a count of the journal's records that goes on where it stopped.

The journal keeps the newest records only; so whoever counts looks again before they are gone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from fakeserver.control.web.history import RequestHistory
from fakeserver.deployment.records.events import CommandFinished
from mongowire.codes import Category

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.deployment.records.journal import Journal
    from fakeserver.deployment.records.record import Record

VERDICTS: Final = ("ok", "writeError", "error", "rejected", "disconnect", "silence")
"""The verdicts, as `verdict_of` names them."""
_MOST: Final = 500
"""Combinations of verdict, command and code that are told apart: a client may make command names up."""
_HEARTBEATS: Final = frozenset({"hello", "isMaster", "ismaster"})


def verdict_of(event: CommandFinished) -> str:
    """Return the verdict on a request.

    `rejected` is an error of admission control, `error` any other; `writeError` an `ok` reply with errors
    within; `disconnect` and `silence` are requests without a reply.
    """
    if isinstance(event.outcome, int):
        return "rejected" if event.outcome in Category.SYSTEM_OVERLOADED.value else "error"
    if event.outcome == "ok" and (event.write_error or event.write_concern_error):
        return "writeError"
    return event.outcome


class RequestTally:
    """The requests that a journal holds, and those that it held when this looked."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._seq = 0
        self._counted: Counter[tuple[str, str, str]] = Counter()
        self.history = RequestHistory()

    def catch_up(self) -> None:
        """Count what is new."""
        for record in self._journal.since(self._seq):
            event = record.event
            if isinstance(event, CommandFinished):
                code = str(event.outcome) if isinstance(event.outcome, int) else ""
                self._count(verdict_of(event), event.name, code)
                self._remember(record, event)
            self._seq = record.seq

    def _remember(self, record: Record, event: CommandFinished) -> None:
        """Add a request to the history; how long a getMore takes is often for the client to say."""
        if event.name in _HEARTBEATS:
            return
        details = None if event.name == "getMore" else record.details
        duration = None if details is None else record.at - details.arrived
        self.history.take(record.at, verdict_of(event), duration)

    def _count(self, verdict: str, command: str, code: str) -> None:
        key = verdict, command, code
        if key not in self._counted and len(self._counted) >= _MOST:
            key = verdict, "", ""
        self._counted[key] += 1

    def __iter__(self) -> Iterator[tuple[tuple[str, str, str], int]]:
        """Iterate over (verdict, command, code) and their counts, sorted."""
        return iter(sorted(self._counted.items()))

    def verdicts(self) -> dict[str, int]:
        """Return the requests by verdict, without the heartbeats of drivers."""
        shown = dict.fromkeys(VERDICTS, 0)
        for (verdict, command, _), number in self:
            if command not in _HEARTBEATS:
                shown[verdict] = shown.get(verdict, 0) + number
        return shown
