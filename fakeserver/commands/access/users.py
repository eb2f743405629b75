"""The commands for users: create, change, drop and show them.

Behaviour: All but usersInfo and invalidateUserCache need the primary. A user has the database of the command
and, outside `$external`, a password (2), from which the keys of `mechanisms` are made: by default both SCRAM
mechanisms, SCRAM-SHA-1 alone if the client digested the password. Roles that are granted must exist (31).
Every change holds for the next command of connections that are open. usersInfo shows a user, those of the
database or those of all, with credentials, privileges and a filter on request.

Versions: The same in every release.

Not modelled: `authenticationRestrictions` that are not empty are refused (2). Users are no documents of
`admin.system.users`, and there is no cache to invalidate: every command looks them up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.access.roles import Everyone, role_names, users_asked_for
from fakeserver.access.scram import MECHANISMS, SHA_1
from fakeserver.access.users import EXTERNAL, Password
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, first_argument
from fakeserver.storage.filters.matching import compile_filter
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.access.roles import RoleName
    from fakeserver.access.users import User
    from fakeserver.commands.context import CommandContext

table = CommandTable()

_SHARED: Final = (
    Field("pwd", "string"),
    Field("customData", "object"),
    Field("digestPassword", "bool"),
    Field("mechanisms", "array", of="string"),
    Field("authenticationRestrictions", "array"),
)
_CREATE: Final = Fields.of(Field("createUser", "string"), *_SHARED, Field("roles", "array", required=True))
_UPDATE: Final = Fields.of(Field("updateUser", "string"), *_SHARED, Field("roles", "array"))


@table.command("createUser", kind="write", fields=_CREATE, write_concern=True)
def create_user(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Create a user of this database."""
    name = first_argument(command)
    password = _password(command)
    if password is None and ctx.db != EXTERNAL:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            "Must provide a 'pwd' field for all user documents, except those with '$external' as the user's"
            " source db",
        )
    _check_external(ctx.db, password)
    roles = role_names(command["roles"], ctx.db)
    ctx.node.users.add(name, ctx.db, password, roles, command.get("customData"))
    # Users are not documents here; an entry without a change gives a write concern something to wait for.
    ctx.node.oplog.append()
    return {}


@table.command("updateUser", kind="write", fields=_UPDATE, write_concern=True)
def update_user(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Change a user's password, roles or data."""
    name, users = first_argument(command), ctx.node.users
    if not {"pwd", "roles", "customData", "mechanisms"} & command.keys():
        raise CommandError(ErrorCode.BAD_VALUE, "Must specify at least one field to update in updateUser")
    password = _password(command)
    _check_external(ctx.db, password)
    roles = role_names(command["roles"], ctx.db) if "roles" in command else None
    users.change(name, ctx.db, password=password, roles=roles, custom_data=command.get("customData"))
    if password is None and "mechanisms" in command:
        users.keep_mechanisms(name, ctx.db, command["mechanisms"])
    ctx.node.oplog.append()
    return {}


@table.command("dropUser", kind="write", fields=Fields.of(Field("dropUser", "string")), write_concern=True)
def drop_user(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Drop a user of this database."""
    ctx.node.users.drop(first_argument(command), ctx.db)
    ctx.node.oplog.append()
    return {}


@table.command("dropAllUsersFromDatabase", kind="write", fields=Fields.of(), write_concern=True)
def drop_all_users_from_database(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Drop all users of this database."""
    dropped = ctx.node.users.drop_all(ctx.db)
    ctx.node.oplog.append()
    return {"n": dropped}


@table.command(
    "grantRolesToUser",
    kind="write",
    fields=Fields.of(Field("grantRolesToUser", "string"), Field("roles", "array", required=True)),
    write_concern=True,
)
def grant_roles_to_user(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Give a user more roles."""
    user = ctx.node.users.require(first_argument(command), ctx.db)
    granted = role_names(command["roles"], ctx.db)
    both = tuple(dict.fromkeys((*user.roles, *granted)))
    return _with_roles(ctx, user, both)


@table.command(
    "revokeRolesFromUser",
    kind="write",
    fields=Fields.of(Field("revokeRolesFromUser", "string"), Field("roles", "array", required=True)),
    write_concern=True,
)
def revoke_roles_from_user(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Take roles from a user."""
    user = ctx.node.users.require(first_argument(command), ctx.db)
    revoked = role_names(command["roles"], ctx.db)
    return _with_roles(ctx, user, [role for role in user.roles if role not in revoked])


def _with_roles(ctx: CommandContext, user: User, roles: Sequence[RoleName]) -> Reply:
    ctx.node.users.change(user.name, user.db, roles=roles)
    ctx.node.oplog.append()
    return {}


@table.command("invalidateUserCache", kind="internal", admin_only=True)
def invalidate_user_cache(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Forget cached users, of which there are none: every command looks them up."""
    return {}


@table.command(
    "usersInfo",
    kind="internal",
    fields=Fields.of(
        Field("usersInfo", "any"),
        Field("showCredentials", "bool"),
        Field("showCustomData", "bool"),
        Field("showPrivileges", "bool"),
        Field("filter", "object"),
    ),
)
def users_info(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return users: by name, of this database, or of all databases."""
    users, asked = ctx.node.users, users_asked_for(first_argument(command), ctx.db)
    if isinstance(asked, Everyone):
        found = [user for user in users.all() if asked.db in {None, user.db}]
    else:
        found = [user for name in asked if (user := users.find(*name)) is not None]
    described = []
    for user in found:
        shown = user.document(
            credentials=bool(command.get("showCredentials")), custom_data=command.get("showCustomData", True)
        )
        if command.get("showPrivileges"):
            shown["inheritedRoles"] = [role.document() for role in users.inherited(user.roles)]
            shown["inheritedPrivileges"] = [each.document() for each in users.privileges(user.roles)]
        described.append(shown)
    matches = compile_filter(command.get("filter") or {})
    return {"users": [each for each in described if matches(each)]}


def _password(command: dict[str, Any]) -> Password | None:
    """Return the password that a command brings. Raises `CommandError` 2."""
    if command.get("authenticationRestrictions"):
        raise CommandError(
            ErrorCode.BAD_VALUE, "authenticationRestrictions are not supported by this server: leave them out"
        )
    mechanisms = command.get("mechanisms")
    if mechanisms is not None:
        if not mechanisms:
            raise CommandError(ErrorCode.BAD_VALUE, "mechanisms field must not be empty")
        for mechanism in mechanisms:
            if mechanism not in MECHANISMS:
                raise CommandError(ErrorCode.BAD_VALUE, f"Unknown auth mechanism '{mechanism}'")
    text = command.get("pwd")
    if text is None:
        return None
    if not text:
        raise CommandError(ErrorCode.BAD_VALUE, "User passwords must not be empty")
    # A client that digested the password itself did so for SCRAM-SHA-1; the password is unknown then, and
    # SCRAM-SHA-256 needs it.
    digested = not command.get("digestPassword", True)
    default = (SHA_1,) if digested else MECHANISMS
    return Password(text, default if mechanisms is None else tuple(mechanisms), digested)


def _check_external(db: str, password: Password | None) -> None:
    if db == EXTERNAL and password is not None:
        raise CommandError(
            ErrorCode.BAD_VALUE, "Cannot set the password for users defined on the '$external' database"
        )
