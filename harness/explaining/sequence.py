"""A timeline as the rows of a sequence diagram: moments that share a row, and moments of one command.

It reads a timeline alone, as results files keep it: kinds, links and texts of moments, and never the case. A
client's command and the server's work on it are one `ReportedCommand`, by the request id; a command that
follows a failed one of its name, within one operation, is its next attempt. `harness.report.picture` turns
rows into coordinates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.explaining.text import Fold, folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.planning.result import Moment

_ASKED: Final = "commandStartedEvent"
_FAILED: Final = "commandFailedEvent"
_ANSWERED: Final = frozenset({"commandSucceededEvent", _FAILED})
_SERVED: Final = "commandFinished"
_HIT: Final = "failPointHit"
_BAD: Final = frozenset(
    {
        "connectionCheckOutFailedEvent",
        "poolClearedEvent",
        "primarySteppedDown",
        "serverHeartbeatFailedEvent",
    }
)
_SIDES: Final = ("test", "client", "server")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
WORTH_A_BREAK: Final = 0.01
"""Seconds in which nothing happened, from which on a diagram shows a break."""

_ONE_INSTANT: Final = 0.002
"""Seconds within which marks on several lanes share a row."""

_OUTCOME: Final = re.compile(r" → (.+?)(?: \(connection \d+\))?$")


_WRITE_ERROR: Final = "write error"
_CONCERN: Final = "write concern error"


class Lane(NamedTuple):
    """A vertical line of the diagram: the test, a client or a server."""

    side: str
    name: str


class RowKind(StrEnum):
    """The kind of a row."""

    OPERATION = "operation"
    ENDED = "ended"
    ASK = "ask"
    SERVED = "served"
    REPLY = "reply"
    HIT = "hit"
    MARK = "mark"


@dataclass(slots=True, eq=False)
class ReportedCommand:
    """A command that a client reported. `attempt` counts from 1 within one operation.

    `server` and `outcome` come from the server's journal; they are None and "" where it has no entry.
    """

    name: str
    client: Lane
    attempt: int = 1
    server: Lane | None = None
    outcome: str = ""
    failed: bool = False
    served: DiagramRow | None = None


@dataclass(slots=True, eq=False)
class DiagramRow:
    """One row of the diagram, for one or several moments; `label` is their short form.

    A row of marks may have some on several lanes, at about one instant: `marks` has the labels of each.
    """

    kind: RowKind
    lane: Lane
    label: str
    moments: list[Moment]
    bad: bool = False
    command: ReportedCommand | None = None
    marks: dict[Lane, list[str]] = field(default_factory=dict)


class Diagram(NamedTuple):
    """The lanes from left to right, the rows from top to bottom, and the lanes with more than marks."""

    lanes: tuple[Lane, ...]
    rows: tuple[DiagramRow, ...]
    busy: frozenset[Lane]


def read(timeline: Iterable[Moment], *, whole: bool = True) -> Diagram:
    """Return the diagram of a timeline, which is in order; unless `whole`, folded before its first operation.

    Clients that send nothing stand beside the test, out of the way of arrows.
    """
    reader = _RowReader()
    fold = Fold(tuple(timeline)) if whole else folded(timeline)
    for moment in fold.moments:
        # By identity: the line is one of the moments, and None where nothing was folded.
        if moment is fold.line:
            reader.fold(moment, fold.folded)
        else:
            reader.take(moment)
    # An answered command is one row, on the client's lane: its server may have no row of its own.
    servers = [row.command.server for row in reader.rows if row.command and row.command.server]
    lanes = dict.fromkeys(lane for row in reader.rows for lane in (row.marks or (row.lane,)))
    lanes |= dict.fromkeys(servers)
    busy = {row.lane for row in reader.rows if row.kind is not RowKind.MARK}.union(servers)

    def position(lane: Lane) -> tuple[int, bool | str]:
        return _SIDES.index(lane.side), lane.name if lane.side == "server" else lane in busy

    return Diagram(tuple(sorted(lanes, key=position)), tuple(reader.rows), frozenset(busy))


class _RowReader:
    """Makes a row of each moment, or adds it to the last row."""

    def __init__(self) -> None:
        self.rows: list[DiagramRow] = []
        self._by_request: dict[int | None, ReportedCommand] = {}
        self._latest: dict[tuple[Lane, str], ReportedCommand] = {}
        self._running = 0

    def fold(self, line: Moment, moments: Sequence[Moment]) -> None:
        """Make one row of several moments, which `line` stands for."""
        row = self._add(RowKind.MARK, _lane(line), "", line)
        row.moments = [*moments]
        row.marks = {row.lane: [line.text.partition(" of ")[0]]}

    def take(self, moment: Moment) -> None:
        """Read the next moment."""
        if moment.side == "test":
            self._operation(moment)
        elif moment.kind == _ASKED:
            self._ask(moment)
        elif moment.kind in _ANSWERED:
            self._reply(moment)
        elif moment.kind == _SERVED:
            self._served(moment)
        elif moment.kind == _HIT:
            self._hit(moment)
        else:
            is_bad = (
                "(error)" in moment.text if moment.kind == "connectionClosedEvent" else moment.kind in _BAD
            )
            self._mark(moment, _plain_name(moment.kind), bad=is_bad)

    def _operation(self, moment: Moment) -> None:
        begins = moment.kind == "operation"
        if begins and not self._running:
            self._latest.clear()  # what comes now is no retry of what came before
        self._running = max(0, self._running + (1 if begins else -1))
        failed = not begins and moment.text.startswith(f"{moment.about} failed")
        label = f"{moment.source}.{moment.text}" if begins else moment.text.removeprefix(f"{moment.about} ")
        self._add(
            RowKind.OPERATION if begins else RowKind.ENDED, Lane("test", "test"), label, moment, bad=failed
        )

    def _ask(self, moment: Moment) -> None:
        lane = _lane(moment)
        before = self._latest.pop((lane, moment.about), None)  # so that the newest stands last
        attempt = before.attempt + 1 if before is not None and before.failed else 1
        command = ReportedCommand(moment.about, lane, attempt)
        self._latest[lane, moment.about] = self._by_request[moment.link] = command
        self._add(RowKind.ASK, lane, moment.about, moment, command=command)

    def _served(self, moment: Moment) -> None:
        # A result of an earlier version has the outcome in its text.
        found = None if moment.outcome else _OUTCOME.search(moment.text)
        outcome = found.group(1) if found else moment.outcome
        bad = outcome not in ("ok", "")
        command = self._by_request.get(moment.link)
        if command is None or command.name != moment.about or command.server is not None:
            self._mark(moment, f"{moment.about} → {outcome}", bad=bad)
            return
        command.server, command.outcome = _lane(moment), outcome
        # A write error is the caller's, and no driver tries again for it: the next command is no second
        # attempt.
        command.failed |= bad and not outcome.startswith(_WRITE_ERROR)
        bad = bad or command.failed
        command.served = self._add(RowKind.SERVED, command.server, outcome, moment, bad=bad, command=command)

    def _reply(self, moment: Moment) -> None:
        command = self._by_request.get(moment.link)
        lane, failed = _lane(moment), moment.kind == _FAILED
        if command is None or command.client != lane:
            ended = "failed" if failed else "succeeded"
            bad = failed or moment.outcome not in ("ok", "")
            within = f" ({moment.outcome})" if bad and not failed else ""
            self._mark(moment, f"{moment.about} {ended}{within}", bad=bad)
            return
        outcome = command.outcome or moment.outcome or ("failed" if failed else "ok")
        command.failed |= failed or outcome.startswith(_CONCERN)
        label = "failed" if failed and outcome == "ok" else outcome
        row = DiagramRow(RowKind.REPLY, lane, label, [moment], failed or label != "ok", command)
        if command.served is not None and self.rows[-1] is command.served:
            # Nothing happened in between: one row holds both ends of the arrow.
            row.moments = [*self.rows.pop().moments, moment]
            command.served = row
        self.rows.append(row)

    def _hit(self, moment: Moment) -> None:
        # The newest command of this name without an answer is the one that was hit.
        for command in reversed(self._latest.values()):
            if command.name == moment.about and command.server is None:
                command.failed = True
                break
        label = moment.text.partition(" (connection")[0].replace(f" on {moment.about}", "", 1)
        self._add(RowKind.HIT, _lane(moment), label or moment.kind, moment, bad=True)

    def _mark(self, moment: Moment, label: str, *, bad: bool) -> None:
        lane, row = _lane(moment), self.rows[-1] if self.rows else None
        if row is None or row.kind is not RowKind.MARK or not _share(row, lane, moment, bad=bad):
            row = self._add(RowKind.MARK, lane, "", moment, bad=bad)
        else:
            row.moments.append(moment)
        row.marks.setdefault(lane, []).append(label)

    def _add(
        self,
        kind: RowKind,
        lane: Lane,
        label: str,
        moment: Moment,
        *,
        bad: bool = False,
        command: ReportedCommand | None = None,
    ) -> DiagramRow:
        row = DiagramRow(kind, lane, label, [moment], bad, command)
        self.rows.append(row)
        return row


def counted(labels: Iterable[str]) -> str:
    """Return labels as one, in which what repeats is counted: `2 x a · b`."""
    groups = [(name, len(tuple(group))) for name, group in groupby(labels)]
    return " · ".join(f"{count} x {name}" if count > 1 else name for name, count in groups)


def _share(row: DiagramRow, lane: Lane, moment: Moment, *, bad: bool) -> bool:
    """Return whether a moment may stand in a row of marks: on the same lane, or at the same instant."""
    if row.bad != bad or moment.at - row.moments[-1].at >= WORTH_A_BREAK:
        return False
    return row.marks.keys() == {lane} or (not bad and moment.at - row.moments[0].at < _ONE_INSTANT)


def _lane(moment: Moment) -> Lane:
    return Lane(moment.side, moment.source)


@cache
def _plain_name(kind: str) -> str:
    """Return `check out started` for `connectionCheckOutStartedEvent`: the lane shows the client."""
    words = _HUMP.sub(" ", kind.removesuffix("Event")).lower()
    return words.removeprefix("connection ") if "check" in words else words
