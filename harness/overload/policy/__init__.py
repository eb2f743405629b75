"""A controller beside a server: it reads how long requests queue, and sets how many a second may come in.

It knows the server by the wire alone: `serverStatus` in, `setParameter` out.

`policies.py` is pure: a `Reading` of a status, a `Sample` of two readings, and the policies that make
`Settings` of it. `engine.py` is the shell: `Governor` reads by the driver at each interval, asks the policy,
and sets. It tells every `Decision` to a listener; `advice.py` is one, for `--policy observe`, which sets
nothing and says at the end what should be set. The same policies govern a simulated fleet
(`harness.overload.claims.SimulatedGovernor`).
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
