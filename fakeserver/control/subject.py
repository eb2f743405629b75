"""The subject of verbs: a deployment, its servers by name, and the parts that the control adds to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from fakeserver.control.beginning import Beginning
from fakeserver.waiting.bell import Bell
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.node import Node


class Part(Protocol):
    """Something that verbs add to a deployment and `reset` takes back: rules, faults, load shedding.

    A new part holds nothing, and that is its beginning until `mark` says otherwise.
    """

    name: ClassVar[str]
    """Its name in the document of `state`."""

    def __init__(self, cluster: Cluster) -> None: ...

    def mark(self) -> None:
        """Take what there is now as the beginning."""

    def reset(self) -> None:
        """Bring the beginning back. Called between two requests; it must not wait."""

    def describe(self) -> Any:
        """Return what it holds, for `state`; nothing, where that is nothing."""


P = TypeVar("P", bound=Part)


class Subject:
    """The deployment for the functions of verbs (`Verb.act`)."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.parts: dict[str, Part] = {}
        """The parts that were asked for so far, by name."""
        self.beginning: Beginning | None = None
        """The state that `reset` brings back; None before the deployment has started."""
        self.was_reset = Bell()
        """Rings when a reset is over: a part may begin anew then what takes time."""
        self._locks: dict[str, asyncio.Lock] = {}

    def begin(self) -> None:
        """Take the deployment as it is for the beginning that `reset` brings back."""
        for part in self.parts.values():
            part.mark()
        self.beginning = Beginning(self.cluster)

    def part(self, kind: type[P]) -> P:
        """Return the deployment's part of a kind, made when it is first asked for."""
        found = self.parts.get(kind.name)
        if not isinstance(found, kind):
            found = self.parts[kind.name] = kind(self.cluster)
        return found

    def lock(self, node: Node) -> asyncio.Lock:
        """Return the lock under which a server's process ends and starts: one after the other."""
        return self._locks.setdefault(node.name, asyncio.Lock())

    def node(self, which: str) -> Node:
        """Return a server by its name or address, or as `primary`, `secondary` or `mongos`.

        Raises `ControlError`.
        """
        try:
            return self.cluster.node(which)
        except LookupError as error:
            raise ControlError(str(error.args[0])) from None

    def nodes(self, which: Sequence[Any]) -> list[Node]:
        """Return the servers that a list names; `all` names every server. Raises `ControlError`."""
        if list(which) == ["all"]:
            return list(self.cluster.servers)
        return list(dict.fromkeys(self.node(each) for each in which))
