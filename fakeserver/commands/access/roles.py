"""The commands for roles: define, change, drop and show them.

Behaviour: All but rolesInfo need the primary. A role has the database of the command; `createRole` refuses a
name that is taken or built in, `updateRole` replaces privileges, roles or both (2 for neither). A role that
is dropped goes from all users and roles that had it. `rolesInfo` shows roles by name, or those of the
database, with `showBuiltinRoles` the built-in ones too.

Versions: The same in every release.

Not modelled: `authenticationRestrictions`, which is an unknown field (40415). Roles are no documents of
`admin.system.roles`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.access.roles import (
    Everyone,
    RoleName,
    built_in,
    built_in_roles,
    privileges_of,
    role_names,
    roles_asked_for,
)
from fakeserver.access.users import UserRole
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, first_argument
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

table = CommandTable()

_CREATE: Final = Fields.of(
    Field("createRole", "string"),
    Field("privileges", "array", required=True, of=Fields.of(strict=False)),
    Field("roles", "array", required=True),
)
_UPDATE: Final = Fields.of(
    Field("updateRole", "string"),
    Field("privileges", "array", of=Fields.of(strict=False)),
    Field("roles", "array"),
)


@table.command("createRole", kind="write", fields=_CREATE, write_concern=True)
def create_role(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Define a role of this database."""
    name = first_argument(command)
    if not name:
        raise CommandError(ErrorCode.BAD_VALUE, "Role name must be non-empty")
    privileges = privileges_of(command["privileges"])
    roles = role_names(command["roles"], ctx.db)
    ctx.node.users.add_role(UserRole(RoleName(name, ctx.db), privileges, roles))
    # Roles are not documents here; an entry without a change gives a write concern something to wait for.
    ctx.node.oplog.append()
    return {}


@table.command("updateRole", kind="write", fields=_UPDATE, write_concern=True)
def update_role(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Replace what a role permits."""
    if not {"privileges", "roles"} & command.keys():
        raise CommandError(ErrorCode.BAD_VALUE, "Must specify at least one field to update in updateRole")
    privileges = privileges_of(command["privileges"]) if "privileges" in command else None
    roles = role_names(command["roles"], ctx.db) if "roles" in command else None
    ctx.node.users.change_role(RoleName(first_argument(command), ctx.db), privileges, roles)
    ctx.node.oplog.append()
    return {}


@table.command("dropRole", kind="write", fields=Fields.of(Field("dropRole", "string")), write_concern=True)
def drop_role(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Drop a role that was defined."""
    ctx.node.users.drop_role(RoleName(first_argument(command), ctx.db))
    ctx.node.oplog.append()
    return {}


@table.command("dropAllRolesFromDatabase", kind="write", fields=Fields.of(), write_concern=True)
def drop_all_roles_from_database(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Drop the roles that were defined on this database."""
    dropped = ctx.node.users.drop_roles(ctx.db)
    ctx.node.oplog.append()
    return {"n": dropped}


@table.command(
    "rolesInfo",
    kind="internal",
    fields=Fields.of(
        Field("rolesInfo", "any"),
        Field("showPrivileges", "bool"),
        Field("showBuiltinRoles", "bool"),
    ),
)
def roles_info(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return roles: by name, or those defined on this database."""
    users, asked = ctx.node.users, roles_asked_for(first_argument(command), ctx.db)
    if isinstance(asked, Everyone):
        shown = built_in_roles(ctx.db) if command.get("showBuiltinRoles") else ()
        found = [*users.roles_of(ctx.db), *map(users.role, shown)]
    else:
        found = [users.role(name) for name in asked]
    roles = []
    for each in found:
        if each is None:
            continue
        described: dict[str, Any] = {
            "_id": f"{each.role.db}.{each.role.name}",
            **each.role.document(),
            "isBuiltin": built_in(each.role) is not None,
            "roles": [role.document() for role in each.roles],
            "inheritedRoles": [role.document() for role in users.inherited(each.roles)],
        }
        if command.get("showPrivileges"):
            described["privileges"] = [privilege.document() for privilege in each.privileges]
            inherited = users.privileges([each.role])
            described["inheritedPrivileges"] = [privilege.document() for privilege in inherited]
        roles.append(described)
    return {"roles": roles}
