"""The names of deployments: topology, access control, release, and whether servers by URI are meant.

`replicaset` and `single+auth` are fake servers, `replicaset@4.2` fake servers of that release;
`replicaset+auth+uri` are servers by URI, with access control.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.deployment.spec import topology_name
from fakeserver.profile import DEFAULT_PROFILE
from harness.adapters.deployment import Topology
from harness.deployments.embedded import SERVED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.adapters.deployment import Deployment


_WITH_AUTH: Final = "+auth"
_BY_URI: Final = "+uri"
_PROFILE: Final = "@"
_PLAIN: Final = tuple(str(topology) for topology in SERVED)

THOROUGH: Final = "thorough"
GROUPS: Final = {
    "all": _PLAIN,
    "matrix": ("single+auth", "replicaset", "sharded", "load-balanced+auth"),
    THOROUGH: (
        *("replicaset", "sharded", "load-balanced", "single"),
        *("replicaset+auth", "single+auth", "load-balanced+auth"),
        *("replicaset@4.2", "sharded@4.2", "replicaset@9.0"),
    ),
}
"""Names for several deployments. On those of `matrix` every public case applies that applies anywhere, on
those of `thorough` every bundled one too: releases before 4.4 and from 9.0 on have cases of their own."""

NO_SERVER: Final = "no-server"
"""The deployment of cases that need no server; it cannot be asked for."""

NAMES: Final = (*_PLAIN, *(name + _WITH_AUTH for name in _PLAIN), *GROUPS)
"""All names that a user may ask for."""


def our_spelling(name: str) -> str:
    """Return a name with our spelling of its topology: `replicaset+auth` for `replica_set+auth`."""
    end = next((index for index, character in enumerate(name) if character in "+@"), len(name))
    return topology_name(name[:end]) + name[end:]


def targets(names: Iterable[str], *, auth: bool = False, profiles: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the deployments behind names, each once, in each of the version profiles.

    With `auth`, all have access control. Without `profiles`, and in the default one, a name is all there is;
    what a group has in a profile of its own stays in that.
    """
    single = [target for name in names for target in GROUPS.get(name, (name,))]
    if auth:
        parted = (target.partition(_PROFILE) for target in single)
        single = [f"{topology_of(plain)}{_WITH_AUTH}{at}{profile}" for plain, at, profile in parted]
    return tuple(
        dict.fromkeys(
            target if profile == DEFAULT_PROFILE or _PROFILE in target else f"{target}{_PROFILE}{profile}"
            for profile in profiles or (DEFAULT_PROFILE,)
            for target in single
        )
    )


def topology_of(target: str) -> Topology:
    """Return the topology of a deployment."""
    return Topology(without_profile(target).partition("+")[0])


def without_profile(target: str) -> str:
    """Return a deployment's name without its version profile."""
    return target.partition(_PROFILE)[0]


def profile_of(target: str) -> str:
    """Return the version profile of a fake deployment."""
    return target.partition(_PROFILE)[2] or DEFAULT_PROFILE


def has_auth(target: str) -> bool:
    """Return whether a deployment has access control."""
    return _WITH_AUTH in target


def name_of(deployment: Deployment) -> str:
    """Return the name of a deployment by URI."""
    return f"{deployment.topology}{_WITH_AUTH if deployment.auth else ''}{_BY_URI}"


def is_by_uri(target: str) -> bool:
    """Return whether a deployment is one of servers by URI, which keep no journal."""
    return target.endswith(_BY_URI)


def names_of(target: str) -> frozenset[str]:
    """Return all names by which an expectations file may speak of a deployment."""
    plain = without_profile(target)
    return frozenset({target, plain, plain.removesuffix(_BY_URI), plain.partition("+")[0]})


#
# A run drops collections. The environment alone therefore never chooses servers: the user has to write `env`.


"""The word that stands for the connection strings of the environment."""
