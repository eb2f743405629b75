"""The commands about API versions: what of the metadata a version excludes, and three for tests.

Behaviour: `validateDBMetadata` names the indexes, sparse ones and those for text, that version 1 excludes
when it is `strict`, in the order in which they were made; of one database or collection, if it names them.
The others, for tests, answer ok. What they are for is decided before they run: under `apiStrict` a command
outside the declared version is refused with 323, under `apiDeprecationErrors` a deprecated one with 324. They
exist where `enableTestCommands` is on, and version 2 can be declared where `acceptApiVersion2` is on too.

Versions: Since 5.0, the first release that knows API versions.

Not modelled: A view or a validator is never named. `testRemoval` and `testVersions1And2`, the other two
commands that a server has for this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, check_target
from fakeserver.profile import WIRE_50
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

table = CommandTable()

VERSION_1: Final = frozenset(
    {
        *("abortTransaction", "aggregate", "authenticate", "bulkWrite", "collMod", "commitTransaction"),
        *("count", "create", "createIndexes", "delete", "drop", "dropDatabase", "dropIndexes"),
        *("endSessions", "explain", "find", "findAndModify", "getMore", "hello", "insert", "killCursors"),
        *("listCollections", "listDatabases", "listIndexes", "ping", "refreshSessions"),
        *("saslContinue", "saslStart", "update"),
        *("testDeprecation", "testDeprecationInVersion2"),
    }
)
"""The commands of version 1."""

_API_STRICT_ERROR: Final = 323
_EMPTY_DB_NAME: Final = 28539
_INVALID_DB_NAME: Final = 13280
_MAX_DB_NAME_BYTES: Final = 63


@table.command(
    "validateDBMetadata",
    kind="read",
    on_secondaries=True,
    since=WIRE_50,
    fields=Fields.of(
        Field(
            "apiParameters",
            "object",
            required=True,
            of=Fields.of(
                Field("version", "string", required=True),
                Field("strict", "strictBool", nullable=False),
                Field("deprecationErrors", "strictBool", nullable=False),
            ),
        ),
        Field("db", "string"),
        Field("collection", "string"),
    ),
)
def validate_db_metadata(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return what of the metadata an API version excludes."""
    db, name = command.get("db"), command.get("collection")
    if db is not None:
        if not db:
            raise CommandError(_EMPTY_DB_NAME, "db name is empty")
        if "." in db or "\0" in db or len(db.encode()) > _MAX_DB_NAME_BYTES:
            raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid database name: '{db}'")
        if any(character in db for character in ' /\\"'):
            raise CommandError(_INVALID_DB_NAME, f"Invalid db name: {db}")
    if name is not None:
        check_target(name, db or "")
    parameters = command["apiParameters"]
    if parameters["version"] != "1" or not parameters.get("strict"):
        return {"apiVersionErrors": []}
    return {
        "apiVersionErrors": [
            {
                "ns": str(collection.ns),
                "code": _API_STRICT_ERROR,
                "codeName": "APIStrictError",
                "errmsg": f"The index with name {index.name} is not allowed in API version 1.",
            }
            for collection in ctx.catalog
            if db in (None, collection.ns.db) and name in (None, collection.ns.collection)
            for index in collection.indexes.values()
            if index.sparse or "text" in index.key.values()
        ]
    }


@table.command("testDeprecation", kind="internal", test_only=True, since=WIRE_50)
def deprecated(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Be deprecated in API version 1."""
    return {}


@table.command("testVersion2", kind="internal", test_only=True, since=WIRE_50)
def new_in_version_2(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Be new in API version 2."""
    return {}


@table.command("testDeprecationInVersion2", kind="internal", test_only=True, since=WIRE_50)
def deprecated_in_version_2(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Be deprecated in API version 2."""
    return {}
