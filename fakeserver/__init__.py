"""A fake MongoDB deployment over the real wire protocol.

async with fakeserver.start(ClusterSpec.replica_set(3)) as cluster:
    client = AsyncMongoClient(cluster.uri)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.access import UserSpec
from fakeserver.assembly import Starting, start
from fakeserver.deployment.spec import ClusterSpec, MemberSpec, TlsSpec, Topology
from mongowire.package import face

if TYPE_CHECKING:
    from fakeserver.assembly.background import BackgroundCluster
    from fakeserver.control.scenario.building import load_scenario

    __version__: str

__all__ = [
    "BackgroundCluster",
    "ClusterSpec",
    "MemberSpec",
    "Starting",
    "TlsSpec",
    "Topology",
    "UserSpec",
    "load_scenario",
    "start",
]

_AT_FIRST_USE: Final = {
    "BackgroundCluster": "fakeserver.assembly.background",
    "load_scenario": "fakeserver.control.scenario.building",
}
"""The modules that are imported when they are asked for: they bring asyncio with them, and YAML."""

__getattr__, __dir__ = face(__name__, __all__, _AT_FIRST_USE)
