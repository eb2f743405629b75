"""Consequences of an application's error for its server (SDAM: Error Handling).

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
"""Servers up to 4.0 close all connections when they step down; newer ones keep them."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """What to do: mark the server Unknown, clear its pool, cancel the check under way or request one."""

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
    # A reply without a code is known by its words; with one, the words do not count.
    return "not master" in error.message or "node is recovering" in error.message


def is_stale(error: DriverError, server: ServerDescription, *, generation: int, current: int) -> bool:
    """Return whether the error says nothing new: of an older pool, or of an older topology version.

    SDAM: isStaleError.
    """
    # The pool was cleared since, by an error of the same outage: once is enough.
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
    if is_state_change(error):
        assert isinstance(error, ServerError)
        # A server that shuts down closes its connections; one that only steps down goes on with them, and its
        # pool is worth keeping. The check finds out who is primary now.
        # A server that is Unknown has no wire version: the error that made it so has cleared its pool, if it
        # was due. Nor has what is behind a load balancer, where no release before 4.2 is.
        is_old = 0 < server.max_wire_version <= PRE_42_WIRE_VERSION
        clears = error.code in SHUTTING_DOWN or is_old
        return Reaction(mark_unknown=True, clear_pool=clears, request_check=True)
    if error.authenticating:
        # What one connection may not do no other one may: all of them authenticate alike.
        return Reaction(mark_unknown=True, clear_pool=True)
    return NOTHING


def _network_reaction(error: NetworkError, *, load_balanced: bool) -> Reaction:
    if error.establishing:
        # To clear the pool would have its waiters retry elsewhere, and a check ask for one more connection:
        # both make an overload worse.
        if is_overload(error):
            return NOTHING
        return Reaction(mark_unknown=True, clear_pool=True, cancel_check=True)
    if isinstance(error, NetworkTimeoutError):
        # A command that is slow says nothing of its server, which other commands may well reach.
        return NOTHING
    if load_balanced:
        # The balancer itself is never Unknown: nobody would check it. The service's connections are stale.
        return Reaction(clear_pool=True)
    # The monitor's own connection is probably lost as well: a check that waits on it is cut short.
    return Reaction(mark_unknown=True, clear_pool=True, cancel_check=True)
