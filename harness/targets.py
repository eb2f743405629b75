"""The deployments of a run, each by a name: a topology, whether it has access control, and if it was given.

`replicaset` and `single+auth` are started by the run itself; `replicaset+auth+uri` is one that a user has
given by its connection string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.deployment import SERVED
from harness.unified.deployment import Topology

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.unified.deployment import Deployment

_WITH_AUTH: Final = "+auth"
_BY_URI: Final = "+uri"
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
    return Topology(target.partition("+")[0])


def has_auth(target: str) -> bool:
    """Return whether a deployment has access control."""
    return _WITH_AUTH in target


def name_of(deployment: Deployment) -> str:
    """Return the name of a deployment that a user has given."""
    return f"{deployment.topology}{_WITH_AUTH if deployment.auth else ''}{_BY_URI}"


def is_by_uri(target: str) -> bool:
    """Return whether a user has given a deployment: its servers keep no journal for us."""
    return target.endswith(_BY_URI)


def names_of(target: str) -> frozenset[str]:
    """Return all names by which an expectations file may speak of a deployment."""
    return frozenset({target, target.removesuffix(_BY_URI), target.partition("+")[0]})
