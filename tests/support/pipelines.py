"""Pipelines without a server: documents in, documents out, or the code of the refusal."""

from __future__ import annotations

from typing import Any

from fakeserver.errors import CommandError
from fakeserver.storage.port.engine import Namespace, Query
from fakeserver.storage.store.memory_engine import MemoryEngine

Document = dict[str, Any]
_NS = Namespace("db", "c")


def piped(documents: list[Document], *stages: Document, **query: Any) -> list[Document]:
    """Return what stages make of documents."""
    return MemoryEngine().aggregate(_NS, list(stages), options=Query(**query), documents=documents)


def refusal(documents: list[Document], *stages: Document) -> tuple[int, str]:
    """Return the code and the text with which a pipeline is refused."""
    try:
        piped(documents, *stages)
    except CommandError as error:
        return error.code, error.message
    raise AssertionError("the pipeline was not refused")
