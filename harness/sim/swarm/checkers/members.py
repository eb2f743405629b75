"""All members end with the same documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.sim.swarm.checkers.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import RunHistory


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield each value in which a member differs from the first one."""
    members = iter(history.ending.documents.items())
    first, documents = next(members, ("", {}))
    for member, others in members:
        for key in sorted(documents.keys() | others.keys()):
            if documents.get(key) != others.get(key):
                text = f"{key} is {others.get(key)} on {member}, and {documents.get(key)} on {first}"
                yield Violation(text)
