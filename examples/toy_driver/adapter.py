"""The toy driver as an adapter of pushbackd.

pushbackd conform --adapter "cmd:python examples/toy_driver/adapter.py"
pushbackd conform --adapter "cmd:python examples/toy_driver/adapter.py --bug no-backoff"
"""

import argparse
import random
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from toy_driver import BUGS, Client, Document, ToyError

from harness.adapters.base import (
    ClientSpec,
    EntityKind,
    ErrorReport,
    Feature,
    Invocation,
    UnsupportedOperation,
)
from harness.adapters.serving import PublishEvent, PythonAdapter, serve

OPTIONS = (
    "appName connectTimeoutMS directConnection enableOverloadRetargeting heartbeatFrequencyMS"
    " maxAdaptiveRetries maxConnecting maxPoolSize readPreference replicaSet retryReads retryWrites"
    " serverSelectionTimeoutMS"
).lower().split()  # fmt: skip
WRITES = "comment let upsert hint collation bypassDocumentValidation arrayFilters"
SHARED = ("comment", "ordered", "bypassDocumentValidation", "maxTimeMS")
READS = "comment maxTimeMS sort limit skip projection hint collation let"
ARGUMENTS = {
    "insertOne": "document comment bypassDocumentValidation",
    "insertMany": "documents ordered comment bypassDocumentValidation",
    "updateOne": f"filter update {WRITES}",
    "updateMany": f"filter update {WRITES}",
    "replaceOne": f"filter replacement {WRITES}",
    "deleteOne": "filter comment hint collation let",
    "deleteMany": "filter comment hint collation let",
    "find": f"filter {READS}",
    "distinct": "fieldName filter comment collation",
    "runCommand": "command commandName",
}

ADVICE = (
    "This MongoDB deployment does not support retryable writes. Please add retryWrites=false to your"
    " connection string."
)


class Toy(PythonAdapter):
    """The driver with its bugs."""

    features = frozenset({Feature.COMMAND_EVENTS, Feature.JITTER, Feature.MAX_ADAPTIVE_RETRIES})
    edition = "2026-07-08"

    def __init__(self, bugs: list[str]) -> None:
        self.bugs = bugs
        self.name = "-".join(["toy", *bugs])

    def create_client(self, spec: ClientSpec, publish: PublishEvent) -> Client:
        uri = urlsplit(spec.uri)
        options = {name.lower(): value(unquote(text)) for name, text in parse_qsl(uri.query)}
        unknown = options.keys() - set(OPTIONS)
        if unknown or uri.username or spec.server_api:
            raise UnsupportedOperation(f"no {', '.join(unknown) or 'authentication or server API'}")
        dice = random.Random(spec.jitter_seed)  # noqa: S311 - it spreads retries
        jitter = dice.random if spec.jitter is None else lambda: spec.jitter or 0.0
        return Client(uri.netloc.split(","), options, publish, jitter, self.bugs)

    def create(self, kind: EntityKind, parent: Any, spec: Any) -> Any:
        options = spec.keys() - {"id", "client", "database", f"{kind.value}Name"}
        if options or kind not in (EntityKind.DATABASE, EntityKind.COLLECTION):
            raise UnsupportedOperation(f"no {kind.value} with {', '.join(options) or 'anything'}")
        return parent, spec[f"{kind.value}Name"]

    def call(self, invocation: Invocation[Any]) -> Any:
        operation, given = invocation.operation, dict(invocation.arguments)
        unknown = given.keys() - set(ARGUMENTS.get(operation, "").split())
        on = EntityKind.DATABASE if operation == "runCommand" else EntityKind.COLLECTION
        if operation not in ARGUMENTS or unknown or invocation.kind is not on:
            raise UnsupportedOperation(
                f"no {operation} on a {invocation.kind.value} with {', '.join(unknown)}"
            )
        if operation == "runCommand":
            client, database = invocation.target
            return client.run(database, given["command"])
        (client, database), collection = invocation.target
        return crud(client, database, collection, operation, given)

    def report(self, error: Exception) -> ErrorReport | None:
        if not isinstance(error, ToyError):
            return None
        return ErrorReport(
            ADVICE if str(error).startswith("Transaction numbers") else str(error),
            is_client_error=not error.reply,
            code=error.code,
            code_name=error.reply.get("codeName"),
            labels=frozenset(error.labels),
            response=error.reply or None,
        )

    def close_client(self, client: Client) -> None:
        client.close()


def crud(client: Client, database: str, collection: str, operation: str, given: Document) -> Any:
    """Run an operation as its command, and return its result as the unified test format has it."""
    shared: Document = {name: given.pop(name) for name in SHARED if name in given}
    if operation.startswith("insert"):
        documents = given["documents"] if operation == "insertMany" else [given["document"]]
        client.run(database, {"insert": collection, "documents": documents, **shared}, "write")
        ids = {str(index): document.get("_id") for index, document in enumerate(documents)}
        return {"insertedIds": ids} if operation == "insertMany" else {"insertedId": ids["0"]}
    if operation in ("find", "distinct"):
        return read(client, database, {operation: collection, **given, **shared})
    if "let" in given:
        shared["let"] = given.pop("let")
    many = operation.endswith("Many")
    statement: Document = {"q": given.pop("filter")}
    if operation.startswith("delete"):
        statement |= {"limit": int(not many), **given}
        command = {"delete": collection, "deletes": [statement], **shared}
        return {"deletedCount": client.run(database, command, "command" if many else "write")["n"]}
    statement |= {"u": given.pop("update", None) or given.pop("replacement"), "multi": many, **given}
    command = {"update": collection, "updates": [statement], **shared}
    reply = client.run(database, command, "command" if many else "write")
    upserted = reply.get("upserted", [])
    result = {"matchedCount": reply["n"] - len(upserted), "modifiedCount": reply["nModified"]}
    result["upsertedCount"] = len(upserted)
    return result | ({"upsertedId": upserted[0]["_id"]} if upserted else {})


def read(client: Client, database: str, command: Document) -> Any:
    """Run a find or a distinct; toys read one batch only."""
    mode = client.option("readPreference", "primary")
    if mode != "primary":
        command["$readPreference"] = {"mode": mode}
    if "distinct" in command:
        command["key"], command["query"] = command.pop("fieldName"), command.pop("filter")
    reply = client.run(database, command, "read", mode)
    return reply["values"] if "distinct" in command else reply["cursor"]["firstBatch"]


def value(text: str) -> Any:
    """Return an option's value: a number, a boolean, or the text."""
    return int(text) if text.isdigit() else {"true": True, "false": False}.get(text, text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bug", action="append", default=[], choices=sorted(BUGS), help="switch a bug on")
    serve(Toy(parser.parse_args().bug))
