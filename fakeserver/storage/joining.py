"""The keys by which documents are joined, and `$graphLookup`, which follows them through a collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.storage.expressions import compile_expression
from fakeserver.storage.matching import compile_filter
from fakeserver.storage.paths import read, split
from fakeserver.storage.printing import show
from fakeserver.storage.projecting import set_computed
from fakeserver.storage.values import MISSING, copy_value, identity, is_number, order, type_name, whole
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.storage.scope import Scope

    Document: TypeAlias = dict[str, Any]

_REQUIRED: Final = ("from", "startWith", "connectFromField", "connectToField", "as")
_OPTIONAL: Final = ("maxDepth", "depthField", "restrictSearchWithMatch")


def check_collection(stage: str, argument: str, name: Any) -> None:
    """Refuse what names no collection: a text does, or `{db, coll}` of texts. Raises `CommandError` 9."""
    parts = [name.get("db"), name.get("coll")] if isinstance(name, dict) else [name]
    if any(type(part) is not str or not part for part in parts):
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"{stage} argument '{argument}: {show(name)}' must be a string, is type {type_name(name)}",
        )


def other_collection(name: Any, scope: Scope) -> list[Document]:
    """Return the documents of the collection that a stage joins with."""
    return scope.read(name) if name is not None and scope.read is not None else [{}]


def related(
    document: Document, local: str, foreign: str, others: list[Document], scope: Scope
) -> list[Document]:
    """Return the documents whose `foreign` field shares a value with the `local` field of `document`."""
    wanted = keys_of(document, local, scope)
    return [other for other in others if wanted & keys_of(other, foreign, scope)]


def keys_of(document: Document, path: str, scope: Scope) -> set[Any]:
    """Return the values at a path, elements of arrays among them, as keys; a missing field counts as null."""
    keys = set()
    for value in read(document, split(path)):
        for item in value if isinstance(value, list) else [value]:
            keys.add(order(None if item is MISSING else item, scope.fold))
    return keys


@dataclass(frozen=True, slots=True)
class _Walk:
    """One `$graphLookup`: breadth first, each document once."""

    options: Mapping[str, Any]
    scope: Scope
    allowed: Callable[[Document], bool]

    def found(self, start: Any, others: list[Document]) -> list[Document]:
        reach = {order(item, self.scope.fold) for item in (start if isinstance(start, list) else [start])}
        limit = whole(self.options.get("maxDepth"))
        seen: dict[Any, Document] = {}
        depth = 0
        while reach and (limit is None or depth <= limit):
            new = [each for each in others if self._is_new(each, reach, seen)]
            for document in new:
                seen[identity(document["_id"])] = self._with_depth(document, depth)
            followed = [keys_of(each, self.options["connectFromField"], self.scope) for each in new]
            reach = set().union(*followed) if followed else set()
            depth += 1
        return list(seen.values())

    def _is_new(self, document: Document, reach: set[Any], seen: Mapping[Any, Document]) -> bool:
        if identity(document["_id"]) in seen or not self.allowed(document):
            return False
        return bool(reach & keys_of(document, self.options["connectToField"], self.scope))

    def _with_depth(self, document: Document, depth: int) -> Document:
        field = self.options.get("depthField")
        return document if field is None else {**document, field: depth}


def _check_graph_lookup(argument: Mapping[str, Any]) -> None:
    """Refuse arguments of a wrong type. Raises `CommandError`."""
    check_collection("$graphLookup", "from", argument["from"])
    for name in ("as", "connectFromField", "connectToField", "depthField"):
        if name in argument and type(argument[name]) is not str:
            raise CommandError(
                40103, f"expected string as argument for {name}, found: {show(argument[name])}"
            )
    if "restrictSearchWithMatch" in argument and not isinstance(argument["restrictSearchWithMatch"], dict):
        raise CommandError(
            40185,
            "restrictSearchWithMatch must be an object, found"
            f" {type_name(argument['restrictSearchWithMatch'])}",
        )
    if "maxDepth" in argument:
        depth = argument["maxDepth"]
        if not is_number(depth):
            raise CommandError(40100, f"maxDepth requires numeric argument, found type: {type_name(depth)}")
        deepest = whole(depth)
        if deepest is None:
            raise CommandError(40102, f"maxDepth could not be represented as a long long: {show(depth)}")
        if deepest < 0:
            raise CommandError(40101, f"maxDepth requires a nonnegative argument, found: {show(depth)}")


def compile_graph_lookup(argument: Any, scope: Scope) -> Callable[[list[Document]], list[Document]]:
    """Return a `$graphLookup` stage. Raises `CommandError` for a malformed one."""
    if not isinstance(argument, dict):
        raise CommandError(ErrorCode.FAILED_TO_PARSE, "the $graphLookup specification must be an Object")
    for name in argument:
        if name not in _REQUIRED and name not in _OPTIONAL:
            raise CommandError(40104, f"Unknown argument to $graphLookup: {name}")
    if any(name not in argument for name in _REQUIRED):
        raise CommandError(
            40105,
            "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to be "
            "specified.",
        )
    _check_graph_lookup(argument)
    start = compile_expression(argument["startWith"], scope)
    walk = _Walk(argument, scope, compile_filter(argument.get("restrictSearchWithMatch") or {}, scope))

    def joined(document: Document, others: list[Document]) -> Document:
        value = start(scope.frame(document))
        changed = copy_value(document)
        set_computed(changed, split(argument["as"]), walk.found(None if value is MISSING else value, others))
        return dict(changed)

    def run(documents: list[Document]) -> list[Document]:
        others = other_collection(argument["from"], scope)
        return [joined(document, others) for document in documents]

    return run
