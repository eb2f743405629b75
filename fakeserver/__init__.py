"""A fake MongoDB deployment over the real wire protocol.

async with fakeserver.start(ClusterSpec.replica_set(3)) as cluster:
    client = AsyncMongoClient(cluster.uri)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.access.user_spec import UserSpec
from fakeserver.assembly.starting import Starting, start
from fakeserver.deployment.spec import ClusterSpec, MemberSpec, Topology

if TYPE_CHECKING:
    from fakeserver.assembly.background import BackgroundCluster
    from fakeserver.control.scenario.bundled import load_scenario
    from fakeserver.deployment.tls_spec import TlsSpec

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


def __getattr__(name: str) -> Any:
    # Imported when they are asked for: they bring asyncio with them, and ssl, and YAML.
    if name == "BackgroundCluster":
        from fakeserver.assembly.background import BackgroundCluster  # noqa: PLC0415

        return BackgroundCluster
    if name == "TlsSpec":
        from fakeserver.deployment.tls_spec import TlsSpec  # noqa: PLC0415

        return TlsSpec
    if name == "load_scenario":
        from fakeserver.control.scenario.bundled import load_scenario  # noqa: PLC0415

        return load_scenario
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
