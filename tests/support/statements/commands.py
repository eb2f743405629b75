"""Commands, by the table of the server: each with fields of the types that it declares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bson import Binary, Int64

from statements.compound import Compound
from statements.values import COLLECTIONS, DATABASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

    from fakeserver.idl.command_table import CommandSpec
    from statements.expressions import Makers

WEIGHTS = {
    "aggregate": 25,
    "find": 12,
    "update": 12,
    "insert": 8,
    **dict.fromkeys(("findAndModify", "bulkWrite"), 6),
    **dict.fromkeys(("delete", "createIndexes", "getMore", "explain"), 4),
    **dict.fromkeys(("count", "distinct", "create", "collMod"), 2),
}
"""How often a command is drawn, beside once for each of the others."""

ENDING = frozenset(
    {
        *("shutdown", "replSetStepDown", "replSetReconfig", "replSetFreeze", "replSetStepUp", "fsync"),
        *("replSetMaintenance", "configureFailPoint", "setParameter", "setFeatureCompatibilityVersion"),
        *("setDefaultRWConcern", "profile", "dropAllUsersFromDatabase", "killAllSessions", "pushbackd"),
    }
)
"""Commands after which the next ones would say less: seldom drawn, and the deployment goes with them."""

EXPLAINED = ("find", "count", "distinct", "aggregate", "update", "delete", "findAndModify", "mapReduce")

WRONG = (0.0, 0.0, 0.01, 0.05, 0.15)
"""How often something is wrong in a statement: in two of five nothing is, that we know of."""
DISTURBED = 0.3
"""How often, where something may be wrong, one place more holds anything, however deep it lies."""
_SELDOM = 0.05
_CURSORS = 50
_OF_A_DATABASE = ("getMore", "killCursors")
_OF_ADMIN = ("bulkWrite", "renameCollection")
_MODES = ("primary", "primary", "nearest", "secondaryPreferred", "x")


@dataclass(frozen=True, slots=True)
class Statement:
    """A command, and the names of all that stands in it: `stage $group`, `command find`."""

    command: dict[str, Any]
    names: frozenset[str]

    @property
    def name(self) -> str:
        """The command's name."""
        return next(iter(self.command))

    @property
    def ends(self) -> bool:
        """Whether the deployment is of no more use after it."""
        return self.name in ENDING


class Statements(Compound):
    """Draws commands of a table."""

    def __init__(self, rng: Random, specs: Iterable[CommandSpec]) -> None:
        super().__init__(rng, WRONG[0])
        self.specs = list(specs)
        self.weights = [WEIGHTS.get(spec.name, _SELDOM if spec.name in ENDING else 1) for spec in self.specs]
        self.within = [spec for spec in self.specs if spec.in_transaction and spec.name != "getMore"]
        self.ends = [spec for spec in self.specs if spec.name in ("commitTransaction", "abortTransaction")]
        self.numbers = 0
        self.transaction: dict[str, Any] = {}
        """The arguments of the statements of the transaction that is open, none when there is none."""

    def draw(self, wrong: float | None = None) -> Statement:
        """Return the next statement; `wrong` is how often something in it is, drawn where it is not given."""
        self.said.clear()
        self.wrong = self.pick(WRONG) if wrong is None else wrong
        if self.transaction or self.chance(0.03):
            command = self._of_a_transaction()
        else:
            (spec,) = self.rng.choices(self.specs, self.weights)
            command = self._command(spec)
        if self.wrong and self.chance(DISTURBED):
            name, db = next(iter(command)), command["$db"]
            rest = {key: value for key, value in command.items() if key not in (name, "$db")}
            command = {name: command[name], **self.disturbed(rest), "$db": db}
        return Statement(command, frozenset(self.said))

    def forget(self) -> None:
        """Begin anew with another deployment, which has no cursors and no transactions yet."""
        self.cursors.clear()
        self.transaction = {}
        self.config = {}

    def hear(self, reply: Mapping[str, Any]) -> None:
        """Take in what a reply tells: later statements use its cursor and its configuration."""
        cursor = reply.get("cursor")
        if isinstance(cursor, dict) and cursor.get("id"):
            self.cursors = [*self.cursors[-_CURSORS:], (cursor["id"], cursor["ns"].partition(".")[2])]
        if isinstance(reply.get("config"), dict):
            self.config = reply["config"]

    def _of_a_transaction(self) -> dict[str, Any]:
        """Return a statement of the open transaction: after a few of them one that ends it."""
        if not self.transaction:
            self.numbers += 1
            identity = {"id": Binary(bytes([9]) * 16, 4)}
            self.transaction = {"lsid": identity, "txnNumber": Int64(self.numbers), "autocommit": False}
            return {**self._within(), **self.transaction, "startTransaction": True}
        arguments = self.transaction
        if self.chance(0.5):
            return {**self._within(), **arguments}
        self.transaction = {}
        spec = self.pick(self.ends)
        return {self.say("command", spec.name): 1, **arguments, "$db": self.or_seldom("admin")}

    def _within(self) -> dict[str, Any]:
        command = self._command(self.pick(self.within))
        for name in ("readConcern", "writeConcern", "txnNumber", "stmtIds"):
            command.pop(name, None)
        return command

    def _command(self, spec: CommandSpec) -> dict[str, Any]:
        self.say("command", spec.name)
        command: dict[str, Any] = {spec.name: self.or_wrong(partial(self._target, spec))}
        maker = getattr(self, f"_make_{spec.name}", None)
        if maker is not None:
            command |= maker()
        elif spec.fields is not None:
            command |= self.fields_of(spec.fields, spec.name)
        elif self.chance(0.3):
            command[self.pick(("mode", "scale", "max", "a"))] = self.value(1)
        db = command.pop("$db", None) or self._database(spec)
        return {**command, **self._generic(spec), "$db": self.or_seldom(db)}

    def _database(self, spec: CommandSpec) -> str:
        if spec.name in _OF_A_DATABASE:
            return "db"
        of_users = ("User" in spec.name or "Role" in spec.name) and self.chance(0.8)
        if spec.admin_only or spec.name in _OF_ADMIN or of_users:
            return "admin"
        return str(self.pick(DATABASES))

    def or_seldom(self, db: str) -> Any:
        """Return a database's name, seldom one that cannot be."""
        return self.pick(("", "a.b", "a b", "x" * 70)) if self.chance(0.003) else db

    def _target(self, spec: CommandSpec) -> Any:
        targets = self._targets()
        if spec.name in targets:
            return targets[spec.name]()
        if spec.fields is not None and spec.fields.target is not None:
            return self.pick(("c", "c", "c", *COLLECTIONS))
        if "User" in spec.name or "Role" in spec.name:
            return self.pick(("bob", "bob", "eve", "mine", "mine", "readWrite"))
        if spec.fields is not None and spec.name in spec.fields.by_name:
            return self.field(spec.fields.by_name[spec.name], spec.name)
        return self.pick((1, 1, 1.0, True, "c"))

    def _targets(self) -> Makers:
        """What the commands' own names hold that take something else than a collection."""

        def namespace() -> str:
            return f"db.{self.pick(COLLECTIONS)}"

        return {
            "getMore": lambda: Int64(self.pick(self.cursors)[0]) if self.cursors else Int64(5),
            "aggregate": lambda: self.pick((*COLLECTIONS, "c", "c", 1)),
            "explain": self._explained,
            **dict.fromkeys(("renameCollection", "dataSize", "shardCollection"), namespace),
            "getLog": lambda: self.pick(("*", "global", "startupWarnings", "nope")),
            "setFeatureCompatibilityVersion": lambda: self.pick(("8.0", "7.0", "x")),
            "replSetReconfig": self._changed_config,
            "waitForFailPoint": lambda: self.pick(("failCommand", "nope")),
            "killOp": lambda: 1,
            "getClusterParameter": lambda: self.pick(("*", "changeStreams", "nope")),
            "setQuerySettings": lambda: {"find": "c", "filter": {"a": 1}, "$db": "db"},
            "removeQuerySettings": lambda: {"find": "c", "filter": {"a": 1}, "$db": "db"},
            "setClusterParameter": lambda: {"changeStreams": {"expireAfterSeconds": 60}},
            "logRotate": lambda: self.pick((1, "server", "nope")),
            "autoCompact": lambda: self.pick((True, False)),
        }

    def _explained(self) -> dict[str, Any]:
        others = [spec for spec in self.specs if spec.name != "explain"]
        known = [spec for spec in others if spec.name in EXPLAINED]
        inner = self._command(self.pick(others if self.chance(0.2) else known))
        del inner["$db"]
        return inner

    def _generic(self, spec: CommandSpec) -> dict[str, Any]:
        level: Makers = {"level": lambda: self.pick(("local", "majority", "snapshot", "x"))}
        concern: Makers = {
            "w": lambda: self.pick((1, 0, "majority", 2, "tag")),
            "j": lambda: True,
            "wtimeout": self.small,
        }
        makers: Makers = {
            "maxTimeMS": lambda: self.pick((0, 1000, 10**6)),
            "comment": self.value,
            "readConcern": lambda: self.parts({}, level),
            "$readPreference": lambda: self.parts({"mode": lambda: self.pick(_MODES)}, {}),
            "lsid": lambda: {"id": Binary(bytes([self.rng.randint(1, 3)]) * 16, 4)},
        }
        if spec.write_concern:
            makers["writeConcern"] = lambda: self.parts({}, concern)
        if spec.fields is not None and "let" in spec.fields.by_name:
            makers["let"] = lambda: {"v": self.value()}
        chosen = {name: self.or_wrong(make) for name, make in makers.items() if self.chance(0.03)}
        return chosen | (self._numbered() if "lsid" in chosen and self.chance(0.5) else {})

    def _numbered(self) -> dict[str, Any]:
        """Return the arguments of retryable writes and of transactions, as they come."""
        numbered = {"txnNumber": self.or_wrong(lambda: Int64(self.rng.randint(0, 5)))}
        if self.chance(0.3):
            flags: Makers = {"autocommit": lambda: False, "startTransaction": lambda: True}
            return numbered | {name: self.or_wrong(make) for name, make in flags.items()}
        return numbered | ({"stmtIds": self.or_wrong(lambda: [0])} if self.chance(0.3) else {})
