"""The deployments of a run, each by a name of one word: a topology, or one with access control."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.deployment import SERVED
from harness.unified.deployment import Topology

if TYPE_CHECKING:
    from collections.abc import Iterable

_WITH_AUTH: Final = "+auth"
_PLAIN: Final = tuple(str(topology) for topology in SERVED)

GROUPS: Final = {
    "all": _PLAIN,
    "matrix": ("single+auth", "replicaset", "sharded", "load-balanced+auth"),
}
"""Names for several deployments. On those of `matrix` every public case applies that applies anywhere."""

NO_SERVER: Final = "no-server"
"""Where cases run that need none; nobody asks for it."""

NAMES: Final = (*_PLAIN, *(name + _WITH_AUTH for name in _PLAIN), *GROUPS)
"""All that a user may ask for."""


def targets(names: Iterable[str], *, auth: bool = False) -> tuple[str, ...]:
    """Return the deployments behind names, each once; with `auth`, all have access control."""
    single = (target for name in names for target in GROUPS.get(name, (name,)))
    return tuple(dict.fromkeys(_secured(target) if auth else target for target in single))


def _secured(target: str) -> str:
    return topology_of(target) + _WITH_AUTH


def topology_of(target: str) -> Topology:
    """Return the topology of a deployment."""
    return Topology(target.removesuffix(_WITH_AUTH))


def has_auth(target: str) -> bool:
    """Return whether a deployment has access control."""
    return target.endswith(_WITH_AUTH)
