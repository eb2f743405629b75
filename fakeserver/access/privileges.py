"""Privileges: actions on a resource, and the test that they permit an action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ANY_ACTION: Final = "anyAction"
_APART: Final = frozenset({"local", "config"})
"""The databases that a privilege on all databases does not reach."""
_REMEMBERED: Final = 1024


class Resource(NamedTuple):
    """The target of actions: a collection, a database, all of them, or the cluster.

    Without a database it is every database but `local` and `config`, with a collection all that have its
    name. A resource without a collection has those that are not a system's.
    """

    db: str = ""
    collection: str = ""
    cluster: bool = False
    anything: bool = False

    def document(self) -> dict[str, Any]:
        """Return it as privileges show it."""
        if self.anything:
            return {"anyResource": True}
        return {"cluster": True} if self.cluster else {"db": self.db, "collection": self.collection}

    @property
    def holders(self) -> Iterator[Resource]:
        """The resources that include this one: a privilege on any of them is a privilege here."""
        yield ANYTHING
        if self.cluster:
            yield CLUSTER
            return
        if not self.collection.startswith("system."):
            if self.db not in _APART:
                yield Resource()
            yield Resource(self.db)
        if self.collection:
            yield Resource("", self.collection)
            yield self


CLUSTER: Final = Resource(cluster=True)
ANYTHING: Final = Resource(anything=True)
EVERYWHERE: Final = Resource()
JOURNAL: Final = Resource("local", "pushbackd.journal")
"""The journal as clients read it."""


@dataclass(frozen=True, slots=True)
class Privilege:
    """Actions on a resource."""

    resource: Resource
    actions: frozenset[str]

    def document(self) -> dict[str, Any]:
        """Return it as `usersInfo` and `rolesInfo` show it."""
        return {"resource": self.resource.document(), "actions": sorted(self.actions)}


class Privileges:
    """All that somebody may do, found by resource."""

    def __init__(self, privileges: Iterable[Privilege] = ()) -> None:
        self._actions = {each.resource: each.actions for each in merged(privileges)}
        self._asked: dict[tuple[Resource, tuple[str, ...]], bool] = {}
        """Earlier questions and their answers: clients ask for the same again and again."""

    def permit(self, resource: Resource, *actions: str) -> bool:
        """Return whether all of the actions are permitted on a resource."""
        asked = resource, actions
        known = self._asked.get(asked)
        if known is None:
            if len(self._asked) >= _REMEMBERED:
                self._asked.clear()
            known = self._asked[asked] = self._permit(resource, actions)
        return known

    def _permit(self, resource: Resource, actions: Iterable[str]) -> bool:
        missing = set(actions)
        for holder in resource.holders:
            granted = self._actions.get(holder)
            if granted is not None:
                if ANY_ACTION in granted:
                    return True
                missing -= granted
                if not missing:
                    return True
        return not missing

    def reach(self, resource: Resource) -> bool:
        """Return whether any action at all is permitted on a collection, or on anything of a database."""
        if any(self._actions.get(holder) for holder in resource.holders):
            return True
        return not resource.collection and any(
            actions and each.collection and each.db in {"", resource.db}
            for each, actions in self._actions.items()
        )


def merged(privileges: Iterable[Privilege]) -> Iterator[Privilege]:
    """Iterate over the privileges with one for each resource, in the order of their first appearance."""
    by_resource: dict[Resource, frozenset[str]] = {}
    for each in privileges:
        by_resource[each.resource] = by_resource.get(each.resource, frozenset()) | each.actions
    return (Privilege(resource, actions) for resource, actions in by_resource.items())
