"""The namespaces that a view's pipeline names, and the rule that no view reads itself.

A server refuses the definition with which views would make a circle, or a chain that is too long, rather
than the first read of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.storage.port.engine import Namespace
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Graph = Mapping[Namespace, Sequence[Namespace]]

MAX_VIEW_DEPTH: Final = 20
"""How many views may stand on one another."""

_NAMED_BY: Final = {"$lookup": "from", "$graphLookup": "from", "$unionWith": "coll"}


def involved(db: str, pipeline: Any) -> Iterator[Namespace]:
    """Iterate over the collections and views that the stages of a pipeline name, nested ones included."""
    for stage in pipeline if isinstance(pipeline, list) else ():
        for name, argument in stage.items() if isinstance(stage, dict) else ():
            if name == "$facet" and isinstance(argument, dict):
                for branch in argument.values():
                    yield from involved(db, branch)
            elif name in _NAMED_BY:
                yield from _named(db, _NAMED_BY[name], argument)


def _named(db: str, field: str, argument: Any) -> Iterator[Namespace]:
    spec = argument if isinstance(argument, dict) else {field: argument}
    target = spec.get(field)
    if isinstance(target, dict):
        db, target = str(target.get("db", db)), target.get("coll")
    if type(target) is str:  # not `Code`, which is one of its classes and which no stage takes
        yield Namespace(db, target)
    yield from involved(db, spec.get("pipeline"))


def check_graph(view: Namespace, graph: Graph) -> None:
    """Refuse a view that would read itself, or be one of too many that stand on one another.

    `graph` has for each view, this one among them, what it reads. Raises `CommandError` 5 or 165.
    """
    path = _way_back(view, graph)
    if path is not None:
        shown = " => ".join(map(str, path))
        raise CommandError(ErrorCode.GRAPH_CONTAINS_CYCLE, f"View cycle detected: {shown}")
    readers: dict[Namespace, list[Namespace]] = {each: [] for each in graph}
    for each, read in graph.items():
        for other in read:
            if other in readers:
                readers[other].append(each)
    if _height(view, graph) + _height(view, readers) - 1 > MAX_VIEW_DEPTH:
        raise CommandError(
            ErrorCode.VIEW_DEPTH_LIMIT_EXCEEDED,
            f"View depth limit exceeded; maximum depth is {MAX_VIEW_DEPTH}",
        )


def _way_back(view: Namespace, graph: Graph) -> tuple[Namespace, ...] | None:
    """Return a way from a view to itself, None where there is none."""
    seen: set[Namespace] = set()
    waiting: list[tuple[Namespace, ...]] = [(view,)]
    while waiting:
        path = waiting.pop()
        for each in graph.get(path[-1], ()):
            if each == view:
                return (*path, view)
            if each not in seen:
                seen.add(each)
                waiting.append((*path, each))
    return None


def _height(view: Namespace, graph: Graph) -> int:
    """Return how many views the longest way from a view has, itself among them."""
    return 1 + max((_height(each, graph) for each in graph[view] if each in graph), default=0)
