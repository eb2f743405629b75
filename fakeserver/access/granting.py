"""Privileges of the commands that manage users and roles.

Nobody gives what it could not give where it belongs: roles and privileges are granted and revoked by leave of
their own databases, those of the cluster or of many databases by leave of `admin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.access.names import (
    Everyone,
    privileges_of,
    role_names,
    roles_asked_for,
    users_asked_for,
)
from fakeserver.access.privileges import CLUSTER, EVERYWHERE, Resource

if TYPE_CHECKING:
    from fakeserver.access.ask import Ask, Rule

_GRANT: Final = "grantRole"
_REVOKE: Final = "revokeRole"
_ADMIN: Final = Resource("admin")


def may_create_user(ask: Ask) -> bool:
    """Permit to make a user of this database, with roles that the client could grant."""
    return ask.may(Resource(ask.db), "createUser") and _may_give(ask) and _may_restrict(ask)


def may_update_user(ask: Ask) -> bool:
    """Permit to change the fields of the command; new roles revoke the old ones, which may be any."""
    if {"pwd", "mechanisms"} & ask.command.keys() and not _may_change(ask, "Password"):
        return False
    if "customData" in ask.command and not _may_change(ask, "CustomData"):
        return False
    # New roles replace the old ones, so they are revoked and granted.
    if "roles" in ask.command and not (ask.may(EVERYWHERE, _REVOKE) and _may_give(ask)):
        return False
    return _may_restrict(ask)


def _may_change(ask: Ask, what: str) -> bool:
    """Return whether a client may change a user's property, or its own where it is that user."""
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


def handing(action: str) -> Rule:
    """Return the rule of a command that only grants, or only revokes."""
    return lambda ask: _may_hand(ask, action)


def _may_give(ask: Ask) -> bool:
    return _may_hand(ask, _GRANT)


def _may_hand(ask: Ask, action: str) -> bool:
    """Return whether the roles and the privileges of a command may be granted, or revoked."""
    command = ask.command
    roles = role_names(command.get("roles", ()), ask.db)
    privileges = privileges_of(command.get("privileges", ()))
    # A privilege on many databases, or on the cluster, is granted by leave of `admin`.
    homes = [Resource(role.db) for role in roles]
    homes += [Resource(each.resource.db) if each.resource.db else _ADMIN for each in privileges]
    return all(ask.may(home, action) for home in homes)


def may_see_users(ask: Ask) -> bool:
    """Permit to ask about oneself, and about the users of databases whose users one may view."""
    asked = users_asked_for(ask.target, ask.db)
    if isinstance(asked, Everyone):
        return ask.may(CLUSTER if asked.db is None else Resource(asked.db), "viewUser")
    return all(
        (each.db, each.name) in ask.identity.names or ask.may(Resource(each.db), "viewUser") for each in asked
    )


def may_see_roles(ask: Ask) -> bool:
    """Permit to ask about roles that one has, and about those of databases whose roles one may view."""
    asked = roles_asked_for(ask.target, ask.db)
    if isinstance(asked, Everyone):
        return ask.may(Resource(ask.db), "viewRole")
    mine = {role for user in ask.identity.users(ask.node.users) for role in user.roles}
    return all(each in mine or ask.may(Resource(each.db), "viewRole") for each in asked)
