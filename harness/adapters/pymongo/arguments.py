"""Arguments of the unified test format, as PyMongo takes them.

The format spells arguments in camel case, and PyMongo in snake case, with exceptions on both sides: `names`
makes the table of one method, `snake` applies it. An argument that is in no table makes the case unsupported.
If it were dropped, a scenario about that argument would pass for the wrong reason.

`PyMongoMethod` joins this with the time limit of the call and the conversion of its result.
"""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pymongo
from pymongo import (
    CursorType,
    DeleteMany,
    DeleteOne,
    IndexModel,
    InsertOne,
    ReadPreference,
    ReplaceOne,
    ReturnDocument,
    UpdateMany,
    UpdateOne,
    WriteConcern,
)
from pymongo.driver_info import DriverInfo
from pymongo.operations import SearchIndexModel
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import make_read_preference, read_pref_mode_from_name

from harness.adapters.base import Invocation, OperationFailed, UnsupportedOperation
from harness.adapters.pymongo import results

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping


_CURSOR_TYPES: Final = {
    "nonTailable": CursorType.NON_TAILABLE,
    "tailable": CursorType.TAILABLE,
    "tailableAwait": CursorType.TAILABLE_AWAIT,
}


def read_concern(document: Mapping[str, Any]) -> ReadConcern:
    """Return a read concern."""
    return ReadConcern(**document)


def write_concern(document: Mapping[str, Any]) -> WriteConcern:
    """Return a write concern from `w`, `journal` and `wtimeoutMS`."""
    names = {"journal": "j", "wtimeoutMS": "wtimeout"}
    return WriteConcern(**{names.get(name, name): value for name, value in document.items()})


def read_preference(document: Mapping[str, Any]) -> Any:
    """Return a read preference from `mode`, `tagSets`, `maxStalenessSeconds` and `hedge`."""
    name = document["mode"]
    # PyMongo's modes begin with a small letter; scenarios have both spellings.
    mode = read_pref_mode_from_name(name[:1].lower() + name[1:])
    if mode == ReadPreference.PRIMARY.mode:
        return ReadPreference.PRIMARY
    preference = make_read_preference(
        mode, tag_sets=document.get("tagSets"), max_staleness=document.get("maxStalenessSeconds", -1)
    )
    if "hedge" not in document:
        return preference
    # `make_read_preference` takes no `hedge`: the class that it has chosen does.
    kind: Any = type(preference)
    return kind(preference.tag_sets, preference.max_staleness, hedge=document["hedge"])


def return_document(name: str) -> bool:
    """Return PyMongo's flag for `Before` or `After`."""
    return ReturnDocument.AFTER if name.lower() == "after" else ReturnDocument.BEFORE


_MODELS: Final[Mapping[str, Any]] = {
    "insertOne": InsertOne,
    "updateOne": UpdateOne,
    "updateMany": UpdateMany,
    "replaceOne": ReplaceOne,
    "deleteOne": DeleteOne,
    "deleteMany": DeleteMany,
}


def models(requests: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return the write models of a bulk write."""
    return [
        _MODELS[kind](**snake(body, _MODEL_ARGUMENTS))
        for request in requests
        for kind, body in request.items()
    ]


def search_index(model: Mapping[str, Any]) -> SearchIndexModel:
    """Return a search index model."""
    return SearchIndexModel(**model)


def driver_info(options: Mapping[str, Any]) -> DriverInfo:
    """Return what a library that wraps the driver says of itself."""
    return DriverInfo(options["name"], options.get("version"), options.get("platform"))


def index_models(items: Iterable[Mapping[str, Any]]) -> list[IndexModel]:
    """Return index models."""
    return [
        IndexModel(item["keys"], **{name: value for name, value in item.items() if name != "keys"})
        for item in items
    ]


def snake(arguments: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return keyword arguments: the format's names in PyMongo's spelling, values converted.

    Raises `UnsupportedOperation` for an argument that is not among `names`.
    """
    keywords: dict[str, Any] = {}
    for name, value in arguments.items():
        if name not in names:
            raise absent(name)
        convert = _CONVERTERS.get(name)
        keywords[names[name]] = convert(value) if convert and value is not None else value
    return keywords


def absent(name: str) -> UnsupportedOperation:
    """Return the error for an argument that PyMongo does not take."""
    return UnsupportedOperation(_ABSENT.get(name, f"PyMongo does not take {name} here"))


def names(snake_case: str, as_is: str = "", **renamed: str) -> dict[str, str]:
    """Return the arguments of a method: two lists of the format's names, and single renamings."""
    return {
        **{name: _snake_case(name) for name in snake_case.split()},
        **{name: name for name in as_is.split()},
        **renamed,
    }


def _snake_case(name: str) -> str:
    # Otherwise `maxTimeMS` would become `max_time_m_s`.
    plain = name.replace("MS", "Ms")
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in plain)


_ABSENT: Final = {
    "rawData": "PyMongo has no rawData; its own suite leaves these files out",
    "timeoutMode": "PyMongo has no timeoutMode (skipped by its own suite too)",
    "timeoutMS": "PyMongo has timeoutMS of clients and of single operations, not of databases and"
    " collections; its own suite leaves these files out",
    "defaultTimeoutMS": "PyMongo has no timeoutMS of sessions (skipped by its own suite too)",
    "batchSize": "PyMongo has no batchSize of listIndexes (skipped by its own suite too)",
}

_MODEL_ARGUMENTS: Final = names(
    "document filter update replacement upsert collation arrayFilters hint sort namespace"
)

_CONVERTERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "returnDocument": return_document,
    "cursorType": _CURSOR_TYPES.__getitem__,
    "readConcern": read_concern,
    "readPreference": read_preference,
    "writeConcern": write_concern,
    "requests": models,
    "models": models,
    "driverInfoOptions": driver_info,
}


# Calls of PyMongo for the operations of the format: arguments, time limit, result.


NO_CURSOR_TIMEOUT: Final = (
    "PyMongo has no timeoutMS for the life of a cursor or a change stream (skipped by its own suite too)"
)


async def settled(result: Any) -> Any:
    """Return what a method of either API gives: the asynchronous one's coroutines are awaited."""
    return await result if inspect.isawaitable(result) else result


async def same(result: Any) -> Any:
    """Return a result as it is."""
    return result


async def nothing(_result: Any) -> None:
    """Forget a result that the format does not describe."""


async def drained(cursor: Any) -> list[Any]:
    """Read a cursor to its end."""
    documents: list[Any] = await settled(cursor.to_list())
    return documents


def plain(convert: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
    """Return a result's conversion as the table has it."""

    async def finish(result: Any) -> Any:
        return convert(result)

    return finish


@dataclass(frozen=True, slots=True)
class PyMongoMethod:
    """One method: what it takes under which name, and what becomes of its result."""

    method: str | Callable[..., Any]
    """The name of a method of the handle, or a function that takes the handle."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    finish: Callable[[Any], Awaitable[Any]] = same
    takes_timeout: bool = True
    """Whether a time limit for this call alone is what `timeoutMS` means; for a cursor it is not."""

    async def __call__(self, call: Invocation[Any]) -> Any:
        """Call it on the target. Raises PyMongo's errors, and `UnsupportedOperation` for an argument."""
        if "timeoutMS" in call.arguments and not self.takes_timeout:
            raise UnsupportedOperation(NO_CURSOR_TIMEOUT)
        name, target = self.method, call.target
        method = getattr(target, name) if isinstance(name, str) else partial(name, target)
        with timeout(call.arguments):
            result = method(**snake(call.without("timeoutMS"), self.arguments))
            return await self.finish(await settled(result))


def timeout(arguments: Mapping[str, Any]) -> Any:
    """PyMongo's way to limit the time of one operation by its `timeoutMS`; zero is no limit."""
    if "timeoutMS" not in arguments:
        return nullcontext()
    limit_ms = arguments["timeoutMS"]
    return pymongo.timeout(None if limit_ms is None else limit_ms / 1000)


class PeekedCursor:
    """A cursor with at most one document read ahead: PyMongo sends `find` only when it is first iterated."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self._ahead: list[Any] = []

    async def start(self) -> None:
        """Have the cursor created on the server."""
        document = await self.try_next()
        if document is not None:
            self._ahead.append(document)

    async def next(self) -> Any:
        """Return the next document, however long it takes. Raises an error when there is none."""
        document = await self.try_next()
        while document is None:
            if not self._cursor.alive:
                raise OperationFailed(results.exhausted())
            document = await self.try_next()
        return document

    async def try_next(self) -> Any:
        """Return the next document of this batch or, if it is at its end, of one more, or None."""
        if self._ahead:
            return self._ahead.pop()
        if hasattr(self._cursor, "try_next"):
            return await settled(self._cursor.try_next())
        try:
            return await settled(self._cursor.next())
        except (StopIteration, StopAsyncIteration):
            return None

    async def close(self) -> None:
        """Close the cursor on the server too."""
        await settled(self._cursor.close())
