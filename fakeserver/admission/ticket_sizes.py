"""Sizes of the ticket pools that are set by hand, which end throughput probing (`Ticket Management`).

A size that is set, under any of its names, ends the dynamic management of both pools; the other pool has its
size of the parameter, 128 by default. What a server makes of it depends on the release and the moment:

* at start, 7.0 to 8.2: any size makes `fixedConcurrentTransactions` of the algorithm, 128 too;
* at start, 9.0: a size that is not the default does, and the server warns;
* at runtime, 7.0 to 8.2: refused (20) while tickets are probed for;
* at runtime, 9.0: taken with a warning, and in force at once. Probing rests then, until the algorithm is set
  or both sizes are those of the beginning again. The algorithm is reported as it was set.

Before 7.0 there is no probing. A call that sets the algorithm to fixed as well may set sizes in any release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Protocol

    from fakeserver.profile import Profile

    class Values(Protocol):
        """The values of parameters, by their newest names."""

        def __getitem__(self, name: str, /) -> Any:
            """Return one."""
            ...


ALGORITHM: Final = "executionControlConcurrencyAdjustmentAlgorithm"
PROBING: Final = "throughputProbing"
FIXED: Final = "fixedConcurrentTransactions"
DEFAULT: Final = 128
"""The tickets of a pool whose size nobody set."""

_POOLS: Final = {
    "executionControlConcurrentReadTransactions": "read",
    "executionControlConcurrentWriteTransactions": "write",
}
READ, WRITE = _POOLS
_LEAST: Final = 5
"""The fewest tickets of a pool that a server takes outside of tests."""


def end_probing(given: Collection[str], values: Values, profile: Profile) -> bool:
    """Return whether the sizes of the start-up end probing. `given` are the names that were set."""
    if values[ALGORITHM] != PROBING or not profile.probes_for_tickets:
        return False
    if profile.resizes_probed_pools:
        return _differ(values)
    return not _POOLS.keys().isdisjoint(given)


def hold(names: Collection[str], values: Values, *, held: bool) -> bool:
    """Return whether sizes that were set at runtime hold against the algorithm, after `names` were set."""
    if ALGORITHM in names:
        return False
    return held if _POOLS.keys().isdisjoint(names) else _differ(values)


def check(names: Collection[str], before: Values, after: Values, profile: Profile) -> None:
    """Raise `CommandError` 20 for a size that is set at runtime in a release that probes for it."""
    if before[ALGORITHM] != PROBING or after[ALGORITHM] != PROBING:
        return
    if profile.resizes_probed_pools or not profile.probes_for_tickets:
        return
    for pool in _pools(names):
        raise CommandError(
            ErrorCode.ILLEGAL_OPERATION,
            f"Cannot modify concurrent {pool} transactions limit when it is being dynamically adjusted",
        )


def check_least(values: Values) -> None:
    """Raise `CommandError` 2 for a pool that is smaller than a server has outside of tests."""
    for name, pool in _POOLS.items():
        if values[name] < _LEAST and not values["enableTestCommands"]:
            raise CommandError(
                ErrorCode.BAD_VALUE,
                f"Concurrent {pool} transactions limit must be greater than or equal to {_LEAST}.",
            )


def resized_while_probing(names: Collection[str], values: Values, profile: Profile) -> Iterator[str]:
    """Yield what the server calls each limit that was set although the algorithm looks for it."""
    if profile.resizes_probed_pools and values[ALGORITHM] == PROBING:
        for pool in _pools(names):
            yield f"concurrent {pool} transactions limit"


def _pools(names: Collection[str]) -> Iterator[str]:
    return (pool for name, pool in _POOLS.items() if name in names)


def _differ(values: Values) -> bool:
    return any(values[name] != DEFAULT for name in _POOLS)
