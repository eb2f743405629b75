"""The arguments `readConcern` and `writeConcern` of commands (`Read and Write Concern`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from fakeserver.errors import CommandError
from fakeserver.idl.fields import type_name, whole
from mongowire.codes import ErrorCode

LEVELS: Final = ("local", "majority", "linearizable", "available", "snapshot")
TIMES: Final = ("afterClusterTime", "atClusterTime")


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

    @classmethod
    def parse(cls, document: Any) -> WriteConcern:
        """Read a `writeConcern`. Raises `CommandError` 9 FailedToParse, 14 or 2."""
        if not isinstance(document, dict):
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f'"writeConcern" had the wrong type. Expected object, found {type_name(document)}',
            )
        w = _parse_w(document.get("w", 1))
        timeout_ms = document.get("wtimeout", document.get("wtimeoutMS", 0))
        timeout_ms = whole(timeout_ms) if type_name(timeout_ms) in _NUMBERS else 0
        timeout = timeout_ms / 1000 if timeout_ms > 0 else math.inf
        return cls(w, timeout, timeout_ms)


def _parse_w(w: Any) -> int | str | dict[str, Any]:
    if isinstance(w, str):
        return w
    if isinstance(w, dict):
        if not w:
            raise CommandError(ErrorCode.FAILED_TO_PARSE, "tagged write concern requires tags")
        return w
    if type_name(w) not in _NUMBERS:
        raise CommandError(ErrorCode.FAILED_TO_PARSE, "w has to be a number, string, or object")
    number = whole(w)
    if not 0 <= number <= _MAX_W:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"w has to be a non-negative number and not greater than {_MAX_W}; found: {number}",
        )
    return number
