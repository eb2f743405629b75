"""The API version that a client declares (`Versioned API`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.idl import Field
from fakeserver.pipeline import PASS, Action, Stage, Step
from fakeserver.profile import WIRE_50

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.request import RequestContext

_API_VERSION_ERROR: Final = 322
_API_STRICT_ERROR: Final = 323
_API_DEPRECATION_ERROR: Final = 324
_VERSION_REQUIRED: Final = 498870
_FLAG_WITHOUT_VERSION: Final = 4886600

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
_VERSION_2: Final = frozenset({"testVersion2", "testDeprecationInVersion2"})
_DEPRECATED: Final = frozenset({("testDeprecation", "1"), ("testDeprecationInVersion2", "2")})
_FIELDS: Final = (
    Field("apiVersion", "string"),
    Field("apiStrict", "bool"),
    Field("apiDeprecationErrors", "bool"),
)


class ApiVersion(Stage):
    """Refuses commands outside the declared version, and undeclared ones where it is required."""

    step = Step.BODY

    def enter(self, request: RequestContext, now: float) -> Action:  # noqa: ARG002 - a stage's signature
        command, node = request.command, request.node
        if command is None or node.profile.max_wire_version < WIRE_50:
            return PASS
        if "apiVersion" in command or "apiStrict" in command or "apiDeprecationErrors" in command:
            _check(request, *(_read(request, command, field) for field in _FIELDS))
        elif node.parameters["requireApiVersion"] and not request.connection.internal_client:
            raise CommandError(
                _VERSION_REQUIRED,
                "The apiVersion parameter is required, please configure your MongoClient's API version",
            )
        return PASS


def declared(command: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a command declares of the API version."""
    return {field.name: command[field.name] for field in _FIELDS if field.name in command}


def _read(request: RequestContext, command: dict[str, Any], field: Field) -> Any:
    value = command.get(field.name)
    return None if value is None else field.check(value, f"{request.name}.{field.name}")


def _check(request: RequestContext, version: str | None, strict: Any, deprecation_errors: Any) -> None:
    if version is None:
        raise CommandError(
            _FLAG_WITHOUT_VERSION,
            "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion",
        )
    accepts_two = request.node.parameters["acceptApiVersion2"]
    if version != "1" and not (accepts_two and version == "2"):
        known = 'API version must be either "1" or "2"' if accepts_two else 'API version must be "1"'
        raise CommandError(_API_VERSION_ERROR, known)
    name = request.spec.name
    if strict and name not in (VERSION_1 if version == "1" else _VERSION_2):
        raise CommandError(
            _API_STRICT_ERROR,
            f"Provided apiStrict:true, but the command {name} is not in API Version {version}. Information"
            " on supported commands and migrations in API Version 1 can be found at"
            " https://dochub.mongodb.org/core/manual-versioned-api",
        )
    if deprecation_errors and (name, version) in _DEPRECATED:
        raise CommandError(
            _API_DEPRECATION_ERROR,
            f"Provided apiDeprecationErrors:true, but the command {name} is deprecated in API Version"
            f" {version}",
        )
