"""The journal over HTTP: `GET /journal`, and `GET /journal/stream` (server-sent events).

A stream's events have the number of their record as their id, so a client that comes back with
`Last-Event-ID` misses nothing that the journal still keeps.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from bson import json_util
from starlette.responses import StreamingResponse

from fakeserver.control.web.door import failure
from fakeserver.control.web.tally import RequestTally
from fakeserver.deployment.records.events import BY_NAME
from mongowire.documents.arguments import count, flag, names
from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from fakeserver.deployment.records.journal import Journal, Record
    from mongowire.ports import Clock

_LOOK_SECONDS: Final = 0.1
"""The period in which streams look for new records: under load many are sent at once."""
_ALIVE_LOOKS: Final = 150
"""Periods without a record after which a comment says that the stream is alive."""
_AT_ONCE: Final = 25
"""Records between two turns of the loop."""
_LIMIT: Final = 1000
_MOST: Final = 10_000
KINDS: Final = tuple(name[0].lower() + name[1:] for name in BY_NAME)
"""The kinds of events."""


class Follower:
    """Looks for new records periodically: counts the requests among them, and wakes those who wait."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self.journal = journal
        self.tally = RequestTally(journal)
        self.ended = False
        self._clock = clock
        self._look = asyncio.Event()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._clock.sleep_until(self._clock.now() + _LOOK_SECONDS)
            self.tally.catch_up()
            self._wake()

    def end(self) -> None:
        """End every stream."""
        self.ended = True
        self._wake()

    async def next_look(self) -> None:
        """Wait for the next look."""
        await self._look.wait()

    async def turn(self) -> None:
        """Let others have a turn of the loop: a long answer must not hold up the deployment."""
        await self._clock.sleep_until(self._clock.now())

    def _wake(self) -> None:
        look, self._look = self._look, asyncio.Event()
        look.set()


class Records:
    """The records of a deployment's journal over HTTP."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._journal = follower.journal

    async def some(self, request: Request) -> Response:
        """Answer with records: the newest, or with `since` those after a number, oldest first.

        With `documents` a request's own document comes with it, and its reply's, as long as they are kept.
        """
        try:
            query = _query(request.query_params, {"since", "limit", "kind", "documents"})
            documents = flag(query.get("documents", "false"))
            limit = min(count(query.get("limit", _LIMIT)), _MOST)
            kinds = _kinds(query)
            since = count(query["since"]) if "since" in query else None
        except ControlError as error:
            return failure(error)
        if since is None and kinds:
            found = await self._newest(limit, kinds)
        else:
            newest = max(self._journal.last_seq - limit, 0)
            found = await self._after(newest if since is None else since, limit, kinds)
        return StreamingResponse(self._pieces(found, documents=documents), media_type="application/json")

    async def _newest(self, limit: int, kinds: frozenset[str]) -> list[Record]:
        found: list[Record] = []
        for number, record in enumerate(self._journal.newest_first()):
            if len(found) >= limit:
                break
            found += _wanted([record], kinds)
            if number % _AT_ONCE == 0:
                await self._follower.turn()
        return found[::-1]

    async def _after(self, since: int, limit: int, kinds: frozenset[str]) -> list[Record]:
        found: list[Record] = []
        while len(found) < limit:
            some = self._journal.since(since, _AT_ONCE)
            if not some:
                break
            since = some[-1].seq
            found += _wanted(some, kinds)
            await self._follower.turn()
        return found[:limit]

    async def _pieces(self, records: list[Record], *, documents: bool) -> AsyncIterator[str]:
        """Yield the answer in pieces, with turns of the loop between them: it may be megabytes."""
        yield '{"records": ['
        for start in range(0, len(records), _AT_ONCE):
            some = records[start : start + _AT_ONCE]
            yield (", " if start else "") + ", ".join(_text(each, documents=documents) for each in some)
            await self._follower.turn()
        journal = self._journal
        yield f'], "lastSeq": {journal.last_seq}, "dropped": {journal.dropped}}}'

    async def stream(self, request: Request) -> Response:
        """Answer with records as they are entered, after `Last-Event-ID` or `since`; else with new ones."""
        try:
            query = _query(request.query_params, {"since", "kind", "newest"})
            kinds = _kinds(query)
            last = request.headers.get("last-event-id") or query.get("since")
            newest = count(query.get("newest", 0))
            since = max(0, self._journal.last_seq - newest) if last is None else count(last)
        except ControlError as error:
            return failure(error)
        return StreamingResponse(self._events(since, kinds), media_type="text/event-stream")

    async def _events(self, since: int, kinds: frozenset[str]) -> AsyncIterator[str]:
        quiet = 0
        yield "retry: 1000\n\n"
        while not self._follower.ended:
            fresh = self._journal.since(min(since, self._journal.last_seq), _AT_ONCE)
            if fresh:
                since, quiet = fresh[-1].seq, 0
                yield "".join(map(_event, _wanted(fresh, kinds))) or f"id: {since}\n\n"
                if len(fresh) == _AT_ONCE:
                    await self._follower.turn()
                    continue
            quiet += 1
            if quiet % _ALIVE_LOOKS == 0:
                yield ": alive\n\n"
            await self._follower.next_look()


def _event(record: Record) -> str:
    return f"id: {record.seq}\nevent: record\ndata: {_text(record)}\n\n"


def _text(record: Record, *, documents: bool = False) -> str:
    shown = record.to_document(documents=documents)
    return json_util.dumps(shown, json_options=json_util.RELAXED_JSON_OPTIONS)


def _wanted(records: Iterable[Record], kinds: frozenset[str]) -> list[Record]:
    return [record for record in records if not kinds or record.event.kind in kinds]


def _query(given: Mapping[str, str], known: set[str]) -> Mapping[str, str]:
    for name in given:
        if name not in known:
            raise unknown("parameter", name, known)
    return given


def _kinds(query: Mapping[str, str]) -> frozenset[str]:
    kinds = names(query["kind"]) if "kind" in query else []
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("kind", kind, KINDS, path=("kind",))
    return frozenset(kinds)
