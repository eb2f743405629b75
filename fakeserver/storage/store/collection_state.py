"""The state of a collection besides its documents: sizes, record ids, bounds, indexes, readers.

An index is built in turns with others, whose writes meanwhile it catches up with. A build reads the documents
as they were when it began. What has changed behind it is entered by another look at the documents, until
there is one during which nobody wrote. A server notes the writes on the side instead.

The rest of the file is `CollectionState`. `documents` is a dictionary, whose order is the natural order; a
replaced document keeps its place. Its keys are the `identity` of `_id`, or record numbers where several may
share one. Four groups of structures follow every change of it (`add`, `replace`, `discard`): `unique`,
`by_value`, `ordered` by the name of their index, and `records`, the record number of each key.

A change to these goes to a copy while `is_read`; the engine takes care of that (`MemoryEngine._own`), and the
methods here rely on it. Who iterates over `read` raises `readers` around it; `prepare` does so itself.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Final

from bson import Binary, Decimal128

from fakeserver.errors import CommandError, WriteError
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.plans.bounds import Clause, conjuncts
from fakeserver.storage.plans.index_keys import KeyMaker
from fakeserver.storage.plans.index_scan import positions, slices
from fakeserver.storage.plans.indexes import OrderedIndex, UniqueIndex, ValueIndex, check_of
from fakeserver.storage.plans.planning import (
    SCAN,
    Plan,
    any_of,
    covers,
    hinted,
    natural_direction,
    plans,
    residue,
)
from fakeserver.storage.plans.search_rules import is_served_by, special_plan
from fakeserver.storage.port.engine import CachedPlan, IndexSpec, PlanCache, Query
from fakeserver.storage.values.limits import weight
from fakeserver.storage.values.types import MISSING, OWN_IDENTITY, identity
from fakeserver.waiting.interrupts import in_one_turn, interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, ItemsView, Iterable, Iterator, Mapping

    from fakeserver.storage.plans.indexes import Check, Entry
    from fakeserver.storage.plans.search_rules import Service
    from fakeserver.storage.port.engine import Capped, Document, Namespace
    from fakeserver.storage.store.time_series import Buckets
    from fakeserver.storage.values.stored import Stored


class IndexBuild:
    """The parts of an index, and the documents that are entered in them."""

    def __init__(self, ns: Namespace, spec: IndexSpec, *, tolerant: bool) -> None:
        maker = KeyMaker(spec)
        self.spec = spec
        self.ordered = OrderedIndex(maker)
        self.check: Check | None = maker.values if maker.may_refuse else check_of(spec)
        self.unique = UniqueIndex(ns, maker) if spec.unique else None
        self.by_value = ValueIndex(spec) if ValueIndex.serves(spec) else None
        self._tolerant = tolerant
        self._entered: dict[Hashable, Stored] = {}

    def catch_up(self, documents: Mapping[Hashable, Stored]) -> None:
        """Enter what is there and was not, and forget what was there and is not.

        Raises `WriteError` for documents that the index cannot hold, and 11000 for keys that several have,
        unless it is tolerant.
        """
        entered = self._entered
        # By identity of the objects: documents are values, so another object is another state of a document.
        gone = [key for key, held in interruptible(entered.items()) if documents.get(key) is not held]
        for key in interruptible(gone):
            self._forget(key, entered.pop(key))
        for key, document in interruptible(documents.items()):
            if key not in entered:
                self._enter(key, document)
                entered[key] = document

    def _enter(self, key: Hashable, document: Stored) -> None:
        if self.check is not None:
            self.check(document)
            self.ordered.note(document)
        if self.unique is not None:
            if not self._tolerant:
                self.unique.check(key, document)
            self.unique.add(key, document)
        if self.by_value is not None:
            self.by_value.add(key, document)

    def _forget(self, key: Hashable, document: Stored) -> None:
        if self.unique is not None:
            self.unique.remove(key, document)
        if self.by_value is not None:
            self.by_value.remove(key, document)


_LOOKS: Final = 4
"""How often a build catches up with others' writes before it lets nobody write."""


def build_index(
    ns: Namespace, spec: IndexSpec, current: Callable[[], CollectionState | None], *, tolerant: bool
) -> IndexBuild:
    """Return an index of all documents of a collection, which `current` returns as it is now.

    Raises what `IndexBuild.catch_up` does, and `CommandError` 276 where the collection is gone.
    """
    build, collection = IndexBuild(ns, spec, tolerant=tolerant), current()
    for left in range(_LOOKS, -1, -1):
        if collection is None:
            break
        collection.readers += 1  # who writes meanwhile writes to a fork, so `current` is another one then
        try:
            with nullcontext() if left else in_one_turn():
                build.catch_up(collection.documents)
        finally:
            collection.readers -= 1
        before, collection = collection, current()
        if collection is before:
            return build
    raise CommandError(ErrorCode.INDEX_BUILD_ABORTED, "Index build aborted: collection drop")


def _may_use(query: Query, name: str) -> bool:
    """Return whether a query may read an index."""
    return query.allowed is None or name in query.allowed


_MOST_PLANS: Final = 1000
_LARGEST_SHAPE: Final = 1 << 14
"""The bytes of a filter above which its plan is not remembered."""
_ID: Final = "_id_"
_FOLDED_ID: Final = "_id_ by collation"
"""The name of the index that holds ids to their collection's collation, which none that is made can have."""
_ID_INDEX: Final = IndexSpec(_ID, {"_id": 1}, unique=True)


@dataclass(slots=True)
class Examined:
    """The keys and documents that were read to answer a query."""

    keys: int = 0
    documents: int = 0

    def read_key(self) -> None:
        """Count a key."""
        self.keys += 1


@dataclass(slots=True)
class CollectionState:
    """One collection: `documents` are by key, in natural order."""

    documents: dict[Hashable, Stored] = field(default_factory=dict)
    capped: Capped | None = None
    unique_ids: bool = True
    clustered: bool = False
    buckets: Buckets | None = None
    """The order of measurements, where it is that of a time series."""
    unique: dict[str, UniqueIndex] = field(default_factory=dict)
    by_value: dict[str, ValueIndex] = field(default_factory=dict)
    ordered: dict[str, OrderedIndex] = field(default_factory=lambda: {_ID: OrderedIndex(KeyMaker(_ID_INDEX))})
    checks: dict[str, Check] = field(default_factory=dict)
    lookups: Mapping[str, str] = field(default_factory=dict)
    """The names of the indexes that alone answer an equality with a scalar, by path."""
    records: dict[Hashable, int] = field(default_factory=dict)
    next_record: int = 1
    size: int = 0
    shared: bool = False
    cached: PlanCache = field(default_factory=dict)
    """The plans that it remembers, in all of its forks."""
    readers: int = 0
    """Commands that read it just now; one that gave way to a write goes on in what it began with."""

    @property
    def is_read(self) -> bool:
        """Whether a fork or a reader relies on it as it is, so that a change is made to a copy."""
        return self.shared or self.readers > 0

    def fork(self) -> CollectionState:
        """Return a copy that holds the same documents, which are values."""
        return replace(
            self,
            documents=self.documents.copy(),
            unique={name: index.fork() for name, index in self.unique.items()},
            by_value={name: index.fork() for name, index in self.by_value.items()},
            ordered={name: index.fork() for name, index in self.ordered.items()},
            checks=dict(self.checks),
            records=dict(self.records),
            buckets=None if self.buckets is None else self.buckets.fork(),
            shared=False,
            readers=0,
        )

    def key_of(self, document: Document) -> Hashable:
        """Return the key to keep a new document under."""
        # Measurements have no key of their own: the record number is one, and is not used again.
        if not self.unique_ids:
            return ("record", self.next_record)
        value: Any = document["_id"]
        return value if type(value) in OWN_IDENTITY else identity(value)

    def fold_ids(self, ns: Namespace, collation: Mapping[str, Any]) -> None:
        """Have ids that are equal by a collation be the same id."""
        spec = IndexSpec(_ID, {"_id": 1}, unique=True, document={"collation": collation})
        self.unique.setdefault(_FOLDED_ID, UniqueIndex(ns, KeyMaker(spec)))

    def key_held(self, document: Document) -> Hashable:
        """Return the key that a document is kept under."""
        if self.unique_ids:
            return identity(document["_id"])
        return next(key for key, held in self.items() if held is document)

    def put_in_order(self) -> None:
        """Have measurements lie in their buckets, after some came out of order."""
        if self.buckets is not None and self.buckets.is_disordered:
            places = self.buckets.places
            # Who reads the documents goes on with them as they were.
            self.documents = dict(sorted(self.documents.items(), key=lambda pair: places[pair[0]]))
            self.buckets.is_disordered = False

    def items(self) -> ItemsView[Hashable, Stored]:
        """Return the keys and documents in natural order."""
        return self.documents.items()

    # Reading.

    def equals(self, path: str, value: Any) -> list[Hashable] | None:
        """Return the keys of the documents that hold a scalar, in natural order.

        None where it takes a plan: unless one index begins with the path, and holds all documents.
        """
        name = self.lookups.get(path)
        if name is None:
            return None
        # What a plan would have counted: `$indexStats` shows lookups as well.
        self.ordered[name].usage.ops += 1
        return self._in_order(self.by_value[name].holders(value))

    def by_id(self, value: Any) -> Stored | None:
        """Return the document with an `_id`, a scalar, or None. Only where ids are unique."""
        self.ordered[_ID].usage.ops += 1
        return self.documents.get(identity(value))

    def _in_order(self, keys: Collection[Hashable]) -> list[Hashable]:
        return sorted(keys, key=self.records.__getitem__) if len(keys) > 1 else list(keys)

    def plan(self, query: Query) -> Plan:
        """Return the way to read what a query is about: of several indexes, that with the fewest keys."""
        natural = natural_direction(query)
        if natural is not None:
            return Plan(backwards=natural < 0, is_sorted="$natural" in (query.sort or {}))
        if query.hint:
            index = self._hinted(query.hint)
            return SCAN if index is None else hinted(query, index, self.prepare)
        # A search must go by its index, whatever others there are.
        wanted = query.filter
        for name, index in self.ordered.items():
            if not index.is_ordered and is_served_by(wanted, index.spec) and _may_use(query, name):
                return Plan(index)
        best = self._best(query)
        if best is not None:
            return best
        special = [
            index for name, index in self.ordered.items() if not index.is_ordered and _may_use(query, name)
        ]
        return (special_plan(query, special) if special else None) or SCAN

    def rivals(self, query: Query, plan: Plan) -> list[str]:
        """Return the indexes by which a query might have been run instead, as a plan says that there are."""
        if plan.rivals == 1 or query.hint:
            return []
        found = [each.spec.name for each in self._candidates(query) if each.spec is not None]
        return [name for name in found if plan.spec is None or name != plan.spec.name]

    def remember(self, query: Query, plan: Plan) -> None:
        """Keep the plan of a query that is about to run, where it was not the only one."""
        if plan.spec is None or weight(query.filter, _LARGEST_SHAPE) > _LARGEST_SHAPE:
            return
        conditions = sorted(
            str((each.path, each.name) if isinstance(each, Clause) else tuple(each))
            for each in conjuncts(query.filter)
        )
        sort = tuple((name, str(direction)) for name, direction in (query.sort or {}).items())
        shape = (tuple(conditions), sort, tuple(query.projection or ()), str(query.collation))
        known, works = self.cached.get(shape), self._count(plan)
        # A server activates a plan at its second run that needs no more works than the first one.
        if known is not None:
            known.is_active = known.is_active or works <= known.works
            return
        # The oldest one goes: a dictionary keeps the order of its keys.
        if len(self.cached) == _MOST_PLANS:
            del self.cached[next(iter(self.cached))]
        self.cached[shape] = CachedPlan(query, plan.spec.name, works)

    def _best(self, query: Query) -> Plan | None:
        """Return the plan with the fewest keys, None for a scan of the collection."""
        found = self._candidates(query)
        if len(found) > 1:
            best = min(found, key=lambda plan: (self._count(plan), bool(query.sort) and not plan.is_sorted))
            return replace(best, rivals=len(found))
        return found[0] if found else None

    def _candidates(self, query: Query) -> list[Plan]:
        """Return the plans by indexes that hold values in order."""
        # Without a sort or a tree, only an index whose first field is in the filter can have a plan: most
        # indexes are passed over without their clauses being looked at.
        wanted = query.filter
        every = bool(query.sort) or "$and" in wanted or "$or" in wanted
        found = plans(
            query,
            [
                index
                for name, index in self.ordered.items()
                if (every or index.first in wanted) and _may_use(query, name)
            ],
            self.prepare,
        )
        by_branches = any_of(query, self._best) if every and ("$or" in wanted or "$and" in wanted) else None
        if by_branches is not None:
            found.append(by_branches)
        return found

    def _hinted(self, hint: Any) -> OrderedIndex | None:
        for name, index in self.ordered.items():
            if hint == name or (
                isinstance(hint, dict) and list(hint.items()) == list(index.spec.key.items())
            ):
                return index
        return None

    def prepare(self, index: OrderedIndex) -> list[Entry]:
        """Return an index's keys, in order from now on."""
        self.readers += 1  # it may take turns: who writes meanwhile writes to a fork
        try:
            return index.entries(self._everything)
        finally:
            self.readers -= 1

    def _everything(self) -> Iterable[tuple[int, Hashable, Document]]:
        return ((self.records[key], key, document) for key, document in self.items())

    def _count(self, plan: Plan) -> int:
        """Return how many keys a plan has to read."""
        if plan.branches:
            return sum(self._count(branch) for branch, _filter in plan.branches)
        # Counted exactly, by bisection, where a server runs the candidates for a while.
        if plan.pin is not MISSING and len(plan.bounds) == 1:
            return len(self._holders(plan))
        entries = self._entries(plan)
        return sum(end - begin for begin, end in slices(entries, plan))

    def _entries(self, plan: Plan) -> list[Entry]:
        """Return the entries of a plan's index, of the holders of its pin alone if it has one."""
        assert plan.index is not None
        if plan.pin is MISSING:
            return self.prepare(plan.index)
        holders = self._holders(plan)
        return plan.index.made((self.records[key], key, self.documents[key]) for key in holders)

    def _holders(self, plan: Plan) -> Collection[Hashable]:
        assert plan.spec is not None
        # Ids have no index by value: the documents themselves are by id.
        if plan.spec.name == _ID:
            key = identity(plan.pin)
            return (key,) if key in self.documents else ()
        return self.by_value[plan.spec.name].holders(plan.pin)

    def read(
        self, plan: Plan, query: Query, examined: Examined | None = None
    ) -> Iterator[tuple[Hashable, Document]]:
        """Iterate over the keys and documents that a plan reads for a query, in its order.

        With `examined` what is read is counted there; a document that a key keeps out is not read.
        """
        if plan.service is not None:
            return self._served(plan, plan.service, examined)
        if plan.index is not None:
            plan.index.usage.ops += examined is None
            return self._fetched(plan, query, examined)
        if plan.branches:
            return self._of_branches(plan, examined)
        pairs: Iterable[tuple[Hashable, Document]] = (
            reversed(self.documents.items()) if plan.backwards else self.items()
        )
        return iter(pairs) if examined is None else _counted(pairs, examined)

    def _served(
        self, plan: Plan, service: Service, examined: Examined | None
    ) -> Iterator[tuple[Hashable, Document]]:
        """Yield all documents, of which an index without keys here would name those of its condition."""
        if examined is None:
            assert plan.index is not None
            plan.index.usage.ops += 1
            yield from self.items()
            return
        path, name, value = service.clause
        is_named = compile_filter({path: {name: value}})
        for key, document in self.items():
            if is_named(document):
                examined.keys += 1
                examined.documents += 1
                yield key, document

    def _of_branches(self, plan: Plan, examined: Examined | None) -> Iterator[tuple[Hashable, Document]]:
        # A document that several branches find comes once, with the first of them, as from an OR stage.
        seen: set[Hashable] = set()
        for branch, wanted in plan.branches:
            each = Query(wanted)
            for key, document in self.read(branch, each, examined):
                if key not in seen:
                    seen.add(key)
                    yield key, document

    def _fetched(
        self, plan: Plan, query: Query, examined: Examined | None
    ) -> Iterator[tuple[Hashable, Document]]:
        if examined is None:
            for key in self._found(plan, Examined()):
                yield key, self.documents[key]
            return
        lets_in = compile_filter(residue(plan, query.filter).of_key)
        covered = covers(plan, query)
        for key in self._found(plan, examined):
            document = self.documents[key]
            if lets_in(document):
                examined.documents += not covered
                yield key, document

    def _found(self, plan: Plan, examined: Examined) -> Iterator[Hashable]:
        """Yield the keys in the store of the documents that an index names, each once."""
        index = plan.index
        assert index is not None
        if plan.pin is not MISSING and len(plan.bounds) == 1:
            for key in self._in_order(self._holders(plan)):
                if index.maker.holds(self.documents[key]):
                    examined.keys += 1
                    yield key
            return
        entries = self._entries(plan)
        seen: set[Hashable] = set()
        for position in positions(entries, plan, examined.read_key):
            key = entries[position][2]
            # With one key for each document none can come twice.
            if not index.multikey:
                yield key
            elif key not in seen:
                seen.add(key)
                yield key

    # Documents come, change and go.

    def add(self, key: Hashable, document: Stored) -> None:
        """Keep a new document."""
        # The record number first of what follows: ordered indexes have it in their entries.
        self.documents[key] = document
        self.size += len(document.raw)
        self.records[key] = self.next_record
        self.next_record += 1
        if self.buckets is not None:
            self.buckets.add(key, document)
        self._enter(key, document)

    def replace(self, key: Hashable, before: Stored, after: Stored) -> None:
        """Keep another document in the place of one."""
        # In this order: the two may share keys, which to leave last would take away again.
        self._leave(key, before)
        self._enter(key, after)
        self.documents[key] = after
        self.size += len(after.raw) - len(before.raw)

    def discard(self, key: Hashable, document: Stored) -> None:
        """Keep a document no longer."""
        del self.documents[key]
        self.size -= len(document.raw)
        # The record number last: it is needed to find the entries.
        self._leave(key, document)
        del self.records[key]
        if self.buckets is not None:
            del self.buckets.places[key]

    def _enter(self, key: Hashable, document: Document) -> None:
        if self.by_value or self.unique:
            for unique in self.unique.values():
                unique.add(key, document)
            for index in self.by_value.values():
                index.add(key, document)
        for ordered in self.ordered.values():
            if ordered.follows:
                ordered.add(self.records[key], key, document)

    def _leave(self, key: Hashable, document: Document) -> None:
        if self.by_value or self.unique:
            for unique in self.unique.values():
                unique.remove(key, document)
            for index in self.by_value.values():
                index.remove(key, document)
        for ordered in self.ordered.values():
            if ordered.follows:
                ordered.remove(self.records[key], key, document)

    # Indexes.

    def share_ids(self) -> None:
        """Let documents share an `_id`: there is no index of it."""
        self.unique_ids = False
        self.ordered.pop(_ID, None)
        self.cached = {}

    def check(self, key: Hashable, document: Document) -> None:
        """Refuse a document that an index cannot hold. Raises `WriteError`."""
        for unique in self.unique.values():
            unique.check(key, document)
        for check in self.checks.values():
            check(document)

    def add_index(self, build: IndexBuild) -> None:
        """Enforce an index that was built of all documents, and look values up in it."""
        name = build.spec.name
        self.ordered[name] = build.ordered
        self.cached = {}
        if build.check is not None:
            self.checks[name] = build.check
        if build.unique is not None:
            self.unique[name] = build.unique
        if build.by_value is not None:
            self.by_value[name] = build.by_value
        self.lookups = self._lookups()

    def drop_index(self, name: str) -> None:
        """Forget an index."""
        self.unique.pop(name, None)
        self.by_value.pop(name, None)
        self.ordered.pop(name, None)
        self.cached = {}
        self.checks.pop(name, None)
        self.lookups = self._lookups()

    # Where two indexes begin with a field, or one leaves documents out, `equals` says None: a plan decides.
    def _lookups(self) -> dict[str, str]:
        firsts = [index.first for index in self.ordered.values()]
        return {
            index.first: name
            for name, index in self.ordered.items()
            if name != _ID and index.is_plain and firsts.count(index.first) == 1
        }


def _counted(
    pairs: Iterable[tuple[Hashable, Document]], counted: Examined
) -> Iterator[tuple[Hashable, Document]]:
    for pair in pairs:
        counted.documents += 1
        yield pair


# What identifies the documents of a clustered collection, whose records lie in the order of their ids.


_RECORD_ID_BYTES: Final = 8 * 1024 * 1024
_AROUND: Final[Mapping[type, int]] = {str: 2, bytes: 7, Binary: 7}
"""The bytes that an id of a type takes beside those of its value."""
_RECORD_ID_TOO_LARGE: Final = 5894900
_NAN_TWICE: Final = 50819
_INFINITY_TWICE: Final = 50826


def check_record_id(value: Any, *, held: bool) -> None:
    """Refuse an id that cannot be that of a record. Raises `WriteError` 5894900, 50819 or 50826.

    A server fails to show the key where an id that is no number, or infinite, is `held` by another document.
    """
    around = _AROUND.get(type(value))
    if around is not None:
        size = len(value.encode() if type(value) is str else value) + around
        if size > _RECORD_ID_BYTES:
            raise WriteError(_RECORD_ID_TOO_LARGE, f"The RecordId of {size} bytes exceeds {_RECORD_ID_BYTES}")
    elif held and isinstance(value, float | Decimal128):
        number = float(value.to_decimal()) if isinstance(value, Decimal128) else value
        if not isfinite(number):
            code = _NAN_TWICE if isnan(number) else _INFINITY_TWICE
            raise WriteError(code, "the RecordId of a duplicate key is not a finite number")
