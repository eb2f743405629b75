"""What the commands need that manage users and roles.

Nobody gives what it could not give where it belongs: roles and privileges are granted and revoked by leave of
their own databases, those of the cluster or of many databases by leave of `admin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.access.names import (
    Everyone,
    UserName,
    privileges_of,
    role_names,
    roles_asked_for,
    users_asked_for,
)
from fakeserver.access.privileges import CLUSTER, EVERYWHERE, Resource

if TYPE_CHECKING:
    from fakeserver.access.ask import Ask, Rule
    from fakeserver.access.privileges import Privilege

_GRANT: Final = "grantRole"
_REVOKE: Final = "revokeRole"
_ADMIN: Final = Resource("admin")


def may_create_user(ask: Ask) -> bool:
    """Permit to make a user of this database, with roles that the client could grant."""
    return ask.may(Resource(ask.db), "createUser") and _may_give(ask) and _may_restrict(ask)


def may_update_user(ask: Ask) -> bool:
    """Permit to change what is given; new roles take away others, which may be any."""
    if {"pwd", "mechanisms"} & ask.command.keys() and not _may_change(ask, "Password"):
        return False
    if "customData" in ask.command and not _may_change(ask, "CustomData"):
        return False
    return _may_replace(ask) and _may_restrict(ask)


def _may_change(ask: Ask, what: str) -> bool:
    """Say whether a client may change a user's property, or its own where it is that user."""
    own = (ask.db, ask.target) in ask.identity.names and ask.may(Resource(ask.db), f"changeOwn{what}")
    return own or ask.may(Resource(ask.db), f"change{what}")


def _may_restrict(ask: Ask) -> bool:
    return "authenticationRestrictions" not in ask.command or ask.may(
        Resource(ask.db), "setAuthenticationRestriction"
    )


def may_create_role(ask: Ask) -> bool:
    """Permit to define a role of this database that has nothing that the client could not grant."""
    return ask.may(Resource(ask.db), "createRole") and _may_give(ask) and _may_restrict(ask)


def may_update_role(ask: Ask) -> bool:
    """Permit to define a role anew; that takes away from it what may be any role."""
    return ask.may(EVERYWHERE, _REVOKE) and _may_give(ask) and _may_restrict(ask)


def _may_replace(ask: Ask) -> bool:
    return "roles" not in ask.command or (ask.may(EVERYWHERE, _REVOKE) and _may_give(ask))


def handing(action: str) -> Rule:
    """Return the rule of a command that only grants, or only revokes."""
    return lambda ask: _may_hand(ask, action)


def _may_give(ask: Ask) -> bool:
    return _may_hand(ask, _GRANT)


def _may_hand(ask: Ask, action: str) -> bool:
    """Say whether the roles and the privileges of a command may be granted, or revoked."""
    command = ask.command
    roles = role_names(command.get("roles", ()), ask.db)
    privileges = privileges_of(command.get("privileges", ()))
    return all(ask.may(Resource(role.db), action) for role in roles) and all(
        ask.may(_home(each), action) for each in privileges
    )


def _home(privilege: Privilege) -> Resource:
    """Return the database by whose leave a privilege is granted."""
    resource = privilege.resource
    return Resource(resource.db) if resource.db else _ADMIN


def may_see_users(ask: Ask) -> bool:
    """Permit to ask about oneself, and about the users of databases whose users one may view."""
    asked = users_asked_for(ask.target, ask.db)
    if isinstance(asked, Everyone):
        return ask.may(CLUSTER if asked.db is None else Resource(asked.db), "viewUser")
    return all(_is_me(ask, each) or ask.may(Resource(each.db), "viewUser") for each in asked)


def _is_me(ask: Ask, user: UserName) -> bool:
    return (user.db, user.name) in ask.identity.names


def may_see_roles(ask: Ask) -> bool:
    """Permit to ask about roles that one has, and about those of databases whose roles one may view."""
    asked = roles_asked_for(ask.target, ask.db)
    if isinstance(asked, Everyone):
        return ask.may(Resource(ask.db), "viewRole")
    mine = {role for user in ask.identity.users(ask.node.users) for role in user.roles}
    return all(each in mine or ask.may(Resource(each.db), "viewRole") for each in asked)
