"""A controller beside a server: it reads how long requests queue, and sets how many a second may come in.

It knows the server by the wire alone: `serverStatus` in, `setParameter` out.
"""

from __future__ import annotations

from harness.overload.policy.engine import Decision, Governor
from harness.overload.policy.policies import (
    POLICIES,
    Aimd,
    FollowThroughput,
    Policy,
    Reading,
    Sample,
    Settings,
)

__all__ = [
    "POLICIES",
    "Aimd",
    "Decision",
    "FollowThroughput",
    "Governor",
    "Policy",
    "Reading",
    "Sample",
    "Settings",
]
