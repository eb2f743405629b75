"""A command and its client, as the rules of access see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from fakeserver.access.privileges import CLUSTER, JOURNAL, Resource
from fakeserver.idl.fields import first_argument, truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fakeserver.access.privileges import Privileges
    from fakeserver.access.session import Identity
    from fakeserver.deployment.node import Node

"""The requests of all clients: who reads them here needs what the verb that reads them wants."""

Need: TypeAlias = "tuple[Resource, tuple[str, ...]]"
"""A resource, and the actions that are needed on it."""


@dataclass(slots=True)
class Ask:
    """A validated command on a database, and who sends it."""

    node: Node
    identity: Identity
    privileges: Privileges
    db: str
    command: dict[str, Any]

    def may(self, resource: Resource, *actions: str) -> bool:
        """Return whether all of the actions are permitted on a resource."""
        if resource == JOURNAL and actions == ("find",):
            return self.may_control
        return self.privileges.permit(resource, *actions)

    def may_all(self, needs: Iterable[Need]) -> bool:
        """Return whether everything that is needed is permitted."""
        return all(self.may(resource, *actions) for resource, actions in needs)

    @property
    def may_control(self) -> bool:
        """Whether the verbs of the control are permitted, and with them the journal.

        They are to whoever may end the server and make users of it, as root may.
        """
        may = self.privileges.permit
        return may(CLUSTER, "shutdown") and may(Resource("admin"), "createUser")

    @property
    def target(self) -> Any:
        """The value under the command's own name."""
        return first_argument(self.command)

    @property
    def collection(self) -> Resource:
        """The collection that the command names; the database where it names none."""
        target = self.target
        return Resource(self.db, target if type(target) is str else "")

    def of(self, command: dict[str, Any], db: str | None = None) -> Ask:
        """Return the same client's asking for another command, on the same database unless one is given."""
        return Ask(self.node, self.identity, self.privileges, self.db if db is None else db, command)


Rule: TypeAlias = "Callable[[Ask], bool]"
"""Says whether a command is permitted. Raises `CommandError` for one that a server refuses to check."""


def anybody(_ask: Ask) -> bool:
    """Permit it to all who are authenticated, or need not be."""
    return True


def on_collection(*actions: str) -> Rule:
    """Return the rule of a command that needs actions on the collection that it names."""
    return lambda ask: ask.may(ask.collection, *actions)


def on_database(*actions: str) -> Rule:
    """Return the rule of a command that needs actions on its database."""
    return lambda ask: ask.may(Resource(ask.db), *actions)


def on_cluster(*actions: str) -> Rule:
    """Return the rule of a command that needs actions on the cluster."""
    return lambda ask: ask.may(CLUSTER, *actions)


def is_set(command: Mapping[str, Any], name: str) -> bool:
    """Return whether a field holds a true value, as a handler reads it."""
    return truth(command.get(name, False))
