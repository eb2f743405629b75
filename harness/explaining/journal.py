"""The timeline of a case, merged from clients and servers: JSON Lines on disk, two columns in a report.

Two readers want different things of it. Programs get every event with all its fields, one JSON object a line
(`to_json_lines`, `conform --journal`); in virtual time two runs of a case give the same bytes. People get
`Moment`s: a text for each event, without the noise of monitors, logs and spans. `merge` is the part that
decides the order, and has its own head below.

Instants are seconds since the case began. `seq` orders what shares an instant, within one side only.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, deque
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from bson import json_util

from fakeserver.deployment.records.events import (
    CommandFinished,
    ConnectionAccepted,
    ConnectionClosed,
    FailPointHit,
    FaultHit,
    MessageReceived,
    MessageSent,
    PrimaryElected,
    PrimarySteppedDown,
    RuleHit,
    to_document,
)
from harness.adapters.base import LOG_MESSAGE, SPAN
from harness.adapters.lines import REQUEST
from harness.explaining.text import FOLDED, RELAXED, as_document, describe, folded, outcome_of, shortened
from harness.planning.result import Moment
from harness.unified.model import ExpectedEvent, Operation
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from fakeserver.deployment.records.journal import Record
    from harness.adapters.base import Event
    from harness.adapters.lines import DialogueLine
    from harness.planning.plan import Item
    from harness.unified.account import PerformedOperation


_EXPLAINING: Final = (
    *(ConnectionAccepted, ConnectionClosed, CommandFinished, FailPointHit, RuleHit, FaultHit),
    *(PrimaryElected, PrimarySteppedDown, MessageReceived, MessageSent),
)
"""The events of servers that a timeline shows: what clients can have noticed."""
_COLUMN: Final = 72
_TWO_COLUMNS_FROM: Final = 100
_TIME: Final = 13
"""What the time of an event takes of a line."""
# File systems take 255 bytes; digest, deployment, driver and seed follow the readable part.
_NAME_MAX: Final = 120
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAMES: Final = ("commandName", "command", "name")
_WIRE: Final = frozenset({"messageReceived", "messageSent"})
_SUCCEEDED: Final = "commandSucceededEvent"
_FAILED: Final = "commandFailedEvent"
_HELLO: Final = frozenset({"hello", "ismaster", "isMaster"})


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One event of either side; `at` is in seconds since the case began, `seq` counts those of a side.

    `arrived` is when the request came that a server's event ends, None for all other events.
    """

    at: float
    seq: int
    side: str
    source: str
    kind: str
    fields: Mapping[str, Any]
    arrived: float | None = None

    @property
    def began(self) -> float:
        """The instant at which what the event is about began."""
        return self.at if self.arrived is None else self.arrived

    @property
    def command(self) -> str:
        """The name of the command, for an event about one."""
        return str(self.fields.get("commandName") or self.fields.get("name") or "")

    @property
    def is_reply(self) -> bool:
        """Whether a client tells of a reply, and not of a connection that broke or of a limit of time."""
        return self.kind == _SUCCEEDED or (
            self.kind == _FAILED and "ok" in as_document(self.fields.get("failure"))
        )

    @property
    def link(self) -> int | None:
        """The request id of the command, for an event about one."""
        request = self.fields.get("requestId", self.fields.get("request_id"))
        return request if isinstance(request, int) else None

    @property
    def connection(self) -> int | None:
        """The server's number of the connection that a server's event is about."""
        return self.fields.get("connection") if self.side == "server" else None

    def to_json(self) -> str:
        """Return the event as one JSON object."""
        facts = {"at": self.at, "source": self.source, "kind": self.kind}
        fields = json.loads(json.dumps(dict(self.fields), default=_stand_in))
        return json.dumps({**facts, **fields}, separators=(",", ":"))

    def to_moment(self) -> Moment:
        """Return the event for readers, its text in full."""
        names = (self.fields.get(key) for key in _NAMES)
        about = next((name for name in names if isinstance(name, str)), "")
        text, outcome = describe(self.kind, self.fields), outcome_of(self.kind, self.fields)
        return Moment(self.at, self.side, self.source, self.kind, about, self.link, text, outcome)


def moment_of_line(line: DialogueLine, origin: float) -> Moment:
    """Return a line to or from an adapter for readers; its instant is in seconds since `origin`."""
    kind = "request" if line.arrow == REQUEST else "answer"
    return Moment(line.at - origin, "client", "adapter", kind, "", None, f"{line.arrow} {line.text}")


@dataclass(frozen=True, slots=True)
class CaseTimeline:
    """All events of a case, oldest first; at one instant those of servers come before those of clients."""

    events: tuple[TimelineEvent, ...]

    @classmethod
    def of(
        cls,
        records: Iterable[Record],
        events: Mapping[str, Sequence[Event]],
        steps: Iterable[PerformedOperation] = (),
        *,
        origin: float,
    ) -> CaseTimeline:
        """Merge the servers' records, the events of each client, and the operations of the case.

        Instants are counted from `origin`.
        """
        server_side = tuple(_of_servers(records, origin))
        client_side = [event for step in steps for event in _of_step(step, origin)]
        for client, observed in events.items():
            client_side += _of_client(client, observed, server_side, origin)
        client_side.sort(key=_in_order)
        return cls(tuple(merge(client_side, server_side)))

    def to_json_lines(self) -> str:
        """Return one JSON object a line; the same events give the same bytes."""
        return "".join(f"{event.to_json()}\n" for event in self.events)

    def moments(self, *, began: float, ended: float) -> tuple[Moment, ...]:
        """Return the part of the timeline that a reader wants, between two instants in seconds.

        Left out are hellos of monitors that succeed, and logs and spans, which repeat events.
        """
        return tuple(
            event.to_moment() for event in self.events if began <= event.at <= ended and not _is_noise(event)
        )

    def write(self, folder: Path, item: Item) -> Path:
        """Write the journal of an item to its own file in `folder`, and return its path. Raises `OSError`."""
        path = folder / file_name(item)
        write_whole(path, self.to_json_lines())
        return path


def fits_two_columns(width: int | None) -> bool:
    """Return whether a terminal has room for events of clients beside those of servers."""
    return width is None or width >= _TWO_COLUMNS_FROM


def two_columns(moments: Sequence[Moment], *, whole: bool = False, width: int | None = None) -> Iterator[str]:
    """Yield lines for a reader: events of clients on the left, of servers on the right.

    Texts are cut to the width of their column, and what comes before the first operation is folded, unless
    they are wanted `whole`. With a `width` the lines are as wide as that; one below 100 has room for one
    column, where a letter tells whose event it is: C of a client, S of a server.
    """
    if not fits_two_columns(width):
        yield from _one_column(moments, whole=whole, room=(width or 0) - _TIME - 2)
        return
    column = _COLUMN if width is None else (width - _TIME) // 2
    for moment in moments if whole else folded(moments).moments:
        text = "  ".join(filter(None, (moment.source, moment.kind, moment.text)))
        before, room = "", column - 2
        if moment.side == "test":
            text, room = f"── {moment.source}  {moment.text}", 2 * column
        elif moment.kind == FOLDED:
            text, room = moment.text, 2 * column
        elif moment.kind in _WIRE:
            room = len(text)
        elif moment.side == "server":
            before, room = " " * column, 2 * column if width is None else column
        yield f"{moment.at:11.6f}  {before}{text if whole else shortened(text, room)}"


def _one_column(moments: Sequence[Moment], *, whole: bool, room: int) -> Iterator[str]:
    for moment in moments if whole else folded(moments).moments:
        text = "  ".join(filter(None, (moment.source, moment.kind, moment.text)))
        if moment.side == "test":
            text = f"── {moment.source}  {moment.text}"
        elif moment.kind == FOLDED:
            text = moment.text
        mark = {"client": "C", "server": "S"}.get(moment.side, " ")
        cut = text if whole or moment.kind in _WIRE else shortened(text, room)
        yield f"{moment.at:11.6f}  {mark} {cut}"


def file_name(item: Item) -> str:
    """Return a name that any file system takes and that no other item has."""
    readable = _UNFIT.sub("-", item.id).strip("-")[:_NAME_MAX]
    # Two ids may differ only in characters that become a hyphen, or behind the cut.
    unique = hashlib.sha256(item.id.encode()).hexdigest()[:8]
    seed = "" if item.seed is None else f".seed{item.seed}"
    return f"{readable}.{unique}.{item.topology}.{item.adapter}{seed}.jsonl"


def _in_order(event: TimelineEvent) -> tuple[float, int]:
    return event.at, event.seq


def _of_client(
    client: str, observed: Iterable[Event], server_side: Sequence[TimelineEvent], origin: float
) -> Iterator[TimelineEvent]:
    """Yield an event for each that a client observed, at an instant that agrees with the servers' events."""
    said = sorted(
        (
            TimelineEvent(since(event.at, origin), event.seq, "client", client, event.kind, event.fields)
            for event in observed
        ),
        key=_in_order,
    )
    for event, at in zip(said, instants(said, server_side), strict=True):
        yield event if event.at == at else replace(event, at=at)


def _of_servers(records: Iterable[Record], origin: float) -> Iterator[TimelineEvent]:
    """Yield an event for each record, in the journal's order.

    The end of a request is dated when the request came, so that instants may go back; here they do not.
    """
    at = 0.0
    for record in records:
        if not isinstance(record.event, _EXPLAINING):
            continue
        arrived = since(record.at, origin)
        at = max(at, arrived)
        fields = to_document(record.event)
        kind = fields.pop("kind")
        ends = arrived if isinstance(record.event, CommandFinished) else None
        yield TimelineEvent(at, record.seq, "server", record.source, kind, fields, ends)


def _of_step(step: PerformedOperation, origin: float) -> Iterator[TimelineEvent]:
    operation = step.operation
    began, ended = since(step.began, origin), step.ended
    readable: dict[str, Any] = {}
    for name, value in operation.arguments.items():
        if isinstance(value, ExpectedEvent):
            readable[name] = {value.kind: dict(value.body)}
        elif isinstance(value, Operation):
            readable[name] = value.name
        elif not isinstance(value, tuple):
            readable[name] = value
    call = {"name": operation.name, "arguments": readable}
    yield TimelineEvent(began, step.began_seq, "test", operation.object, "operation", call)
    if ended is None:
        return
    answer: dict[str, Any] = {"name": operation.name}
    if step.error is not None:
        report = step.error.report
        answer |= {"failed": report.message, "labels": sorted(report.labels)}
    elif isinstance(step.result, (dict, list, int, str)):
        answer["returned"] = step.result
    at = since(ended, origin)
    yield TimelineEvent(at, step.ended_seq, "test", operation.object, "operationEnded", answer)


def since(at: float, origin: float) -> float:
    """Return an instant in seconds since another, without the noise of the last bits."""
    return round(at - origin, 9)


def _is_noise(event: TimelineEvent) -> bool:
    if event.side == "server":
        return event.fields.get("name") in _HELLO and event.fields.get("outcome") == "ok"
    return event.kind in (LOG_MESSAGE, SPAN)


def _stand_in(value: object) -> Any:
    """Return a substitute for a value that JSON cannot hold: its `repr` may contain an address in memory."""
    try:
        return json_util.default(value, RELAXED)
    except TypeError:
        return {"type": type(value).__name__}


# Two logs of one case, put into one order: by the clock, and at one instant by what caused what.
#
# In virtual time many things happen at one instant. A command then comes before what the server did with it,
# and that before its reply; a request id ties the three together.
#
# The times of a driver in another process are right up to the precision of a measured clock, or are those at
# which the runner heard of an event, which is later. Where they contradict what caused what, the cause
# counts: a command was sent before it came to the server, and answered after the server was done with it.


class Mergeable(Protocol):
    """An entry of a log that can be merged."""

    @property
    def at(self) -> float:
        """The instant."""
        ...

    @property
    def began(self) -> float:
        """The instant at which what the event is about began: for a server's request, when it came."""
        ...

    @property
    def kind(self) -> str:
        """The name of the event."""
        ...

    @property
    def link(self) -> int | None:
        """The request id of a command, if the event is about one."""
        ...

    @property
    def command(self) -> str:
        """The name of a command, if the event is about one."""
        ...

    @property
    def is_reply(self) -> bool:
        """Whether it is a client's event about a reply that a server sent."""
        ...

    @property
    def connection(self) -> int | None:
        """The server's number of the connection, if it is a server's event about one."""
        ...


E = TypeVar("E", bound=Mergeable)

_ASKED: Final = "commandStartedEvent"
_ANSWERED: Final = frozenset({"commandSucceededEvent", "commandFailedEvent"})
_SERVED: Final = "commandFinished"
_HIT: Final = "failPointHit"


class _Service(NamedTuple):
    """What a server did with a request: the instants of its arrival and of its end."""

    arrived: float
    ended: float


def instants(client_side: Sequence[E], server_side: Iterable[E]) -> list[float]:
    """Return the instants of one client's events, which are in order, corrected by what caused what.

    An event that is put earlier takes those before it along, and one that is put later those after it.
    """
    services = _services(server_side)
    found = [entry.at for entry in client_side]
    bound = inf
    for index in range(len(found) - 1, -1, -1):
        entry = client_side[index]
        service = services.get((entry.link, entry.command))
        if service is not None and entry.kind == _ASKED:
            bound = min(bound, service.arrived)
        found[index] = min(found[index], bound)
    bound = -inf
    for index, entry in enumerate(client_side):
        service = services.get((entry.link, entry.command))
        if service is not None and entry.is_reply:
            bound = max(bound, service.ended)
        found[index] = max(found[index], bound)
    return found


def _services(server_side: Iterable[E]) -> dict[tuple[int | None, str], _Service]:
    """Return the services by request id and command, but for those that two clients' requests share."""
    arrived: dict[int | None, float] = {}
    found: dict[tuple[int | None, str], list[_Service]] = {}
    for entry in server_side:
        if entry.kind == _SERVED:
            began = min(arrived.pop(entry.connection, inf), entry.began)
            found.setdefault((entry.link, entry.command), []).append(_Service(began, entry.at))
        elif entry.kind == _HIT:
            arrived.setdefault(entry.connection, entry.at)
    return {request: services[0] for request, services in found.items() if len(services) == 1}


def merge(client_side: Iterable[E], server_side: Iterable[E]) -> Iterator[E]:
    """Yield the entries of both logs, each of which is in order."""
    both = [(entry.at, 0, entry) for entry in server_side] + [(entry.at, 1, entry) for entry in client_side]
    both.sort(key=lambda one: one[0])
    for _, group in groupby(both, key=lambda one: one[0]):
        instant = list(group)
        # Each side keeps its own order. Only which side goes on is open, and a server's event waits if the
        # command that it belongs to is still to come from the client.
        said = deque(entry for _, is_client, entry in instant if is_client)
        done = deque(entry for _, is_client, entry in instant if not is_client)
        asks: Counter[int | None] = Counter(entry.link for entry in said if entry.kind == _ASKED)
        served: Counter[int | None] = Counter(entry.link for entry in done if entry.kind == _SERVED)
        while said and done:
            request = _request_of(done)
            waits_for_question = request is not None and asks[request] > 0
            # The client's next entry is a reply whose service is still to come: the server goes on first.
            waits_for_service = said[0].kind in _ANSWERED and served[said[0].link] > 0
            if waits_for_question and not waits_for_service:
                entry = said.popleft()
                asks[entry.link] -= entry.kind == _ASKED
            else:
                entry = done.popleft()
                served[entry.link] -= entry.kind == _SERVED
            yield entry
        yield from done
        yield from said


def _request_of(done: deque[E]) -> int | None:
    """Return the request that a server's next event belongs to: what happens on its way comes first."""
    connection = done[0].connection
    if connection is None:
        return None
    served = (entry.link for entry in done if entry.kind == _SERVED and entry.connection == connection)
    return next(served, None)
