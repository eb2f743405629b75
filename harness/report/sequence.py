"""A timeline as the rows of a sequence diagram: which moments share one, and which belong to one command."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.result import Moment

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


class Lane(NamedTuple):
    """A vertical line of the diagram: the test, a client or a server."""

    side: str
    name: str


class Kind(StrEnum):
    """What a row shows."""

    OPERATION = "operation"
    ENDED = "ended"
    ASK = "ask"
    SERVED = "served"
    REPLY = "reply"
    HIT = "hit"
    MARK = "mark"


@dataclass(slots=True, eq=False)
class Command:
    """A command that a client told of. `attempt` counts from 1 within one operation.

    `server` and `outcome` are what the server's journal says of it, None and "" where it says nothing.
    """

    name: str
    client: Lane
    attempt: int = 1
    server: Lane | None = None
    outcome: str = ""
    failed: bool = False
    served: Step | None = None


@dataclass(slots=True, eq=False)
class Step:
    """One row: what happened in one or several moments; `label` is the short form of it.

    A row of marks may have some on several lanes, at about one instant: `marks` has the labels of each.
    """

    kind: Kind
    lane: Lane
    label: str
    moments: list[Moment]
    bad: bool = False
    command: Command | None = None
    marks: dict[Lane, list[str]] = field(default_factory=dict)


class Diagram(NamedTuple):
    """The lanes from left to right, the rows from top to bottom, and the lanes with more than marks."""

    lanes: tuple[Lane, ...]
    steps: tuple[Step, ...]
    busy: frozenset[Lane]


def read(timeline: Iterable[Moment]) -> Diagram:
    """Return the diagram of a timeline, which is in order.

    Clients that send nothing stand beside the test, out of the way of arrows.
    """
    reader = _Reader()
    for moment in timeline:
        reader.take(moment)
    lanes = dict.fromkeys(lane for step in reader.steps for lane in (step.marks or (step.lane,)))
    busy = {step.lane for step in reader.steps if step.kind is not Kind.MARK}
    busy |= {step.command.server for step in reader.steps if step.command and step.command.server}

    def place(lane: Lane) -> tuple[int, bool | str]:
        return _SIDES.index(lane.side), lane.name if lane.side == "server" else lane in busy

    return Diagram(tuple(sorted(lanes, key=place)), tuple(reader.steps), frozenset(busy))


class _Reader:
    """Makes a row of each moment, or adds it to the last row."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._by_request: dict[int | None, Command] = {}
        self._latest: dict[tuple[Lane, str], Command] = {}
        self._running = 0

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
            self._mark(moment, _plain_name(moment.kind), bad=_is_bad(moment))

    def _operation(self, moment: Moment) -> None:
        begins = moment.kind == "operation"
        if begins and not self._running:
            self._latest.clear()  # what comes now is no retry of what came before
        self._running = max(0, self._running + (1 if begins else -1))
        failed = not begins and moment.text.startswith(f"{moment.about} failed")
        label = f"{moment.source}.{moment.text}" if begins else moment.text.removeprefix(f"{moment.about} ")
        self._add(Kind.OPERATION if begins else Kind.ENDED, Lane("test", "test"), label, moment, bad=failed)

    def _ask(self, moment: Moment) -> None:
        lane = _lane(moment)
        before = self._latest.pop((lane, moment.about), None)  # so that the newest stands last
        attempt = before.attempt + 1 if before is not None and before.failed else 1
        command = Command(moment.about, lane, attempt)
        self._latest[lane, moment.about] = self._by_request[moment.link] = command
        self._add(Kind.ASK, lane, moment.about, moment, command=command)

    def _served(self, moment: Moment) -> None:
        found = _OUTCOME.search(moment.text)
        outcome = found.group(1) if found else ""
        bad = outcome not in ("ok", "")
        command = self._by_request.get(moment.link)
        if command is None or command.name != moment.about or command.server is not None:
            self._mark(moment, f"{moment.about} → {outcome}", bad=bad)
            return
        command.server, command.outcome = _lane(moment), outcome
        command.failed |= bad
        command.served = self._add(
            Kind.SERVED, command.server, outcome, moment, bad=command.failed, command=command
        )

    def _reply(self, moment: Moment) -> None:
        command = self._by_request.get(moment.link)
        lane, failed = _lane(moment), moment.kind == _FAILED
        if command is None or command.client != lane:
            self._mark(moment, f"{moment.about} {'failed' if failed else 'succeeded'}", bad=failed)
            return
        command.failed |= failed
        said = command.outcome or ("failed" if failed else "ok")
        label = "failed" if failed and said == "ok" else said
        step = Step(Kind.REPLY, lane, label, [moment], failed or label != "ok", command)
        if command.served is not None and self.steps[-1] is command.served:
            # Nothing happened in between: one row holds both ends of the arrow.
            step.moments = [*self.steps.pop().moments, moment]
            command.served = step
        self.steps.append(step)

    def _hit(self, moment: Moment) -> None:
        command = next((each for each in reversed(self._latest.values()) if _waits(each, moment.about)), None)
        if command is not None:
            command.failed = True
        label = moment.text.partition(" (connection")[0].replace(f" on {moment.about}", "", 1)
        self._add(Kind.HIT, _lane(moment), label or moment.kind, moment, bad=True)

    def _mark(self, moment: Moment, label: str, *, bad: bool) -> None:
        lane, row = _lane(moment), self.steps[-1] if self.steps else None
        if row is None or row.kind is not Kind.MARK or not _share(row, lane, moment, bad=bad):
            row = self._add(Kind.MARK, lane, "", moment, bad=bad)
        else:
            row.moments.append(moment)
        row.marks.setdefault(lane, []).append(label)

    def _add(
        self,
        kind: Kind,
        lane: Lane,
        label: str,
        moment: Moment,
        *,
        bad: bool = False,
        command: Command | None = None,
    ) -> Step:
        step = Step(kind, lane, label, [moment], bad, command)
        self.steps.append(step)
        return step


def counted(labels: Iterable[str]) -> str:
    """Return labels as one, in which what repeats is counted: `2 x a · b`."""
    groups = [(name, len(tuple(group))) for name, group in groupby(labels)]
    return " · ".join(f"{count} x {name}" if count > 1 else name for name, count in groups)


def _share(row: Step, lane: Lane, moment: Moment, *, bad: bool) -> bool:
    """Return whether a moment may stand in a row of marks: on the same lane, or at the same instant."""
    if row.bad != bad or moment.at - row.moments[-1].at >= WORTH_A_BREAK:
        return False
    return row.marks.keys() == {lane} or (not bad and moment.at - row.moments[0].at < _ONE_INSTANT)


def _lane(moment: Moment) -> Lane:
    return Lane(moment.side, moment.source)


def _waits(command: Command, name: str) -> bool:
    return command.name == name and command.server is None


def _is_bad(moment: Moment) -> bool:
    if moment.kind == "connectionClosedEvent":
        return "(error)" in moment.text
    return moment.kind in _BAD


@cache
def _plain_name(kind: str) -> str:
    """Return `check out started` for `connectionCheckOutStartedEvent`: the lane says whose it is."""
    words = _HUMP.sub(" ", kind.removesuffix("Event")).lower()
    return words.removeprefix("connection ") if "check" in words else words
