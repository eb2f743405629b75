"""Random interleavings of transactions and plain writes, against snapshot isolation in thirty lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from talking import Deployment, Talker, play
from transacting import Session, plain_find

from fakeserver import ClusterSpec

KEYS = (1, 2, 3)
CONFLICT, DUPLICATE, GONE, EXPIRED = 112, 11000, 251, 50


@dataclass
class View:
    """What one transaction sees: the snapshot with its own writes, and the versions that it began with."""

    documents: dict[int, int]
    versions: dict[int, int]
    written: set[int] = field(default_factory=set)


@dataclass
class Model:
    """The committed documents, how often each key was written, and the open transactions."""

    documents: dict[int, int] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=lambda: dict.fromkeys(KEYS, 0))
    views: dict[int, View] = field(default_factory=dict)

    def begin(self, who: int) -> None:
        self.views[who] = View(dict(self.documents), dict(self.versions))

    def write(self, who: int | None, verb: str, key: int) -> int | None:
        """Return the code that a write fails with, None when it succeeds."""
        view = None if who is None else self.views[who]
        seen = self.documents if view is None else view.documents
        if verb == "insert" and key in seen:
            code: int | None = DUPLICATE
        elif verb != "insert" and key not in seen:
            return None
        else:
            code = self._conflict(who, key)
        if code is not None:
            if who is not None:
                del self.views[who]
            return code
        _apply(seen, verb, key)
        if view is None:
            self.versions[key] += 1
        else:
            view.written.add(key)
        return None

    def _conflict(self, who: int | None, key: int) -> int | None:
        others = [view for other, view in self.views.items() if other != who]
        if any(key in view.written for view in others):
            return EXPIRED if who is None else CONFLICT
        changed = who is not None and self.views[who].versions[key] != self.versions[key]
        return CONFLICT if changed and who is not None and key not in self.views[who].written else None

    def commit(self, who: int) -> None:
        view = self.views.pop(who)
        for key in view.written:
            self.versions[key] += 1
            self.documents.pop(key, None)
            if key in view.documents:
                self.documents[key] = view.documents[key]


def _apply(documents: dict[int, int], verb: str, key: int) -> None:
    if verb == "delete":
        del documents[key]
    else:
        documents[key] = documents.get(key, -1) + 1


def _command(verb: str, key: int) -> dict[str, Any]:
    if verb == "insert":
        return {"insert": "c", "documents": [{"_id": key, "x": 0}]}
    if verb == "delete":
        return {"delete": "c", "deletes": [{"q": {"_id": key}, "limit": 1}]}
    return {"update": "c", "updates": [{"q": {"_id": key}, "u": {"$inc": {"x": 1}}}]}


def _code(reply: dict[str, Any] | None) -> int | None:
    assert reply is not None
    errors = reply.get("writeErrors")
    code: int | None = errors[0]["code"] if errors else reply.get("code")
    return code


def _held(found: list[dict[str, Any]]) -> dict[int, int]:
    return {document["_id"]: document["x"] for document in found}


@dataclass
class Play:
    """The model and the server, side by side."""

    talker: Talker
    sessions: list[Session]
    model: Model = field(default_factory=Model)

    async def step(self, who: int, verb: str, key: int) -> None:
        """Do the same on both, and compare."""
        session = self.sessions[who % len(self.sessions)] if who < len(self.sessions) else None
        if session is None:
            await self._plain(verb, key)
        elif verb in ("commit", "abort"):
            await self._end(who, session, verb)
        else:
            await self._in_transaction(who, session, verb, key)
        assert _held(await plain_find(self.talker)) == self.model.documents

    async def _plain(self, verb: str, key: int) -> None:
        if verb in ("insert", "update", "delete"):
            command = {**_command(verb, key), "$db": "db", "maxTimeMS": 100}
            assert _code(await self.talker.command(command)) == self.model.write(None, verb, key)

    async def _end(self, who: int, session: Session, verb: str) -> None:
        if who in self.model.views:
            assert (await session.end(verb))["ok"] == 1
            if verb == "commit":
                self.model.commit(who)
            else:
                del self.model.views[who]
        elif session.txn_number:
            assert (await session.end("commit")).get("code") in (None, GONE)

    async def _in_transaction(self, who: int, session: Session, verb: str, key: int) -> None:
        if who not in self.model.views:
            session.begin()
            self.model.begin(who)
        if verb == "find":
            assert _held(await session.find()) == self.model.views[who].documents
            return
        assert _code(await session.run(_command(verb, key))) == self.model.write(who, verb, key)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["find", "insert", "update", "update", "delete", "commit", "abort"]),
        st.sampled_from(KEYS),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
@example([(0, "insert", 1), (1, "insert", 2)])
def test_transactions_are_isolated_as_the_model_says(steps: list[tuple[int, str, int]]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        # Two transactions that both make it would conflict, whatever they insert.
        await talker.ok({"create": "c", "$db": "db"})
        sessions = [Session(await deployment.connect(), number) for number in (1, 2, 3)]
        played = Play(talker, sessions)
        for step in steps:
            await played.step(*step)

    play(scenario, ClusterSpec.replica_set(1))
