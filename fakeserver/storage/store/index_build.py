"""Building an index: in turns with others, whose writes meanwhile it catches up with.

A build reads the documents as they were when it began. What has changed behind it is entered by another look
at the documents, until there is one during which nobody wrote. A server notes the writes on the side instead.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from fakeserver.errors import CommandError
from fakeserver.storage.plans.index_keys import KeyMaker
from fakeserver.storage.plans.indexes import OrderedIndex, UniqueIndex, ValueIndex
from fakeserver.storage.plans.special_indexes import check_of
from fakeserver.waiting.interrupts import in_one_turn, interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from fakeserver.storage.plans.special_indexes import Check
    from fakeserver.storage.port.engine import IndexSpec, Namespace
    from fakeserver.storage.store.collection_state import CollectionState
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
