"""Facts about servers that run no more: enough to say that a case is skipped on others like them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.unified.deployment import Deployment, Topology

_THERE: Final = object()


@dataclass(frozen=True, slots=True)
class KnownServers:
    """The facts of a deployment that decide whether a case applies (`harness.unified.requirements`).

    They hold for every deployment of the same topology, release and parameters. The servers themselves are
    not kept: in the place of their network and their record stands whether they have one.
    """

    topology: Topology
    server_version: tuple[int, ...]
    auth: bool
    parameters: Mapping[str, Any]
    network: object | None
    wire_record: object | None

    @classmethod
    def of(cls, deployment: Deployment) -> Self:
        """Return the facts of running servers."""
        return cls(
            topology=deployment.topology,
            server_version=deployment.server_version,
            auth=deployment.auth,
            parameters=deployment.parameters,
            network=None if deployment.network is None else _THERE,
            wire_record=None if deployment.wire_record is None else _THERE,
        )
