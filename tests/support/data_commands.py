"""The data commands without a server: handlers called as the pipeline calls them, on a bare node."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import bson

from fakeserver.commands.context import CommandContext
from fakeserver.commands.default_table import default_table
from fakeserver.deployment.counters import Counters
from fakeserver.deployment.replication.history import Point
from fakeserver.profile import Profile
from fakeserver.request.context import Execution
from fakeserver.sessions.cursors import CursorStore
from fakeserver.sessions.session import RetryableWrite, Session, SessionCatalog
from fakeserver.sessions.transactions import Transactions
from fakeserver.stages.parsing import plain
from fakeserver.storage.port.engine import Namespace
from fakeserver.storage.port.oplog import Oplog, OpTime
from fakeserver.storage.store.catalog import Catalog
from fakeserver.storage.store.memory_engine import MemoryEngine
from mongowire import ids
from mongowire.messages import decode_document
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.errors import CommandError
    from fakeserver.idl.command_table import CommandTable

START = 1_700_000_000.0


@dataclass
class HandClock:
    """A clock that is set by hand."""

    is_real = False

    instant: float = 0.0

    def now(self) -> float:
        return self.instant

    def utc(self) -> float:
        return START + self.instant

    async def sleep_until(self, when: float) -> None:
        self.instant = max(self.instant, when)


class NoFailPoints:
    """A registry in which nothing is ever set."""

    active: Mapping[str, Any] = {}


@dataclass
class Member:
    """The node that handlers see: all there is of a deployment of one."""

    clock: HandClock
    rng: Any
    oplog: Oplog
    sessions: SessionCatalog
    catalog: Catalog
    is_replica_set_member: bool
    is_mongos: bool = False
    auth: bool = False
    address: str = "localhost:27017"
    fail_points: Any = field(default_factory=NoFailPoints)
    profile: Profile = field(default_factory=lambda: Profile.named("8.2"))
    held_at: OpTime | None = None
    started_at: float = 0.0
    javascript: bool = True
    topology_changed: Any = None
    write_block: str | None = None
    counters: Counters = field(default_factory=Counters)
    commands: CommandTable = field(default_factory=default_table)

    def __post_init__(self) -> None:
        self.object_ids = ids.ObjectIds(self.clock, self.rng)

    @property
    def transactions(self) -> Transactions:
        return Transactions(self.catalog, self.oplog)

    @property
    def cluster(self) -> Member:
        return self

    @property
    def servers(self) -> list[Member]:
        return [self]

    @property
    def is_replicated(self) -> bool:
        return self.is_replica_set_member

    @property
    def applied(self) -> OpTime:
        return self.held_at or self.oplog.last

    @property
    def majority(self) -> OpTime:
        return self.oplog.last

    def committed(self) -> Point:
        return Point(self.applied, self.catalog)


@dataclass
class Server:
    """A node that runs data commands; `statement_hook` stands for `onPrimaryTransactionalWrite`."""

    replica_set: bool = True
    clock: HandClock = field(default_factory=HandClock)
    failure: CommandError | None = None

    def __post_init__(self) -> None:
        rng = SeededRng(1, "server")
        self.catalog = Catalog(MemoryEngine(rng=rng), lambda: ids.uuid(rng))
        self.oplog = Oplog(self.clock.utc)
        self.cursors = CursorStore(rng)
        self.sessions = SessionCatalog()
        self.node = Member(
            self.clock, rng, self.oplog, self.sessions, self.catalog, is_replica_set_member=self.replica_set
        )

    def run(
        self,
        command: dict[str, Any],
        *,
        db: str = "db",
        session: bytes | None = None,
        retry: tuple[Session, int] | None = None,
    ) -> dict[str, Any]:
        """Run a command as it would come over the wire. Raises `CommandError`."""
        request = plain(decode_document(bson.encode({**command, "$db": db})))
        spec = default_table().get(next(iter(request)))
        assert spec is not None
        if spec.fields is not None:
            spec.fields.check_command(request)
        request.pop("$db", None)
        reply = spec.handler(self.context(db, session, retry), request)
        return copy.deepcopy(decode_document(bson.encode(reply)))

    def context(
        self, db: str = "db", session: bytes | None = None, retry: tuple[Session, int] | None = None
    ) -> CommandContext:
        """Return the context of one command."""
        statements = None
        if retry is not None:
            owner, number = retry
            if number > owner.txn_number:
                owner.txn_number, owner.statements = number, {}
            statements = RetryableWrite(owner, self._hook, self.oplog)
        return CommandContext(
            node=cast("Any", self.node),
            connection=cast("Any", None),
            db=db,
            now=self.clock.now(),
            catalog=self.catalog,
            cursors=self.cursors,
            request=cast(
                "Any", SimpleNamespace(has_autocommit=False, execution=Execution(), deadline=None, body=b"")
            ),
            session_id=session,
            statements=statements,
        )

    def _hook(self, _statement: int) -> None:
        if self.failure is not None:
            raise self.failure

    def fill(self, collection: str, *documents: dict[str, Any], db: str = "db") -> None:
        """Insert documents."""
        reply = self.run({"insert": collection, "documents": list(documents)}, db=db)
        assert reply == {"n": len(documents)}, reply

    def documents(self, collection: str, query: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return what a collection holds, in natural order."""
        reply = self.run({"find": collection, "filter": query or {}, "batchSize": 100_000})
        return cast("list[dict[str, Any]]", reply["cursor"]["firstBatch"])

    def changes(self, collection: str) -> int:
        """Return how many changes of a collection stand in the oplog."""
        entries = self.oplog.since(OpTime(0, 0, 0))
        return sum(each.ns == Namespace("db", collection) for entry in entries for each in entry.changes)
