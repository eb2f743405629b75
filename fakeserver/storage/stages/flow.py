"""The flow of documents through a pipeline: one by one, or together where a stage needs them all.

Stages are of two kinds. One that sorts, groups or joins needs all documents, takes a list and returns one.
One that looks at a document at a time is `Flowing`, and neighbours of this kind form a chain of iterators,
so that a `$limit` behind an `$unwind` ends it after as many documents as it wants. A server works so
throughout, and spills to disk what does not fit into memory; here nothing spills, which is why `held` has a
limit of its own, larger than those of a server's operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.storage.values.limits import MAX_HELD_BYTES, weight
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Document: TypeAlias = dict[str, Any]
    PipelineStage: TypeAlias = Callable[[list[Document]], list[Document]]

# Weighing walks through a whole document and would cost more than most stages do: few documents are not
# weighed at all, many by samples.
_FREE: Final = 10_000
"""Documents that are held without a look at their weight."""
_SAMPLE: Final = 16
"""One in so many documents is weighed, for all of them."""


class Flowing:
    """A stage that looks at one document at a time: it needs no more of them than the next stage asks for.

    `flow` is called for each run, with an iterable that may be read once only, and returns an iterable that
    reads no document before it is asked for one. A `flow` that built a list would take the memory that the
    chain saves.
    """

    __slots__ = ("flow", "looks")

    def __init__(
        self, flow: Callable[[Iterable[Document]], Iterable[Document]], *, looks: bool = True
    ) -> None:
        self.flow = flow
        self.looks = looks
        """Whether it looks into documents; one that only counts them takes no time for each."""

    def __call__(self, documents: list[Document]) -> list[Document]:
        """Return what the stage makes of all documents."""
        return held(self.flow(interruptible(documents)))

    @classmethod
    def each(cls, make: Callable[[Document], Document]) -> Flowing:
        """Return a stage that makes a document of each."""
        return cls(lambda documents: map(make, documents))


def run_stages(stages: Sequence[PipelineStage], documents: list[Document]) -> list[Document]:
    """Return what stages make of documents, one stage after the other. Raises `CommandError`.

    Neighbours that flow hand on each document before they look at the next: what a `$unwind` makes is never
    held as a whole where a `$limit` or a `$match` follows.
    """
    flow: Iterable[Document] | None = None
    for stage in stages:
        # A `$limit` at the beginning of a chain cuts a list, in no time: an iterator with a yield point for
        # each document would only slow it.
        if isinstance(stage, Flowing) and flow is None and not stage.looks:
            documents = list(stage.flow(documents))
        elif isinstance(stage, Flowing):
            flow = stage.flow(interruptible(documents) if flow is None else flow)
        else:
            documents, flow = stage(documents if flow is None else held(flow)), None
    return documents if flow is None else held(flow)


def held(flow: Iterable[Document]) -> list[Document]:
    """Return documents as a list, with a yield point before each.

    Raises `CommandError` 146 where many of them are more than there is memory for: a server would hand them
    on one by one.
    """
    found: list[Document] = []
    left = MAX_HELD_BYTES
    for document in interruptible(flow):
        found.append(document)
        if len(found) > _FREE and not len(found) % _SAMPLE:
            left -= _SAMPLE * weight(document, left)
            if left < 0:
                raise CommandError(
                    ErrorCode.EXCEEDED_MEMORY_LIMIT,
                    "the documents of a stage take more memory than this server has for them. Memory limit:"
                    f" {MAX_HELD_BYTES} bytes",
                )
    return found
