"""Whatever a statement says, it is answered as a server would, and never by a defect of ours (code 1).

The statements are drawn by a grammar from the tables in which the server keeps its commands, operators and
stages (tests/support/statements), so that most pass validation and what is new is drawn too. `tox -e fuzz`
draws more of them, `PUSHBACKD_TESTS=statements=1000000` as many as that.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import Counter
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import bson
import pytest
from access import log_in_as
from bson import Int64
from sizes import again, size
from statements import Statement, Statements, changed
from talking import Deployment, Talker, World

from fakeserver import ClusterSpec, UserSpec
from fakeserver.commands.default_table import default_table
from harness.sim import run_virtual
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.idl.command_table import CommandTable

COUNT = size("statements")
DAY = dt.datetime(2020, 5, 17, tzinfo=dt.UTC)
SHARDED = ClusterSpec.sharded(mongos=1, members=1, parameters={"enableTestCommands": True})
REPLICA_SET = ClusterSpec.replica_set(2, parameters={"enableTestCommands": True})
ROOT = UserSpec("root", "pwd123")
A_GENERATION = 500
"""After how many statements a deployment is replaced by a fresh one, whose documents are known."""
VARIANTS = 40
"""How many of the variants of a statement are sent, in each of which one value has another type."""
OFTEN = 200
"""A name drawn so often and never accepted tells of a grammar that does not reach it."""
SEEDS = range(2)
_SEARCH = ("createSearchIndexes", "dropSearchIndex", "updateSearchIndex", "listSearchIndexes")
NEVER_ACCEPTED = {
    **{f"command {name}": "needs Atlas Search" for name in _SEARCH},
    **dict.fromkeys(("command authenticate", "command saslContinue"), "needs a proof"),
    "command fsyncUnlock": "needs a lock, which ends a deployment's use",
    "command getnonce": "was removed",
    "command shutdown": "closes the connection instead of an answer",
}
"""What no statement of the grammar gets accepted, and why."""
NEVER_ACCEPTED_BY = {
    "mongod": {
        "command reIndex": "runs on a standalone only",
        "command replSetMaintenance": "a primary refuses it",
        "command replSetFreeze": "a primary refuses it",
    },
    "mongos": {"command replSetGetStatus": "is of members of a set"},
}
WITHOUT_ENGINES = {
    *("filter $where", "filter $text", "expression $function", "accumulator $accumulator", "stage $geoNear"),
    *(f"filter {name}" for name in ("$near", "$nearSphere", "$geoWithin", "$geoIntersects", "$within")),
    *("filter $maxDistance", "filter $minDistance"),
}
"""What is accepted where an engine for scripts, texts or places is there."""


def documents() -> list[dict[str, Any]]:
    """The documents that every deployment begins with: every path of the grammar leads somewhere."""
    odd: tuple[dict[str, Any], ...] = (
        {"_id": 1, "a": 1, "b": "a", "c": "abc", "d": DAY},
        {"_id": 2, "a": [1, 2, 3], "b": {"c": 1}, "c": "é", "d": None},
        {"_id": 3, "a": [{"b": 1}, {"b": 2}], "b": 2.5, "c": "", "x": True},
        {"_id": 4, "a": {"b": {"c": 5}}, "b": bson.Decimal128("1.5"), "c": ["x", "y"], "d": Int64(5)},
        {"_id": {"x": 1}, "a": [[1, 2], [3]], "b": bson.Binary(b"\0\1"), "c": bson.ObjectId(b"\2" * 12)},
    )
    return [{**each, "n": n, "t": DAY + dt.timedelta(hours=n)} for n, each in enumerate(odd)]


def codes(value: Any) -> Iterator[Any]:
    """Yield every error code in a reply, wherever it stands."""
    if isinstance(value, dict):
        if "errmsg" in value and "code" in value:
            yield value["code"], value["errmsg"]
        for member in value.values():
            yield from codes(member)
    elif isinstance(value, list):
        for element in value:
            yield from codes(element)


class Fuzz:
    """Sends statements to one deployment after the other, and keeps what was answered."""

    def __init__(self, spec: ClusterSpec, table: CommandTable, seed: int) -> None:
        self.spec = spec
        self.statements = Statements(Random(seed), table)
        self.sent: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()
        self.defects: dict[str, Statement] = {}

    def run(self, count: int) -> None:
        """Send that many statements."""
        left = count
        while left > 0:
            left -= run_virtual(partial(self._generation, most=min(left, A_GENERATION)), seed=str(left))

    async def _generation(self, world: Any, *, most: int) -> int:
        deployment = await Deployment.start(World(world.clock, world.rng, world.network), self.spec)
        try:
            talker = await self._connected(deployment)
            await self._furnish(talker)
            for sent in range(1, most + 1):
                statement = self.statements.draw()
                reply = await self._answer(talker, statement)
                if statement.ends or reply is None:
                    return sent
            return most
        finally:
            await deployment.aclose()

    async def _connected(self, deployment: Deployment) -> Talker:
        return await deployment.connect()

    async def _furnish(self, talker: Talker) -> None:
        for name in ("c", "d"):
            await talker.ok({"insert": name, "documents": documents(), "$db": "db"})
        await talker.ok({"create": "view", "viewOn": "c", "pipeline": [], "$db": "db"})
        await talker.ok({"create": "capped", "capped": True, "size": 1000, "$db": "db"})
        await talker.ok({"create": "events", "timeseries": {"timeField": "d"}, "$db": "db"})
        await talker.ok({"createRole": "mine", "privileges": [], "roles": ["read"], "$db": "admin"})
        await talker.ok({"createUser": "bob", "pwd": "secret", "roles": ["read"], "$db": "admin"})
        self.statements.forget()

    async def _answer(self, talker: Talker, statement: Statement) -> dict[str, Any] | None:
        """Send a statement and judge the reply. Returns None when the connection was closed."""
        try:
            bson.encode(statement.command)
        except (bson.errors.BSONError, OverflowError, RecursionError):
            return {}
        self.sent.update(statement.names)
        reply = await talker.command(statement.command)
        if reply is None:
            if not statement.ends:
                self.defects.setdefault(f"{statement.name} closed the connection", statement)
            return None
        found = list(codes(reply))
        if reply["ok"] == 1.0 and not found:
            self.accepted.update(statement.names)
        for code, text in found:
            if code == ErrorCode.INTERNAL_ERROR or type(code) is not int:
                self.defects.setdefault(str(text), statement)
        self.statements.hear(reply)
        return reply


class TypeFuzz(Fuzz):
    """Sends statements that are right but for the type of one value, however deep it lies, as a user."""

    async def _generation(self, world: Any, *, most: int) -> int:
        deployment = await Deployment.start(World(world.clock, world.rng, world.network), self.spec)
        rng, sent = self.statements.rng, 0
        try:
            talker = await self._connected(deployment)
            await self._furnish(talker)
            while sent < most:
                variants = list(changed(self.statements.draw(wrong=0.0)))
                for statement in rng.sample(variants, min(len(variants), VARIANTS)):
                    sent += 1
                    if await self._answer(talker, statement) is None or statement.ends:
                        return sent
            return sent
        finally:
            await deployment.aclose()

    async def _connected(self, deployment: Deployment) -> Talker:
        talker = await deployment.connect()
        await log_in_as(talker, ROOT.name, str(ROOT.password), ROOT.db)
        return talker


TABLES = {
    "mongod": (REPLICA_SET, default_table().on_mongod()),
    "mongos": (SHARDED, default_table().on_mongos()),
}


@pytest.mark.slow
@pytest.mark.parametrize("server", TABLES)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_statement_is_answered_by_a_defect(server: str, seed: int, request: pytest.FixtureRequest) -> None:
    spec, table = TABLES[server]
    fuzz = Fuzz(spec, table, seed)
    fuzz.run(COUNT // len(TABLES) // len(SEEDS))
    repeat = f"{again('statements')} pytest -n 0 '{request.node.nodeid}'"
    report = "\n".join(f"{text}\n    {statement.command}" for text, statement in fuzz.defects.items())
    assert not fuzz.defects, f"{len(fuzz.defects)} defects, seed {seed}; repeat with {repeat}\n{report}"
    never = {name for name, count in fuzz.sent.items() if count >= OFTEN and not fuzz.accepted[name]}
    known = NEVER_ACCEPTED | NEVER_ACCEPTED_BY[server]
    missed = never - known.keys() - WITHOUT_ENGINES
    assert not missed, f"the grammar gets none of these accepted, in {OFTEN} draws and more: {missed}"
    assert not known.keys() & fuzz.accepted.keys(), "these are accepted after all"


@pytest.mark.slow
@pytest.mark.parametrize("server", TABLES)
def test_no_type_of_a_value_is_answered_by_a_defect(server: str, request: pytest.FixtureRequest) -> None:
    spec, table = TABLES[server]
    fuzz = TypeFuzz(dataclasses.replace(spec, auth=True, users=(ROOT,)), table, seed=1)
    fuzz.run(COUNT // len(TABLES))
    repeat = f"{again('statements')} pytest -n 0 '{request.node.nodeid}'"
    report = "\n".join(f"{text}\n    {statement.command}" for text, statement in fuzz.defects.items())
    assert not fuzz.defects, f"{len(fuzz.defects)} defects; repeat with {repeat}\n{report}"


def test_statements_depend_on_the_seed_alone() -> None:
    _, table = TABLES["mongod"]
    one, other = (Statements(Random(7), table) for _ in range(2))
    assert [str(one.draw().command) for _ in range(200)] == [str(other.draw().command) for _ in range(200)]


def test_statements_name_every_command_of_the_table() -> None:
    _, table = TABLES["mongos"]
    statements = Statements(Random(1), table)
    missing = {f"command {spec.name}" for spec in table}
    for _ in range(100_000):  # some are drawn once in four thousand times
        if missing:
            missing -= statements.draw().names
    assert not missing
