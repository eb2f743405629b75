"""The verdict on a schedule: what its run came to, as plain values that travel between processes.

A light module: the process that prints verdicts need not import what is run (`harness.sim.swarm.judging`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleVerdict:
    """What a schedule came to."""

    text: str
    """The schedule."""
    ok: int = 0
    failed: int = 0
    unknown: int = 0
    seconds: float = 0.0
    """Virtual seconds."""
    trace: str = ""
    """A hash of all operations and requests; the same schedule gives the same one."""
    kinds: tuple[str, ...] = ()
    """The kinds of fault that took place."""
    violations: tuple[tuple[str, str], ...] = ()
    """The checker and the text of each."""

    @property
    def operations(self) -> int:
        """The number of operations."""
        return self.ok + self.failed + self.unknown

    @property
    def passed(self) -> bool:
        """Whether no checker found anything."""
        return not self.violations
