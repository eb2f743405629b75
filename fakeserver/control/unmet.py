"""Faults that were set up and never met: a test with such a fault proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fakeserver.deployment.cluster import Cluster


def unmet(cluster: Cluster) -> list[str]:
    """Return a text for each fault and each expectation that was never met, in the order of their setting."""
    points = [str(use) for use in cluster.fail_point_uses.never_met()]
    entries = (*cluster.rules.removed, *cluster.rules.entries)
    rules = [text for text in (entry.never_met for entry in entries) if text is not None]
    listed = cluster.faults.registry.documents(cluster.clock.now())
    faults = [f"fault {each['id']} (at: {each['at']})" for each in listed if not each["hits"]]
    return [*points, *rules, *faults]
