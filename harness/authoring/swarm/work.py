"""Work of the swarm: a table of operations that a driver performs, each a function of the dice.

Documents 1 to 5 are there at the beginning, each with a counter `n`. Each insert has an `_id` of its own, and
each update adds to a counter, so that the end tells what was applied how often.

Operations that replace or delete aim at negative ids, which no document has: they are sent and answered as
any, and take nothing away from what the `data` oracle counts. An operation with another effect on the
collection `stock` would have to be known to that oracle. `_COMMANDS` says by which commands a fault meets an
operation; one that is missing there is met by its own name, and a fault that nothing meets stays until the
case ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from harness.adapters.child import introduced
from harness.adapters.registry import DRIVERS, EDITIONS, PREFIX, make_adapter
from harness.world import cancelling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    Operation: TypeAlias = dict[str, Any]
    from harness.adapters.base import Feature
    from harness.adapters.registry import DriverEntry


COLLECTION: Final = "collection"
DATABASE: Final = "database"
CLIENT: Final = "client"
UNACKNOWLEDGED: Final = "unacknowledged"
SESSION: Final = "session"
CURSOR: Final = "cursor"
HELD: Final = 5
"""Documents that are there at the beginning."""


class Numbers:
    """The dice of a schedule, and the next `_id` that no document has yet."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self._next = 100

    def new(self) -> int:
        """Return an `_id` that no document has."""
        self._next += 1
        return self._next

    def held(self) -> int:
        """Return the `_id` of a document that is there."""
        return self.dice.randint(1, HELD)


def call(name: str, target: str = COLLECTION, /, **arguments: Any) -> Operation:
    """Return an operation whose result and error are for oracles to judge."""
    document: Operation = {"name": name, "object": target}
    if arguments:
        document["arguments"] = arguments
    document["ignoreResultAndError"] = True
    return document


def pause(milliseconds: int) -> Operation:
    """Return the step that lets time pass."""
    return {"name": "wait", "object": "testRunner", "arguments": {"ms": milliseconds}}


def repeat(times: int, operation: Operation) -> Operation:
    """Return the step that runs an operation so many times."""
    arguments = {"times": times, "operations": [operation]}
    return {"name": "repeat", "object": "testRunner", "arguments": arguments}


def _find(numbers: Numbers) -> Operation:
    few = {"batchSize": 2} if numbers.dice.random() < 0.3 else {}  # noqa: PLR2004
    return call("find", filter={"_id": {"$lte": HELD}} if few else {"_id": numbers.held()}, **few)


def opened_cursor() -> Operation:
    """Return the step that opens a cursor, which is not to meet a fault: its result is an entity."""
    opened = call("createFindCursor", filter={"_id": {"$lte": HELD}}, batchSize=2)
    del opened["ignoreResultAndError"]
    return {**opened, "saveResultAsEntity": CURSOR}


def left_cursor(numbers: Numbers) -> list[Operation]:
    """Return steps that read a cursor for a while and close it before its end, so that it is to be killed."""
    read = [call("iterateUntilDocumentOrError", CURSOR) for _ in range(numbers.dice.randint(0, 3))]
    return [*read, call("close", CURSOR)]


def _insert(numbers: Numbers) -> Operation:
    return call("insertOne", document={"_id": numbers.new()})


def _insert_many(numbers: Numbers) -> Operation:
    documents = [{"_id": numbers.new()} for _ in range(2)]
    return call("insertMany", documents=documents, ordered=numbers.dice.random() < 0.5)  # noqa: PLR2004


def _add(numbers: Numbers) -> dict[str, Any]:
    return {"filter": {"_id": numbers.held()}, "update": {"$inc": {"n": 1}}}


def _bulk(numbers: Numbers) -> Operation:
    requests: list[dict[str, Any]] = [
        {"insertOne": {"document": {"_id": numbers.new()}}},
        {"updateOne": _add(numbers)},
        {"insertOne": {"document": {"_id": numbers.new()}}},
    ]
    if numbers.dice.random() < 0.4:  # noqa: PLR2004
        requests.append({"updateMany": {"filter": {"n": {"$gte": 0}}, "update": {"$inc": {"n": 1}}}})
    numbers.dice.shuffle(requests)
    return call("bulkWrite", requests=requests, ordered=numbers.dice.random() < 0.5)  # noqa: PLR2004


def _client_bulk(numbers: Numbers) -> Operation:
    namespace = "swarm.stock"
    models: list[dict[str, Any]] = [
        {"insertOne": {"namespace": namespace, "document": {"_id": numbers.new()}}},
        {"updateOne": {"namespace": namespace, **_add(numbers)}},
    ]
    if numbers.dice.random() < 0.4:  # noqa: PLR2004
        many = {"namespace": namespace, "filter": {"n": {"$gte": 0}}, "update": {"$inc": {"n": 1}}}
        models.append({"updateMany": many})
    return call("clientBulkWrite", CLIENT, models=models)


def _command(numbers: Numbers) -> Operation:
    commands: list[tuple[str, dict[str, Any]]] = [
        ("ping", {"ping": 1}),
        ("find", {"find": "stock", "filter": {"_id": numbers.held()}}),
        ("insert", {"insert": "stock", "documents": [{"_id": numbers.new()}]}),
        ("update", {"update": "stock", "updates": [{"q": {"_id": -1}, "u": {"$set": {"x": 1}}}]}),
        ("findAndModify", {"findAndModify": "stock", "query": {"_id": -1}, "update": {"$set": {"x": 1}}}),
        ("aggregate", {"aggregate": "stock", "pipeline": [], "cursor": {}}),
        ("dbStats", {"dbStats": 1}),
    ]
    name, command = numbers.dice.choice(commands)
    return call("runCommand", DATABASE, commandName=name, command=command)


READS: Final[Mapping[str, Callable[[Numbers], Operation]]] = {
    "find": _find,
    "aggregate": lambda numbers: call("aggregate", pipeline=[{"$match": {"_id": numbers.held()}}]),
    "count": lambda _: call("countDocuments", filter={}),
    "estimate": lambda _: call("estimatedDocumentCount"),
    "distinct": lambda _: call("distinct", fieldName="_id", filter={}),
    "listDatabases": lambda _: call("listDatabases", CLIENT),
    "listCollections": lambda _: call("listCollections", DATABASE),
    "listIndexes": lambda _: call("listIndexes"),
    "findOne": lambda numbers: call("findOne", filter={"_id": numbers.held()}),
    "cursor": lambda _: call("find", filter={"_id": {"$lte": HELD}}, batchSize=2, limit=4),
    "listSearchIndexes": lambda _: call("listSearchIndexes"),
}
WRITES: Final[Mapping[str, Callable[[Numbers], Operation]]] = {
    "insertOne": _insert,
    "insertMany": _insert_many,
    "updateOne": lambda numbers: call("updateOne", **_add(numbers)),
    "updateMany": lambda _: call("updateMany", filter={"n": {"$gte": 0}}, update={"$inc": {"n": 1}}),
    "findOneAndUpdate": lambda numbers: call("findOneAndUpdate", **_add(numbers)),
    "deleteOne": lambda numbers: call("deleteOne", filter={"_id": -numbers.held()}),
    "deleteMany": lambda numbers: call("deleteMany", filter={"_id": -numbers.held()}),
    "replaceOne": lambda numbers: call("replaceOne", filter={"_id": -numbers.held()}, replacement={"x": 1}),
    "bulkWrite": _bulk,
    "findOneAndDelete": lambda numbers: call("findOneAndDelete", filter={"_id": -numbers.held()}),
    "findOneAndReplace": lambda numbers: call(
        "findOneAndReplace", filter={"_id": -numbers.held()}, replacement={"x": 1}
    ),
}
OTHERS: Final[Mapping[str, Callable[[Numbers], Operation]]] = {
    "runCommand": _command,
    "clientBulkWrite": _client_bulk,
    "unacknowledged": lambda numbers: call("insertOne", UNACKNOWLEDGED, document={"_id": numbers.new()}),
    "createIndex": lambda _: call("createIndex", keys={"x": 1}),
    "out": lambda _: call("aggregate", pipeline=[{"$match": {"_id": 1}}, {"$out": "copies"}]),
    "merge": lambda _: call("aggregate", pipeline=[{"$match": {"_id": 1}}, {"$merge": {"into": "copies"}}]),
    "drop": lambda _: call("dropCollection", DATABASE, collection="copies"),
    "create": lambda numbers: call("createCollection", DATABASE, collection=f"made{numbers.new()}"),
    "collMod": lambda _: call("modifyCollection", DATABASE, collection="stock", validationLevel="moderate"),
    "dropIndex": lambda _: call("dropIndex", name="x_1"),
    "dropDatabase": lambda _: call("dropDatabase", CLIENT, database="copies"),
    "createSearchIndex": lambda _: call(
        "createSearchIndex", model={"name": "searched", "definition": {"mappings": {"dynamic": True}}}
    ),
    "updateSearchIndex": lambda _: call("updateSearchIndex", name="searched", definition={}),
    "dropSearchIndex": lambda _: call("dropSearchIndex", name="searched"),
}


def within(operation: Operation) -> Operation:
    """Return an operation in the session of the case."""
    return {**operation, "arguments": {**operation.get("arguments", {}), "session": SESSION}}


def transaction(numbers: Numbers) -> list[Operation]:
    """Return a transaction: by its statements one by one, or by withTransaction."""
    dice = numbers.dice
    kinds = (_find, _insert, WRITES["updateOne"], WRITES["findOneAndUpdate"], READS["aggregate"])
    statements = [within(make(numbers)) for make in dice.choices(kinds, k=dice.choice((0, 1, 2, 2)))]
    options: dict[str, Any] = {}
    if dice.random() < 0.4:  # noqa: PLR2004
        options["writeConcern"] = dice.choice(({"w": 1}, {"w": "majority"}))
    if dice.random() < 0.3:  # noqa: PLR2004
        options["readConcern"] = {"level": dice.choice(("local", "majority", "snapshot"))}
    if dice.random() < 0.3:  # noqa: PLR2004
        return [call("withTransaction", SESSION, callback=statements or [within(_find(numbers))], **options)]
    end = "abortTransaction" if dice.random() < 0.25 else "commitTransaction"  # noqa: PLR2004
    ends = [end, end] if dice.random() < 0.15 and end == "commitTransaction" else [end]  # noqa: PLR2004
    return [
        call("startTransaction", SESSION, **options),
        *statements,
        *(call(each, SESSION) for each in ends),
    ]


def commands_of(operation: Operation) -> list[str]:
    """Return the commands that an operation sends, by which fail points meet it."""
    name = operation["name"]
    if operation["object"] == CURSOR:
        return ["killCursors"] if name == "close" else ["getMore"]
    if name == "runCommand":
        return [operation["arguments"]["commandName"]]
    return _COMMANDS.get(name, [name])


_COMMANDS: Final[Mapping[str, list[str]]] = {
    "find": ["find", "getMore"],
    "countDocuments": ["aggregate"],
    "estimatedDocumentCount": ["count", "aggregate"],
    "insertOne": ["insert"],
    "insertMany": ["insert"],
    "updateOne": ["update"],
    "updateMany": ["update"],
    "replaceOne": ["update"],
    "deleteOne": ["delete"],
    "deleteMany": ["delete"],
    "findOneAndUpdate": ["findAndModify"],
    "bulkWrite": ["insert", "update"],
    "clientBulkWrite": ["bulkWrite"],
    "findOne": ["find"],
    "findOneAndDelete": ["findAndModify"],
    "findOneAndReplace": ["findAndModify"],
    "listSearchIndexes": ["aggregate"],
    "createIndex": ["createIndexes"],
    "dropIndex": ["dropIndexes"],
    "dropCollection": ["drop"],
    "createCollection": ["create"],
    "modifyCollection": ["collMod"],
    "createSearchIndex": ["createSearchIndexes"],
    "withTransaction": ["find", "insert", "update", "commitTransaction"],
    "startTransaction": ["find", "insert", "update", "commitTransaction", "abortTransaction"],
    "close": ["killCursors", "endSessions"],
    "endSession": ["abortTransaction"],
}


# The driver that a swarm judges: what must be known of it before a case can be drawn.


@dataclass(frozen=True, slots=True)
class SwarmDriver:
    """A driver by its name. `command` is the command line of an adapter that is a process of its own."""

    name: str
    editions: tuple[str, ...]
    features: frozenset[Feature]
    virtual_time: bool = False
    command: str = ""

    @property
    def commands(self) -> tuple[tuple[str, str], ...]:
        """The pairs for `Settings.commands`."""
        return ((self.name, self.command),) if self.command else ()


def driver_of(text: str, edition: str) -> SwarmDriver:
    """Return the driver that a name or a command stands for; an adapter is run once, to introduce itself.

    Raises `AdapterLost` for one that does not.
    """
    if text in DRIVERS:
        entry = DRIVERS[text]
        return SwarmDriver(text, entry.editions, _features(text, entry, edition), entry.virtual_time)
    command = text.removeprefix(PREFIX).strip()
    hello = cancelling.run(introduced(command))
    return SwarmDriver(hello.name, (hello.edition or EDITIONS[-1],), hello.features, command=command)


def _features(name: str, entry: DriverEntry, edition: str) -> frozenset[Feature]:
    """Return what a driver of ours can do: that of PyMongo is the same in every edition.

    PyMongo is imported here and no sooner, for it is not needed by a swarm of another driver. The reference
    adapter is made without a deployment: its features depend on the edition alone.
    """
    if not entry.virtual_time:
        features: frozenset[Feature] = import_module("harness.adapters.pymongo.base").FEATURES
        return features
    nowhere: Any = None
    return make_adapter(name, nowhere, edition=edition or entry.editions[0]).features
