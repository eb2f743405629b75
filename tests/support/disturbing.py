"""Applications that write, someone who breaks their deployment, and what must hold afterwards."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pymongo import AsyncMongoClient, InsertOne, ReturnDocument, UpdateOne, WriteConcern
from pymongo.errors import ClientBulkWriteException, DuplicateKeyError, PyMongoError

from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pymongo.asynchronous.database import AsyncDatabase

    from fakeserver.deployment.cluster import Cluster, Node
    from mongowire.ports import Clock, Rng

_PATIENCE = 3.0
_USUAL_LAG = 0.01
_PUSHES_PER_DOCUMENT = 25
_OPTIONS: dict[str, Any] = {
    "w": "majority",
    "retryWrites": True,
    "connectTimeoutMS": 500,
    "socketTimeoutMS": 1000,
    "serverSelectionTimeoutMS": 5000,
    "heartbeatFrequencyMS": 500,
}


@dataclass
class Application:
    """One client. `acknowledged` are the numbers of its writes that the deployment has acknowledged.

    Each second time it asks for a majority, which promises that they are kept; of the others, which have
    `w: 1`, a deployment that rolls back (`loses`) may lose some.

    It writes in four ways in turn: it inserts a document, appends its number to one, appends and asks for the
    document in return, and does both with the bulkWrite command.
    """

    number: int
    loses: bool = False
    acknowledged: list[int] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    applied_twice: list[int] = field(default_factory=list)
    misinformed: list[int] = field(default_factory=list)
    """Writes whose answer was not what they did."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when its first write is acknowledged."""

    async def work(self, uri: str, stop: asyncio.Event) -> None:
        """Write until told to stop."""
        async with AsyncMongoClient[Any](uri, **_OPTIONS) as client:
            operation = 0
            while not stop.is_set():
                try:
                    await self._write(client, operation)
                except DuplicateKeyError:
                    self.applied_twice.append(operation)
                except PyMongoError as error:
                    self.failed[type(error).__name__] += 1
                    if isinstance(error, ClientBulkWriteException) and error.write_errors:
                        self.applied_twice.append(operation)
                else:
                    self.acknowledged.append(operation)
                    self.begun.set()
                operation += 1

    async def _write(self, client: AsyncMongoClient[Any], operation: int) -> None:
        write, _ = self._kind(operation)
        await write(self, client, operation)

    @staticmethod
    def _kind(operation: int) -> tuple[_Write, tuple[str, ...]]:
        """Return how an operation writes, and to which collections."""
        return _WRITES[operation % len(_WRITES)]

    async def _insert(self, client: AsyncMongoClient[Any], operation: int) -> None:
        await self._database(client, operation).inserted.insert_one(self._document(operation))

    async def _append(self, client: AsyncMongoClient[Any], operation: int) -> None:
        appended = self._database(client, operation).appended
        await appended.update_one(*self._appending(operation), upsert=True)

    async def _append_and_find(self, client: AsyncMongoClient[Any], operation: int) -> None:
        found = await self._database(client, operation).appended.find_one_and_update(
            *self._appending(operation),
            projection={"done": {"$slice": -3}, "times": {"$size": "$done"}},
            sort={"_id": -1},
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        if found is None or found["done"][-1] != operation:
            self.misinformed.append(operation)

    async def _bulk_write(self, client: AsyncMongoClient[Any], operation: int) -> None:
        target, change = self._appending(operation)
        result = await client.bulk_write(
            [
                InsertOne(self._document(operation), namespace="chaos.inserted"),
                UpdateOne(target, change, upsert=True, namespace="chaos.appended"),
            ],
            ordered=False,
            write_concern=self._concern(operation),
            verbose_results=operation % 8 > len(_WRITES),  # each second time, or errors only
        )
        if (result.inserted_count, result.upserted_count + result.modified_count) != (1, 1):
            self.misinformed.append(operation)

    @staticmethod
    def is_kept(operation: int) -> bool:
        """Whether an operation asks for a majority."""
        return operation // len(_WRITES) % 2 == 0

    def _concern(self, operation: int) -> WriteConcern:
        return WriteConcern("majority" if self.is_kept(operation) else 1)

    def _database(self, client: AsyncMongoClient[Any], operation: int) -> AsyncDatabase[Any]:
        return client.get_database("chaos", write_concern=self._concern(operation))

    def _document(self, operation: int) -> dict[str, Any]:
        return {"_id": f"{self.number}/{operation}"}

    def _appending(self, operation: int) -> tuple[dict[str, Any], dict[str, Any]]:
        target = {"_id": f"{self.number}/{operation // _PUSHES_PER_DOCUMENT}"}
        return target, {"$push": {"done": operation}}

    async def check(self, client: AsyncMongoClient[Any]) -> None:
        """Assert that no write that was promised is missing, none was applied twice, all were told so."""
        own = {"_id": {"$regex": f"^{self.number}/"}}
        applied: Counter[tuple[str, int]] = Counter()
        async for each in client.chaos.inserted.find(own):
            applied["inserted", int(each["_id"].partition("/")[2])] += 1
        async for each in client.chaos.appended.find(own):
            applied.update(("appended", operation) for operation in each["done"])
        acknowledged = [
            (collection, operation)
            for operation in self.acknowledged
            if self.is_kept(operation) or not self.loses
            for collection in self._kind(operation)[1]
        ]
        missing = [write for write in acknowledged if not applied[write]]
        twice = [operation for (_, operation), times in applied.items() if times > 1] + self.applied_twice
        wrong = {"missing": missing, "twice": twice, "misinformed": self.misinformed}
        assert not any(wrong.values()), f"client {self.number}: {wrong}"


_Write: TypeAlias = "Callable[[Application, AsyncMongoClient[Any], int], Awaitable[None]]"
_WRITES: tuple[tuple[_Write, tuple[str, ...]], ...] = (
    (Application._insert, ("inserted",)),
    (Application._append, ("appended",)),
    (Application._append_and_find, ("appended",)),
    (Application._bulk_write, ("inserted", "appended")),
)


class Disturber:
    """Breaks something, waits, mends it, and begins again; what it does depends on its dice alone.

    Between two deeds it lets every application write something on average, or waits for some seconds. All
    the while secondaries lag a little, so that there are writes which are made and not acknowledged yet.
    """

    def __init__(
        self, cluster: Cluster, clock: Clock, dice: Rng, applications: Sequence[Application]
    ) -> None:
        self.done: Counter[str] = Counter()
        self._cluster = cluster
        self._clock = clock
        self._dice = dice
        self._applications = applications
        self._deeds: tuple[Callable[[], Awaitable[None]], ...] = (
            *(self.kill, self.shut_down, self.pause, self.part, self.cut_off_clients),
            *(self.step_down, self.elect, self.slow, self.hold, self.lag),
        )
        if cluster.spec.election_timeout is not None:
            self._deeds += (self.roll_back,) * 3

    async def disturb(self, seconds: float) -> None:
        """Go on for so many seconds, and leave everything mended."""
        until = self._clock.now() + seconds
        for node in self._cluster.nodes:
            node.lag(_USUAL_LAG)
        while self._clock.now() < until:
            deed = self._deeds[int(self._dice.random() * len(self._deeds))]
            self.done[deed.__name__] += 1
            await deed()
            await self._see_progress()
        for node in self._cluster.nodes:
            node.lag(0)

    async def _see_progress(self) -> None:
        before, until = self._acknowledged(), self._clock.now() + _PATIENCE
        while self._acknowledged() < before + len(self._applications) and self._clock.now() < until:
            await self._wait(0.1)

    def _acknowledged(self) -> int:
        return sum(len(each.acknowledged) for each in self._applications)

    async def kill(self) -> None:
        node = self._any()
        await node.kill()
        await self._wait(0.4)
        await node.start()

    async def shut_down(self) -> None:
        node = self._any()
        await node.shut_down(quiesce=self._dice.random() * 0.2)
        await self._wait(0.2)
        await node.start()

    async def pause(self) -> None:
        node = self._any()
        node.pause()
        await self._wait(1.5)
        node.resume()

    async def part(self) -> None:
        self._cluster.partition([self._any()])
        await self._wait(0.5)
        self._cluster.heal()

    async def roll_back(self) -> None:
        """Leave the primary alone with its clients, until another is elected without what it wrote."""
        with suppress(ControlError, LookupError):
            self._cluster.control.roll_back(seconds=0.2)
        await self._wait(0.4)

    async def cut_off_clients(self) -> None:
        alone = self._any()
        others = [node for node in self._cluster.nodes if node is not alone]
        self._cluster.partition([alone], ["clients", *others], reset=self._dice.random() < 0.5)
        await self._wait(0.5)
        self._cluster.heal()

    async def step_down(self) -> None:
        if self._cluster.primary is not None:
            self._cluster.step_down(seconds=0.5)

    async def elect(self) -> None:
        node = self._any()
        if self._cluster.primary not in {None, node}:
            with suppress(ValueError):  # it may be rolling back
                self._cluster.elect(node)

    async def slow(self) -> None:
        node = self._any()
        node.slow(self._dice.random() * 0.05)
        await self._wait(0.3)
        node.slow(0)

    async def hold(self) -> None:
        node = self._any()
        node.hold()
        await self._wait(0.3)
        node.release()

    async def lag(self) -> None:
        node = self._any()
        node.lag(20 * _USUAL_LAG)
        await self._wait(0.3)
        node.lag(_USUAL_LAG)

    def _any(self) -> Node:
        nodes = self._cluster.nodes
        return nodes[int(self._dice.random() * len(nodes))]

    async def _wait(self, at_most: float) -> None:
        await self._clock.sleep_until(self._clock.now() + self._dice.random() * at_most)
