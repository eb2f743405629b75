"""Expectations of a recorded scenario: documents in the customary form of the public scenarios.

Values that vary between runs become operators (Unified Test Format: Special Operators for Matching
Assertions).

The aim is what an author would have written by hand: fields that every message has are left out, names stand
as aliases of their anchors, and fields come in the order of the public files. The result must not be so
strict that another run fails: a value of a kind that drivers or servers generate is never expected as it is,
even where all runs happened to agree, unless the author wrote the same value himself (`WrittenValues`).
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bson import Binary, ObjectId, Timestamp, json_util

from harness.adapters.base import ErrorReport
from harness.authoring.recording.text import Alias
from harness.unified.matching.matcher import type_name
from harness.unified.observation import KINDS
from harness.unified.schema.events import COMMAND_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.adapters.base import Event
    from harness.authoring.recording.observation import RunObservation


_INTEGERS: Final = ("int", "long")
_MADE_UP: Final = (ObjectId, Timestamp, dt.datetime, Binary, uuid.UUID)
"""Types of values that drivers and servers make up themselves, also when two runs make up the same."""


class WrittenValues:
    """The values that stand in a scenario, which an expectation may repeat."""

    def __init__(self, *documents: Any) -> None:
        self._known = {_key(value) for value in _leaves(documents)}

    def __contains__(self, value: object) -> bool:
        return _key(value) in self._known


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for member in value.values():
            yield from _leaves(member)
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from _leaves(element)
    elif isinstance(value, _MADE_UP):
        yield value


def _key(value: object) -> str:
    return json_util.dumps(value, json_options=json_util.CANONICAL_JSON_OPTIONS)


def common(values: Sequence[Any], written: WrittenValues, *, root: bool = False) -> Any:
    """Return what all values match, as closely as operators can say it; there is at least one value.

    Of root documents, which may have more fields than are expected, those that only some have are left out.
    """
    first = values[0]
    if all(isinstance(value, dict) for value in values):
        return _of_documents(values, written, root=root)
    if all(isinstance(value, list) and len(value) == len(first) for value in values):
        return [common(elements, written) for elements in zip(*values, strict=True)]
    repeatable = not isinstance(first, _MADE_UP) or first in written
    if repeatable and all(_same(value, first) for value in values):
        return first
    names = dict.fromkeys(type_name(value) for value in values)
    if not names.keys().isdisjoint(
        _INTEGERS
    ):  # how wide an integer is depends on its value and on the driver
        names |= dict.fromkeys(_INTEGERS)
    return {"$$type": next(iter(names)) if len(names) == 1 else list(names)}


def _of_documents(values: Sequence[dict[str, Any]], written: WrittenValues, *, root: bool) -> dict[str, Any]:
    expected: dict[str, Any] = {}
    for name in dict.fromkeys(name for value in values for name in value):
        seen = [value[name] for value in values if name in value]
        if len(seen) == len(values):
            expected[name] = common(seen, written)
        elif not root:
            expected[name] = {"$$unsetOrMatches": common(seen, written)}
    return expected


def _same(value: Any, other: Any) -> bool:
    """Numbers compare by value, as in assertions."""
    both_numbers = all(type_name(each) in (*_INTEGERS, "double") for each in (value, other))
    return (both_numbers or type_name(value) == type_name(other)) and bool(value == other)


_GOSSIP: Final = frozenset(
    {
        *("$db", "$clusterTime", "operationTime", "topologyVersion", "electionId", "opTime"),
        *("$configServerState", "$topologyTime", "lastCommittedOpTime"),
    }
)
"""Fields that every server or driver adds to commands and replies; the database has a field of its own."""

_LAST: Final = (
    *(
        "readConcern",
        "writeConcern",
        "$readPreference",
        "lsid",
        "txnNumber",
        "startTransaction",
        "autocommit",
    ),
    "recoveryToken",
)
"""What stands at the end of a command: it says how, and no more what."""

_INTEGER: Final = {"$$type": ["int", "long"]}
_PRESENT: Final = {"$$exists": True}

_DETAILS: Final[Mapping[str, Mapping[str, int]]] = {
    "connectionClosedEvent": {"reason": 0},
    "connectionCheckOutFailedEvent": {"reason": 0},
    "serverDescriptionChangedEvent": {"previousDescription": 0, "newDescription": 0},
    "topologyDescriptionChangedEvent": {"previousDescription": 20, "newDescription": 20},
    "serverHeartbeatStartedEvent": {"awaited": 0},
    "serverHeartbeatSucceededEvent": {"awaited": 0},
    "serverHeartbeatFailedEvent": {"awaited": 0},
}
"""What is expected of other events than those of commands, and since which minor version it can be."""

_OPTIONAL: Final = ("insertedId", "insertedIds", "upsertedIds")
"""What drivers need not put into a result. CRUD: Write Results."""


@dataclass(frozen=True, slots=True)
class Names:
    """The anchors under which a file has its names: of clients, databases, collections and sessions."""

    clients: Mapping[str, str]
    databases: Mapping[str, str]
    collections: Mapping[str, str]
    sessions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Expecting:
    """Turns observations of one case into expectations; `note` gets a sentence on what cannot be expected."""

    written: WrittenValues
    names: Names
    minor: int
    note: Callable[[str], None]

    def events(self, seen: Sequence[RunObservation], racing: frozenset[str]) -> list[dict[str, Any]]:
        """Return `expectEvents`; on `racing` clients operations run side by side, in no order."""
        return [
            expectation
            for client in seen[0].observed
            for event_type, kinds in KINDS.items()
            if not seen[0].observed[client].isdisjoint(kinds)
            if (expectation := self._of_client(client, event_type, seen, is_racing=client in racing))
        ]

    def _of_client(
        self, client: str, event_type: str, seen: Sequence[RunObservation], *, is_racing: bool
    ) -> dict[str, Any] | None:
        runs = [
            [event for event in each.events.get(client, ()) if event.kind in KINDS[event_type]]
            for each in seen
        ]
        same = _common_length(runs)
        differs = any(len(run) != same for run in runs)
        if differs:
            self.note(_difference(client, event_type, runs, same, [each.where for each in seen]))
        if differs and not same:
            return None
        expectation: dict[str, Any] = {"client": _named(client, self.names.clients)}
        if event_type != "command":
            expectation["eventType"] = event_type
        if differs or (is_racing and same > 1):
            expectation["ignoreExtraEvents"] = True
        expectation["events"] = [
            self._event([run[index] for run in runs], [each.sessions for each in seen])
            for index in range(same)
        ]
        return expectation

    def _event(self, events: Sequence[Event], sessions: Sequence[Mapping[bytes, str]]) -> dict[str, Any]:
        kind = events[0].kind
        if kind in COMMAND_EVENTS:
            return {kind: self._command_event(events, sessions)}
        fields = [name for name, since in _DETAILS.get(kind, {}).items() if since <= self.minor]
        bodies = [
            {name: _shape(event.fields[name]) for name in fields if name in event.fields} for event in events
        ]
        body = common(bodies, self.written, root=True)
        # The format has these events expected by plain values: what differs from run to run is left out.
        return {kind: {name: value for name, value in body.items() if not _has_operator(value)}}

    def _command_event(
        self, events: Sequence[Event], sessions: Sequence[Mapping[bytes, str]]
    ) -> dict[str, Any]:
        """Return the body in the order in which people read: which command, where, and what it says."""
        fields = [event.fields for event in events]
        name = str(fields[0]["commandName"])
        body: dict[str, Any] = {"commandName": name}
        if "command" in fields[0]:
            databases = {str(each["databaseName"]) for each in fields}
            if len(databases) == 1:
                body["databaseName"] = _named(databases.pop(), self.names.databases)
            body["command"] = self._command(name, [dict(each["command"]) for each in fields], sessions)
        elif "reply" in fields[0]:
            body["reply"] = reply = self._document([dict(each["reply"]) for each in fields])
            cursor = reply.get("cursor")
            if isinstance(cursor, dict) and isinstance(cursor.get("id"), int) and cursor["id"]:
                cursor["id"] = _INTEGER  # servers choose it; 0, which says that there is no more, is expected
            if reply.get("ok") == 1:
                reply["ok"] = 1  # a double on the wire, and a plain 1 in every scenario
        return body

    def _command(
        self, name: str, commands: Sequence[dict[str, Any]], sessions: Sequence[Mapping[bytes, str]]
    ) -> dict[str, Any]:
        expected = self._document(commands)
        expected.pop("lsid", None)  # an implicit session's is nobody's business
        owners = {
            names.get(bytes(command["lsid"]["id"])) if "lsid" in command else None
            for command, names in zip(commands, sessions, strict=True)
        }
        owner = owners.pop() if len(owners) == 1 else None
        if owner is not None:
            expected["lsid"] = {"$$sessionLsid": _named(owner, self.names.sessions)}
        in_transaction = all("autocommit" in each for each in commands)
        for field in ("txnNumber", "recoveryToken"):
            if field in expected and not (field == "txnNumber" and in_transaction):
                expected[field] = _PRESENT
        if name == "getMore":
            expected["getMore"] = _INTEGER
        if name == "killCursors":
            expected["cursors"] = {"$$type": "array"}
        target = "collection" if name == "getMore" else name
        if isinstance(expected.get(target), str):
            expected[target] = _named(expected[target], self.names.collections)
        return expected | {field: expected.pop(field) for field in _LAST if field in expected}

    def _document(self, documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
        bodies = [{name: value for name, value in each.items() if name not in _GOSSIP} for each in documents]
        expected: dict[str, Any] = common(bodies, self.written, root=True)
        return expected

    def answer(self, answers: Sequence[Any]) -> dict[str, Any] | None:
        """Return the members that say what an operation comes to, or None when it comes to this and that."""
        errors = [answer for answer in answers if isinstance(answer, ErrorReport)]
        if len(errors) == len(answers):
            expected: dict[str, Any] = {}
            codes = {error.code for error in errors}
            if len(codes) == 1 and None not in codes:
                expected["errorCode"] = codes.pop()
            elif all(error.is_client_error for error in errors):
                expected["isClientError"] = True
            if all(error.is_timeout_error for error in errors):
                expected["isTimeoutError"] = True
            labels = frozenset.intersection(*(error.labels for error in errors))
            if labels:
                expected["errorLabelsContain"] = sorted(labels)
            return {"expectError": expected or {"isError": True}}
        if errors:
            return None
        results = [answer for answer in answers if answer is not None]
        if len(results) < len(answers) or not all(map(_is_data, results)):
            return {}
        expected = common(results, self.written, root=True)
        if isinstance(expected, dict):
            expected = {
                name: {"$$unsetOrMatches": value} if name in _OPTIONAL else value
                for name, value in expected.items()
            }
            if expected and expected.keys() <= set(_OPTIONAL):  # then the driver need not return anything
                expected = {"$$unsetOrMatches": expected}
        return {"expectResult": expected}

    def outcome(self, seen: Sequence[RunObservation]) -> list[dict[str, Any]]:
        """Return `outcome`, of the collections that every run has left with the same documents."""
        expected = []
        for (database, collection), documents in seen[0].stored.items():
            runs = [list(each.stored[database, collection]) for each in seen]
            if common(runs, self.written) != list(documents):
                self.note(f"{database}.{collection} differs from run to run, so there is no outcome of it")
                continue
            expected.append(
                {
                    "collectionName": _named(collection, self.names.collections),
                    "databaseName": _named(database, self.names.databases),
                    "documents": list(documents),
                }
            )
        return expected


def _common_length(runs: Sequence[Sequence[Event]]) -> int:
    """Return how many events, from the first on, are the same kinds in all runs.

    Only a beginning can be expected: the format compares lists in order, and ignores events at their end
    alone.
    """
    for index, events in enumerate(zip(*runs, strict=False)):
        if len({_nature(event) for event in events}) > 1:
            return index
    return min(map(len, runs))


def _nature(event: Event) -> tuple[str, Any]:
    return event.kind, event.fields.get("commandName")


def _difference(
    client: str, event_type: str, runs: Sequence[Sequence[Event]], same: int, where: Sequence[str]
) -> str:
    """Return a sentence about the first event that is not the same in all runs."""
    seen = [
        " ".join(word for word in _nature(run[same]) if word) if same < len(run) else "nothing"
        for run in runs
    ]
    (usual, _), *_ = Counter(seen).most_common(1)
    odd = next(index for index, each in enumerate(seen) if each != usual)
    return (
        f"client {client!r}: {event_type} event {same + 1} is not the same in all runs ({usual}, but"
        f" {seen[odd]} with {where[odd]}); {'what follows is ignored' if same else 'none are expected'}"
    )


def _named(value: str, anchors: Mapping[str, str]) -> str:
    return Alias(anchors[value]) if value in anchors else value


def _shape(value: Any) -> Any:
    """Return of a description what a scenario can expect: its type."""
    return {"type": value["type"]} if isinstance(value, dict) else value


def _has_operator(value: Any) -> bool:
    return isinstance(value, dict) and any(
        name.startswith("$$") or _has_operator(member) for name, member in value.items()
    )


def _is_data(value: Any) -> bool:
    """Return whether a result is a value of BSON, not a thing of the driver's."""
    return type(value).__module__.partition(".")[0] in ("builtins", "bson", "datetime", "uuid")
