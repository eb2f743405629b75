"""The client metadata of a handshake (`MongoDB Handshake: client`), kept with the connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import bson

from fakeserver.errors import CommandError
from fakeserver.idl.fields import type_name
from fakeserver.request.pipeline import PASS, Action, Stage, Step
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext

# Both bounds are the specification's: drivers truncate their metadata to fit.
_MAX_DOCUMENT_BYTES: Final = 512
_MAX_APP_NAME_BYTES: Final = 128
_REQUIRED: Final = {"driver": ("name", "version"), "os": ("type",)}


class ClientMetadata(Stage):
    """Stores the facts of a first hello, before fail points compare the application name."""

    step = Step.CLIENT_METADATA

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.handshake

    def enter(self, request: RequestContext, _now: float) -> Action:
        command = request.command
        # The server's own repetition of an exhaust hello carries the `client` of the first one again.
        if request.is_continuation or command is None:
            return PASS
        connection = request.connection
        metadata = command.get("client")
        if metadata is not None:
            if connection.metadata is not None:
                raise CommandError(
                    ErrorCode.CLIENT_METADATA_CANNOT_BE_MUTATED,
                    "The client metadata document may only be sent in the first hello",
                )
            _check(metadata)
            connection.metadata = metadata
            connection.app_name = str(metadata.get("application", {}).get("name", ""))
        if "internalClient" in command:
            connection.internal_client = True
        if "helloOk" in command:
            connection.hello_ok = bool(command["helloOk"])
        return PASS


def _check(metadata: Any) -> None:
    """Validate the document. Raises `CommandError` 14, 183, 184 or 185."""
    if not isinstance(metadata, dict):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"The client metadata document must be a document, not {type_name(metadata)}",
        )
    if len(bson.encode(metadata)) > _MAX_DOCUMENT_BYTES:
        raise CommandError(
            ErrorCode.CLIENT_METADATA_DOCUMENT_TOO_LARGE,
            f"The client metadata document must be less then or equal to {_MAX_DOCUMENT_BYTES} bytes",
        )
    _check_application(metadata.get("application", {}))
    for section, names in _REQUIRED.items():
        _check_section(metadata, section, names)


def _check_application(application: Any) -> None:
    name = application.get("name", "") if isinstance(application, dict) else None
    if not isinstance(name, str):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            "The 'application.name' field must be a string in the client metadata document",
        )
    if len(name.encode()) > _MAX_APP_NAME_BYTES:
        raise CommandError(
            ErrorCode.CLIENT_METADATA_APP_NAME_TOO_LARGE,
            f"The 'application.name' field must be less then or equal to {_MAX_APP_NAME_BYTES} bytes in the"
            " client metadata document",
        )


def _check_section(metadata: dict[str, Any], section: str, names: tuple[str, ...]) -> None:
    document = metadata.get(section)
    if not isinstance(document, dict):
        raise CommandError(
            ErrorCode.CLIENT_METADATA_MISSING_FIELD,
            f"Missing required sub-document '{section}' in the client metadata document",
        )
    for name in names:
        if name not in document:
            raise CommandError(
                ErrorCode.CLIENT_METADATA_MISSING_FIELD,
                f"Missing required field '{section}.{name}' in the client metadata document",
            )
