"""The arguments that all commands share: API version, concerns and read preference (`Generic Arguments`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields, type_name, whole
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping


# The fields in which a client declares the API version (`Versioned API`).


FIELDS: Final = (
    Field("apiVersion", "string"),
    Field("apiStrict", "bool"),
    Field("apiDeprecationErrors", "bool"),
)


def declared(command: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a command declares of the API version."""
    return {field.name: command[field.name] for field in FIELDS if field.name in command}


# The arguments `readConcern` and `writeConcern` of commands (`Read and Write Concern`).


LEVELS: Final = ("local", "majority", "linearizable", "available", "snapshot")
TIMES: Final = ("afterClusterTime", "atClusterTime")
_PROVENANCES: Final = (
    *("clientSupplied", "implicitDefault", "customDefault", "getLastErrorDefaults", "internalWriteDefault"),
)

_READ_CONCERN: Final = Fields.of(
    Field("level", "string", choices=LEVELS),
    *(Field(name, "timestamp", nullable=False) for name in TIMES),
    Field("afterOpTime", "object"),
    Field("allowTransactionTableSnapshot", "bool"),
    Field("waitLastStableRecoveryTimestamp", "bool"),
    Field("provenance", "string", choices=_PROVENANCES),
)


def check_read_concern(document: dict[str, Any]) -> str:
    """Check a `readConcern`, in place, and return its level. Raises `CommandError` 2, 14, 72 or 40415."""
    _READ_CONCERN.check(document, "readConcern")
    level: str = document.get("level", "local")
    if "atClusterTime" in document and level != "snapshot":
        raise CommandError(
            ErrorCode.INVALID_OPTIONS, "atClusterTime field can be set only if level is equal to snapshot"
        )
    for name in TIMES:
        if name in document and not document[name].time:
            raise CommandError(ErrorCode.INVALID_OPTIONS, f"{name} cannot be a null timestamp")
    return level


def read_concern_not_supported(
    command: str, level: str, reason: str = "read concern not supported"
) -> CommandError:
    """Return the error for a read concern that a command cannot have."""
    return CommandError(
        ErrorCode.INVALID_OPTIONS,
        f'Command {command} does not support {{ readConcern: {{ level: "{level}", provenance:'
        f' "clientSupplied" }} }} :: caused by :: {reason}',
    )


_MAX_W: Final = 50
_MAX_WAIT: Final = 2**31 - 1
"""Milliseconds."""

_WRITE_CONCERN: Final = Fields.of(
    Field("w"),
    Field("j", "bool"),
    Field("fsync", "bool"),
    Field("wtimeout"),
    *(Field(name) for name in ("wElectionId", "wOpTime", "getLastError")),
    Field("provenance", "string", choices=_PROVENANCES),
)
_NUMBERS: Final = frozenset({"int", "long", "double", "decimal"})


@dataclass(frozen=True, slots=True)
class WriteConcern:
    """What a command asks for: `w` members or a mode's name, within `timeout` seconds.

    `provenance` says who asked: `clientSupplied`, `customDefault` (the deployment's) or `implicitDefault`.
    """

    w: int | str | dict[str, Any] = 1
    timeout: float = math.inf
    timeout_ms: int = 0
    provenance: str = "clientSupplied"
    journaled: bool = False
    """Whether the client waits for the journal (`j`)."""

    @property
    def is_acknowledged(self) -> bool:
        """Whether the client wants to hear what became of the write."""
        return self.w != 0 or self.journaled

    @classmethod
    def parse(cls, document: Any) -> WriteConcern:
        """Read a `writeConcern`, in place. Raises `CommandError` 9 FailedToParse, 14, 2 or 40415."""
        if not isinstance(document, dict):
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f'"writeConcern" had the wrong type. Expected object, found {type_name(document)}',
            )
        _WRITE_CONCERN.check(document, "writeConcern")
        w = _parse_w(document.get("w", 1))
        timeout_ms = document.get("wtimeout", 0)
        timeout_ms = whole(timeout_ms) if type_name(timeout_ms) in _NUMBERS else 0
        if timeout_ms > _MAX_WAIT:
            raise CommandError(ErrorCode.FAILED_TO_PARSE, "wtimeout must be a 32-bit integer")
        timeout = timeout_ms / 1000 if timeout_ms > 0 else math.inf
        return cls(w, timeout, timeout_ms, journaled=document.get("j", False))


def _parse_w(w: Any) -> int | str | dict[str, Any]:
    # Null is the name of no mode, as the empty string is.
    if w is None or type(w) is str:
        return w or ""
    if isinstance(w, dict):
        if not w:
            raise CommandError(ErrorCode.FAILED_TO_PARSE, "tagged write concern requires tags")
        for value in w.values():
            if type_name(value) not in _NUMBERS:
                raise CommandError(ErrorCode.FAILED_TO_PARSE, "tags must be a single level document")
        return w
    if type_name(w) not in _NUMBERS:
        raise CommandError(ErrorCode.FAILED_TO_PARSE, "w has to be a number, string, or object")
    if str(w).lower().endswith("nan"):
        raise CommandError(ErrorCode.FAILED_TO_PARSE, "w cannot be NaN")
    number = whole(w)
    if not 0 <= number <= _MAX_W:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"w has to be a non-negative number and not greater than {_MAX_W}; found: {number}",
        )
    return number


# The argument `$readPreference`: the members of a replica set that may answer.


_MODES: Final = ("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest")
_LEAST_STALENESS: Final = 90
"""Seconds."""


def check_read_preference(preference: Any) -> None:
    """Refuse what is no read preference. Raises `CommandError` 2, 4, 14 or 160."""
    if not isinstance(preference, dict):
        message = f"$readPreference has incorrect type: expected object but got {type_name(preference)}"
        raise CommandError(ErrorCode.TYPE_MISMATCH, message)
    if "mode" not in preference:
        raise CommandError(ErrorCode.NO_SUCH_KEY, 'Missing expected field "mode"')
    mode = preference["mode"]
    _check_type("mode", mode, "string")
    if mode not in _MODES:
        names = ", ".join(f"'{each}'" for each in _MODES[:-1])
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"Could not parse $readPreference mode '{mode}'. Only the modes {names}, and '{_MODES[-1]}' are"
            f" supported. :: caused by :: Enumeration value '{mode}' for field 'mode' is not a valid value.",
        )
    tags = preference.get("tags", [])
    _check_type("tags", tags, "array")
    if mode == "primary" and tags not in ([], [{}]):
        raise CommandError(ErrorCode.BAD_VALUE, "Only empty tags are allowed with primary read preference")
    if "maxStalenessSeconds" in preference:
        _check_staleness(preference["maxStalenessSeconds"], mode)


def _check_type(name: str, value: Any, wanted: str) -> None:
    found = type_name(value)
    if found != wanted:
        message = f'"{name}" had the wrong type. Expected {wanted}, found {found}'
        raise CommandError(ErrorCode.TYPE_MISMATCH, message)


def _check_staleness(value: Any, mode: str) -> None:
    if type_name(value) not in ("int", "long", "double", "decimal"):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f'Expected field "maxStalenessSeconds" to have numeric type, but found {type_name(value)}',
        )
    seconds = whole(value)
    if seconds < 0:
        raise CommandError(ErrorCode.BAD_VALUE, "maxStalenessSeconds must be a non-negative integer")
    if 0 < seconds < _LEAST_STALENESS:
        message = f"maxStalenessSeconds value can not be less than {_LEAST_STALENESS}"
        raise CommandError(ErrorCode.MAX_STALENESS_OUT_OF_RANGE, message)
    if seconds and mode == "primary":
        message = "maxStalenessSeconds can not be set for the primary mode"
        raise CommandError(ErrorCode.BAD_VALUE, message)
