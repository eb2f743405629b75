"""What both sides did in one case, merged into one timeline: JSON Lines on disk, two columns in a report."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bson import json_util

from fakeserver.events import to_document
from harness.adapters.base import LOG_MESSAGE, SPAN
from harness.report.merge import merge
from harness.report.text import RELAXED, shortened, told
from harness.result import Moment
from harness.unified.model import ExpectedEvent, Operation
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from fakeserver.journal import Record
    from harness.adapters.base import Event
    from harness.plan import Item
    from harness.unified.account import Step

_COLUMN: Final = 72
_NAME_MAX: Final = 120
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAMES: Final = ("commandName", "command", "name")
_WIRE: Final = frozenset({"messageReceived", "messageSent"})
_SMALL_TALK: Final = frozenset({"hello", "ismaster", "isMaster"})


@dataclass(frozen=True, slots=True)
class Line:
    """One event of either side; `at` is in seconds since the case began, `seq` its place among its side's."""

    at: float
    seq: int
    side: str
    source: str
    kind: str
    fields: Mapping[str, Any]

    @property
    def link(self) -> int | None:
        """The request id of the command that it is about."""
        request = self.fields.get("requestId", self.fields.get("request_id"))
        return request if isinstance(request, int) else None

    @property
    def connection(self) -> int | None:
        """The server's number of the connection that a server's event is about."""
        return self.fields.get("connection") if self.side == "server" else None

    def to_json(self) -> str:
        """Return the line as one JSON object."""
        facts = {"at": self.at, "source": self.source, "kind": self.kind}
        return json.dumps({**facts, **_plain(self.fields)}, separators=(",", ":"))

    def to_moment(self) -> Moment:
        """Return the line for readers, without what is too long to read."""
        names = (self.fields.get(key) for key in _NAMES)
        about = next((name for name in names if isinstance(name, str)), "")
        said = told(self.kind, self.fields)
        text = said if self.kind in _WIRE else shortened(said)
        return Moment(self.at, self.side, self.source, self.kind, about, self.link, text)


@dataclass(frozen=True, slots=True)
class Timeline:
    """All events of a case, oldest first; at one instant those of servers come before those of clients."""

    lines: tuple[Line, ...]

    @classmethod
    def of(
        cls,
        records: Iterable[Record],
        events: Mapping[str, Sequence[Event]],
        steps: Iterable[Step] = (),
        *,
        origin: float,
    ) -> Timeline:
        """Merge a server's records, what each client said, and the operations of the case.

        Instants are counted from `origin`.
        """
        served = list(_of_servers(records, origin))
        said = [_of_client(client, event, origin) for client, seen in events.items() for event in seen]
        said += [line for step in steps for line in _of_step(step, origin)]
        said.sort(key=lambda line: (line.at, line.seq))
        return cls(tuple(merge(said, served)))

    def to_json_lines(self) -> str:
        """Return one JSON object a line; the same events give the same bytes."""
        return "".join(f"{line.to_json()}\n" for line in self.lines)

    def moments(self, *, began: float, ended: float) -> tuple[Moment, ...]:
        """Return the part of the timeline that a reader wants, between two instants in seconds.

        Small talk is left out: monitors that are answered, logs and spans that tell of an event again.
        """
        return tuple(
            line.to_moment() for line in self.lines if began <= line.at <= ended and not _is_small_talk(line)
        )

    def write(self, folder: Path, item: Item) -> Path:
        """Write the journal of an item to its own file in `folder`, and return its path. Raises `OSError`."""
        path = folder / file_name(item)
        write_whole(path, self.to_json_lines())
        return path


def two_columns(moments: Sequence[Moment]) -> Iterator[str]:
    """Yield lines for a reader: what clients saw on the left, what servers did on the right."""
    for moment in moments:
        at = f"{moment.at:11.6f}"
        if moment.side == "test":
            yield f"{at}  {shortened(f'── {moment.source}  {moment.text}', 2 * _COLUMN)}"
            continue
        said = "  ".join(filter(None, (moment.source, moment.kind, moment.text)))
        if moment.kind in _WIRE:
            yield f"{at}  {said}"
        elif moment.side == "server":
            yield f"{at}  {' ' * _COLUMN}{shortened(said, 2 * _COLUMN)}"
        else:
            yield f"{at}  {shortened(said, _COLUMN - 2)}"


def file_name(item: Item) -> str:
    """Return a name that any file system takes and that no other item has."""
    readable = _UNFIT.sub("-", item.id).strip("-")[:_NAME_MAX]
    unique = hashlib.sha256(item.id.encode()).hexdigest()[:8]
    seed = "" if item.seed is None else f".seed{item.seed}"
    return f"{readable}.{unique}.{item.topology}.{item.adapter}{seed}.jsonl"


def _of_servers(records: Iterable[Record], origin: float) -> Iterator[Line]:
    """Yield a line a record, in the journal's order: a request's end is dated when the request came."""
    at = 0.0
    for record in records:
        at = max(at, since(record.at, origin))
        fields = to_document(record.event)
        kind = fields.pop("kind")
        yield Line(at, record.seq, "server", record.source, kind, fields)


def _of_client(client: str, event: Event, origin: float) -> Line:
    return Line(since(event.at, origin), event.seq, "client", client, event.kind, event.fields)


def _of_step(step: Step, origin: float) -> Iterator[Line]:
    operation = step.operation
    asked = {"name": operation.name, "arguments": _readable(operation.arguments)}
    yield Line(since(step.began, origin), step.began_seq, "test", operation.object, "operation", asked)
    if step.ended is None:
        return
    answer: dict[str, Any] = {"name": operation.name}
    if step.error is not None:
        report = step.error.report
        answer |= {"failed": report.message, "labels": sorted(report.labels)}
    elif isinstance(step.result, (dict, list, int, str)):
        answer["returned"] = step.result
    yield Line(since(step.ended, origin), step.ended_seq, "test", operation.object, "operationEnded", answer)


def _readable(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return an operation's arguments as the file has them, without the operations and entities in them."""
    told: dict[str, Any] = {}
    for name, value in arguments.items():
        if isinstance(value, ExpectedEvent):
            told[name] = {value.kind: dict(value.body)}
        elif isinstance(value, Operation):
            told[name] = value.name
        elif not isinstance(value, tuple):
            told[name] = value
    return told


def since(at: float, origin: float) -> float:
    """Return an instant in seconds since another, without the noise of the last bits."""
    return round(at - origin, 9)


def _is_small_talk(line: Line) -> bool:
    if line.side == "server":
        return line.fields.get("name") in _SMALL_TALK and line.fields.get("outcome") == "ok"
    return line.kind in (LOG_MESSAGE, SPAN)


def _plain(fields: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(dict(fields), default=_stand_in))


def _stand_in(value: object) -> Any:
    """Return what stands for a value that JSON cannot hold: its own text may hold an address in memory."""
    try:
        return json_util.default(value, RELAXED)
    except TypeError:
        return {"type": type(value).__name__}
