"""The deployments of a run, each by a name: a topology, whether it has access control, and if it was given.

`replicaset` and `single+auth` are started by the run itself, `replicaset@4.2` as servers of that release;
`replicaset+auth+uri` is one that a user has given by its connection string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.profile import DEFAULT_PROFILE
from harness.deployment import SERVED
from harness.unified.deployment import Topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.unified.deployment import Deployment

_WITH_AUTH: Final = "+auth"
_BY_URI: Final = "+uri"
_PROFILE: Final = "@"
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


def targets(names: Iterable[str], *, auth: bool = False, profiles: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the deployments behind names, each once, in each of the version profiles.

    With `auth`, all have access control. Without `profiles`, and in the default one, a name is all there is.
    """
    single = [target for name in names for target in GROUPS.get(name, (name,))]
    secured = [topology_of(target) + _WITH_AUTH if auth else target for target in single]
    return tuple(
        dict.fromkeys(
            target if profile == DEFAULT_PROFILE else f"{target}{_PROFILE}{profile}"
            for profile in profiles or (DEFAULT_PROFILE,)
            for target in secured
        )
    )


def topology_of(target: str) -> Topology:
    """Return the topology of a deployment."""
    return Topology(without_profile(target).partition("+")[0])


def without_profile(target: str) -> str:
    """Return a deployment's name without its version profile."""
    return target.partition(_PROFILE)[0]


def profile_of(target: str) -> str:
    """Return the version profile of a deployment that we start."""
    return target.partition(_PROFILE)[2] or DEFAULT_PROFILE


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
    plain = without_profile(target)
    return frozenset({target, plain, plain.removesuffix(_BY_URI), plain.partition("+")[0]})
