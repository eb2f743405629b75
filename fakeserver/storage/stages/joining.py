"""The keys by which documents are joined, and `$graphLookup`, which follows them through a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.stages.projecting import set_computed
from fakeserver.storage.values.paths import read, split
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import MISSING, copy_value, identity, is_number, order, type_name, whole
from fakeserver.storage.values.volume import Volume
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fakeserver.storage.port.scope import Scope

    Document: TypeAlias = dict[str, Any]

_MAX_BYTES: Final = 100 * 1024 * 1024
"""`internalDocumentSourceGraphLookupMaxMemoryBytes`, as servers have it."""
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


def keys_of(document: Document, path: str, scope: Scope) -> set[Any]:
    """Return the values at a path, elements of arrays among them, as keys; a missing field counts as null."""
    keys = set()
    for value in read(document, split(path)):
        for item in value if isinstance(value, list) else [value]:
            keys.add(order(None if item is MISSING else item, scope.fold))
    return keys


class Others:
    """The documents that a stage joins with, in their order, and tables of where each key stands."""

    def __init__(self, documents: list[Document], scope: Scope) -> None:
        self.documents = documents
        self._scope = scope
        self._tables: dict[str, dict[Any, list[int]]] = {}

    def sharing(self, document: Document, local: str, foreign: str) -> list[Document]:
        """Return those whose `foreign` field shares a value with the `local` field of `document`."""
        indexes = self.holders(foreign, keys_of(document, local, self._scope))
        return [self.documents[index] for index in indexes]

    def holders(self, path: str, keys: Iterable[Any]) -> list[int]:
        """Return where those stand that have one of these keys at a path, in their order."""
        table = self._tables.get(path)
        if table is None:
            table = self._tables[path] = self._table(path)
        found = [indexes for key in keys if (indexes := table.get(key)) is not None]
        return found[0] if len(found) == 1 else sorted({index for indexes in found for index in indexes})

    def _table(self, path: str) -> dict[Any, list[int]]:
        table: dict[Any, list[int]] = {}
        for index, document in enumerate(interruptible(self.documents)):
            for key in keys_of(document, path, self._scope):
                table.setdefault(key, []).append(index)
        return table


class _Walk:
    """One run of a `$graphLookup`: breadth first, each document once."""

    def __init__(self, options: Mapping[str, Any], scope: Scope, others: list[Document]) -> None:
        self._options, self._scope = options, scope
        self._others = Others(others, scope)
        self._ids: dict[int, Any] = {}
        self._followed: dict[int, set[Any]] = {}
        self._volume = Volume()

    def found(self, start: Any) -> list[Document]:
        """Return what is reached from a value. Raises `CommandError` 40099 if it is too much."""
        reach = {order(item, self._scope.fold) for item in (start if isinstance(start, list) else [start])}
        limit = whole(self._options.get("maxDepth"))
        target, source = self._options["connectToField"], self._options["connectFromField"]
        field = self._options.get("depthField")
        seen: dict[Any, Document] = {}
        depth = total = 0
        while reach and (limit is None or depth <= limit):
            following: set[Any] = set()
            for index in interruptible(self._others.holders(target, reach)):
                key = self._id(index)
                if key in seen:
                    continue
                document = self._others.documents[index]
                total += self._volume.size(document)
                if total > _MAX_BYTES:
                    raise CommandError(40099, "$graphLookup reached maximum memory consumption")
                seen[key] = document if field is None else {**document, field: depth}
                following |= self._leads_to(index, source)
            reach = following
            depth += 1
        return list(seen.values())

    def _id(self, index: int) -> Any:
        key = self._ids.get(index)
        if key is None:
            document = self._others.documents[index]
            if "_id" not in document:
                source = self._options["from"]
                name = source["coll"] if isinstance(source, dict) else source
                raise CommandError(
                    40271,
                    f"Documents in the '{name}' namespace must contain an _id for de-duplication in"
                    " $graphLookup",
                )
            key = self._ids[index] = identity(document["_id"])
        return key

    def _leads_to(self, index: int, path: str) -> set[Any]:
        keys = self._followed.get(index)
        if keys is None:
            keys = self._followed[index] = keys_of(self._others.documents[index], path, self._scope)
        return keys


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
    allowed = compile_filter(argument.get("restrictSearchWithMatch") or {}, scope)

    def joined(document: Document, walk: _Walk) -> Document:
        value = start(scope.frame(document))
        changed = copy_value(document)
        set_computed(changed, split(argument["as"]), walk.found(None if value is MISSING else value))
        return dict(changed)

    def run(documents: list[Document]) -> list[Document]:
        others = other_collection(argument["from"], scope)
        walk = _Walk(argument, scope, [other for other in interruptible(others) if allowed(other)])
        return [joined(document, walk) for document in interruptible(documents)]

    return run
