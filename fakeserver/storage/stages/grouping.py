"""`$group`: documents gathered by a key, and the results of the accumulators over each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.accumulators import compile_field
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.values.memory import check_gathered, checked_document
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.types import MISSING, order
from fakeserver.waiting.interrupts import interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.storage.expressions.accumulators import Accumulator
    from fakeserver.storage.port.scope import Frame, Scope

    Document: TypeAlias = dict[str, Any]


def compile_group(argument: Any, scope: Scope) -> Callable[[list[Document]], list[Document]]:
    """Return a `$group` stage; groups come in the order of their first document."""
    if not isinstance(argument, dict):
        raise CommandError(15947, "a group's fields must be specified in an object")
    if "_id" not in argument:
        raise CommandError(15955, "a group specification must include an _id")
    key = compile_expression(argument["_id"], scope)
    fields = {name: compile_field(name, spec, scope) for name, spec in argument.items() if name != "_id"}

    def run(documents: list[Document]) -> list[Document]:
        groups: dict[Any, tuple[Any, list[Frame]]] = {}
        for document in interruptible(documents):
            frame = scope.frame(document)
            value = key(frame)
            value = None if value is MISSING else value
            groups.setdefault(order(value, scope.fold), (value, []))[1].append(frame)
        if not scope.spills:
            check_gathered("$group", (value for value, _frames in groups.values()))
        return [
            checked_document({"_id": value, **summaries(fields, frames)})
            for value, frames in interruptible(groups.values())
        ]

    return run


def summaries(fields: Mapping[str, Accumulator], frames: Sequence[Frame]) -> Document:
    """Return what accumulators make of the documents of one group."""
    return {
        name: accumulator.summarize([accumulator.source(frame) for frame in paced(frames)], frames[0])
        for name, accumulator in fields.items()
    }
