"""The update of one document: of a long one in turns, while others may change it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, NamedTuple

from fakeserver.storage.values.stored import Stored, stored
from fakeserver.waiting.interrupts import in_one_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from fakeserver.storage.store.collection_state import CollectionState
    from fakeserver.storage.updates.updating import Updater

_ATTEMPTS: Final = 4
"""How often an update of a document is made anew before nobody else has a turn during it."""
_IN_TURNS: Final = nullcontext()


class Updated(NamedTuple):
    """A collection that may be changed, and one of its documents as it is and as it is to be."""

    collection: CollectionState
    before: Stored
    after: Stored


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
