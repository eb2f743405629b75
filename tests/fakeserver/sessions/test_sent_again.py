"""Retryable Writes: whatever ends a command, sending it again changes the store once, and is told the truth.

The command is sent until it succeeds, as by a driver that never gives up. Each time something may end it: in
the middle of its run (which gives way at each of its yield points), at its reply, or with its server.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
from bson import Int64, ObjectId
from hypothesis import given
from hypothesis import strategies as st
from talking import LATENCY, Deployment, Talker, lsid, play

from fakeserver import ClusterSpec
from fakeserver.deployment.replication.rollback import isolate
from fakeserver.request import operations
from fakeserver.storage.port.engine import Namespace, Query

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fakeserver.deployment.node import Node
    from fakeserver.storage.port.engine import Document

GIVING_WAY: Final = {"internalQueryExecYieldPeriodMS": 0, "enableTestCommands": 1}
TOPOLOGIES: Final = {
    "a set": ClusterSpec.replica_set(3, parameters=GIVING_WAY),
    "a sharded cluster": ClusterSpec.sharded(1, 2, members=3, parameters=GIVING_WAY),
}
HELD: Final = [{"_id": number, "n": 0, "zero": 0} for number in range(6)]
ATTEMPTS: Final = 12

COUNTING: Final = {"$size": {"$map": {"input": {"$range": [0, 40]}, "in": "$$this"}}}
"""An expression that gives way forty times."""
INCREMENT: Final = {"$inc": {"n": 1}}
LONG_INCREMENT: Final = [{"$set": {"n": {"$add": ["$n", 1]}, "long": COUNTING}}]
FIELDS: Final = {
    "some": {"n": 1},
    "long": {"n": 1, "long": COUNTING},
    "failing": {"n": 1, "x": {"$divide": [1, "$zero"]}},
    "long and failing": {"long": COUNTING, "x": {"$divide": [1, "$zero"]}},
}
LONG: Final = ("long", "long and failing")
CHANGES: Final[dict[str, dict[str, Any]]] = {
    "update": {"query": {"n": 0}, "update": INCREMENT},
    "long update": {"query": {"n": 0}, "update": LONG_INCREMENT, "new": True},
    "sorted update": {"query": {}, "sort": {"n": 1, "_id": -1}, "update": INCREMENT, "new": True},
    "replacement": {"query": {"_id": 3}, "update": {"n": 7, "zero": 0}},
    "upsert": {"query": {"_id": 9, "zero": 0}, "update": INCREMENT, "upsert": True, "new": True},
    "silent upsert": {"query": {"_id": 9, "zero": 0}, "update": INCREMENT, "upsert": True},
    "removal": {"query": {}, "sort": {"_id": -1}, "remove": True},
}
BATCHES: Final[dict[str, dict[str, Any]]] = {
    "insert": {"insert": "c", "documents": [{"new": 1}, {"new": 2}, {"new": 3}]},
    "unordered insert": {"insert": "c", "documents": [{"new": 1}, {"_id": 0}, {"new": 2}], "ordered": False},
    "update": {
        "update": "c",
        "updates": [
            {"q": {"n": 0}, "u": INCREMENT},
            {"q": {"_id": 9}, "u": INCREMENT, "upsert": True},
            {"q": {"_id": 5}, "u": LONG_INCREMENT},
            {"q": {"_id": 5}, "u": {"$inc": {"_id": 1}}},
        ],
    },
    "delete": {"delete": "c", "deletes": [{"q": {}, "limit": 1}, {"q": {"n": 0}, "limit": 1}]},
    "bulkWrite": {
        "bulkWrite": 1,
        "ops": [
            {"insert": 0, "document": {"new": 1}},
            {"update": 0, "filter": {"n": 0}, "updateMods": LONG_INCREMENT},
            {"update": 0, "filter": {"_id": 9}, "updateMods": INCREMENT, "upsert": True},
            {"insert": 0, "document": {"_id": 4}},
            {"delete": 0, "filter": {}},
        ],
        "nsInfo": [{"ns": "db.c"}],
        "ordered": False,
        "$db": "admin",
    },
}
NUMBERING: Final[tuple[dict[str, Any], ...]] = ({}, {"stmtId": 7}, {"stmtIds": [5, 1, 9, 2, 4]})


def batch(name: str, numbering: dict[str, Any], more: dict[str, Any]) -> Document:
    """Return a command of several statements, each with the number that it is given."""
    command = {**BATCHES[name], **numbering}
    command.setdefault("$db", "db")
    statements = next(value for value in command.values() if isinstance(value, list))
    if "stmtIds" in numbering:
        command["stmtIds"] = numbering["stmtIds"][: len(statements)]
    return {**command, **(more if name == "bulkWrite" else {})}


COMMANDS: Final = st.one_of(
    st.builds(
        batch,
        st.sampled_from(sorted(BATCHES)),
        st.sampled_from(NUMBERING),
        st.sampled_from(
            [{}, {"errorsOnly": True}, {"cursor": {"batchSize": 1}}, {"cursor": {"batchSize": 0}}]
        ),
    ),
    st.builds(
        lambda change, fields: {"findAndModify": "c", "$db": "db", **CHANGES[change], **fields},
        st.sampled_from(sorted(CHANGES)),
        st.sampled_from([{}, *({"fields": FIELDS[name]} for name in (*FIELDS, *LONG, *LONG))]),
    ),
)


@dataclass
class Client:
    """A client with one session, which sends a command until it succeeds."""

    deployment: Deployment
    command: Document
    replies: list[Document | None] = field(default_factory=list)

    @property
    def node(self) -> Node:
        """The server that takes the command: the primary, or a mongos."""
        return self.deployment.cluster.primary or self.deployment.cluster.nodes[0]

    async def send(self, end: Ending | None = None, after: int = 0) -> Document | None:
        """Send the command, have something end it, and return the reply; None for none."""
        talker = await self.deployment.connect(self.node)
        if end in BEFOREHAND:
            await BEFOREHAND[end](self)
        reply = asyncio.ensure_future(talker.command(self.command))
        if end in MEANWHILE:
            await self.deployment.sleep(LATENCY)  # the request arrives
            for _ in range(after):  # each is a turn of the loop, and of the request
                await asyncio.sleep(0)
            await MEANWHILE[end](self, talker)
        self.replies.append(await self._with_all_results(talker, await reply))
        await self.deployment.sleep(1)  # whatever was ended is mended, and there is a primary
        return self.replies[-1]

    async def _with_all_results(self, talker: Talker, reply: Document | None) -> Document | None:
        """Return a reply with what its cursor holds; None if that has died with its server or session."""
        cursor = (reply or {}).get("cursor", {"id": 0})
        more = {"collection": "$cmd.bulkWrite", "lsid": self.command.get("lsid", lsid())}
        while cursor["id"]:
            try:
                rest = await talker.command({"getMore": cursor["id"], **more})
            except ConnectionResetError:
                return None
            if rest is None or not rest["ok"]:
                return None
            cursor["firstBatch"] += rest["cursor"]["nextBatch"]
            cursor["id"] = rest["cursor"]["id"]
        return reply


Ending = str


async def kill_operation(client: Client, _: Talker) -> None:
    for _connection, request in client.node.waiting():
        if request.txn_number is not None:
            operations.kill(client.node, operations.operation_id(request))


async def kill_session(client: Client, _: Talker) -> None:
    operations.kill_sessions(client.node, client.deployment.cluster.sessions.ids())


async def run_out_of_time(client: Client, _: Talker) -> None:
    """Have `maxTimeMS` end it here: no time passes in the middle of a run."""
    for _connection, request in client.node.waiting():
        if request.txn_number is not None:
            request.deadline = client.deployment.world.clock.now()


async def hang_up(_: Client, talker: Talker) -> None:
    await talker.aclose()


async def step_down(client: Client, _: Talker) -> None:
    for shard in client.deployment.cluster.shards:
        shard.step_down(seconds=0.1)


async def kill(client: Client, _: Talker) -> None:
    node = client.node
    await node.kill()
    await client.deployment.sleep(0.1)
    await node.start()


async def shut_down(client: Client, _: Talker) -> None:
    node = client.node
    await node.shut_down()
    await client.deployment.sleep(0.1)
    await node.start()


async def roll_back(client: Client, _: Talker) -> None:
    """Have the primary of a set go on alone: what it acknowledges from here on is taken back."""
    shard = client.deployment.cluster.shards[-1]
    if shard.primary is client.node:
        isolate(shard, client.node, 0.05)


MEANWHILE: Final[dict[Ending, Callable[[Client, Talker], Awaitable[None]]]] = {
    each.__name__: each
    for each in (
        *(kill_operation, kill_session, run_out_of_time, hang_up),
        *(step_down, kill, shut_down, roll_back),
    )
}


def configured(name: str, mode: Any = None, **data: Any) -> Callable[[Client], Awaitable[None]]:
    """Return what configures a fail point for the next command."""

    async def configure(client: Client) -> None:
        mode_of = {"times": 1} if mode is None else mode
        await client.deployment.configure(name, mode_of, node=client.node, **data)

    return configure


_WRITES: Final = ["insert", "update", "delete", "findAndModify", "bulkWrite", "commitTransaction"]
_SHUT_DOWN: Final = {"code": 91, "codeName": "ShutdownInProgress", "errmsg": "it shuts down"}
BEFOREHAND: Final[dict[Ending, Callable[[Client], Awaitable[None]]]] = {
    "lose the reply": configured("onPrimaryTransactionalWrite", closeConnection=True),
    "fail the write": configured(
        "onPrimaryTransactionalWrite", closeConnection=False, failBeforeCommitExceptionCode=112
    ),
    "lose the reply after the write": configured("failCommand", failCommands=_WRITES, closeConnection=True),
    "fail the write concern": configured("failCommand", failCommands=_WRITES, writeConcernError=_SHUT_DOWN),
}
ENDINGS: Final = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(sorted(MEANWHILE)), st.integers(0, 9) | st.integers(0, 40)),
        st.tuples(st.sampled_from(sorted(BEFOREHAND)), st.just(0)),
    ),
    max_size=3,
)


@dataclass(frozen=True)
class Effect:
    """What a command has done to a collection: the number of changes, and the documents that are left."""

    changes: int
    documents: list[Document]


class Store:
    """A collection of a deployment, as it is filled and as it is left."""

    def __init__(self, deployment: Deployment, collection: str) -> None:
        self._deployment = deployment
        self._ns = Namespace("db", collection)

    async def fill(self) -> None:
        """Fill the collection."""
        client = Client(self._deployment, {})
        talker = await self._deployment.connect(client.node)
        await talker.ok({"insert": self._ns.collection, "documents": HELD, "$db": "db"})
        self._filled = self._deployment.cluster.oplog.last

    @property
    def effect(self) -> Effect:
        """What was done since it was filled; ids that a server makes are left out."""
        cluster = self._deployment.cluster
        entries = cluster.oplog.since(self._filled)
        changes = sum(written.ns == self._ns for entry in entries for written in entry.changes)
        held = cluster.catalog.engine.find(self._ns, Query())
        return Effect(changes, [_without_made_id(document) for document in held])


def _without_made_id(document: Document) -> Document:
    return {name: value for name, value in document.items() if type(value) is not ObjectId}


def told(reply: Document) -> Document:
    """Return what a reply says of the store: without times, cursors, and what it says of the retry itself."""
    told = {name: value for name, value in reply.items() if name in _TOLD}
    errors = [*reply.get("writeErrors", []), *_errors(reply.get("cursor", {}).get("firstBatch", []))]
    return {**told, "codes": [error["code"] for error in errors]}


_TOLD: Final = {
    *("n", "nModified", "upserted", "lastErrorObject"),
    *("nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted"),
}


def _errors(results: list[Document]) -> list[Document]:
    return [result for result in results if not result["ok"]]


@pytest.mark.slow
@given(topology=st.sampled_from(sorted(TOPOLOGIES)), command=COMMANDS, endings=ENDINGS)
def test_whatever_ends_a_command_sent_again_it_is_applied_once_and_answers_truly(
    topology: str, command: Document, endings: list[tuple[Ending, int]]
) -> None:
    async def scenario(deployment: Deployment) -> None:
        clean, once = Store(deployment, "clean"), Store(deployment, "c")
        await clean.fill()
        first = await Client(deployment, whole(command, "clean")).send()
        assert first is not None
        await once.fill()
        client = Client(deployment, {**command, "lsid": lsid(), "txnNumber": Int64(1)})
        for end, after in endings:
            await client.send(end, after)
            assert once.effect.changes <= clean.effect.changes
        while (reply := await client.send()) is None or not reply["ok"]:
            assert len(client.replies) < ATTEMPTS, client.replies
        assert once.effect == clean.effect
        assert told(reply) == told(first)
        if "value" in reply and ("retriedStmtId" in reply or "fields" not in command):
            assert reply["value"] == first["value"]

    play(scenario, TOPOLOGIES[topology])


def whole(command: Document, collection: str) -> Document:
    """Return a command that asks for all that it can be told, of another collection."""
    asked = {name: value for name, value in command.items() if name not in {"fields", "errorsOnly", "cursor"}}
    if "bulkWrite" in asked:
        return {**asked, "nsInfo": [{"ns": f"db.{collection}"}]}
    return {name: collection if value == "c" else value for name, value in asked.items()}


STATEMENTS: Final[tuple[Document, ...]] = (
    {"insert": "c", "documents": [{"new": 1}, {"new": 2}]},
    {"findAndModify": "c", **CHANGES["upsert"], "fields": FIELDS["long"]},
    {"delete": "c", "deletes": [{"q": {"_id": 0}, "limit": 1}]},
)


@pytest.mark.slow
@given(topology=st.sampled_from(sorted(TOPOLOGIES)), endings=ENDINGS)
def test_whatever_ends_a_commit_sent_again_it_is_applied_once_or_never(
    topology: str, endings: list[tuple[Ending, int]]
) -> None:
    async def scenario(deployment: Deployment) -> None:
        store = Store(deployment, "c")
        await store.fill()
        statement = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        talker = await deployment.connect(Client(deployment, {}).node)
        reply = await talker.ok({**STATEMENTS[0], "$db": "db", **statement, "startTransaction": True})
        for each in STATEMENTS[1:]:
            reply = await talker.ok({**each, "$db": "db", **statement})
        token = {"recoveryToken": reply["recoveryToken"]} if "recoveryToken" in reply else {}
        client = Client(deployment, {"commitTransaction": 1, "$db": "admin", **statement, **token})
        for end, after in endings:
            await client.send(end, after)
        while (last := await client.send()) is None or not (last["ok"] or last["code"] == 251):
            assert len(client.replies) < ATTEMPTS, client.replies
        committed = [reply is not None and bool(reply["ok"]) for reply in client.replies]
        taken_back = any(end == roll_back.__name__ for end, _ in endings)
        assert last["ok"] or taken_back or not any(committed)
        assert store.effect.changes == (4 if last["ok"] else 0)

    play(scenario, TOPOLOGIES[topology])


@pytest.mark.slow
def test_a_reply_that_is_too_large_is_no_reason_to_write_again() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.primary)
        await talker.ok(
            {"insert": "c", "documents": [{"_id": 1, "n": 0, "x": b"x" * 9_000_000}], "$db": "db"}
        )
        command = {"findAndModify": "c", "query": {}, "update": INCREMENT, "new": True, "$db": "db"}
        twice = {**command, "fields": {"a": "$x", "b": "$x"}, "lsid": lsid(), "txnNumber": Int64(1)}
        assert (await talker.fails(twice))["code"] == 10334
        again = await talker.ok(twice)
        assert (again["value"]["n"], again["retriedStmtId"]) == (1, 0)

    play(scenario)
