"""Commands whose arguments depend on each other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fakeserver.control.verbs.table import VERBS
from statements.arguments import Arguments
from statements.values import COLLECTIONS

if TYPE_CHECKING:
    from random import Random

    from statements.expressions import Makers

HEADS: dict[str, tuple[Any, ...]] = {
    "$collStats": ({"count": {}}, {"storageStats": {}}, {"latencyStats": {}}, {"x": 1}),
    "$indexStats": ({},),
    "$currentOp": ({}, {"allUsers": True, "idleSessions": True}, {"x": 1}),
    "$listLocalSessions": ({}, {"allUsers": True}),
    "$planCacheStats": ({},),
    "$listSessions": ({},),
}
"""The stages that begin a pipeline, with their arguments."""
OF_A_DATABASE = ("$currentOp", "$listLocalSessions", "$documents")
"""Those of them that want a whole database, the first one `admin`."""
OUTPUTS = ("e", {"db": "other", "coll": "e"}, {"x": 1})
FAIL_POINT_MODES = ("off", "alwaysOn", {"times": 1}, {"skip": 2}, {"x": 1})
PARAMETERS = (
    *("ingressRequestAdmissionRatePerSec", "flowControlTargetLagSeconds", "ttlMonitorSleepSecs", "nope"),
    "maxIncomingConnectionsOverride",
)


class Compound(Arguments):
    """Draws the arguments of commands that a table of fields does not say enough of."""

    def __init__(self, rng: Random, wrong: float) -> None:
        super().__init__(rng, wrong)
        self.config: dict[str, Any] = {}
        """The configuration of the replica set, once a reply has told it."""

    def _make_aggregate(self) -> dict[str, Any]:
        optional = ("allowDiskUse", "hint", "collation", "let", "bypassDocumentValidation", "explain")
        values = {name: self.special.get(name, lambda: True)() for name in optional if self.chance(0.1)}
        pipeline = self.or_wrong(self._whole_pipeline)
        command = {"pipeline": pipeline, "cursor": self.or_wrong(self.special["cursor"]), **values}
        return command | (self._whole_database(pipeline) if self.chance(0.5) else {})

    def _whole_database(self, pipeline: Any) -> dict[str, Any]:
        """Return the target and the database of a pipeline that begins with what wants them."""
        head = pipeline[0] if isinstance(pipeline, list) and pipeline else None
        if not isinstance(head, dict) or not head.keys() & set(OF_A_DATABASE):
            return {}
        return {"aggregate": 1, "$db": "admin"}

    def _whole_pipeline(self) -> Any:
        """Return a pipeline; a few begin or end with what only whole pipelines have."""
        pipeline = self.pipeline()
        if not isinstance(pipeline, list):
            return pipeline
        head = [self._say_stage(self._head())] if self.chance(0.08) else []
        tail = [self._say_stage(self._tail())] if self.chance(0.08) else []
        # What begins a pipeline of a whole database mostly stands alone there.
        return [*head, *([] if head and self.chance(0.5) else pipeline), *tail]

    def _say_stage(self, stage: dict[str, Any]) -> dict[str, Any]:
        ((name, argument),) = stage.items()
        return {self.say("stage", name): self.or_wrong(lambda: argument)}

    def _head(self) -> dict[str, Any]:
        name = self.pick((*HEADS, "$documents", "$changeStream"))
        if name == "$documents":
            return {name: self.several(self.document, 1)}
        if name == "$changeStream":
            return {name: self._change_stream()}
        return {name: self.pick(HEADS[name])}

    def _tail(self) -> dict[str, Any]:
        if self.chance(0.5):
            return {"$out": self.pick(OUTPUTS)}
        matched = ("replace", "merge", "fail", "keepExisting", "x", [{"$set": {"a": 1}}])
        options: Makers = {
            "on": self.path,
            "whenMatched": lambda: self.pick(matched),
            "whenNotMatched": lambda: self.pick(("insert", "discard", "fail", "x")),
            "let": lambda: {"v": self.expression()},
        }
        return {"$merge": self.parts({"into": lambda: self.pick(OUTPUTS[:2])}, options)}

    def _change_stream(self) -> Any:
        tokens = ({"_data": "82"}, {"_data": ""}, {"x": 1})
        options: Makers = {
            "fullDocument": lambda: self.pick(("updateLookup", "whenAvailable", "required", "x")),
            "fullDocumentBeforeChange": lambda: self.pick(("off", "whenAvailable", "x")),
            "showExpandedEvents": lambda: True,
        }
        starts: Makers = {
            "resumeAfter": lambda: self.pick(tokens),
            "startAtOperationTime": self.timestamp,
            "allChangesForCluster": lambda: True,
        }
        return self.parts({}, {**options, **starts} if self.chance(0.5) else options)

    def _make_bulkWrite(self) -> dict[str, Any]:  # noqa: N802 - named after the command
        many: Makers = {"multi": lambda: True}
        more: Makers = {"upsert": lambda: True, "arrayFilters": lambda: [{"e": 1}], "sort": self.sort}
        operations: tuple[tuple[Makers, Makers], ...] = (
            ({"insert": self._index, "document": self.document}, {}),
            ({"update": self._index, "filter": self.filter, "updateMods": self.change}, {**many, **more}),
            ({"delete": self._index, "filter": self.filter}, many),
        )

        def operation() -> Any:
            return self.parts(*self.pick(operations))

        def namespace() -> Any:
            return {"ns": f"db.{self.pick(COLLECTIONS)}"}

        return {
            "ops": self.or_wrong(lambda: self.several(operation, 1)),
            "nsInfo": self.or_wrong(lambda: self.several(namespace, 1, 2)),
            **{name: True for name in ("ordered", "errorsOnly") if self.chance(0.3)},
            **({"cursor": self.special["cursor"]()} if self.chance(0.2) else {}),
        }

    def _index(self) -> Any:
        return self.pick((0, 0, 0, 1, 0.0, 5, -1))

    def _make_update(self) -> dict[str, Any]:
        options: Makers = {
            **dict.fromkeys(("multi", "upsert"), lambda: True),
            "arrayFilters": lambda: [{"e": self.condition()}],
            "c": lambda: {"v": 1},
            "sort": self.sort,
            **{name: self.special[name] for name in ("hint", "collation")},
        }
        statement = partial(self.parts, {"q": self.filter, "u": self.change}, options)
        return {"updates": self.or_wrong(lambda: self.several(statement, 1)), **self._ordered()}

    def _make_delete(self) -> dict[str, Any]:
        options = {name: self.special[name] for name in ("hint", "collation")}
        needed: Makers = {"q": self.filter, "limit": lambda: self.pick((0, 1))}
        statement = partial(self.parts, needed, options)
        return {"deletes": self.or_wrong(lambda: self.several(statement, 1)), **self._ordered()}

    def _ordered(self) -> dict[str, Any]:
        return {"ordered": self.or_wrong(lambda: False)} if self.chance(0.2) else {}

    def _make_createIndexes(self) -> dict[str, Any]:  # noqa: N802 - named after the command
        usual = ("unique", "sparse", "hidden", "background", "expireAfterSeconds", "partialFilterExpression")
        odd = (
            *("collation", "wildcardProjection", "weights", "v", "default_language", "storageEngine"),
            "clustered",
        )
        declared = ("expireAfterSeconds", "partialFilterExpression", "collation")
        makers: Makers = {
            **dict.fromkeys(usual[:4], lambda: True),
            "weights": lambda: {self.path(): self.small()},
            "v": lambda: self.pick((2, 1, 3)),
            "default_language": lambda: self.pick(("english", "none", "x")),
            **{name: self.special[name] for name in declared},
        }
        needed = {"key": self.special["key"], "name": self.special["createIndexes.indexes.name"]}

        def index() -> Any:
            options = {name: makers.get(name, self.document) for name in (self.pick(usual), self.pick(odd))}
            return self.parts(needed, options if self.chance(0.3) else {})

        return {"indexes": self.or_wrong(lambda: self.several(index, 1, 2))}

    def _changed_config(self) -> Any:
        version = self.config.get("version", 1)
        return {**self.config, "version": version + self.pick((1, 1, 0, -1))}

    def _make_pushbackd(self) -> dict[str, Any]:
        verb = self.pick((*(verb.name for verb in VERBS), "nope", 1))
        known = [argument.name for each in VERBS for argument in each.arguments if each.name == verb]
        arguments = {name: self.anything() for name in known if self.chance(0.3)}
        return {"pushbackd": verb, **arguments}

    def _make_configureFailPoint(self) -> dict[str, Any]:  # noqa: N802 - named after the command
        commands = (["ping"], "ping", [1])
        return {
            "configureFailPoint": self.pick(("failCommand", "onPrimaryTransactionalWrite", "nope", 1)),
            "mode": self.or_wrong(lambda: self.pick(FAIL_POINT_MODES)),
            "data": self.or_wrong(
                lambda: {"failCommands": self.pick(commands), "errorCode": self.pick((11, 0, -1, "x"))}
            ),
        }

    def _make_waitForFailPoint(self) -> dict[str, Any]:  # noqa: N802 - named after the command
        return {"timesEntered": self.or_wrong(lambda: self.pick((0, 1))), "maxTimeMS": self.pick((1, 1000))}

    def _make_getParameter(self) -> dict[str, Any]:  # noqa: N802 - named after the command
        name = self.pick(("ttlMonitorEnabled", "nope"))
        return {"getParameter": self.pick(("*", 1, {"showDetails": True})), name: 1}

    def _make_setParameter(self) -> dict[str, Any]:  # noqa: N802 - named after the command
        return {self.pick(PARAMETERS): self.one_of(self.small, self.anything)}
