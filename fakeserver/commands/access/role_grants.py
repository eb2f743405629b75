"""The commands for grants to roles: privileges and roles, granted and revoked.

Behaviour: `privileges` must not be empty (2), the role must be one that was defined (31 for an unknown, 2 for
a built-in). Privileges on the same resource are merged; one that loses its last action goes. A cycle of roles
is refused. Every change holds for the next command of connections that are open.

Versions: The same in every release.

Not modelled: A grant is no document of `admin.system.roles`, which stays empty; an oplog entry without a
change stands for it, so that write concerns have something to wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.access.privileges import Privilege, merged
from fakeserver.access.roles import RoleName, privileges_of, role_names
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, first_argument
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeserver.access.users import UserRole
    from fakeserver.commands.context import CommandContext

table = CommandTable()


def _privileges_for(command: str) -> Fields:
    return Fields.of(
        Field(command, "string"), Field("privileges", "array", required=True, of=Fields.of(strict=False))
    )


def _roles_for(command: str) -> Fields:
    return Fields.of(Field(command, "string"), Field("roles", "array", required=True))


@table.command(
    "grantPrivilegesToRole",
    kind="write",
    fields=_privileges_for("grantPrivilegesToRole"),
    write_concern=True,
)
def grant_privileges_to_role(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Give a role more privileges."""
    role, granted = _role_and_privileges(ctx, command)
    return _with_privileges(ctx, role, merged((*role.privileges, *granted)))


@table.command(
    "revokePrivilegesFromRole",
    kind="write",
    fields=_privileges_for("revokePrivilegesFromRole"),
    write_concern=True,
)
def revoke_privileges_from_role(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Take privileges from a role."""
    role, revoked = _role_and_privileges(ctx, command)
    taken = {each.resource: each.actions for each in merged(revoked)}
    left = (
        Privilege(each.resource, each.actions - taken.get(each.resource, frozenset()))
        for each in role.privileges
    )
    return _with_privileges(ctx, role, (each for each in left if each.actions))


def _role_and_privileges(
    ctx: CommandContext, command: dict[str, Any]
) -> tuple[UserRole, tuple[Privilege, ...]]:
    if not command["privileges"]:
        raise CommandError(
            ErrorCode.BAD_VALUE, f'{next(iter(command))} command requires a non-empty "privileges" array'
        )
    return _role(ctx, command), privileges_of(command["privileges"])


def _with_privileges(ctx: CommandContext, role: UserRole, privileges: Iterable[Privilege]) -> Reply:
    ctx.node.users.change_role(role.role, tuple(privileges), None)
    ctx.node.oplog.append()
    return {}


@table.command("grantRolesToRole", kind="write", fields=_roles_for("grantRolesToRole"), write_concern=True)
def grant_roles_to_role(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Have a role inherit from more roles."""
    role = _role(ctx, command)
    granted = role_names(command["roles"], ctx.db)
    return _with_roles(ctx, role, dict.fromkeys((*role.roles, *granted)))


@table.command(
    "revokeRolesFromRole", kind="write", fields=_roles_for("revokeRolesFromRole"), write_concern=True
)
def revoke_roles_from_role(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Have a role inherit no more from some roles."""
    role = _role(ctx, command)
    revoked = role_names(command["roles"], ctx.db)
    return _with_roles(ctx, role, (each for each in role.roles if each not in revoked))


def _with_roles(ctx: CommandContext, role: UserRole, roles: Iterable[RoleName]) -> Reply:
    ctx.node.users.change_role(role.role, None, tuple(roles))
    ctx.node.oplog.append()
    return {}


def _role(ctx: CommandContext, command: dict[str, Any]) -> UserRole:
    return ctx.node.users.require_defined(RoleName(first_argument(command), ctx.db))
