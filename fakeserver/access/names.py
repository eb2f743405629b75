"""Users, roles and privileges as commands name them.

Who checks a command and who runs it both read them here: read in two ways, a check can be evaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fakeserver.access.privileges import ANYTHING, CLUSTER, Privilege, Resource
from fakeserver.access.roles import RoleName
from fakeserver.errors import CommandError
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable


class UserName(NamedTuple):
    """A user of a database."""

    name: str
    db: str


class Everyone(NamedTuple):
    """The users or the roles of a database, of all where it is None."""

    db: str | None


def users_asked_for(target: Any, db: str) -> Everyone | list[UserName]:
    """Return whom a `usersInfo` on `db` is about. Raises `CommandError` 2."""
    if isinstance(target, dict) and target.get("forAllDBs"):
        return Everyone(None)
    if _is_one(target):
        return Everyone(db)
    return [_user_name(each, db) for each in (target if isinstance(target, list) else [target])]


def roles_asked_for(target: Any, db: str) -> Everyone | tuple[RoleName, ...]:
    """Return which roles a `rolesInfo` on `db` is about. Raises `CommandError` 2."""
    if _is_one(target):
        return Everyone(db)
    return role_names(target if isinstance(target, list) else [target], db)


def _is_one(target: Any) -> bool:
    return isinstance(target, int | float) and target == 1


def _user_name(name: Any, db: str) -> UserName:
    if type(name) is str:
        return UserName(name, db)
    if isinstance(name, dict) and type(name.get("user")) is str and type(name.get("db")) is str:
        return UserName(name["user"], name["db"])
    raise CommandError(
        ErrorCode.BAD_VALUE,
        "UserName must be either a string or an object with the fields 'user' and 'db'",
    )


def role_names(roles: Iterable[Any], db: str) -> tuple[RoleName, ...]:
    """Return the roles of a command's array: names of this database, or documents. Raises `CommandError`."""
    return tuple(role_name(each, db) for each in roles)


def role_name(role: Any, db: str) -> RoleName:
    """Return one role, a name or a document `{role, db}`. Raises `CommandError` 2."""
    if type(role) is str:
        return RoleName(role, db)
    if isinstance(role, dict) and type(role.get("role")) is str and type(role.get("db")) is str:
        return RoleName(role["role"], role["db"])
    raise CommandError(
        ErrorCode.BAD_VALUE, "Role names must be either strings or objects with the fields 'role' and 'db'"
    )


def privileges_of(documents: Iterable[dict[str, Any]]) -> tuple[Privilege, ...]:
    """Return the privileges of a command's array. Raises `CommandError` 9."""
    return tuple(_privilege(document) for document in documents)


def _privilege(document: dict[str, Any]) -> Privilege:
    resource, actions = document.get("resource"), document.get("actions")
    if not isinstance(resource, dict) or not isinstance(actions, list) or not actions:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE, "a privilege has a resource, and actions that are not empty"
        )
    return Privilege(_resource(resource), frozenset(map(str, actions)))


def _resource(document: dict[str, Any]) -> Resource:
    if document.get("anyResource"):
        return ANYTHING
    if document.get("cluster"):
        return CLUSTER
    db, collection = document.get("db"), document.get("collection")
    if type(db) is not str or type(collection) is not str:  # JavaScript code is a `str` too
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            "a resource is {db, collection}, {cluster: true} or {anyResource: true}",
        )
    return Resource(db, collection)
