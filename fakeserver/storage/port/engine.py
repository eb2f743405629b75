"""The port of storage: the requirements of the commands on an engine (`StorageEngine`).

The boundary: an engine knows documents, indexes and queries. It knows no cursors, sessions, batches, replies,
read or write concerns; those stay in `fakeserver.commands`, the oplog and the catalog beside the engine. An
engine reads no clock, draws no random numbers of its own and makes no ids: all three are handed in from
outside, so that a run in virtual time repeats itself byte by byte.

The laws that an engine keeps, and callers rely on:

* *Documents are values.* They go in copied. What comes out, of `find` and `aggregate` or in a `Changed`, is
  the engine's own, to be read and left alone. A change stores another document and never alters one, so what
  a cursor, an oplog entry or a snapshot holds stays as it was, without a copy for each. A document that comes
  as a `Stored` is one already, and is taken as it is.
* *Errors come first.* A query or an update is validated as a whole before a document is touched. A statement
  that fails in the middle has changed the documents before the failure, as on a server, where only
  transactions undo.
* *A change is stored the moment it is accepted.* Indexes and size are checked, then `accept` sees the change
  (and enters it in the oplog), then it is stored; nothing fails or yields in between. So the oplog has every
  change that storage has, in the same order.
* *Long work yields.* Between documents an engine calls `check_for_interrupt`, where nothing is half done; a
  read goes on in what it began with, a write looks at each document again.

Transactions are made of `fork` (an engine that shares everything until one of the two changes), `claims` (the
keys that a write would take, for write conflicts) and `put` (a change that another engine has checked). A
real engine keeps versions by timestamp; a fork for each transaction shows a client the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from bson import ObjectId, Timestamp

    from fakeserver.errors import CommandError
    from fakeserver.storage.scripts.javascript import ScriptReply
    from fakeserver.storage.values.metadata import QueryMetadata
    from mongowire.ports import Rng


Document: TypeAlias = dict[str, Any]


class Namespace(NamedTuple):
    """A collection's full name."""

    db: str
    collection: str

    def __str__(self) -> str:
        """Return `db.collection`."""
        return f"{self.db}.{self.collection}"

    @classmethod
    def parse(cls, text: str) -> Namespace:
        """Return the namespace that `db.collection` names."""
        # At the first point: the name of a collection may have some itself, and that of a database none.
        db, _, collection = text.partition(".")
        return cls(db, collection)


_NOTHING: Final[Mapping[str, Any]] = {}


class Query(NamedTuple):
    """A search: the documents, their order, and the part of each.

    Each command states its own: what it leaves out has the value that changes nothing. `filter`, `sort`,
    `projection`, `hint` and `let` are as the client sent them; the engine compiles and refuses them.

    `now` is what `$$NOW` means, `cluster_time` what `$$CLUSTER_TIME` does. `hint` is the name of an index or
    its key, or a direction of `$natural`. `minimum` (included) and `maximum` (excluded) bound the keys of the
    hinted index. `read` returns the documents of another collection, for stages that join, which leave them
    as they are; `look_up` those whose field equals a scalar, or None where no index can find them
    (`StorageEngine.equal`). `make_id` returns an ObjectId, for `$createObjectId`. `scripts` runs JavaScript,
    where it is allowed. `indexes` are those of the collection, which text and geographic searches look for,
    and `indexes_of` returns those of another one.
    `allow_disk_use` says whether what is more than fits into memory may be sorted and grouped. `release` is
    the wire version of the release whose operators are known, 0 for all. `allowed` are the names of the
    indexes that may be read, None for all.
    """

    filter: Mapping[str, Any] = _NOTHING
    sort: Mapping[str, Any] | None = None
    projection: Mapping[str, Any] | None = None
    skip: int = 0
    limit: int = 0
    hint: Any = None
    let: Mapping[str, Any] | None = None
    collation: Mapping[str, Any] | None = None
    now: dt.datetime | None = None
    minimum: Mapping[str, Any] | None = None
    maximum: Mapping[str, Any] | None = None
    return_key: bool = False
    show_record_id: bool = False
    read: Callable[[Any], list[Document]] | None = None
    make_id: Callable[[], Any] | None = None
    scripts: Scripts | None = None
    indexes: Sequence[IndexSpec] = ()
    indexes_of: Callable[[Any], Sequence[IndexSpec]] | None = None
    allow_disk_use: bool = True
    look_up: Callable[[Any, str, Any], list[Document] | None] | None = None
    release: int = 0
    cluster_time: Timestamp | None = None
    allowed: frozenset[str] | None = None

    def builtins(self) -> dict[str, Any]:
        """Return the values of the variables that a server brings."""
        values = {"NOW": self.now, "CLUSTER_TIME": self.cluster_time}
        return {name: value for name, value in values.items() if value is not None}


class Update(NamedTuple):
    """One update statement: operators, a replacement, or a pipeline. `make_id` gives an upsert its `_id`.

    `done` is what earlier runs of the statement have done, by keys of the engine's: it counts, and these
    documents are left alone. The engine enters each document that it is done with. A command that parks in
    the middle, such as one whose script sleeps, is run again from its start; without this, `$inc` would count
    some documents twice.
    """

    query: Query
    change: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    multi: bool = False
    upsert: bool = False
    array_filters: Sequence[Mapping[str, Any]] = ()
    make_id: Callable[[], Any] | None = None
    done: dict[Hashable, Changed] | None = None


@dataclass(slots=True)
class Changed:
    """One document as it was and as it is: `before` is None for an insert, `after` for a delete. A value.

    `replacement` says that the change was a whole new document; `touched` which operators worked where,
    each with its path, in the order of their work, None for a change that was not made by operators. `size`
    is what the document takes as BSON, in bytes: as it is, or as it was when it is deleted.
    """

    before: Document | None
    after: Document | None
    replacement: bool = field(default=False, compare=False)
    touched: tuple[tuple[str, tuple[str, ...]], ...] | None = field(default=None, compare=False)
    size: int = field(default=0, compare=False)

    # For snapshot reads of the past, and for inserts of a verb that fail in the middle.
    @property
    def undone(self) -> Changed:
        """The change back."""
        return Changed(self.after, self.before)


Accept: TypeAlias = "Callable[[Changed], None]"
"""Sees each change that is about to be stored, after indexes allowed it; what it raises prevents it.

An engine stores the change when this returns: nothing may fail or give way to others in between, so that a
change can be entered in the oplog here.
"""


class UpdateResult(NamedTuple):
    """The result of an update. `images` holds each document that it touched or inserted, changed or not."""

    matched: int
    modified: int
    upserted_id: Any = None
    upserted: bool = False
    images: tuple[Changed, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index as `listIndexes` shows it: `document` holds `v`, `key`, `name` and options."""

    name: str
    key: Mapping[str, Any]
    unique: bool = False
    sparse: bool = False
    document: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Capped:
    """The bounds of a capped collection, whose oldest documents make room: bytes, and documents (0: any)."""

    size: int
    max: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """The number of documents in a collection, their bytes as BSON, and the buckets of a time series."""

    count: int = 0
    size: int = 0
    buckets: int = 0


@dataclass(frozen=True, slots=True)
class Explanation:
    """The plan of a query: an index (None: a scan), its bounds, and the figures of a run.

    `bounds` are printed, by the fields of the index, and `ends` the first and the last key within where these
    follow one another, each with whether it is included. `of_key` and `of_document` are what is left to ask
    of the filter; `covers` says that no document is read, `is_sorted` that nothing has to be sorted.
    `arrays` are the paths at which arrays have led to keys. `branches` explain the plans of an `$or`.
    `returned`, `keys` and `documents` count what was returned and examined, where the query was run.
    `pattern` is the key that is shown of a wildcard index, and `others` explain the plans that have lost.
    """

    exists: bool = True
    index: IndexSpec | None = None
    bounds: Mapping[str, list[str]] = field(default_factory=dict)
    ends: tuple[tuple[Document, bool], tuple[Document, bool]] | None = None
    backwards: bool = False
    is_sorted: bool = False
    arrays: frozenset[str] = frozenset()
    of_key: Document = field(default_factory=dict)
    of_document: Document = field(default_factory=dict)
    covers: bool = False
    branches: tuple[Explanation, ...] = ()
    pattern: Mapping[str, Any] | None = None
    others: tuple[Explanation, ...] = ()
    returned: int = 0
    keys: int = 0
    documents: int = 0


@dataclass(slots=True)
class CachedPlan:
    """A plan that a collection remembers, because several were possible.

    It is for `$planCacheStats` alone, and decides no plan.
    It has the query that it was made for, the index that won and the keys that it had to read. It is active
    from the next query of its shape that needs no more of them.
    """

    query: Query
    index: str
    works: int
    is_active: bool = False


PlanCache: TypeAlias = "dict[Hashable, CachedPlan]"
"""Plans by the shape of their queries."""


class StorageEngine(Protocol):
    """Documents by namespace. Every method may raise `fakeserver.errors.CommandError`.

    A `CommandError` whose `executing` is set was raised while documents were read, not by the check before.
    """

    name: ClassVar[str]
    """The name in `serverStatus.storageEngine`."""

    def insert(self, ns: Namespace, document: Document, *, accept: Accept | None = None) -> Document:
        """Store a document (with an `_id`) and return it as stored. Raises `WriteError` 11000."""
        ...

    def find(self, ns: Namespace, query: Query) -> list[Document]:
        """Return the documents that match, in the order asked for, else in natural order."""
        ...

    def update(self, ns: Namespace, update: Update, *, accept: Accept | None = None) -> UpdateResult:
        """Apply one statement. Raises `WriteError` for a bad change, or a duplicate key."""
        ...

    def delete(self, ns: Namespace, query: Query, *, accept: Accept | None = None) -> list[Document]:
        """Delete the documents that match (all of them where the limit is 0) and return them."""
        ...

    def aggregate(
        self,
        ns: Namespace,
        pipeline: Sequence[Mapping[str, Any]],
        *,
        options: Query,
        documents: list[Document] | None = None,
    ) -> list[Document]:
        """Return what the pipeline makes of the collection, or of `documents`; it does not write."""
        ...

    def equal(self, ns: Namespace, path: str, value: Any) -> list[Document] | None:
        """Return the engine's own documents that hold a scalar, None where no index finds them by itself."""
        ...

    def plan_cache(self, ns: Namespace) -> PlanCache:
        """Return the plans that a collection remembers."""
        ...

    def explain(self, ns: Namespace, query: Query, *, run: bool) -> Explanation:
        """Return how a query is run, and with `run` what that came to."""
        ...

    def usage(self, ns: Namespace) -> Mapping[str, int]:
        """Return by how many commands each index has been read, by the name of the index."""
        ...

    def stats(self, ns: Namespace) -> Stats:
        """Return the collection's size; that of a collection which is not there is nothing."""
        ...

    def drop(self, ns: Namespace) -> bool:
        """Forget the collection, its documents and its indexes; return whether it was there."""
        ...

    def create(
        self,
        ns: Namespace,
        *,
        capped: Capped | None = None,
        unique_ids: bool = True,
        clustered: bool = False,
        collation: Mapping[str, Any] | None = None,
        buckets: Any = None,
    ) -> None:
        """Make an empty collection, if it is not there; measurements of a time series may share an `_id`.

        The documents of a clustered one lie in the order of their ids. Ids that are equal by the collation
        are the same id. Measurements lie in the order of their `buckets`.
        """
        ...

    def bound(self, ns: Namespace, capped: Capped) -> None:
        """Set the bounds of a capped collection; what is beyond them goes with the next insert."""
        ...

    def create_index(self, ns: Namespace, index: IndexSpec, *, tolerant: bool = False) -> None:
        """Enforce an index from now on.

        Raises `WriteError` 11000 if the documents there violate it, unless `tolerant`.
        """
        ...

    def drop_index(self, ns: Namespace, name: str) -> None:
        """Forget an index."""
        ...

    def rename(self, source: Namespace, target: Namespace) -> None:
        """Give a collection another name; the target must not be there."""
        ...

    # What transactions are made of.

    def fork(self) -> StorageEngine:
        """Return an engine that holds the same; from here on each changes alone. It copies nothing yet."""
        ...

    def put(self, ns: Namespace, change: Changed) -> None:
        """Make a change that another engine allowed: `after` takes the place of `before`, uncopied."""
        ...

    def claims(self, ns: Namespace, document: Document) -> list[Hashable]:
        """Return the unique keys that a document takes up in the collection, its `_id` among them."""
        ...

    def claimant(self, ns: Namespace, claim: Hashable) -> Document | None:
        """Return the engine's own document that takes up a unique key, or None."""
        ...


# The surroundings of a filter, an expression or a pipeline: variables, collation, other collections.


# A `Scope` is made once for a query and compiled into it; a `Frame` is made for each document, and holds what
# the scope's variables are while an expression sees this document.


Frame: TypeAlias = dict[str, Any]
"""The variables of one evaluation: `ROOT`, `CURRENT`, `NOW`, those of `let`, and what operators bind."""

Evaluate: TypeAlias = "Callable[[Frame], Any]"
"""A compiled expression: `MISSING` is what a path that leads nowhere evaluates to."""


class Scripts(Protocol):
    """Runs scripts for a command, which then waits as long as they slept."""

    def where(self, code: str) -> Callable[[Any], bool]:
        """Return a script as a predicate on documents. Raises `CommandError` where it cannot be run."""
        ...

    def function(self, code: str) -> Callable[[Any, list[Any]], ScriptReply]:
        """Return a script as a function of `this` and its arguments. Raises `CommandError`."""
        ...

    def settle(self) -> None:
        """Have the command wait for what its scripts slept: what it raises ends this run of the command."""
        ...


_NO_VARIABLES: Final[Mapping[str, Any]] = {}
_NO_METADATA: Final[Mapping[str, Callable[[Any], Any]]] = {}


_OF_A_DOCUMENT: Final = frozenset({"ROOT", "CURRENT"})


class Searched(NamedTuple):
    """What searches of a pipeline need: the indexes, and where to note what they find out."""

    indexes: Sequence[IndexSpec] = ()
    metadata: QueryMetadata | None = None


class Scope(NamedTuple):
    """The surroundings of a query.

    `fold` compares strings by collation; `variables` are visible as `$$name`. `read` returns the documents of
    another collection, to be left alone as they are; `look_up` those whose field an index knows to equal a
    scalar, or None where no index tells. `rng` is for `$sample` and `$rand`, and `make_id` makes ObjectIds.
    `meta` are the metadata that `$meta` may name, as functions of the document at the root. `scripts` runs
    JavaScript, None where it is not allowed. `indexes` are those of the collection, and `metadata` holds what
    text and geographic searches find out about its documents; `searched` returns both for a pipeline over
    another collection. `spills` says whether stages that need all
    documents may use the disk where these are more than fit into their memory (`allowDiskUse`). `release` is
    the wire version of the release whose operators are known, 0 for all, and `depth` the number of stages
    that the pipeline stands within. `varying` are the variables that change from one document to the next.
    Where there is a list for `failures`, expressions are optimized: it takes the errors of their constants.
    """

    fold: Callable[[str], Any] | None = None
    variables: Mapping[str, Any] = _NO_VARIABLES
    read: Callable[[Any], list[dict[str, Any]]] | None = None
    rng: Rng | None = None
    meta: Mapping[str, Callable[[Any], Any]] = _NO_METADATA
    make_id: Callable[[], ObjectId] | None = None
    scripts: Scripts | None = None
    indexes: Sequence[IndexSpec] = ()
    metadata: QueryMetadata | None = None
    spills: bool = True
    look_up: Callable[[Any, str, Any], list[dict[str, Any]] | None] | None = None
    release: int = 0
    depth: int = 0
    searched: Callable[[Any, Sequence[Mapping[str, Any]]], Searched] | None = None
    varying: frozenset[str] = frozenset()
    failures: list[CommandError] | None = None

    def knows(self, name: str, since: Mapping[str, int]) -> bool:
        """Return whether the release has an operator, by a table of since when there are the newer ones."""
        return not self.release or since.get(name, 0) <= self.release

    def settle(self) -> None:
        """Have the command wait for what scripts slept so far."""
        if self.scripts is not None:
            self.scripts.settle()

    def binding(self, variables: Mapping[str, Any]) -> Scope:
        """Return the same surroundings with more variables."""
        return self._replace(variables={**self.variables, **variables})

    def constants(self) -> dict[str, Any]:
        """Return the variables that an optimizer knows, with their values."""
        # `let` may define CURRENT, which is a constant to nobody.
        varying = self.varying | _OF_A_DOCUMENT
        return {name: value for name, value in self.variables.items() if name not in varying}

    def check_constants(self) -> None:
        """Raise the error of the first constant that failed, if any did."""
        if self.failures:
            # A copy, since an exception that is raised twice would carry the traceback of the first time.
            raise self.failures[0].copy()

    def frame(self, document: Any) -> Frame:
        """Return the variables with which an expression sees `document`."""
        # `let` may name another value for CURRENT, from which paths then begin, and none for ROOT.
        return {"CURRENT": document, **self.variables, "ROOT": document}

    def names(self) -> frozenset[str]:
        """Return the names of the variables that an expression may use."""
        return frozenset(self.variables) | {"ROOT", "CURRENT", "REMOVE"}
