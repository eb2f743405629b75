"""The `mode` of a fail point, as `configureFailPoint` has it: how often it fires."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

from fakeserver.errors import CommandError
from fakeserver.idl.fields import type_name, whole
from mongowire.codes import ErrorCode

_INT32_MAX: Final = (1 << 31) - 1
_NUMBERS: Final = frozenset({"int", "long", "double", "decimal"})


class Mode(IntEnum):
    """The frequency with which a fail point fires on matches, numbered as `getParameter` shows it."""

    OFF = 0
    ALWAYS_ON = 1
    RANDOM = 2
    TIMES = 3
    SKIP = 4


class Setting(NamedTuple):
    """A mode and its number: how many times, how many to skip, or the probability."""

    mode: Mode
    value: float = 0.0


def parse_mode(mode: Any) -> Setting:
    """Read a `mode`. Raises `CommandError` with a server's codes and texts."""
    if isinstance(mode, str):
        if mode == "off":
            return Setting(Mode.OFF)
        if mode == "alwaysOn":
            return Setting(Mode.ALWAYS_ON)
        raise CommandError(ErrorCode.BAD_VALUE, f"unknown mode: {mode}")
    if not isinstance(mode, dict):
        raise CommandError(ErrorCode.TYPE_MISMATCH, "'mode' must be a string or JSON object")
    if "times" in mode:
        return Setting(Mode.TIMES, _count("times", mode["times"]))
    if "skip" in mode:
        return Setting(Mode.SKIP, _count("skip", mode["skip"]))
    if "activationProbability" in mode:
        value = mode["activationProbability"]
        if type_name(value) not in _NUMBERS:
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                "the 'activationProbability' option to 'mode' must be a double between 0 and 1",
            )
        probability = number_of(value) or 0.0
        if not 0 <= probability <= 1:
            raise CommandError(
                ErrorCode.BAD_VALUE, f"activationProbability must be between 0.0 and 1.0; found {probability}"
            )
        return Setting(Mode.RANDOM, probability)
    raise CommandError(
        ErrorCode.BAD_VALUE,
        "'mode' must be one of 'off', 'alwaysOn', '{times:n}', '{skip:n}' or '{activationProbability:p}'",
    )


def _count(key: str, value: Any) -> int:
    if type_name(value) not in _NUMBERS:
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f'Expected field "{key}" to have numeric type, but found {type_name(value)}',
        )
    number = whole(value)
    if number < 0:
        raise CommandError(ErrorCode.BAD_VALUE, f"'{key}' option to 'mode' must be positive")
    if number > _INT32_MAX:
        raise CommandError(ErrorCode.BAD_VALUE, f"'{key}' option to 'mode' is too large")
    return number


def number_of(value: Any) -> float | None:
    """Return a BSON number, or None for another value."""
    if type_name(value) not in _NUMBERS:
        return None
    return (
        float(value)
        if isinstance(value, float)
        else whole(value)
        if isinstance(value, int)
        else float(str(value))
    )
