"""Documents that expire: which ones, at which pass of the TTL monitor, and the passes themselves.

A server looks every `ttlMonitorSleepSecs` for what has expired, and deletes it. Here a pass is run only when
something has: the others would change nothing, and are counted without being run. So a deployment in which
nothing expires has no timer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from bson import Int64

from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.port.engine import Changed, Query
from fakeserver.storage.port.oplog import Written
from fakeserver.storage.values.paths import read
from fakeserver.storage.values.types import milliseconds, type_name

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Container, Coroutine, Iterable, Iterator, Sequence

    from fakeserver.deployment.counters import Counters
    from fakeserver.sessions.transactions import Transactions
    from fakeserver.settings.server_parameters import ServerParameters
    from fakeserver.storage.port.engine import Document
    from fakeserver.storage.port.oplog import Oplog
    from fakeserver.storage.store.catalog import Catalog, Collection
    from mongowire.ports import Clock

SLEEP: Final = "ttlMonitorSleepSecs"
ENABLED: Final = "ttlMonitorEnabled"


_NEVER: Final = 253_402_300_800_000
"""The first millisecond of the year 10000."""


class TtlRule(NamedTuple):
    """Whose documents expire, `seconds` after the date at `path`; those alone that `covers` lets through."""

    collection: Collection
    path: tuple[str, ...]
    seconds: float
    covers: Callable[[Document], bool] | None = None

    def expiry(self, document: Document) -> int | None:
        """Return when a document expires, in milliseconds since the epoch; None for never.

        Of several dates in an array it is the earliest that counts. The year 10000 never comes: no clock here
        shows it.
        """
        if self.covers is not None and not self.covers(document):
            return None
        found = [
            milliseconds(each)
            for value in read(document, self.path)
            for each in (value if isinstance(value, list) else [value])
            if type_name(each) == "date"
        ]
        expiry = min(found, default=_NEVER) + int(self.seconds * 1000)
        return expiry if expiry < _NEVER else None


def rules(collections: Iterable[Collection]) -> Iterator[TtlRule]:
    """Yield what expires: by TTL indexes, in clustered collections and in time series."""
    for collection in collections:
        seconds = collection.options.get("expireAfterSeconds")
        if seconds is not None:
            field = (collection.options.get("timeseries") or {}).get("timeField", "_id")
            yield TtlRule(collection, tuple(field.split(".")), float(seconds))
        for index in collection.indexes.values():
            seconds = index.document.get("expireAfterSeconds")
            if seconds is not None and not math.isnan(float(str(seconds))):
                name = next(iter(index.key))  # that of a text index is no field, so it expires nothing
                partial = index.document.get("partialFilterExpression")
                covers = None if partial is None else compile_filter(partial)
                yield TtlRule(collection, tuple(name.split(".")), float(str(seconds)), covers)


class Passes(NamedTuple):
    """The passes of a monitor: one each `every` milliseconds since it began, by the calendar."""

    began: int
    every: int

    def until(self, now: int) -> int:
        """Return the number of passes so far."""
        return max((now - self.began) // self.every, 0)

    def next(self, now: int, expiry: int) -> int:
        """Return the first pass after `now` at which what expires at `expiry` is deleted."""
        needed = -((self.began - expiry) // self.every)
        return self.began + max(needed, self.until(now) + 1) * self.every


class TtlServer(Protocol):
    """A server whose monitor may run."""

    ready: bool
    stopped: bool
    started_at: float
    parameters: ServerParameters
    counters: Counters


class TtlSet(Protocol):
    """A replica set of the deployment."""

    @property
    def primary(self) -> TtlServer | None:
        """The member that deletes, if there is one now."""


class TtlDeployment(Protocol):
    """The deployment whose documents expire."""

    catalog: Catalog
    clock: Clock
    oplog: Oplog
    transactions: Transactions

    @property
    def shards(self) -> Sequence[TtlSet]:
        """Its replica sets, none on a standalone."""

    @property
    def nodes(self) -> Sequence[TtlServer]:
        """The servers that clients speak to."""

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine until it ends, or the deployment stops."""


class TtlMonitor:
    """The TTL monitor of a deployment, whose primary is the one that deletes."""

    def __init__(self, cluster: TtlDeployment) -> None:
        self._cluster = cluster
        self._rules: list[TtlRule] = []
        self._began: dict[TtlServer, float] = {}
        self._acting: TtlServer | None = None
        self._passes: Passes | None = None
        self._counted = 0
        self._due: int | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._seen = cluster.oplog.last
        self._listening: int | None = None

    # What may change the plan.

    def refresh(self) -> None:
        """Hear that collections, the primary or the parameters have changed."""
        self._count()
        self._rules = list(rules(self._cluster.catalog))
        self._acting = self._actor()
        self._passes = None
        if self._acting is not None:
            clock = self._cluster.clock
            began = round((clock.utc() - clock.now() + self._beginning(self._acting)) * 1000)
            self._passes = Passes(began, self._acting.parameters[SLEEP] * 1000)
        self._counted = 0 if self._passes is None else self._passes.until(self._utc())
        # Hear of writes, as long as there is something that expires.
        grown = self._cluster.oplog.grown
        if self._rules and self._listening is None:
            self._seen = self._cluster.oplog.last
            self._listening = grown.listen(self._written)
        elif not self._rules and self._listening is not None:
            grown.ignore(self._listening)
            self._listening = None
        # Wait for the pass at which the first of all documents expires.
        self._cancel()
        found = (rule.expiry(document) for rule in self._rules for document in self._documents(rule))
        self._wait_for(min((each for each in found if each is not None), default=None))

    def parameters_changed(self, node: TtlServer, names: Container[str]) -> None:
        """Hear which parameters of a server are others; another interval begins now."""
        self._count()
        if SLEEP in names:
            self._began[node] = self._cluster.clock.now()
        self._acting = None
        self.refresh()

    def _actor(self) -> TtlServer | None:
        """Return the server that deletes: the primary, if it runs and its monitor is enabled."""
        cluster = self._cluster
        nodes = [shard.primary for shard in cluster.shards] or list(cluster.nodes)
        node = next((each for each in nodes if each is not None and each.ready and not each.stopped), None)
        return node if node is not None and node.parameters[ENABLED] else None

    def _beginning(self, node: TtlServer) -> float:
        """Return the instant from which on a server's passes are counted: its start, or a new interval's."""
        return max(node.started_at, self._began.get(node, node.started_at))

    def _written(self) -> None:
        oplog = self._cluster.oplog
        self._listening = oplog.grown.listen(self._written)
        entries, self._seen = list(oplog.since(self._seen)), oplog.last
        found = [
            rule.expiry(written.change.after)
            for entry in entries
            for written in entry.changes
            for rule in self._rules
            if written.ns == rule.collection.ns and written.change.after is not None
        ]
        self._wait_for(min((each for each in found if each is not None), default=None))

    # The next pass.

    def _documents(self, rule: TtlRule) -> list[Document]:
        return self._cluster.catalog.engine.find(rule.collection.ns, Query())

    def _wait_for(self, expiry: int | None) -> None:
        """See that there is a pass for what expires then, unless there is one already."""
        if expiry is None or self._passes is None:
            return
        due = self._passes.next(self._utc(), expiry)
        if self._due is not None and self._due <= due:
            return
        self._cancel()
        self._due = due
        assert self._acting is not None
        after = (due - self._passes.began) / 1000
        self._waiting = self._cluster.spawn(self._wait(self._beginning(self._acting) + after, due))

    def _cancel(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        self._due = self._waiting = None

    async def _wait(self, instant: float, due: int) -> None:
        await self._cluster.clock.sleep_until(instant)
        self._due = self._waiting = None
        if self._actor() is self._acting:
            self._delete(due)
        self.refresh()

    def _delete(self, due: int) -> None:
        node = self._acting
        assert node is not None
        for rule in self._rules:
            for document in self._documents(rule):
                expiry = rule.expiry(document)
                if expiry is not None and expiry <= due:
                    self._delete_one(node, rule, document)

    def _delete_one(self, node: TtlServer, rule: TtlRule, document: Document) -> None:
        """Delete a document, unless an open transaction has claimed it: then a later pass does."""
        collection, catalog = rule.collection, self._cluster.catalog
        ns, holders = collection.ns, self._cluster.transactions.holders
        if any((ns, claim) in holders for claim in catalog.engine.claims(ns, document)):
            return
        wanted = {"_id": document["_id"]}
        if collection.kind == "timeseries":  # Measurements may share an `_id`.
            wanted = {**wanted, ".".join(rule.path): next(read(document, rule.path))}
        for deleted in catalog.engine.delete(ns, Query(wanted, limit=1)):
            written = Written(ns, Changed(deleted, None), collection.uuid, images=collection.keeps_images)
            self._cluster.oplog.append((written,))
            node.counters.ttl_deleted += 1

    # What serverStatus tells.

    def _utc(self) -> int:
        return round(self._cluster.clock.utc() * 1000)

    def _count(self) -> None:
        """Credit the passes since the last time to the server that has made them."""
        if self._acting is not None and self._passes is not None:
            made = self._passes.until(self._utc())
            self._acting.counters.ttl_passes += made - self._counted
            self._counted = made

    def status(self, node: TtlServer) -> dict[str, Any]:
        """Return `serverStatus.metrics.ttl` of a server."""
        self._count()
        counters = node.counters
        return {"deletedDocuments": Int64(counters.ttl_deleted), "passes": Int64(counters.ttl_passes)}
