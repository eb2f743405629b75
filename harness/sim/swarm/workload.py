"""The workload of clients: drawn operations, performed by the reference driver, noted in a history.

Which operation a client's n-th is depends on the schedule's seed, the client and n alone, so that a smaller
schedule has the same ones; one of a kind that `work` has no more becomes another.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, Final

from driver.concerns import ReadConcern, ReadMode, ReadPreference, WriteConcern
from driver.errors import DriverError
from driver.operations.models import DeleteOne, InsertOne, UpdateOne
from harness.sim.swarm.history import TRANSACTIONS, WorkloadOperation, comment_of
from harness.sim.swarm.schedule import WORK
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from driver import AsyncClient
    from driver.collection import Collection
    from driver.session import ClientSession
    from harness.sim.swarm.schedule import Schedule
    from mongowire.ports import Clock

DATABASE: Final = "swarm"
KEYS: Final = 3
"""The lists, counters, registers and accounts, each."""
SHARED: Final = ("list", "counter", "register", "account")
PER_CLIENT: Final = 10_000
"""The numbers of one client's operations; the next client's begin after so many."""
_LINEARIZABLE: Final = 0.3
"""The share of reads of registers that ask for it, where a deployment has it."""
_UNACKNOWLEDGED: Final = 0.3
"""The share of writes with w: 0, where the schedule has some."""
_BULK: Final = 0.4
"""The share of writes that go by a bulk write, where the schedule has some."""

current: ContextVar[int | None] = ContextVar("current", default=None)
"""The number of the operation in whose task an event is told."""


@dataclass(frozen=True, slots=True)
class PlannedOperation:
    """One operation before it runs.

    `way` is how a write goes: "one", "bulk" or "client bulk". One that is `unacknowledged` has w: 0.
    """

    kind: str
    key: str
    argument: Any = None
    way: str = "one"
    read: str = "primary"
    level: str | None = None
    unacknowledged: bool = False


def plan(schedule: Schedule, client: int, index: int) -> PlannedOperation | None:
    """Return a client's operation at an index; None where `work` has no operations."""
    draw = SeededRng(schedule.seed, f"client{client}/{index}").random
    # A number for each kind there is, so that the others stay what they were where `work` has one less.
    drawn = [(draw(), kind) for kind in WORK if kind not in ("stream", "batch", "scan")]
    # Numbers of their own, which change no other's.
    more = SeededRng(schedule.seed, f"client{client}/{index}/more").random
    drawn.append((more(), "batch"))
    drawn.append((SeededRng(schedule.seed, f"client{client}/{index}/scan").random(), "scan"))
    fitting = [each for each in drawn if each[1] in schedule.work]
    if not fitting:
        return None
    kind, place, number = min(fitting)[1], int(draw() * KEYS), client * PER_CLIENT + index
    way = ("bulk", "client bulk")[int(draw() * 2)] if draw() < _BULK and schedule.bulk else "one"
    level = None if schedule.level == "default" else schedule.level
    planned = PlannedOperation(kind, f"{_COLLECTIONS[kind]}:{place}", None, way, schedule.read, level)
    if schedule.unacknowledged and kind in _SINGLE and way != "client bulk":
        planned = replace(planned, unacknowledged=more() < _UNACKNOWLEDGED)
    other = (place + 1 + int(draw() * (KEYS - 1))) % KEYS
    if kind == "insert":
        return replace(planned, key=f"document:{number}")
    if kind == "increment":
        return replace(planned, argument=1 + int(draw() * 9))
    if kind == "mark":
        return replace(planned, argument=(f"list:{place}", f"list:{other}"))
    if kind == "batch":
        inserted = (f"document:{number}",) if way == "client bulk" else ()
        return replace(planned, argument=(f"list:{place}", f"list:{other}", *inserted))
    if kind == "transfer":
        moved = (f"account:{place}", f"account:{other}", 1 + int(draw() * 5))
        return replace(planned, argument=moved)
    if kind == "read" and schedule.topology != "single" and draw() < _LINEARIZABLE:
        return replace(planned, read="primary", level="linearizable")
    return planned


_COLLECTIONS: Final[Mapping[str, str]] = {
    "insert": "document",
    "delete": "document",
    "push": "list",
    "read_list": "list",
    "increment": "counter",
    "write": "register",
    "swap": "register",
    "read": "register",
    "mark": "list",
    "transfer": "list",
    "read_accounts": "account",
    "batch": "list",
    "scan": "list",
}
_SINGLE: Final = frozenset({"insert", "delete", "push", "increment", "write"})
"""The kinds that write one document by an operation that may have w: 0."""


@dataclass(slots=True)
class Performer:
    """One client of the workload; `operations` are noted as they end."""

    schedule: Schedule
    number: int
    client: AsyncClient
    clock: Clock
    operations: list[WorkloadOperation] = field(default_factory=list)

    async def work(self, worker: int, until: float) -> None:
        """Perform the operations of a worker: those of the schedule, then a few from the instant `until` on.

        The latter show whether the deployment serves again, so they are performed whatever `work` says.
        """
        schedule = self.schedule
        explicit = schedule.causal or schedule.topology == "single"
        session = self.client.start_session(causal_consistency=schedule.causal) if explicit else None
        name = None if session is None else 100 * self.number + worker
        inserted: list[str] = []
        for index in range(schedule.first, schedule.operations):
            if index % schedule.workers != worker:
                continue
            number, planned = self.number * PER_CLIENT + index, plan(schedule, self.number, index)
            if planned is None:
                continue
            if planned.kind == "delete" and inserted:
                planned = replace(planned, key=inserted.pop())
            elif planned.kind == "delete":  # the worker has no document yet
                planned = replace(planned, kind="insert", key=f"document:{number}")
            await self.clock.sleep_until(index * schedule.gap / 1000)
            ended = await self._perform(number, planned, session, name)
            if planned.kind == "insert" and ended.outcome == "ok":
                inserted.append(planned.key)
        for place, (after, planned) in enumerate(_AFTERWARDS):
            await self.clock.sleep_until(until + after)
            index = PER_CLIENT // 2 + 100 * worker + place
            await self._perform(self.number * PER_CLIENT + index, planned, session, name)
        if session is not None:
            await session.aclose()

    async def _perform(
        self, number: int, planned: PlannedOperation, session: ClientSession | None, name: int | None
    ) -> WorkloadOperation:
        schedule = self.schedule
        own = planned.kind in TRANSACTIONS and session is None
        # Neither linearizable reads nor unacknowledged writes are to be had in a causally consistent session.
        linear, silent = planned.level == "linearizable", planned.unacknowledged
        alone = linear or silent
        used = self.client.start_session(causal_consistency=False) if own else None if alone else session
        began = self.clock.now()
        reads = planned.kind in {"read", "read_list", "scan"}
        operation = WorkloadOperation(
            number=number,
            client=self.number,
            kind=planned.kind,  # type: ignore[arg-type]  # of the same words
            key=planned.key,
            argument=planned.argument,
            invoked=began,
            session=None if alone else name,
            causal=schedule.causal and used is not None and not own,
            read_concern="snapshot" if planned.kind in TRANSACTIONS else planned.level if reads else None,
            write_concern=None
            if reads
            else "majority"
            if planned.kind in TRANSACTIONS
            else self._concern(planned).w,
            read_preference=planned.read if reads else "primary",
            deadline=began + schedule.timeout / 1000 if schedule.timeout else inf,
        )
        token = current.set(number)
        self.operations.append(operation)
        place = len(self.operations) - 1
        ended = replace(operation, outcome="unknown")
        try:
            result = await _PERFORM[planned.kind](self, number, planned, used)
            ended = replace(
                operation,
                result=result,
                outcome="unknown" if silent else "ok",
                completed=self.clock.now(),
            )
        except DriverError as error:
            text = " ".join(str(error).split()) or type(error).__name__
            ended = replace(
                operation,
                outcome="failed",
                error=f"{type(error).__name__}: {text}",
                labels=frozenset(error.labels),
                attempted=error.attempted,
                completed=self.clock.now(),
            )
        finally:
            self.operations[place] = ended
            if own and used is not None:
                await used.aclose()
            current.reset(token)
        return ended

    def collection(self, planned: PlannedOperation, *, name: str | None = None) -> Collection:
        """Return the view of an operation's collection, with its concerns."""
        database = self.client.database(
            DATABASE,
            read_preference=ReadPreference(ReadMode(planned.read)),
            read_concern=ReadConcern(planned.level),
            write_concern=self._concern(planned),
        )
        return database.collection(name or planned.key.partition(":")[0])

    def _concern(self, planned: PlannedOperation) -> WriteConcern:
        if planned.unacknowledged:
            return WriteConcern(0)
        return WriteConcern("majority" if self.schedule.concern != "1" else 1)


def _document(key: str) -> dict[str, Any]:
    return {"_id": int(key.partition(":")[2])}


async def _insert(
    at: Performer, number: int, planned: PlannedOperation, session: ClientSession | None
) -> None:
    collection = at.collection(planned)
    document = {"_id": number, "last": number}
    if planned.way == "one":
        await collection.insert_one(document, session=session, comment=number)
    elif planned.way == "bulk":
        await collection.bulk_write([InsertOne(document=document)], session=session, comment=number)
    else:
        model = InsertOne(document=document, namespace=collection.namespace)
        await at.client.bulk_write(
            [model], session=session, comment=number, write_concern=collection.concerns.write_concern
        )


async def _delete(
    at: Performer, number: int, planned: PlannedOperation, session: ClientSession | None
) -> None:
    collection, which = at.collection(planned), _document(planned.key)
    if planned.way == "bulk":
        await collection.bulk_write([DeleteOne(filter=which)], session=session, comment=number)
    else:
        await collection.delete_one(which, session=session, comment=number)


async def _update(
    at: Performer,
    number: int,
    planned: PlannedOperation,
    session: ClientSession | None,
    change: dict[str, Any],
) -> None:
    collection, which = at.collection(planned), _document(planned.key)
    if planned.way == "one":
        await collection.update_one(which, change, session=session, comment=number)
    elif planned.way == "bulk":
        await collection.bulk_write([UpdateOne(filter=which, update=change)], session=session, comment=number)
    else:
        model = UpdateOne(filter=which, update=change, namespace=collection.namespace)
        await at.client.bulk_write(
            [model], session=session, comment=number, write_concern=collection.concerns.write_concern
        )


async def _push(at: Performer, number: int, planned: PlannedOperation, session: ClientSession | None) -> None:
    await _update(at, number, planned, session, _pushing(number))


def _pushing(number: int) -> dict[str, Any]:
    return {"$push": {"value": number}, "$set": {"last": number}}


async def _batch(
    at: Performer, number: int, planned: PlannedOperation, session: ClientSession | None
) -> None:
    """Write several documents, and delete none: in commands of two kinds, or in one command for all."""
    collection, in_turn = at.collection(planned), number % 2 == 0
    lists = [key for key in planned.argument if key.startswith("list:")]
    if planned.way != "client bulk":
        await collection.bulk_write(
            [
                *(UpdateOne(filter=_document(key), update=_pushing(number)) for key in lists),
                DeleteOne(filter={"_id": -1}),
            ],
            session=session,
            comment=number,
            ordered=in_turn,
        )
        return
    namespace, documents = collection.namespace, at.collection(planned, name="document").namespace
    pushes = (UpdateOne(filter=_document(key), update=_pushing(number), namespace=namespace) for key in lists)
    await at.client.bulk_write(
        [*pushes, InsertOne(document={"_id": number, "last": number}, namespace=documents)],
        session=session,
        comment=number,
        ordered=in_turn,
        write_concern=collection.concerns.write_concern,
    )


async def _increment(
    at: Performer, number: int, planned: PlannedOperation, session: ClientSession | None
) -> None:
    change = {"$inc": {"value": planned.argument}, "$set": {"last": number}}
    await _update(at, number, planned, session, change)


async def _write(
    at: Performer, number: int, planned: PlannedOperation, session: ClientSession | None
) -> None:
    await _update(at, number, planned, session, {"$set": {"value": number, "last": number}})


async def _swap(at: Performer, number: int, planned: PlannedOperation, session: ClientSession | None) -> Any:
    found = await at.collection(planned).find_one_and_update(
        _document(planned.key),
        {"$set": {"value": number, "last": number}},
        returnDocument="Before",
        session=session,
        comment=number,
    )
    return None if found is None else found["value"]


async def _read(at: Performer, number: int, planned: PlannedOperation, session: ClientSession | None) -> Any:
    found = await at.collection(planned).find_one(_document(planned.key), session=session, comment=number)
    if found is None:
        return None
    return tuple(found["value"]) if isinstance(found["value"], list) else found["value"]


async def _scan(
    at: Performer, number: int, planned: PlannedOperation, session: ClientSession | None
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    cursor = await at.collection(planned).find({}, session=session, comment=number, batchSize=1)
    return tuple((f"list:{each['_id']}", tuple(each["value"])) for each in await cursor.to_list())


async def _in_transaction(
    session: ClientSession | None,
    callback: Callable[[ClientSession], Awaitable[Any]],
) -> Any:
    assert session is not None, "a transaction has a session"
    return await session.with_transaction(
        callback, read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority")
    )


def _bare(at: Performer, name: str) -> Collection:
    """Return a collection for use in a transaction, which brings its own concerns."""
    return at.client.database(DATABASE).collection(name)


async def _mark(at: Performer, number: int, planned: PlannedOperation, session: ClientSession | None) -> None:
    lists = _bare(at, "list")

    async def callback(within: ClientSession) -> None:
        for step, key in enumerate(planned.argument):
            comment = comment_of(number, step)
            await lists.update_one(_document(key), _pushing(number), session=within, comment=comment)

    await _in_transaction(session, callback)


async def _transfer(
    at: Performer, number: int, planned: PlannedOperation, session: ClientSession | None
) -> None:
    accounts, lists = _bare(at, "account"), _bare(at, "list")
    source, target, amount = planned.argument

    async def callback(within: ClientSession) -> None:
        steps = (
            (accounts, source, {"$inc": {"value": -amount}}),
            (accounts, target, {"$inc": {"value": amount}}),
            (lists, planned.key, _pushing(number)),
        )
        for step, (collection, key, update) in enumerate(steps):
            comment = comment_of(number, step)
            await collection.update_one(_document(key), update, session=within, comment=comment)

    await _in_transaction(session, callback)


async def _read_accounts(
    at: Performer, number: int, _planned: PlannedOperation, session: ClientSession | None
) -> Mapping[str, Any]:
    accounts = _bare(at, "account")

    async def callback(within: ClientSession) -> Mapping[str, Any]:
        cursor = await accounts.find({}, session=within, comment=comment_of(number, 0), batchSize=2)
        return {f"account:{each['_id']}": each["value"] for each in await cursor.to_list()}

    found: Mapping[str, Any] = await _in_transaction(session, callback)
    return found


_PERFORM: Final[Mapping[str, Callable[..., Awaitable[Any]]]] = {
    "insert": _insert,
    "delete": _delete,
    "push": _push,
    "increment": _increment,
    "write": _write,
    "swap": _swap,
    "read": _read,
    "read_list": _read,
    "mark": _mark,
    "transfer": _transfer,
    "read_accounts": _read_accounts,
    "batch": _batch,
    "scan": _scan,
}

_AFTERWARDS: Final = (
    (0.0, PlannedOperation("push", "list:0")),
    (0.1, PlannedOperation("read_list", "list:0")),
)
"""What each worker does when nothing disturbs any more: seconds after that, and the operation."""
