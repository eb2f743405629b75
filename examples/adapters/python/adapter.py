"""PyMongo as an adapter of pushbackd, in as few lines as show how: what it does not do is refused by name.

pushbackd conform SCENARIOS --adapter "cmd:python examples/adapters/python/adapter.py"
"""

import re
import sys
from collections.abc import Callable
from typing import Any

import pymongo
from bson import json_util
from pymongo.errors import BulkWriteError, NotPrimaryError, OperationFailure, PyMongoError
from pymongo.monitoring import CommandListener
from pymongo.synchronous.command_cursor import CommandCursor
from pymongo.synchronous.cursor import Cursor

ENTITIES: dict[int, Any] = {}
MODELS = {"filter", "update", "upsert", "document", "replacement", "hint", "collation", "sort"}
COUNTS = {
    "nInserted": "insertedCount",
    "nMatched": "matchedCount",
    "nModified": "modifiedCount",
    "nRemoved": "deletedCount",
    "nUpserted": "upsertedCount",
}


class UnsupportedError(Exception):
    """This adapter has no such method, entity, operation or argument."""


def tell(message: dict[str, Any]) -> None:
    """Write a line."""
    sys.stdout.write(json_util.dumps(message, json_options=json_util.CANONICAL_JSON_OPTIONS) + "\n")
    sys.stdout.flush()


class Listener(CommandListener):
    """Tells what PyMongo says of a client's commands, as the client's events."""

    def __init__(self, client: int, wanted: list[str]) -> None:
        self.client, self.wanted = client, wanted

    def tell(self, kind: str, event: Any, **fields: Any) -> None:
        """Tell of an event that the scenario wants."""
        fields |= {"commandName": event.command_name, "databaseName": event.database_name}
        fields |= {"requestId": event.request_id}
        if kind in self.wanted:
            tell({"event": {"client": self.client, "kind": kind, "fields": fields}})

    def started(self, event: Any) -> None:
        """Tell of a command."""
        self.tell("commandStartedEvent", event, command=event.command)

    def succeeded(self, event: Any) -> None:
        """Tell of its reply."""
        self.tell("commandSucceededEvent", event, reply=event.reply)

    def failed(self, event: Any) -> None:
        """Tell of its failure."""
        self.tell("commandFailedEvent", event, failure=event.failure)


def snake(name: str) -> str:
    """Return a name of the format in PyMongo's spelling."""
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name.replace("MS", "Ms"))


def bulk(counts: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a bulk write."""
    upserted = {str(one["index"]): one["_id"] for one in counts["upserted"]}
    return {ours: counts[theirs] for theirs, ours in COUNTS.items()} | {"upsertedIds": upserted}


def plain(result: Any) -> Any:
    """Return an operation's result in the form of `expectResult`."""
    if isinstance(result, (Cursor, CommandCursor)):
        return list(result)
    if isinstance(result, pymongo.results.BulkWriteResult):
        return bulk(result.bulk_api_result)
    if isinstance(result, pymongo.results.InsertManyResult):
        return {"insertedIds": {str(index): one for index, one in enumerate(result.inserted_ids)}}
    if isinstance(result, pymongo.results.InsertOneResult):
        return {"insertedId": result.inserted_id}
    if isinstance(result, pymongo.results.DeleteResult):
        return {"deletedCount": result.deleted_count}
    if isinstance(result, pymongo.results.UpdateResult):
        upserted = {"upsertedId": result.upserted_id} if result.did_upsert else {}
        counts = {"matchedCount": result.matched_count, "modifiedCount": result.modified_count}
        return {**counts, "upsertedCount": len(upserted), **upserted}
    return result


def report(error: Exception) -> dict[str, Any]:
    """Return a driver's error in the words of `expectError`."""
    server = isinstance(error, (OperationFailure, NotPrimaryError))
    details: Any = (getattr(error, "details", None) if server else None) or {}
    said: dict[str, Any] = {"message": str(error), "isClientError": not server}
    said["isTimeoutError"] = isinstance(error, PyMongoError) and error.timeout
    said["labels"] = sorted({*details.get("errorLabels", ()), *getattr(error, "_error_labels", ())})
    if isinstance(error, BulkWriteError):
        first = (details["writeErrors"] or details["writeConcernErrors"] or [{}])[0]
        return {**said, "code": first.get("code"), "result": bulk(details)}
    return {
        **said,
        "code": details.get("code"),
        "codeName": details.get("codeName"),
        "response": details or None,
    }


def model(kind: str, body: dict[str, Any]) -> Any:
    """Return a model of a bulk write."""
    if unknown := body.keys() - MODELS:
        raise UnsupportedError(f"no {', '.join(unknown)} of a {kind}")
    return getattr(pymongo, kind[0].upper() + kind[1:])(**body)


def call(target: Any, operation: str, given: dict[str, Any]) -> Any:
    """Run an operation: PyMongo has most of them, spelled otherwise."""
    given.pop("commandName", None)
    if "returnDocument" in given:
        given["returnDocument"] = given["returnDocument"].lower() == "after"
    if operation == "listCollections" and "batchSize" in given:
        given["cursor"] = {"batchSize": given.pop("batchSize")}
    if "requests" in given:
        given["requests"] = [model(*pair) for request in given["requests"] for pair in request.items()]
    method = getattr(target, snake({"runCommand": "command"}.get(operation, operation)), None)
    if not callable(method) or isinstance(method, (pymongo.database.Database, pymongo.collection.Collection)):
        raise UnsupportedError(f"no {operation}")
    names = {name: name if operation == "createIndex" else snake(name) for name in given}
    try:
        return plain(method(**{names[name]: value for name, value in given.items()}))
    except TypeError as error:
        raise UnsupportedError(f"{operation} with {', '.join(given)}: {error}") from error


def client(number: int, params: dict[str, Any]) -> dict[str, Any]:
    """Create a client that tells its events."""
    listener = Listener(number, params["observeEvents"])
    ENTITIES[number] = pymongo.MongoClient(params["uri"], event_listeners=[listener])
    return {"entity": True}


def create(number: int, parent: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Create a database or a collection."""
    spec, kind = params["spec"], params["kind"]
    if kind not in ("database", "collection") or spec.keys() - {"id", "client", "database", f"{kind}Name"}:
        raise UnsupportedError(f"no {kind} with {', '.join(spec)}")
    ENTITIES[number] = parent[spec[f"{kind}Name"]]
    return {"entity": True}


def close(_number: int, _on: Any, _params: Any) -> dict[str, Any]:
    """Close all that is open, and forget it."""
    for entity in ENTITIES.values():
        if isinstance(entity, pymongo.MongoClient):
            entity.close()
    ENTITIES.clear()
    return {"result": None}


HELLO = {"protocol": 1, "name": "example-python", "features": ["COMMAND_EVENTS", "MAX_ADAPTIVE_RETRIES"]}
METHODS: dict[str, Callable[[int, Any, Any], dict[str, Any]]] = {
    "hello": lambda _number, _on, _params: {"result": HELLO},
    "client": lambda number, _on, params: client(number, params),
    "create": create,
    "call": lambda _number, on, params: {"result": call(on, params["operation"], params["arguments"])},
    "closeClient": lambda _number, on, _params: {"result": on.close()},
    "close": close,
}

OPTIONS: json_util.JSONOptions = json_util.JSONOptions(tz_aware=False, tzinfo=None)

for line in sys.stdin:
    request = json_util.loads(line, json_options=OPTIONS)
    try:
        on = ENTITIES.get(request.get("on"))
        answer = METHODS[request["method"]](request["id"], on, request.get("params", {}))
    except KeyError as missing:
        answer = {"unsupported": f"no {missing}"}
    except UnsupportedError as reason:
        answer = {"unsupported": str(reason)}
    except (PyMongoError, ValueError) as error:
        answer = {"error": report(error)}
    tell({"id": request["id"], **answer})
