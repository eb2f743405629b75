"""The journal as a collection, `local.pushbackd.journal`: a document for each record, made to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.deployment.records.journal_search import COLLECTION
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.port.engine import Namespace
from fakeserver.waiting.interrupts import interruptible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.deployment.records.record import Record
    from fakeserver.storage.port.engine import Document

JOURNAL: Final = Namespace("local", COLLECTION)

_COSTLY: Final = ("request", "reply")
"""The fields for which a message must be decoded."""


def documents_of(ctx: CommandContext, query: Mapping[str, Any] | None = None) -> list[Document]:
    """Return the records that a filter may match, oldest first; all without one. Raises `CommandError`."""
    journal = ctx.node.cluster.journal
    matches = compile_filter(query) if query and not _mentions(query) else None
    return [
        _document(record, documents=True)
        for record in interruptible(journal.records)
        if matches is None or matches(_document(record, documents=False))
    ]


def _document(record: Record, *, documents: bool) -> Document:
    return {"_id": record.seq, **record.to_document(documents=documents)}


def _mentions(query: Mapping[str, Any]) -> bool:
    """Return whether a filter looks into messages, or may."""
    return any(name.startswith(("$", *_COSTLY)) for name in query)
