"""Uses of fail points: whether what a test has set up ever happened.

A fault that never happens is a test that proves nothing. So a deployment notes each setting of a fail point,
on whichever servers it was made, and whether one of them was hit. The notes outlive a server's restart, which
forgets its fail points and their counts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_KEPT: Final = 1000
_WITHOUT_HITS: Final = frozenset(
    {
        "stopReplProducer",
        "hangInRateLimiter",
        "ingressRequestRateLimiterFractionalRateOverride",
        "flowControlTicketOverride",
    }
)
"""Points that act from the moment in which they are set, and count nothing."""


@dataclass(slots=True, eq=False)
class FailPointUse:
    """One setting of a fail point; `servers` are those on which it was made."""

    name: str
    data: Mapping[str, Any]
    servers: set[str] = field(default_factory=set)
    is_met: bool = False

    def __str__(self) -> str:
        """As a reader knows it: the name, and what it was about."""
        return f"fail point {self.name} {dict(self.data)}" if self.data else f"fail point {self.name}"


class FailPointUses:
    """The newest settings of a deployment's fail points."""

    def __init__(self) -> None:
        self._uses: deque[FailPointUse] = deque(maxlen=_KEPT)

    def begin(self, server: str, name: str, data: Mapping[str, Any]) -> FailPointUse:
        """Note a setting on a server: the use of the same setting on the others, or a new one."""
        for use in reversed(self._uses):
            if use.name == name and server not in use.servers and use.data == data:
                break
        else:
            use = FailPointUse(name, data, is_met=name in _WITHOUT_HITS)
            self._uses.append(use)
        use.servers.add(server)
        return use

    def never_met(self) -> Sequence[FailPointUse]:
        """Return the settings that no server met, oldest first."""
        return [use for use in self._uses if not use.is_met]

    def forget(self) -> None:
        """Forget all settings so far."""
        self._uses.clear()
