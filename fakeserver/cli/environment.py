"""The environment variables by which driver suites find a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.deployment.spec import Topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.deployment.cluster import Cluster

_TOPOLOGIES: Final[Mapping[Topology, str]] = {
    Topology.SINGLE: "server",
    Topology.REPLICA_SET: "replica_set",
    Topology.SHARDED: "sharded_cluster",
    Topology.LOAD_BALANCED: "sharded_cluster",
}


def variables(cluster: Cluster) -> dict[str, str]:
    """Return the variables by name: those of the drivers' evergreen tools, and of single suites."""
    spec = cluster.spec
    first = (cluster.balancers or cluster.nodes)[0].address
    host, _, port = first.rpartition(":")
    found = {
        "MONGODB_URI": cluster.uri,
        "TOPOLOGY": _TOPOLOGIES[spec.topology],
        "MONGODB_VERSION": spec.profile,
        "AUTH": "auth" if spec.auth else "noauth",
        "SSL": "nossl" if spec.tls is None else "ssl",
        "DB_IP": host.strip("[]"),
        "DB_PORT": port,
    }
    if cluster.balancers:
        found |= {"LOAD_BALANCER": "true", "TEST_LOAD_BALANCER": "1"}
    if spec.is_sharded:
        found |= {"SINGLE_MONGOS_LB_URI": cluster.uri_single, "MULTI_MONGOS_LB_URI": cluster.uri}
        found |= {"MONGODB_URI_SINGLE": cluster.uri_single, "MONGODB_URI_MULTI": cluster.uri}
    user = next((each for each in spec.users if each.password is not None), None)
    if user is not None and user.password is not None:
        found |= {"DB_USER": user.name, "DB_PASSWORD": user.password}
    if spec.tls is not None and spec.tls.ca_file:
        found["CA_PEM"] = spec.tls.ca_file
    return found
