"""Probes on time while somebody waits for a ticket, who may be served by a probe and by nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fakeserver.node import Node

_WITHOUT_PROGRESS: Final = 4
"""After so many probes that found nothing done, and served nobody, the others would be the same."""


class ProbingClock:
    """Sleeps from probe to probe of one server's execution control, as long as a probe can serve somebody.

    Everybody else finds the probes of the meantime made (`ExecutionControl.catch_up`), so a server on which
    nobody waits schedules nothing.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._runs = False

    def wake(self) -> None:
        """Begin to probe on time, if somebody waits for it."""
        if not self._runs and self._node.ready and self._node.admission.execution.awaits_probe:
            self._runs = True
            self._node.spawn(self._run())

    async def _run(self) -> None:
        node, clock = self._node, self._node.clock
        execution = node.admission.execution
        alike = 0
        try:
            while alike < _WITHOUT_PROGRESS and execution.awaits_probe and node.ready:
                before = execution.progress
                await clock.sleep_until(execution.next_probe)
                if execution is not node.admission.execution:
                    return
                execution.catch_up(clock.now())
                alike = alike + 1 if execution.progress == before else 0
        finally:
            self._runs = False
