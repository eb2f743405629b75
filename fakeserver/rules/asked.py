"""A request as rules see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.rules.attempts import OperationAttempt


@dataclass(frozen=True, slots=True)
class Asked:
    """The facts of a request that conditions compare."""

    command: str
    """The command's canonical name."""
    db: str
    namespaces: tuple[str, ...]
    """The collections that it is about, `db.collection` each; a `bulkWrite` may have several."""
    app_name: str
    node: str
    """The server's name."""
    address: str
    role: str
    """The server's role when the request came: `primary`, `secondary`, `arbiter`, `mongos` …"""
    connection: int
    """The `connectionId` of the connection, which counts by server."""
    document: Mapping[str, Any]
    """The command."""
    operation: OperationAttempt

    @property
    def namespace(self) -> str:
        """Its collection, or its database where it is about none."""
        return self.namespaces[0] if self.namespaces else self.db

    def __str__(self) -> str:
        return f"{self.command} on {', '.join(self.namespaces) or self.db}"
