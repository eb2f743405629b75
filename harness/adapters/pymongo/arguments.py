"""Arguments of the unified test format, as PyMongo takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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

from harness.adapters.base import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
    mode = read_pref_mode_from_name(name[:1].lower() + name[1:])
    if mode == ReadPreference.PRIMARY.mode:
        return ReadPreference.PRIMARY
    preference = make_read_preference(
        mode, tag_sets=document.get("tagSets"), max_staleness=document.get("maxStalenessSeconds", -1)
    )
    if "hedge" not in document:
        return preference
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
