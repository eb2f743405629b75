"""Random commands, transactions, lost connections and retries, against a server of plain dictionaries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from model_server import Delete, Filter, FindAndModify, Increment, Insert, ModelServer, numbered
from talking import Deployment, Talker, lsid
from transacting import Session

from fakeserver import ClusterSpec
from harness.world.clock import VirtualLoop
from harness.world.virtual import World

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from model_server import Document, Outcome, Write

KEYS = st.integers(1, 6)
TAGS = st.sampled_from("ab")
MANY = st.one_of(
    st.just(Filter()),
    st.builds(Filter, st.just("t"), st.just("$eq"), TAGS),
    st.builds(Filter, st.just("n"), st.just("$gte"), st.integers(0, 5)),
    st.builds(Filter, st.just("_id"), st.just("$in"), st.lists(KEYS, min_size=1, max_size=3)),
)
ONE = st.builds(Filter, st.just("_id"), st.just("$eq"), KEYS)
STEPS = st.integers(1, 3)
SINGLE = st.one_of(
    st.builds(Insert, st.lists(KEYS, min_size=1, max_size=3, unique=True).map(tuple), TAGS, st.booleans()),
    st.builds(Increment, ONE, STEPS, st.just(value=False), st.booleans()),
    st.builds(Delete, ONE, st.just(value=False)),
    st.builds(FindAndModify, KEYS, st.none() | STEPS, st.booleans()),
)
MULTIPLE = st.one_of(
    st.builds(Increment, MANY, STEPS, st.just(value=True)),
    st.builds(Delete, MANY, st.just(value=True)),
)
FATES = st.sampled_from(["answered", "answered", "lost before", "lost after", "interrupted"])
WRITERS = (1, 2)
TRANSACTING = (3, 4)


class ServerMachine(RuleBasedStateMachine):
    """Both servers, side by side: every client does the same on both, and hears the same."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.model = ModelServer()
        self.numbers = dict.fromkeys(WRITERS, 0)
        self.remembered: dict[int, tuple[Document, Document]] = {}
        self.sessions: dict[int, Session] = {}
        self.do(self._start())

    def do(self, doing: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(doing)

    async def _start(self) -> None:
        world: Any = World.new()
        self.deployment = await Deployment.start(world, ClusterSpec.replica_set(1))
        self.admin = await self.deployment.connect()
        # Two transactions that make one collection are in each other's way.
        await self.admin.ok({"create": "c", "$db": "db"})
        self.talkers = {number: await self.deployment.connect() for number in (0, *WRITERS, *TRANSACTING)}

    def teardown(self) -> None:
        self.do(self.deployment.aclose())
        self.runner.close()

    # Clients that lose their connection.

    async def _send(self, who: int, command: Document, fate: str) -> Document:
        """Run a command, and again as long as no answer came."""
        await self._prepare(fate, next(iter(command)))
        talker = self.talkers[who]
        reply: Document | None = None
        if fate == "lost after":
            await talker.send(command)
            await talker.aclose()
            await self.deployment.sleep(1.0)
        else:
            reply = await talker.command(command)
        await self._prepare("answered", "")
        while reply is None:
            talker = self.talkers[who] = await self.deployment.connect()
            reply = await talker.command(command)
        return reply

    async def _prepare(self, fate: str, name: str) -> None:
        data = {"failCommands": [name], "closeConnection": True}
        mode: Any = {"times": 1} if fate == "lost before" else "off"
        await self.admin.ok({"configureFailPoint": "failCommand", "mode": mode, "data": data})
        # The first statement is written, the second is not.
        mode = {"skip": 1} if fate == "interrupted" else "off"
        data = {"failBeforeCommitExceptionCode": 91, "closeConnection": True}
        await self.admin.ok({"configureFailPoint": "onPrimaryTransactionalWrite", "mode": mode, "data": data})

    # Writes outside of transactions.

    @rule(who=st.sampled_from(WRITERS), write=SINGLE, fate=FATES)
    def write_one(self, who: int, write: Write, fate: str) -> None:
        """A retryable write is applied once, whatever becomes of its connection."""
        if self.model.claimed(write.touches(self.model.documents)):
            return
        self.numbers[who] += 1
        command = numbered({**write.command(), "$db": "db"}, lsid(who), self.numbers[who])
        reply = self.do(self._send(who, command, fate))
        outcome = self.model.write(write)
        _agree(reply, outcome)
        self.remembered.pop(who, None)
        if outcome.code is None and outcome.wrote:
            self.remembered[who] = (command, outcome.says)

    @precondition(lambda self: self.remembered)
    @rule(data=st.data())
    def retry_late(self, data: st.DataObject) -> None:
        """A retry that comes late hears of the first time, and writes nothing."""
        who = data.draw(st.sampled_from(sorted(self.remembered)))
        command, says = self.remembered[who]
        reply = self.do(self._send(who, command, "answered"))
        assert {name: reply[name] for name in says} == says
        assert "retriedStmtIds" in reply or "retriedStmtId" in reply

    @rule(write=MULTIPLE)
    def write_many(self, write: Write) -> None:
        if self.model.claimed(write.touches(self.model.documents)):
            return
        reply = self.do(self._send(0, {**write.command(), "$db": "db"}, "answered"))
        _agree(reply, self.model.write(write))

    # Transactions.

    @rule(who=st.sampled_from(TRANSACTING), write=SINGLE | MULTIPLE)
    def write_in_transaction(self, who: int, write: Write) -> None:
        session = self._session(who)
        reply = self.do(session.run(write.command()))
        _agree(reply, self.model.write_in(who, write))

    @rule(who=st.sampled_from(TRANSACTING), wanted=MANY | ONE)
    def read_in_transaction(self, who: int, wanted: Filter) -> None:
        """A transaction reads its snapshot and what it wrote."""
        session = self._session(who)
        found = self.do(session.find(filter=wanted.query, sort={"_id": 1}))
        assert found == _matching(self.model.views[who].documents, wanted)

    def _session(self, who: int) -> Session:
        session = self.sessions.setdefault(who, Session(self.talkers[who], who))
        session.talker = self.talkers[who]
        if who not in self.model.views:
            session.begin()
            self.model.begin(who)
        return session

    @precondition(lambda self: self.model.views)
    @rule(
        data=st.data(), commits=st.booleans(), fate=st.sampled_from(["answered", "lost before", "lost after"])
    )
    def end_transaction(self, data: st.DataObject, commits: bool, fate: str) -> None:  # noqa: FBT001
        """A commit is retried until it is answered, and counts once."""
        who = data.draw(st.sampled_from(sorted(self.model.views)))
        verb = "commitTransaction" if commits else "abortTransaction"
        reply = self.do(self._send(who, {verb: 1, **self.sessions[who].fields()}, fate))
        if commits:
            assert reply["ok"] == 1.0, reply
            self.model.commit(who)
        else:
            # An abort that is repeated finds nothing to abort.
            assert reply.get("code") in ({None, 251} if fate == "lost after" else {None})
            del self.model.views[who]

    # Reads.

    @rule(wanted=MANY | ONE, skip=st.integers(0, 2), limit=st.integers(0, 4), batch=st.integers(0, 3))
    def read(self, wanted: Filter, skip: int, limit: int, batch: int) -> None:
        """A cursor hands out everything, whatever its batches."""
        query = {"filter": wanted.query, "sort": {"n": -1, "_id": 1}, "skip": skip, "limit": limit}
        found = self.do(_drain(self.talkers[0], {"find": "c", **query, "batchSize": batch, "$db": "db"}))
        expected = sorted(
            _matching(self.model.documents, wanted), key=lambda each: (-each["n"], each["_id"])
        )[skip:]
        assert found == (expected[:limit] if limit else expected)

    @rule(wanted=MANY)
    def summarise(self, wanted: Filter) -> None:
        held = _matching(self.model.documents, wanted)
        talker = self.talkers[0]
        counted = self.do(talker.ok({"count": "c", "query": wanted.query, "$db": "db"}))
        assert counted["n"] == len(held)
        distinct = self.do(talker.ok({"distinct": "c", "key": "n", "query": wanted.query, "$db": "db"}))
        assert sorted(distinct["values"]) == sorted({each["n"] for each in held})
        group = {"_id": "$t", "sum": {"$sum": "$n"}, "count": {"$sum": 1}}
        pipeline = [{"$match": wanted.query}, {"$group": group}, {"$sort": {"_id": 1}}]
        found = self.do(_drain(talker, {"aggregate": "c", "pipeline": pipeline, "cursor": {}, "$db": "db"}))
        tags = sorted({each["t"] for each in held})
        numbers = {tag: [each["n"] for each in held if each["t"] == tag] for tag in tags}
        assert found == [{"_id": tag, "sum": sum(numbers[tag]), "count": len(numbers[tag])} for tag in tags]

    @invariant()
    def everybody_sees_what_was_committed_and_nothing_else(self) -> None:
        held = self.do(_drain(self.admin, {"find": "c", "sort": {"_id": 1}, "$db": "db"}))
        assert held == _matching(self.model.documents, Filter())


def _agree(reply: Document, outcome: Outcome) -> None:
    errors = reply.get("writeErrors")
    assert (errors[0]["code"] if errors else reply.get("code")) == outcome.code, reply
    if reply["ok"] == 1.0:
        assert {name: reply[name] for name in outcome.says} == outcome.says


def _matching(documents: dict[int, Document], wanted: Filter) -> list[Document]:
    return [documents[key] for key in sorted(documents) if wanted.holds(documents[key])]


async def _drain(talker: Talker, command: Document) -> list[Document]:
    """Return all that a cursor hands out."""
    cursor = (await talker.ok(command))["cursor"]
    found = list(cursor["firstBatch"])
    more = {"collection": "c", "batchSize": max(command.get("batchSize", 0), 1), "$db": "db"}
    while cursor["id"]:
        cursor = (await talker.ok({"getMore": cursor["id"], **more}))["cursor"]
        found += cursor["nextBatch"]
    return found


TestServerAgainstModel = pytest.mark.slow(ServerMachine.TestCase)
TestServerAgainstModel.settings = settings(
    max_examples=settings().max_examples // 5,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
