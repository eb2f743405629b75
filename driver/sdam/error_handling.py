"""What an error of an application's operation tells about its server (SDAM: Error Handling).

Pure: the caller applies the `Reaction`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from driver.errors import DriverError, NetworkError, NetworkTimeoutError, ServerError, is_overload
from driver.sdam.description import TopologyVersion, error_topology_version, is_fresher
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from driver.sdam.description import ServerDescription

NOT_WRITABLE_PRIMARY = frozenset(
    {
        ErrorCode.NOT_WRITABLE_PRIMARY,
        ErrorCode.NOT_PRIMARY_NO_SECONDARY_OK,
        ErrorCode.LEGACY_NOT_PRIMARY,
    }
)
NODE_IS_RECOVERING = frozenset(
    {
        ErrorCode.INTERRUPTED_AT_SHUTDOWN,
        ErrorCode.INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
        ErrorCode.NOT_PRIMARY_OR_SECONDARY,
        ErrorCode.PRIMARY_STEPPED_DOWN,
        ErrorCode.SHUTDOWN_IN_PROGRESS,
    }
)
SHUTTING_DOWN = frozenset({ErrorCode.INTERRUPTED_AT_SHUTDOWN, ErrorCode.SHUTDOWN_IN_PROGRESS})
STATE_CHANGES = NOT_WRITABLE_PRIMARY | NODE_IS_RECOVERING
PRE_42_WIRE_VERSION = 7


@dataclass(frozen=True, slots=True)
class Reaction:
    """What to do: mark the server Unknown, clear its pool, cancel or request a check."""

    mark_unknown: bool = False
    clear_pool: bool = False
    request_check: bool = False
    cancel_check: bool = False


NOTHING = Reaction()


def is_state_change(error: DriverError) -> bool:
    """Return whether the error is "not writable primary" or "node is recovering".

    The code of a write concern error counts; the codes of write errors never do.
    """
    if not isinstance(error, ServerError):
        return False
    if error.code is not None:
        return error.code in STATE_CHANGES
    return "not master" in error.message or "node is recovering" in error.message


def is_stale(error: DriverError, server: ServerDescription, *, generation: int, current: int) -> bool:
    """Return whether the error says nothing new: of an older pool, or of an older topology version.

    SDAM: isStaleError.
    """
    if generation < current:
        return True
    version: TopologyVersion | None = error_topology_version(error)
    return not is_fresher(version, server.topology_version)


def reaction(error: DriverError, server: ServerDescription, *, load_balanced: bool = False) -> Reaction:
    """Return what an error that is not stale asks for.

    An overload error while establishing asks for nothing: the server is there, and busy.
    """
    if isinstance(error, NetworkError):
        return _network_reaction(error, load_balanced=load_balanced)
    if error.authenticating and not is_state_change(error):
        return Reaction(mark_unknown=True, clear_pool=True)
    if is_state_change(error):
        assert isinstance(error, ServerError)
        return _state_change_reaction(error, server)
    return NOTHING


def _network_reaction(error: NetworkError, *, load_balanced: bool) -> Reaction:
    if error.establishing:
        if is_overload(error):
            return NOTHING
        return Reaction(mark_unknown=True, clear_pool=True, cancel_check=True)
    if isinstance(error, NetworkTimeoutError):
        return NOTHING
    if load_balanced:
        return Reaction(clear_pool=True)
    return Reaction(mark_unknown=True, clear_pool=True, cancel_check=True)


def _state_change_reaction(error: ServerError, server: ServerDescription) -> Reaction:
    clears = error.code in SHUTTING_DOWN or server.max_wire_version <= PRE_42_WIRE_VERSION
    return Reaction(mark_unknown=True, clear_pool=clears, request_check=True)
