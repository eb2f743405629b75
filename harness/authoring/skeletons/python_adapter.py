"""An adapter of pushbackd for a driver in Python: a skeleton, to be filled in where it says `Step`.

pushbackd check-adapter "cmd:python adapter.py"
pushbackd conform --adapter "cmd:python adapter.py"
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind, ErrorReport, Feature, UnsupportedOperation
from harness.adapters.serving import PythonAdapter, serve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.adapters.base import ClientSpec, Invocation
    from harness.adapters.serving import PublishEvent


class DriverError(Exception):
    """Stands for the base class of your driver's errors."""


class Client:
    """Stands for your driver's client."""

    def __init__(self, uri: str, publish: PublishEvent) -> None:
        self.uri = uri
        # Step 5: your driver's listener of command events calls
        #     publish("commandStartedEvent", {"commandName": …, "databaseName": …, "command": …})
        # and so on, before the operation returns. Then declare COMMAND_EVENTS below.
        self.publish = publish

    def close(self) -> None:
        """Close it; closing twice is no error."""


class Adapter(PythonAdapter):
    """Your driver, in the words of the unified test format."""

    # The name stands in reports.
    name = "my-driver"
    # Step 6: what your driver can do; each feature has scenarios that need it.
    features: frozenset[Feature] = frozenset()

    def create_client(self, spec: ClientSpec, publish: PublishEvent) -> Client:
        """Return a client at once, also without a reachable server. The URI has all options."""
        # Step 1: make your driver's client.
        if spec.server_api:
            raise UnsupportedOperation("no server API")
        return Client(spec.uri, publish)

    def create(self, kind: EntityKind, parent: Any, spec: Mapping[str, Any]) -> Any:
        """Return a database of a client, or a collection of a database."""
        # Step 2: make your driver's objects. Options that you do not know must be refused.
        names = {EntityKind.DATABASE: "databaseName", EntityKind.COLLECTION: "collectionName"}
        if kind not in names:
            raise UnsupportedOperation(f"no entity {kind.value}")
        options = spec.keys() - {"id", "client", "database", names[kind]}
        if options:
            raise UnsupportedOperation(f"{kind.value} has no {', '.join(sorted(options))}")
        return (parent, spec[names[kind]])

    def call(self, invocation: Invocation[Any]) -> Any:
        """Return the result of an operation, in the form of expectResult."""
        # Step 3: call your driver. Begin with these; a table of functions is enough:
        #     (EntityKind.DATABASE, "runCommand"), (EntityKind.COLLECTION, "insertOne"), (…, "find")
        # The list of all documents for a cursor. An argument that you do not know must be refused by name.
        kind, operation = invocation.kind.value, invocation.operation
        raise UnsupportedOperation(f"no {operation} on a {kind}")

    def report(self, error: Exception) -> ErrorReport | None:
        """Return an error of the driver in the words of expectError, None for a mistake in this file."""
        # Step 4: code, code_name, labels, response … from your driver's error.
        if isinstance(error, DriverError):
            return ErrorReport(message=str(error), is_client_error=True)
        return None

    def close_client(self, client: Client) -> None:
        """Close a client; closing twice is no error."""
        client.close()


if __name__ == "__main__":
    serve(Adapter())
