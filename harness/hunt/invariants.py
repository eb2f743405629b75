"""Invariants: what the user says must hold at the end of every run, in a small file.

    invariants:
      - {name: stock and sales make 100, sum: {shop.stock: left, shop.orders: quantity}, equals: 100}
      - {name: each order once, collection: shop.orders, unique: [customer, item]}
      - {name: no order is unpaid, collection: shop.orders, find: {paid: false}, count: 0}
      - {name: books, python: checks.py:books}
    succeeds: true
    truthful: true
    within: 20s
    waits: 3s
    ignore: [shop.log]

A Python function gets the documents by namespace, and returns what is wrong, or raises `AssertionError`.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.storage.port.engine import Namespace, Query
from fakeserver.storage.store.memory_engine import MemoryEngine
from mongowire.documents import arguments, reader
from mongowire.documents.errors import ControlError, DocumentError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from types import ModuleType

    from harness.hunt.documents import Contents
    from harness.hunt.trial import Outcome
    from mongowire.documents.marks import Marked

    Check = Callable[[Contents], str | None]

_FIELDS: Final = ("invariants", "succeeds", "truthful", "within", "waits", "ignore")
_FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "sum": ("sum", "equals"),
    "unique": ("collection", "unique"),
    "find": ("collection", "find", "count"),
    "pipeline": ("collection", "pipeline", "equals"),
    "python": ("python",),
}
"""The forms of an invariant, by the field that tells it, with all of their fields."""


@dataclass(frozen=True, slots=True)
class Invariants:
    """The conditions that must hold at the end of every run.

    `succeeds`: the command must, whatever the fault; `within`: it must end by then. `truthful`: it reports
    an error only where something is missing; `waits`: so much longer than the slowest clean run it may take.
    """

    checks: tuple[tuple[str, Check], ...] = ()
    succeeds: bool = False
    truthful: bool = False
    within: float | None = None
    waits: float | None = None
    ignore: frozenset[str] = field(default_factory=frozenset)
    """Collections, and fields of collections, that are not compared with a clean run."""

    def broken(self, outcome: Outcome) -> Iterator[tuple[str, str]]:
        """Yield the name of each invariant that does not hold, and what is wrong."""
        for name, check in self.checks:
            wrong = check(outcome.contents)
            if wrong:
                yield name, wrong


def read(path: Path) -> Invariants:
    """Read a file of invariants. Raises `DocumentError` that names line and field."""
    root = reader.read(path)
    _known(root, _FIELDS)
    return Invariants(
        tuple(_check(each, path) for each in _elements(root.get("invariants"))),
        succeeds=bool(_asked(root, "succeeds", arguments.flag)),
        truthful=bool(_asked(root, "truthful", arguments.flag)),
        within=_asked(root, "within", arguments.duration),
        waits=_asked(root, "waits", arguments.duration),
        ignore=frozenset(str(each.value) for each in _elements(root.get("ignore"))),
    )


def _asked(root: Marked, name: str, read_value: Callable[[Any], Any]) -> Any:
    """Return the value of a field, None where the file has none."""
    found = root.get(name)
    if found is None:
        return None
    try:
        return read_value(found.value)
    except ControlError as error:
        raise DocumentError(error.message, location=found.location) from None


def _check(entry: Marked, path: Path) -> tuple[str, Check]:
    if not isinstance(entry.value, dict):
        raise DocumentError("an invariant is a mapping", location=entry.location, fix="write {name: …, …}")
    form = next((name for name in _FORMS if name in entry.value), None)
    if form is None:
        raise DocumentError(
            "the invariant says nothing", location=entry.location, fix=f"write one of {', '.join(_FORMS)}"
        )
    _known(entry, ("name", *_FORMS[form]))
    for needed in _FORMS[form]:
        if needed not in entry.value and needed != "count":
            raise DocumentError(f"{needed} is missing", location=entry.location, fix=f"{form} needs it")
    return str(entry.value.get("name", form)), _MAKERS[form](entry, path)


def _sum(entry: Marked, _: Path) -> Check:
    parts: Mapping[str, str] = _mapping(entry["sum"])
    expected = entry.value["equals"]

    def check(contents: Contents) -> str | None:
        values = [_at(each, name) for ns, name in parts.items() for each in contents.get(ns, [])]
        found = sum(value for value in values if isinstance(value, int | float))
        return None if found == expected else f"the sum is {found}, expected {expected}"

    return check


def _unique(entry: Marked, _: Path) -> Check:
    collection = str(entry.value["collection"])
    names = [str(each.value) for each in _elements(entry["unique"])]

    def check(contents: Contents) -> str | None:
        keys = Counter(
            ", ".join(f"{name}: {_at(each, name)!r}" for name in names)
            for each in contents.get(collection, [])
        )
        twice = next((key for key, count in keys.items() if count > 1), None)
        return None if twice is None else f"{collection} has {{{twice}}} {keys[twice]} times"

    return check


def _find(entry: Marked, _: Path) -> Check:
    collection, wanted = str(entry.value["collection"]), _mapping(entry["find"])
    expected = entry.value.get("count", 0)
    _run(entry, lambda: _found({}, collection, [{"$match": wanted}]))

    def check(contents: Contents) -> str | None:
        found = _found(contents, collection, [{"$match": wanted}])
        if len(found) == expected:
            return None
        return f"{len(found)} documents of {collection} match, expected {expected}"

    return check


def _pipeline(entry: Marked, _: Path) -> Check:
    collection, stages = str(entry.value["collection"]), entry.value["pipeline"]
    expected = entry.value["equals"]
    _run(entry, lambda: _found({}, collection, stages))

    def check(contents: Contents) -> str | None:
        found = _found(contents, collection, stages)
        return None if found == expected else f"the pipeline returns {found}, expected {expected}"

    return check


def _python(entry: Marked, path: Path) -> Check:
    written = str(entry.value["python"])
    file, _, name = written.rpartition(":")
    function = getattr(_module(entry, path.parent / file), name, None)
    if not callable(function):
        raise DocumentError(
            f"{file} has no function {name!r}", location=entry["python"].location, fix="write FILE:FUNCTION"
        )

    def check(contents: Contents) -> str | None:
        try:
            said = function(contents)
        except AssertionError as error:
            return str(error) or "an assertion failed"
        return str(said) if said else None

    return check


_MAKERS: Final[Mapping[str, Callable[[Marked, Path], Check]]] = {
    "sum": _sum,
    "unique": _unique,
    "find": _find,
    "pipeline": _pipeline,
    "python": _python,
}


def _module(entry: Marked, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"invariants_{file.stem}", file)
    location = entry["python"].location
    if spec is None or spec.loader is None or not file.is_file():
        raise DocumentError(f"{file}: no such Python file", location=location, fix="write FILE:FUNCTION")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise DocumentError(f"{file} cannot be imported: {error}", location=location) from error
    return module


def _found(contents: Contents, collection: str, stages: Any) -> list[dict[str, Any]]:
    """Return what a pipeline makes of the documents. Raises `CommandError` for a bad one."""
    engine = MemoryEngine()
    for namespace, documents in contents.items():
        for document in documents:
            engine.insert(Namespace.parse(namespace), document)
    ns = Namespace.parse(collection)

    def other(name: Any) -> list[dict[str, Any]]:
        return engine.find(name if isinstance(name, Namespace) else Namespace(ns.db, str(name)), Query())

    return [dict(each) for each in engine.aggregate(ns, stages, options=Query(read=other))]


def _run(entry: Marked, attempt: Callable[[], object]) -> None:
    """Try a query without documents, so that a mistake is told before the first trial."""
    try:
        attempt()
    except CommandError as error:
        raise DocumentError(error.message, location=entry.location, fix="correct the query") from None


def _at(document: Mapping[str, Any], path: str) -> Any:
    value: Any = document
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _known(marked: Marked, names: tuple[str, ...]) -> None:
    for name in _mapping(marked):
        if name not in names:
            error = unknown("field", name, names)
            raise DocumentError(error.message, location=marked[name].location)


def _mapping(marked: Marked) -> dict[str, Any]:
    if not isinstance(marked.value, dict):
        raise DocumentError("this is no mapping", location=marked.location, fix="write {field: value}")
    return marked.value


def _elements(marked: Marked | None) -> list[Marked]:
    if marked is None:
        return []
    if not isinstance(marked.value, list):
        raise DocumentError("this is no list", location=marked.location, fix="write [value, …]")
    return list(marked.items())
