"""Generation numbers: of a pool and, behind a load balancer, of each service in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bson import ObjectId

    from driver.cmap.member import PoolMember


@dataclass(slots=True)
class Service:
    """The generation of a service and the number of its connections."""

    generation: int = 0
    connections: int = 0


@dataclass(slots=True)
class Generations:
    """CMAP: Load Balancer Mode: from serviceId to generation and connection count, beside the pool's own."""

    current: int = 0
    services: dict[ObjectId, Service] = field(default_factory=dict)

    def of(self, service_id: ObjectId | None) -> int:
        """Return the generation that a connection must have to be fresh: the pool's, or that of a service."""
        if service_id is None:
            return self.current
        # A service without connections is not known, and its next connection begins at 0 again: there is no
        # older one left that could be taken for fresh.
        service = self.services.get(service_id)
        return service.generation if service else 0

    def outdate(self, member: PoolMember) -> bool:
        """Return whether a connection is stale."""
        return member.generation != self.of(member.service_id)

    def advance(self, service_id: ObjectId | None = None) -> None:
        """Make every connection stale, or every connection of one service."""
        if service_id is None:
            self.current += 1
        elif service_id in self.services:
            self.services[service_id].generation += 1

    def join(self, service_id: ObjectId) -> int:
        """Count a connection of a service, and return its generation."""
        service = self.services.setdefault(service_id, Service())
        service.connections += 1
        return service.generation

    def forget(self, service_id: ObjectId | None) -> None:
        """Count a connection no more: a service without connections is removed."""
        if service_id is None or service_id not in self.services:
            return
        service = self.services[service_id]
        service.connections -= 1
        if service.connections == 0:
            del self.services[service_id]
