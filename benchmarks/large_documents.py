"""The documents that large inputs are about, and what a large input is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson import DatetimeMS

if TYPE_CHECKING:
    from collections.abc import Iterator

Document: TypeAlias = dict[str, Any]

DB: Final = "db"
DATE: Final = DatetimeMS(1_600_000_000_000)


@dataclass(frozen=True, slots=True)
class Case:
    """One request; `before` are commands that make ready for it, which nobody measures.

    It is known by `kind`, `name` and `what`. Only `ok` ones must succeed; the others may also be refused
    because of their size.
    """

    kind: str
    name: str
    what: str
    command: Document
    before: tuple[Document, ...] = field(default=())

    def __str__(self) -> str:
        """Return what it is called in reports."""
        return f"{self.kind} {self.name}: {self.what}"


def many(size: int) -> Iterator[Document]:
    """Yield the documents of the collection `many`."""
    for n in range(size):
        yield {
            "_id": n,
            "n": n,
            "g": n % 100,
            "x": float(n),
            "s": f"word{n % 1000} and {n}",
            "d": DatetimeMS(1_600_000_000_000 + n * 1000),
            "p": [(n % 360) - 180 + 0.5, (n // 360) % 180 - 89.5],
            "o": {f"f{n % 50}": n},
            "a": [n, n + 1],
        }


def one(size: int) -> Document:
    """Return the document of the collection `one`, all of whose values are large."""
    return {
        "_id": 0,
        "n": 1,
        "a": list(range(size)),
        "b": list(range(size, 0, -1)),
        "o": [{"k": f"f{n}", "v": n} for n in range(size)],
        "objects": [{f"f{n}": n} for n in range(size)],
        "f": [n / 2 for n in range(size)],
        "strings": [f"s{n}" for n in range(size)],
        "pairs": [[n, n] for n in range(size // 2)],
        "d": {f"f{n}": n for n in range(size)},
        "s": "ab " * size,
        "words": " ".join(f"word{n}" for n in range(size)),
        "date": DATE,
    }


def project(expression: Any) -> Document:
    """Return a command that evaluates an expression."""
    # Its type, so that no case is about the size of the reply.
    pipeline = [{"$project": {"made": {"$type": [expression]}}}]
    return {"aggregate": "one", "pipeline": pipeline, "cursor": {}}


def aggregate(*pipeline: Document, source: Any = "many", **more: Any) -> Document:
    """Return an aggregate command."""
    return {"aggregate": source, "pipeline": list(pipeline), "cursor": {}, **more}
