"""What a server's journal tells of the attempts of a driver that it turned away unread."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.deployment.cluster import Cluster

ALMOST = 0.99
"""What is left of a wait by a loop's resolution and by two clocks."""


def attempts(cluster: Cluster) -> list[tuple[float, str | int]]:
    """Return when requests came behind the first answered `ping` on its connection, and what they got.

    What is rejected has not been read: the journal knows its connection, not its name.
    """
    finished = [(each.at, each.event._asdict()) for each in cluster.journal.of_kind("commandFinished")]
    pinged = next(number for number, (_, event) in enumerate(finished) if event["name"] == "ping")
    connection = finished[pinged][1]["connection"]
    later = finished[pinged + 1 :]
    return [(at, event["outcome"]) for at, event in later if event["connection"] == connection]


def gaps(made: Sequence[tuple[float, str | int]]) -> list[float]:
    """Return the seconds between each attempt and the next."""
    return [later - earlier for (earlier, _), (later, _) in pairwise(made)]
