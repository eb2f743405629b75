"""The arguments of commands: by names that say what belongs there, else by declared types."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bson import Binary, Code, Int64

from fakeserver.idl.fields import Fields
from statements.pipelines import Pipelines
from statements.values import COLLECTIONS, TYPES

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from fakeserver.idl.fields import Field
    from statements.expressions import Makers

RARE = (
    *("collectionUUID", "encryptionInformation", "needsMerge", "fromMongos", "exchange", "term"),
    *("recipientConfigShardId", "clusterTime"),
)
ODD = ("runtimeConstants", "sampleId", "min", "max", "includeQueryStatsMetrics", "isTimeseriesNamespace")
_OFTEN, _SOMETIMES, _SELDOM = 0.3, 0.05, 0.005

MAPS = ("function() { return emit(0, this.n + 1) }", "function() { emit(this.a, 1); }", "function() {}")
REDUCTIONS = (
    "function(key, values) { return values.reduce((one, other) => one + other); }",
    "function(k, v) { return Array.sum(v); }",
    "x",
)
SPECULATIVE = {
    "saslStart": 1,
    "mechanism": "SCRAM-SHA-256",
    "payload": Binary(b"n,,n=bob,r=abc"),
    "db": "admin",
}


class Arguments(Pipelines):
    """Draws the fields that a command declares."""

    def __init__(self, rng: Random, wrong: float) -> None:
        super().__init__(rng, wrong)
        self.cursors: list[tuple[int, str]] = []
        """The cursors that replies told of: an id, and the collection's name."""
        self.special: Makers = {
            **self._of_reads(),
            **self._of_collections(),
            **self._of_users(),
            **self._of_the_rest(),
        }

    def fields_of(self, fields: Fields, path: str) -> dict[str, Any]:
        """Return a document with fields that are declared, required ones more often than not."""
        document: dict[str, Any] = {}
        for name, field in fields.by_name.items():
            if name == path or not (field.required or self.chance(how_often(name))):
                continue
            if field.required and self.chance(self.wrong / 4):
                continue
            document[name] = self.or_wrong(partial(self.field, field, path))
        if self.chance(self.wrong / 4):
            document["surplus"] = self.value(1)
        return document

    def field(self, field: Field, path: str) -> Any:
        """Return a value for a declared field."""
        make = self.special.get(f"{path}.{field.name}") or self.special.get(field.name)
        if make is not None:
            return make()
        if field.choices:
            return self.pick(field.choices)
        kind = self.pick(field.kind.split("|"))
        if isinstance(field.of, Fields) and kind in ("object", "array"):
            one = partial(self.fields_of, field.of, f"{path}.{field.name}")
            return one() if kind == "object" else self.several(one, 1)
        return self._of_kind(kind, field)

    def _of_kind(self, kind: str, field: Field) -> Any:
        makers: dict[str, Callable[[], Any]] = {
            "bool": lambda: self.pick((True, False)),
            "string": self.file_name,
            "object": self.document,
            "array": lambda: self.several(self.value if not isinstance(field.of, str) else self.document),
            "binData": lambda: Binary(b"\1" * 16, 4),
            "timestamp": self.timestamp,
            **dict.fromkeys(("int", "long", "number", "double"), self._number),
            "strictBool": lambda: self.pick((True, False)),
            "hint": self.file_name,
            "int64": lambda: Int64(1),
            "any": self.value,
        }
        return makers[kind]()

    def _number(self) -> Any:
        return self.number() if self.chance(0.1) else self.pick((0, 1, 2, 5, -1, 1.5))

    def _of_reads(self) -> Makers:
        return {
            **dict.fromkeys(("filter", "query", "q", "partialFilterExpression"), self.filter),
            **dict.fromkeys(("projection", "fields"), self.projection),
            **dict.fromkeys(("update", "u", "updateMods"), self.change),
            **dict.fromkeys(("limit", "skip", "batchSize"), self._count),
            "pipeline": self.pipeline,
            "sort": self.sort,
            "hint": lambda: self.pick(("_id_", "a_1", {"a": 1}, {"_id": 1}, {"$natural": 1}, {"nope": 1})),
            "collation": self._collation,
            "distinct.key": self.path,
            "cursor": lambda: self.parts({}, {"batchSize": lambda: self.pick((0, 1, 2, 1000, -1))}),
            "cursors": lambda: [Int64(self.pick(self.cursors)[0]) if self.cursors else Int64(7)],
            "collection": lambda: self.pick(self.cursors)[1] if self.cursors else "c",
            "let": lambda: {"v": self.value()},
            "documents": lambda: self.several(self.document, 1),
            "document": self.document,
            "arrayFilters": lambda: self.several(lambda: {"e": self.condition()}, 1, 2),
            "map": lambda: self.one_of(lambda: Code(self.pick(MAPS)), lambda: self.pick((*MAPS, 1))),
            "reduce": lambda: self.one_of(
                lambda: Code(self.pick(REDUCTIONS)), lambda: self.pick((*REDUCTIONS, 1))
            ),
            "out": lambda: self.pick(("e", {"inline": 1}, {"inline": 1}, {"merge": "e"}, {"x": 1})),
        }

    def _count(self) -> Any:
        return self.number() if self.chance(0.1) else self.pick((0, 1, 2, 100, -1))

    def _collation(self) -> Any:
        return self.parts(
            {"locale": lambda: self.pick(("en", "fr", "simple", "xx"))},
            {
                "strength": lambda: self.pick((1, 2, 3, 4, 5, 6)),
                "numericOrdering": lambda: True,
                "caseLevel": lambda: True,
                "caseFirst": lambda: self.pick(("upper", "off")),
                "alternate": lambda: self.pick(("shifted", "non-ignorable")),
            },
        )

    def _of_collections(self) -> Makers:
        def key() -> Any:
            kinds = (1, -1, 1, -1, "hashed", "text", "2dsphere", "2d", 0, "odd")
            return {self.pick((self.path(), "$**")): self.or_wrong(lambda: self.pick(kinds))}

        def expiry() -> Any:
            return self.pick((0, 60, 10**9, "off", 1.5))

        times: Makers = {"metaField": self.path, "granularity": lambda: self.pick(("seconds", "x"))}
        changes: Makers = {"hidden": lambda: True, "expireAfterSeconds": expiry}
        clustered: Makers = {"key": lambda: {"_id": 1}, "unique": lambda: True}
        return {
            "key": key,
            "shardCollection.key": lambda: {self.pick(("_id", "n", "a")): self.pick((1, "hashed", 1, -1))},
            "validator": lambda: self.one_of(self.filter, lambda: {"$jsonSchema": self.schema()}),
            "validationLevel": lambda: self.pick(("off", "strict", "moderate", "x")),
            "validationAction": lambda: self.pick(("error", "warn", "x")),
            "expireAfterSeconds": expiry,
            "viewOn": self.collection,
            "timeseries": lambda: self.parts({"timeField": lambda: "d"}, times),
            "clusteredIndex": lambda: self.parts(clustered, {}),
            "changeStreamPreAndPostImages": lambda: self.parts({"enabled": lambda: True}, {}),
            "createIndexes.indexes.name": lambda: self.pick(("a_1", "b_1", "n", "", "_id_", "*")),
            "dropIndexes.index": lambda: self.pick(("a_1", "*", "_id_", {"a": 1}, ["n"], "nope")),
            "index": lambda: self.parts({"name": lambda: "a_1"}, changes),
            "to": lambda: f"db.{self.pick(COLLECTIONS)}",
            "wildcardProjection": lambda: {self.path(): self.pick((0, 1))},
            "sharedCollection": self.path,
        }

    def _of_users(self) -> Makers:
        resources = ({"db": "db", "collection": ""}, {"cluster": True}, {"db": 1})
        actions: tuple[list[str], ...] = (["find"], ["insert", "remove"], ["fly"], [])
        roles = ("read", "root", "mine", {"role": "read", "db": "db"}, {"role": "x"})
        mechanisms = ("SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN", "MONGODB-X509", "X")
        payloads = (Binary(b"n,,n=bob,r=abcdef"), Binary(b"c=biws"), Binary(b"\xff"), "bg==")
        privilege: Makers = {
            "resource": lambda: self.pick(resources),
            "actions": lambda: self.pick(actions),
        }
        return {
            "roles": lambda: self.several(lambda: self.pick(roles)),
            "privileges": lambda: self.several(lambda: self.parts(privilege, {})),
            "mechanisms": lambda: [self.pick(("SCRAM-SHA-1", "SCRAM-SHA-256", "X"))],
            "pwd": lambda: self.pick(("secret", "", 1)),
            "mechanism": lambda: self.pick(mechanisms),
            "payload": lambda: self.pick(payloads),
            "saslSupportedMechs": lambda: self.pick(("admin.bob", "bob", {"user": "bob", "db": "admin"})),
            "speculativeAuthenticate": lambda: self.pick(({}, SPECULATIVE, {"a": 1})),
        }

    def _of_the_rest(self) -> Makers:
        levels: tuple[Any, ...] = ({"level": "local"}, {"level": "majority"}, {}, {"level": "x"})
        writes: tuple[Any, ...] = ({"w": 1}, {"w": "majority", "wtimeout": 5}, {}, {"w": 0})
        return {
            "topologyVersion": lambda: self.pick(({}, {"processId": 1, "counter": Int64(0)})),
            "maxAwaitTimeMS": lambda: self.pick((0, 10, 500)),
            "recoveryToken": lambda: self.pick(({}, {"recoveryShardId": "shard0"}, {"recoveryShardId": 1})),
            "bsonType": lambda: self.pick(TYPES),
            "defaultReadConcern": lambda: self.pick(levels),
            "defaultWriteConcern": lambda: self.pick(writes),
            "confirm": lambda: True,
        }


def how_often(name: str) -> float:
    """Return how often a field that is not required is drawn."""
    return _SELDOM if name in RARE else _SOMETIMES if name in ODD else _OFTEN
