"""The storage engine: documents in dictionaries, by key and in natural order, and queries by this package.

The query language stands in this package, one feature a module (docs/STORAGE.md lists them). mongomock, which
lacks much of it or differs from a server, is another engine (`mongomock_engine`), and the tests' oracle.

The model: a `CollectionState` for each namespace holds documents, the indexes and the sizes. Methods of the
engine find the documents (`scanning.select`), make what is to become of each (`updating`, `projecting`,
`pipeline_stages`), and store it (`CollectionState.add`, `replace`, `discard`).

*Copies on write.* Stored documents are never altered, so a copy of a collection is a copy of its
dictionaries. `_own` makes one before a change if somebody relies on the collection as it is: a fork (a
transaction, a member that lags) or a reader that gave way in the middle of its scan. `readers` counts these,
around every scan. Nobody copies while nobody else looks.

*Writes that yield.* A multi-update finds its documents first and changes them one by one, with a yield point
before each but the first. By then another command may have changed a document, so each is looked at again:
gone or matching no more, it is left out, as by a server whose plan yields. An update of one document searches
again instead, because the caller shall not be answered "none" while one matches. `Update.done` carries what
a statement has changed over a restart, so that nothing is incremented twice.

*Order of checks*, which decides the error that a client sees: a malformed statement before the search; then,
for each document, unique keys and restrictions of indexes, the size limit, and last `accept`, after which
nothing may fail.
"""

from __future__ import annotations

import functools
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import bson
from bson import MaxKey, MinKey

from fakeserver.errors import CommandError
from fakeserver.storage.filters.match_operators import is_operators
from fakeserver.storage.filters.matching import compile_filter, equalities, refuse_expr
from fakeserver.storage.plans.bounds import Clause, End, conjuncts
from fakeserver.storage.plans.index_keys import sign_of
from fakeserver.storage.plans.indexes import duplicate_key
from fakeserver.storage.plans.planning import (
    SCAN,
    all_of,
    covers,
    index_key,
    keyed,
    may_be_covered,
    residue,
)
from fakeserver.storage.plans.search_rules import check_searches, metadata_of, metadata_of_pipeline
from fakeserver.storage.port.engine import (
    Changed,
    Document,
    Explanation,
    PlanCache,
    Query,
    Scope,
    Searched,
    Stats,
    UpdateResult,
)
from fakeserver.storage.stages.pipeline_stages import INDEX_KEY, compile_optimized
from fakeserver.storage.stages.projecting import compile_projection
from fakeserver.storage.store import scanning as scan
from fakeserver.storage.store.collection_state import CollectionState, Examined, build_index, check_record_id
from fakeserver.storage.updates.updating import Replacement, Updater, compile_update, seed, with_id
from fakeserver.storage.values.collation import fold_of
from fakeserver.storage.values.limits import TOO_LARGE_AFTER_UPDATE, TOO_LARGE_TO_UPSERT, check_updated
from fakeserver.storage.values.stored import Stored, as_stored, stored
from fakeserver.storage.values.types import SCALARS, copy_value, identity
from fakeserver.waiting.interrupts import check_for_interrupt, in_one_turn, interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from fakeserver.storage.plans.planning import Plan
    from fakeserver.storage.port.engine import Accept, Capped, IndexSpec, Namespace, Update
    from fakeserver.storage.values.metadata import QueryMetadata
    from mongowire.ports import Rng


class MemoryEngine:
    """A storage engine in memory; `rng` is for `$sample`, `$rand` and `$sampleRate`."""

    name: ClassVar = "inMemory"  # as a server's own engine of this kind

    def __init__(self, *, rng: Rng | None = None) -> None:
        self._collections: dict[Namespace, CollectionState] = {}
        self._rng = rng
        self._plain_scope = Scope(rng=rng)

    def insert(self, ns: Namespace, document: Document, *, accept: Accept | None = None) -> Document:
        """Store a document (with an `_id`) and return it as stored. Raises `WriteError` 11000."""
        # Without a call in the usual case: `insertMany` comes here for each document.
        collection = self._collections.get(ns)
        if collection is None or collection.is_read:
            collection = self._ensure(ns)
        kept = document if type(document) is Stored else stored(copy_value(document))
        self._add(ns, collection, kept, accept)
        capped = collection.capped
        # The oldest make room; the newest stays, whatever its size.
        while capped is not None and len(collection.documents) > 1:
            too_many = capped.max and len(collection.documents) > capped.max
            if collection.size <= capped.size and not too_many:
                break
            collection.discard(*next(iter(collection.items())))
        return kept

    def find(self, ns: Namespace, query: Query) -> list[Document]:
        """Return the documents that match."""
        collection = self._collections.get(ns)
        if collection is None:
            return self._find(None, query, self._scope(query))
        collection.put_in_order()
        # Around the projection too, which may give way, and asks the collection for keys and record ids.
        collection.readers += 1
        try:
            return self._find(collection, query, self._scope(query))
        finally:
            collection.readers -= 1

    def _find(self, collection: CollectionState | None, query: Query, scope: Scope) -> list[Document]:
        project = None
        if query.projection:
            if any("$" in name for name in query.projection):
                compile_filter(query.filter, scope)  # refused first: a positional projection looks into it
            seeing = scope._replace(meta={**scope.meta, **scan.metadata(collection, query, scope)})
            project = compile_projection(query.projection, seeing, query=query.filter)
        elif collection is not None and scan.is_everything(query):
            return scan.part_of(collection, query)
        # Also without a collection, since a malformed query fails there as well.
        pairs = scan.select(collection, query, scope)
        if collection is None:
            return []
        if query.return_key:
            plan = collection.plan(query)
            return [index_key(document, plan) for _key, document in interruptible(pairs)]
        if project is not None:
            # Keys know no field that is missing: to them it is null.
            plan = collection.plan(query) if may_be_covered(query) else SCAN
            of_keys = covers(plan, query)
            try:
                projected = [
                    project(keyed(document, plan) if of_keys else document)
                    for _key, document in interruptible(pairs)
                ]
                scope.settle()
            except CommandError as error:
                error.executing = True
                raise
            return projected
        if query.show_record_id:
            records = collection.records
            return [{**document, "$recordId": bson.Int64(records[key])} for key, document in pairs]
        return [document for _key, document in pairs]

    def update(self, ns: Namespace, update: Update, *, accept: Accept | None = None) -> UpdateResult:
        """Apply one statement to copies, and store those that changed."""
        query = update.query
        if update.upsert:
            refuse_expr(query.filter)
        scope = self._scope(query)
        updater = compile_update(
            update.change,
            scope,
            query=query.filter,
            array_filters=update.array_filters,
            multi=update.multi,
            now=query.now,
        )
        # By the key of each document: so the dictionary counts them, and a restart finds it filled.
        done = {} if update.done is None else update.done
        left = True
        while left:
            left = False
            for _, key, document in self._targets(ns, query, scope, limit=0 if update.multi else 1):
                if key in done:
                    continue
                try:
                    made = updated(
                        lambda: self._own(ns),
                        key,
                        document,
                        updater,
                        lambda one: scan.matches(one, query, scope),
                    )
                    if made is None:  # another took it meanwhile: there may be one in its place
                        left = not update.multi
                    else:
                        done[key] = self._change(made, key, updater, accept)
                except CommandError as error:
                    error.executing = True
                    raise
        if not done:
            return self._upsert(ns, update, updater, accept) if update.upsert else UpdateResult(0, 0)
        images = tuple(done.values())
        modified = len([image for image in images if image.after is not image.before])
        return UpdateResult(len(images), modified, images=images)

    def delete(self, ns: Namespace, query: Query, *, accept: Accept | None = None) -> list[Document]:
        """Delete the documents that match and return them."""
        deleted: list[Document] = []
        # Nobody has a turn while the loop's body runs: `_targets` gives way when asked for the next one.
        for collection, key, document in self._targets(ns, query, self._scope(query), limit=query.limit):
            if accept is not None:
                accept(Changed(document, None, size=len(document.raw)))
            collection.discard(key, document)
            deleted.append(document)
        return deleted

    def aggregate(
        self,
        ns: Namespace,
        pipeline: Sequence[Mapping[str, Any]],
        *,
        options: Query,
        documents: list[Document] | None = None,
    ) -> list[Document]:
        """Return what the pipeline makes of the collection, or of `documents`."""
        match = pipeline[0].get("$match", {}) if pipeline else {}
        # Always with a list for failures: a pipeline is optimized, as a filter is only where it may compute.
        scope = self._scope(options, metadata_of_pipeline(pipeline))
        if scope.failures is None:
            scope = scope._replace(failures=[])
        read = self._collections.get(ns) if documents is None else None
        if read is not None and read.unique_ids:
            key_of = scan.index_key_reader(read, pipeline, options)
            scope = scope._replace(meta={**scope.meta, INDEX_KEY: key_of})
        run = compile_optimized(pipeline, scope)
        if documents is None:
            if scope.metadata is not None:
                check_searches(options, match)
            collection = self._collections.get(ns)
            if collection is not None:
                collection.put_in_order()
            if options.filter:
                documents = [document for _key, document in scan.select(collection, options, scope)]
            else:
                documents = [] if collection is None else scan.read_for(collection, pipeline, options, scope)
        try:
            results = run(documents)
            scope.settle()
        except CommandError as error:
            error.executing = True
            raise
        return results

    def equal(self, ns: Namespace, path: str, value: Any) -> list[Document] | None:
        """Return the documents that an index, asked for nothing else, knows to hold a scalar."""
        collection = self._collections.get(ns)
        if collection is None:
            return []
        # The most frequent query of all: no `Query` is made for it.
        if path == "_id" and collection.unique_ids and type(value) in SCALARS:
            document = collection.by_id(value)
            return [] if document is None else [document]
        keys = scan.looked_up(collection, Query({path: value}), self._plain_scope)
        return None if keys is None else [collection.documents[key] for key in keys]

    def explain(self, ns: Namespace, query: Query, *, run: bool) -> Explanation:
        """Return how a query is run."""
        collection = self._collections.get(ns)
        scope = self._scope(query)
        compile_filter(query.filter, scope)
        scope.check_constants()
        if scope.metadata is not None:
            check_searches(query, query.filter)
        if collection is None:
            return Explanation(exists=False)
        plan = collection.plan(query)
        explanation = explained(collection, plan, query)
        # A rejected plan is explained as the query with a hint of its index, which has no rivals.
        others = tuple(
            self.explain(ns, query._replace(hint=name), run=run) for name in collection.rivals(query, plan)
        )
        explanation = replace(explanation, others=others)
        if not run:
            return explanation
        examined = Examined()
        found = scan.select(collection, query, scope, examined=examined)
        branches = tuple(
            self.explain(ns, query._replace(filter=each, sort=None, projection=None), run=True)
            for _plan, each in plan.branches
        )
        return replace(
            explanation,
            branches=branches,
            returned=len(found),
            keys=examined.keys,
            documents=examined.documents,
        )

    def plan_cache(self, ns: Namespace) -> PlanCache:
        """Return the plans that a collection remembers."""
        collection = self._collections.get(ns)
        return {} if collection is None else collection.cached

    def usage(self, ns: Namespace) -> Mapping[str, int]:
        """Return how often each index has been read."""
        collection = self._collections.get(ns)
        return {} if collection is None else {n: each.usage.ops for n, each in collection.ordered.items()}

    def stats(self, ns: Namespace) -> Stats:
        """Return the number of documents and their bytes."""
        collection = self._collections.get(ns)
        if collection is None:
            return Stats()
        made = 0 if collection.buckets is None else collection.buckets.made
        return Stats(len(collection.documents), collection.size, made)

    def drop(self, ns: Namespace) -> bool:
        """Forget the collection; return whether it was there."""
        return self._collections.pop(ns, None) is not None

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
        """Make an empty collection, if it is not there."""
        collection = self._ensure(ns)
        collection.capped, collection.clustered, collection.buckets = capped, clustered, buckets
        if collation:
            collection.fold_ids(ns, collation)
        if not unique_ids:
            collection.share_ids()

    def bound(self, ns: Namespace, capped: Capped) -> None:
        """Set the bounds of a capped collection; what is beyond them goes with the next insert."""
        self._ensure(ns).capped = capped

    def create_index(self, ns: Namespace, index: IndexSpec, *, tolerant: bool = False) -> None:
        """Enforce an index, if it is unique, and have equalities on its first field find with it."""
        self._ensure(ns)
        # Between the last look of the build and its entry in the collection nobody has a turn.
        build = build_index(ns, index, lambda: self._collections.get(ns), tolerant=tolerant)
        self._own(ns).add_index(build)  # type: ignore[union-attr]

    def drop_index(self, ns: Namespace, name: str) -> None:
        """Forget an index."""
        collection = self._own(ns)
        if collection is not None:
            collection.drop_index(name)

    def rename(self, source: Namespace, target: Namespace) -> None:
        """Give a collection another name."""
        collection = self._own(source)
        assert collection is not None
        del self._collections[source]
        self._collections[target] = collection
        # Unique indexes name the collection in their errors.
        for index in collection.unique.values():
            index.ns = target

    # What transactions are made of.

    def fork(self) -> MemoryEngine:
        """Return an engine that shares each collection until one of the two changes it."""
        # The mark stays on both sides: whichever changes the collection first takes a copy, and so does the
        # other one later, since nobody knows whether further forks hold it.
        fork = MemoryEngine(rng=self._rng)
        for collection in self._collections.values():
            collection.shared = True
        fork._collections = dict(self._collections)
        return fork

    def put(self, ns: Namespace, change: Changed) -> None:
        """Make a change that another engine allowed."""
        collection, before, after = self._ensure(ns), change.before, change.after
        if before is None:
            if after is not None:
                self._add(ns, collection, as_stored(after), None)
            return
        key = collection.key_held(before)
        held = collection.documents[key]
        if after is None:
            collection.discard(key, held)
        else:
            collection.replace(key, held, as_stored(after))

    def claims(self, ns: Namespace, document: Document) -> list[Hashable]:
        """Return pairs of an index's name and a key."""
        collection = self._collections.get(ns)
        claimed: list[Hashable] = [("_id_", identity(document["_id"]))]
        for name, index in {} if collection is None else collection.unique.items():
            claimed += [(name, key) for key in index.keys(document)]
        return claimed

    def claimant(self, ns: Namespace, claim: Any) -> Document | None:
        """Return the document that takes up a unique key."""
        collection = self._collections.get(ns)
        if collection is None:
            return None
        name, key = claim
        if name != "_id_":
            index = collection.unique.get(name)
            key = None if index is None else index.holder(key)
        return collection.documents.get(key)

    def _own(self, ns: Namespace) -> CollectionState | None:
        """Return a collection that may be changed: its own copy of one that a fork or a reader holds."""
        collection = self._collections.get(ns)
        if collection is not None and collection.is_read:
            collection = self._collections[ns] = collection.fork()
        return collection

    def _ensure(self, ns: Namespace) -> CollectionState:
        collection = self._own(ns)
        if collection is None:
            collection = self._collections[ns] = CollectionState()
        return collection

    def _scope(self, query: Query, metadata: QueryMetadata | None = None) -> Scope:
        # Most writes and lookups need no surroundings at all, and share one scope.
        fold = fold_of(query.collation) if query.collation else None
        metadata = metadata or metadata_of(query.filter)
        plain = query.let is None and query.now is None and query.read is None and query.make_id is None
        if plain and fold is None and metadata is None and query.allow_disk_use and not query.release:
            return self._plain_scope._replace(failures=[]) if _may_compute(query) else self._plain_scope
        variables = {**query.let} if query.let else {}
        if query.now is not None:
            variables |= query.builtins()
        return Scope(
            fold,
            variables,
            query.read,
            self._rng,
            metadata.readers() if metadata is not None else {},
            query.make_id,
            query.scripts,
            query.indexes,
            metadata,
            query.allow_disk_use,
            query.look_up,
            query.release,
            searched=None if query.indexes_of is None else functools.partial(_searched, query.indexes_of),
            failures=[],
        )

    def _targets(
        self, ns: Namespace, query: Query, scope: Scope, *, limit: int
    ) -> Iterator[tuple[CollectionState, Hashable, Stored]]:
        """Yield the documents that a write is about, each with its collection as it is by then.

        Others may write while the documents are looked for and between two of them, so each is looked at
        again: one that is gone, or matches no more, is left out, as by a server that yields. Where one
        document is wanted, the next one takes its place; each try looks for more, so that one is left.
        """
        collection = self._own(ns)
        keys = None if collection is None else scan.looked_up(collection, query, scope)
        if keys is not None and len(keys) <= 1 and not query.skip:
            # Nobody can have changed it since it was found.
            for key in keys:
                yield collection, key, collection.documents[key]  # type: ignore[misc, union-attr]
            return
        if keys is None or query.skip:
            found = scan.select(self._own(ns), query._replace(limit=limit), scope)
        else:
            found = [(key, collection.documents[key]) for key in keys[: limit or None]]  # type: ignore[union-attr]
        changed, wanted = 0, limit
        while found:
            missed = False
            for key, seen in found:
                if changed:
                    check_for_interrupt()
                collection = self._own(ns)
                document = None if collection is None else collection.documents.get(key)
                if document is not seen and (document is None or not scan.matches(document, query, scope)):
                    missed = True
                    continue
                assert collection is not None
                changed += 1
                yield collection, key, document
                if limit == 1:
                    return
            if not missed or limit != 1:
                return
            # A few tries reach every document, so the search ends, however busy other writers are.
            wanted *= 32
            found = scan.select(self._own(ns), query._replace(limit=wanted), scope)

    def _add(
        self, ns: Namespace, collection: CollectionState, document: Stored, accept: Accept | None
    ) -> None:
        key = collection.key_of(document)
        if collection.clustered:
            check_record_id(document["_id"], held=key in collection.documents)
        # The `_id` first: of several indexes whose keys are held already, a server names that of `_id`.
        if key in collection.documents:
            raise duplicate_key(ns, "_id_", {"_id": 1}, [document["_id"]])
        if collection.unique or collection.checks:
            collection.check(key, document)
        if accept is not None:
            accept(Changed(None, document, False, None, len(document.raw)))  # noqa: FBT003 -- by place, it costs less
        collection.add(key, document)

    def _change(self, made: Updated, key: Hashable, updater: Updater, accept: Accept | None) -> Changed:
        collection, before, after = made
        # The same bytes: number types and order of fields count. A replacement that does not say the `_id` is
        # never the same as what is stored.
        if after == before and after.raw == before.raw and updater.may_change_nothing:
            return Changed(before, before)
        if collection.unique or collection.checks:
            collection.check(key, after)
        size = len(after.raw)
        check_updated(size, TOO_LARGE_AFTER_UPDATE, "Resulting document after update")
        changed = Changed(before, after, isinstance(updater, Replacement), updater.touched, size)
        if accept is not None:
            accept(changed)
        collection.replace(key, before, after)
        return changed

    def _upsert(self, ns: Namespace, update: Update, updater: Updater, accept: Accept | None) -> UpdateResult:
        # Equalities of the filter are fields of the new document; a replacement takes the `_id` of these
        # alone.
        pins = list(equalities(update.query.filter))
        replacing = isinstance(update.change, dict) and not is_operators(update.change)
        base = seed([pair for pair in pins if pair[0] == "_id"] if replacing else pins)
        try:
            document = stored(with_id(updater.apply(base, inserting=True), update.make_id))
            check_updated(len(document.raw), TOO_LARGE_TO_UPSERT, "Document to upsert")
            self._add(ns, self._ensure(ns), document, accept)
        except CommandError as error:
            error.executing = True
            raise
        return UpdateResult(0, 0, document["_id"], upserted=True, images=(Changed(None, document),))


# The update of one document: of a long one in turns, while others may change it.

_ATTEMPTS: Final = 4
"""How often an update of a document is made anew before nobody else has a turn during it."""
_IN_TURNS: Final = nullcontext()


def _searched(
    indexes_of: Callable[[Any], Sequence[IndexSpec]], name: Any, pipeline: Sequence[Mapping[str, Any]]
) -> Searched:
    return Searched(indexes_of(name), metadata_of_pipeline(pipeline))


class Updated(NamedTuple):
    """A collection that may be changed, and one of its documents as it is and as it is to be."""

    collection: CollectionState
    before: Stored
    after: Stored


def _may_compute(query: Query) -> bool:
    """Return whether a query may hold an expression: one stands behind an operator, or is projected."""
    for name in query.filter:  # a loop, because it costs less than `any`
        if name[:1] == "$":
            return True
    return bool(query.projection)


def updated(
    own: Callable[[], CollectionState | None],
    key: Hashable,
    before: Stored,
    updater: Updater,
    matches: Callable[[Stored], bool],
) -> Updated | None:
    """Return what becomes of a document, None if others took it away meanwhile, or it `matches` no more.

    Nobody has a turn between the return and the look at the document.
    """
    for attempt in range(_ATTEMPTS):
        # In turns, because nothing is stored yet: if others are faster, the new document is thrown away.
        with _IN_TURNS if attempt < _ATTEMPTS - 1 else in_one_turn():
            after = stored(updater.apply(before))
        collection = own()
        held = None if collection is None else collection.documents.get(key)
        if collection is not None and held is before:
            return Updated(collection, before, after)
        if held is None or not matches(held):
            return None
        before = held
    raise AssertionError("nobody has a turn during the last attempt")


# A plan as `explain` is told of it.
#
# `commands.queries.explain` makes stages of these figures (`FETCH`, `IXSCAN`, ...); here is what only the
# engine knows: bounds, what they leave to ask, and arrays on the way to keys.


def explained(collection: CollectionState, plan: Plan, query: Query) -> Explanation:
    """Return what a plan is, without the figures of a run."""
    left = residue(plan, query.filter)
    if plan.index is None:
        branches = tuple(explained(collection, branch, type(query)(each)) for branch, each in plan.branches)
        return Explanation(
            backwards=plan.backwards,
            is_sorted=plan.is_sorted,
            branches=branches,
            of_document=_without_or(left.of_document) if branches else left.of_document,
        )
    service = plan.service
    if service is not None:
        rest = [
            {each.path: {each.name: each.value}} if isinstance(each, Clause) else each
            for each in conjuncts(query.filter)
            if not service.is_exact or each != service.clause
        ]
        return Explanation(
            index=plan.spec,
            bounds=service.bounds,
            pattern=service.pattern,
            arrays=plan.index.arrays,
            of_document=all_of(rest),
        )
    if plan.index.is_ordered:
        collection.prepare(plan.index)  # only then is it known whether it is multikey
    return Explanation(
        index=plan.spec,
        bounds=plan.shown_bounds(),
        ends=_ends(plan) if plan.is_one_range and plan.span is None else None,
        backwards=plan.backwards,
        is_sorted=plan.is_sorted,
        arrays=plan.index.arrays,
        of_key=left.of_key,
        of_document=left.of_document,
        covers=covers(plan, query),
    )


def _without_or(wanted: Document) -> Document:
    """Return what is left of a filter beside the `$or` whose branches have been read."""
    parts = wanted.get("$and", [wanted])
    first = next(each for each in parts if "$or" in each)
    rest = [each for each in parts if each is not first]
    return {"$and": rest} if len(rest) > 1 else next(iter(rest), {})


def _ends(plan: Plan) -> tuple[tuple[Document, bool], tuple[Document, bool]]:
    """Return the first and the last key of a plan's one range, and whether each is included."""
    assert plan.spec is not None
    begin: dict[str, Any] = {}
    end: dict[str, Any] = {}
    included = [True, True]
    for number, (name, kind) in enumerate(plan.spec.key.items()):
        down = ((sign_of(kind) or 1) < 0) != plan.backwards
        allowed = plan.bounds[number] if number < len(plan.bounds) else None
        low: Any = MinKey()
        high: Any = MaxKey()
        low_included = high_included = True
        if allowed:
            low, high = (end.value if isinstance(end, End) else end for end in allowed[0].ends)
            low_included, high_included = allowed[0].low_included, allowed[0].high_included
        begin[name], end[name] = (high, low) if down else (low, high)
        for side, each in enumerate((high_included, low_included) if down else (low_included, high_included)):
            included[side] = included[side] and each
    return (begin, included[0]), (end, included[1])
