"""Faults planted into driver and server, to see that each checker notices one.

A checker that has never found anything may be right, or asleep. Each fault here is of the kind that its
checker is there for; a swarm whose driver or server has it is expected to fail with that checker's name.
"""

from __future__ import annotations

from typing import Final

from planted import in_driver, in_server
from planted.fault import Planted

__all__ = ["PLANTED", "Planted"]

PLANTED: Final = {planted.name: planted for planted in (*in_driver.FAULTS, *in_server.FAULTS)}
"""All planted faults by name."""
