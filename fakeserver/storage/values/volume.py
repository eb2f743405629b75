"""The bytes of the documents that a stage holds, which are limited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import bson

from fakeserver.storage.values.sizes import MAX_INTERNAL_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEPT: Final = 100_000


class Volume:
    """Measures documents, each once as long as it is the same object."""

    def __init__(self) -> None:
        # With the document, whose `id` would else be another's when it is gone.
        self._sizes: dict[int, tuple[Any, int]] = {}

    def size(self, document: Any) -> int:
        """Return a document's bytes as BSON."""
        known = self._sizes.get(id(document))
        if known is None:
            if len(self._sizes) >= _KEPT:
                self._sizes.clear()
            known = self._sizes[id(document)] = (document, len(bson.encode(document)))
        return known[1]

    def fits(self, documents: Sequence[Any], most: int) -> bool:
        """Return whether documents, each of which can be stored, come to at most `most` bytes."""
        if len(documents) * MAX_INTERNAL_BYTES <= most:
            return True
        total = 0
        for document in documents:
            total += self.size(document)
            if total > most:
                return False
        return True
