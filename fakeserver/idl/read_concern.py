"""The argument `readConcern`: levels, times, and the refusal of a level (`Read and Write Concern`)."""

from __future__ import annotations

from typing import Final

from fakeserver.errors import CommandError
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
