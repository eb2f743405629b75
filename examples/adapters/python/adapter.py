"""PyMongo as an adapter of pushbackd, in as few lines as show how: what it does not do is refused by name.

pushbackd conform SCENARIOS --adapter "cmd:python examples/adapters/python/adapter.py"
"""

from inspect import signature
from typing import Any

import pymongo
from pymongo.errors import BulkWriteError, NotPrimaryError, OperationFailure, PyMongoError
from pymongo.results import BulkWriteResult, InsertManyResult, UpdateResult
from pymongo.synchronous import command_cursor, cursor

from harness.adapters.base import (
    ClientSpec,
    EntityKind,
    ErrorReport,
    Feature,
    Invocation,
    UnsupportedOperation,
)
from harness.adapters.serving import PublishEvent, PythonAdapter, camel, serve, snake

SPELLED = {"runCommand": "command", "fieldName": "key"}  # where PyMongo has another name than the format


class Listener(pymongo.monitoring.CommandListener):
    def __init__(self, publish: PublishEvent) -> None:
        self.publish = publish

    def started(self, event: Any) -> None:
        self.publish("commandStartedEvent", fields(event, "command"))

    def succeeded(self, event: Any) -> None:
        self.publish("commandSucceededEvent", fields(event, "reply"))

    def failed(self, event: Any) -> None:
        self.publish("commandFailedEvent", fields(event, "failure"))


class Example(PythonAdapter):
    name = "pymongo-example"
    driver = ("PyMongo", pymongo.version)
    features = frozenset({Feature.COMMAND_EVENTS, Feature.MAX_ADAPTIVE_RETRIES})

    def create_client(self, spec: ClientSpec, publish: PublishEvent) -> Any:
        return pymongo.MongoClient(spec.uri, event_listeners=[Listener(publish)])

    def close_client(self, client: Any) -> None:
        client.close()

    def create(self, kind: EntityKind, parent: Any, spec: Any) -> Any:
        options = spec.keys() - {"id", "client", "database", f"{kind.value}Name"}
        if options or kind not in (EntityKind.DATABASE, EntityKind.COLLECTION):
            raise UnsupportedOperation(f"no {kind.value} with {', '.join(spec)}")
        return parent[spec[f"{kind.value}Name"]]

    def call(self, invocation: Invocation[Any]) -> Any:
        target, operation, arguments = invocation.target, invocation.operation, {**invocation.arguments}
        if operation == "listCollections" and "batchSize" in arguments:
            arguments["cursor"] = {"batchSize": arguments.pop("batchSize")}
        try:
            method = getattr(type(target), SPELLED.get(operation, snake(operation)))
            known = signature(cursor.Cursor if operation in ("find", "findOne") else method).parameters
            spelled = {SPELLED.get(name, snake(name)): name for name in arguments if name != "commandName"}
            # What a method does not have by name, it passes on to the server: in the server's spelling.
            given = {ours if ours in known else name: arguments[name] for ours, name in spelled.items()}
            return plain(method(target, **{name: argument(name, value) for name, value in given.items()}))
        except (AttributeError, TypeError) as error:  # there is no such method, or it has no such argument
            raise UnsupportedOperation(f"{operation} on a {invocation.kind.value}: {error}") from error

    def report(self, error: Exception) -> ErrorReport | None:
        if not isinstance(error, (PyMongoError, ValueError)):
            return None
        of_server = isinstance(error, (OperationFailure, NotPrimaryError))
        reply: Any = (getattr(error, "details", None) if of_server else None) or {}
        bulk = isinstance(error, BulkWriteError)
        first = (reply["writeErrors"] or reply["writeConcernErrors"])[0] if bulk else reply
        return ErrorReport(
            message=str(error),
            is_client_error=not of_server,
            is_timeout_error=getattr(error, "timeout", False),
            code=first.get("code"),
            code_name=first.get("codeName"),
            labels=frozenset(getattr(error, "_error_labels", ())),
            response=None if bulk else reply or None,
            result=plain(BulkWriteResult(reply, acknowledged=True)) if bulk else None,
        )


def fields(event: Any, own: str) -> dict[str, Any]:
    return {
        camel(name): getattr(event, name) for name in ("command_name", "database_name", "request_id", own)
    }


def argument(name: str, value: Any) -> Any:
    if name == "requests":
        pairs = [pair for request in value for pair in request.items()]
        return [getattr(pymongo, kind[0].upper() + kind[1:])(**body) for kind, body in pairs]
    return value.lower() == "after" if name == "return_document" else value


def plain(result: Any) -> Any:
    """Return a result in the form of `expectResult`."""
    if isinstance(result, (cursor.Cursor, command_cursor.CommandCursor)):
        return list(result)
    if type(result).__module__ != "pymongo.results":
        return result
    names = (name for name in dir(result) if name[0] != "_" and name.endswith(("_count", "_id", "_ids")))
    said = {camel(name): getattr(result, name) for name in names}
    if isinstance(result, InsertManyResult):
        said["insertedIds"] = dict(enumerate(result.inserted_ids))
    if isinstance(result, UpdateResult):
        said["upsertedCount"] = int(result.did_upsert)
    return {name: value for name, value in said.items() if value is not None}


serve(Example())
