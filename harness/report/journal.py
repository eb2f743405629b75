"""What both sides saw of one case, merged into one timeline: JSON Lines on disk, two columns in a report."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bson import json_util

from fakeserver.events import to_document
from harness.report.text import RELAXED, one_line, shortened, without_gossip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from fakeserver.journal import Record
    from harness.adapters.base import Event
    from harness.plan import Item

_COLUMN = 72
_NAME_MAX = 120
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Line:
    """One event of either side; `at` is in seconds since the case began."""

    at: float
    source: str
    kind: str
    fields: Mapping[str, Any]
    is_client: bool

    def to_json(self) -> str:
        """Return the line as one JSON object."""
        facts = {"at": self.at, "source": self.source, "kind": self.kind}
        return json.dumps({**facts, **_plain(self.fields)}, separators=(",", ":"))

    def to_text(self) -> str:
        """Return the line for a reader: what a client saw on the left, what a server saw on the right."""
        said = f"{self.source}  {self.kind}  {one_line(without_gossip(dict(self.fields)))}"
        side = "" if self.is_client else " " * _COLUMN
        return f"{self.at:11.6f}  {side}{shortened(said, _COLUMN - 2 if self.is_client else 2 * _COLUMN)}"


@dataclass(frozen=True, slots=True)
class Timeline:
    """All events of a case, oldest first; at one instant those of servers come first."""

    lines: tuple[Line, ...]

    @classmethod
    def of(
        cls, records: Iterable[Record], events: Mapping[str, Sequence[Event]], *, origin: float
    ) -> Timeline:
        """Merge a server's records and what each client observed; instants are counted from `origin`."""
        lines = [_of_server(record, origin) for record in records]
        lines += [_of_client(client, event, origin) for client, seen in events.items() for event in seen]
        return cls(tuple(sorted(lines, key=lambda line: (line.at, line.is_client))))

    def to_json_lines(self) -> str:
        """Return one JSON object a line; the same events give the same bytes."""
        return "".join(f"{line.to_json()}\n" for line in self.lines)

    def tail(self, count: int) -> tuple[str, ...]:
        """Return the last lines, for a reader."""
        return tuple(line.to_text() for line in self.lines[-count:])

    def write(self, folder: Path, item: Item) -> Path:
        """Write the journal of an item to a file of its own in `folder`, and return its path."""
        path = folder / file_name(item)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.to_json_lines(), encoding="utf-8", newline="\n")
        return path


def file_name(item: Item) -> str:
    """Return a name that any file system takes and that no other item has."""
    readable = _UNFIT.sub("-", item.id).strip("-")[:_NAME_MAX]
    unique = hashlib.sha256(item.id.encode()).hexdigest()[:8]
    return f"{readable}.{unique}.{item.topology}.{item.adapter}.jsonl"


def _of_server(record: Record, origin: float) -> Line:
    fields = to_document(record.event)
    kind = fields.pop("kind")
    return Line(_since(record.at, origin), record.source, kind, fields, is_client=False)


def _of_client(client: str, event: Event, origin: float) -> Line:
    return Line(_since(event.at, origin), client, event.kind, event.fields, is_client=True)


def _since(at: float, origin: float) -> float:
    return round(at - origin, 9)


def _plain(fields: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(dict(fields), default=_stand_in))


def _stand_in(value: object) -> Any:
    """Return what stands for a value that JSON cannot hold: its own text may hold an address in memory."""
    try:
        return json_util.default(value, RELAXED)
    except TypeError:
        return {"type": type(value).__name__}
