"""A timer for the probes of execution control, for the time in which an operation waits for a ticket.

A probe may raise the number of tickets, so that nothing but the probe can serve the operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fakeserver.deployment.server import Server

_WITHOUT_PROGRESS: Final = 4
"""The number of probes without progress after which all later ones would be the same."""


class ProbingClock:
    """Sleeps from probe to probe of one server's execution control, while an operation waits for a ticket.

    Otherwise the probes that were due are made when the next operation comes (`ExecutionControl.catch_up`),
    so a server without a queue schedules nothing.
    """

    def __init__(self, node: Server) -> None:
        self._node = node
        self._runs = False

    def wake(self) -> None:
        """Begin to probe on time, if an operation waits for it."""
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
