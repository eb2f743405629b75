"""Storage that costs next to nothing, so that what is left of a request's cost is everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.storage.port.engine import Changed, UpdateResult
from fakeserver.storage.store.memory_engine import MemoryEngine

if TYPE_CHECKING:
    from fakeserver.storage.port.engine import Accept, Document, Namespace, Query, Update

_DOCUMENT: Document = {"_id": 5, "name": "Ada", "tags": ["a", "b"], "n": 5}
_UPDATED: Document = {**_DOCUMENT, "n": 6}


class CannedEngine(MemoryEngine):
    """It keeps nothing that is inserted, finds and updates the same document whatever it is asked.

    The server is told of each change all the same: validating it and entering it in the oplog is no storage.
    """

    def insert(self, ns: Namespace, document: Document, *, accept: Accept | None = None) -> Document:  # noqa: ARG002 - the contract's
        if accept is not None:
            accept(Changed(None, document))
        return document

    def find(self, ns: Namespace, query: Query) -> list[Document]:  # noqa: ARG002 - the contract's
        return [_DOCUMENT]

    def equal(self, ns: Namespace, path: str, value: Any) -> list[Document] | None:  # noqa: ARG002 - the contract's
        return [_DOCUMENT]

    def update(self, ns: Namespace, update: Update, *, accept: Accept | None = None) -> UpdateResult:  # noqa: ARG002 - the contract's
        changed = Changed(_DOCUMENT, _UPDATED)
        if accept is not None:
            accept(changed)
        return UpdateResult(1, 1, images=(changed,))
