"""The argument `$readPreference`: the members of a replica set that may answer."""

from __future__ import annotations

from typing import Any, Final

from fakeserver.errors import CommandError
from fakeserver.idl.fields import type_name, whole
from mongowire.codes import ErrorCode

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
