"""The conditions of a rule, and how a request differs from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fakeserver.rules.asked import Asked

CONNECTING: Final = frozenset({"hello", "isMaster", "saslStart", "saslContinue", "authenticate", "getnonce"})
"""The commands by which drivers connect and monitor. A rule covers them only by name: one that fails every
command would cut the application off instead."""

CONTROLLING: Final = frozenset({"pushbackd", "configureFailPoint"})
"""The commands that end faults. No rule covers them, or it could not be removed."""

_APART: Final = CONNECTING | CONTROLLING


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a rule; None for one that it does not state."""

    commands: frozenset[str] | None = None
    namespace: str | None = None
    """`db.collection`, or `db.*`."""
    app_name: str | None = None
    node: str | None = None
    """A name, an address or a role."""
    connection: int | None = None
    attempt: int | None = None
    meets_document: Callable[[Any], bool] | None = None
    document: Any = None
    """The filter of `meets_document`, for texts."""

    def met_by(self, asked: Asked) -> bool:
        """Return whether a request meets the conditions.

        Raises what the filter on the document raises.
        """
        commands = self.commands
        if asked.command in _APART if commands is None else asked.command not in commands:
            return False
        return next(self._differences(asked), None) is None

    def differences(self, asked: Asked) -> list[str]:
        """Return how a request differs from the conditions, a text for each; none if it meets them."""
        found = list(self._differences(asked))
        if self.commands is not None and asked.command not in self.commands:
            found.insert(0, f"command is {asked.command}, expected {' or '.join(sorted(self.commands))}")
        return found

    def _differences(self, asked: Asked) -> Iterator[str]:
        if self.namespace is not None and not _covers(self.namespace, asked):
            yield f"namespace is {', '.join(asked.namespaces) or asked.db}, expected {self.namespace}"
        if self.app_name is not None and asked.app_name != self.app_name:
            yield f"appName is {asked.app_name!r}, expected {self.app_name!r}"
        if self.node is not None and self.node not in {asked.node, asked.address, asked.role}:
            yield f"node is {asked.node} ({asked.role}), expected {self.node}"
        if self.connection is not None and asked.connection != self.connection:
            yield f"connection is {asked.connection}, expected {self.connection}"
        if self.attempt is not None and asked.operation.attempt != self.attempt:
            yield f"attempt is {asked.operation.attempt}, expected {self.attempt}"
        if self.meets_document is not None and not self.meets_document(asked.document):
            yield f"the command does not meet the filter {self.document!r}"


def _covers(namespace: str, asked: Asked) -> bool:
    if not namespace.endswith(".*"):
        return namespace in asked.namespaces
    db = namespace[:-2]
    return any(each.startswith(f"{db}.") for each in asked.namespaces) or (
        not asked.namespaces and asked.db == db
    )
