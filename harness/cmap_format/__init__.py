"""The format of Connection Monitoring and Pooling's tests: on the pure state machine, and on a real pool.

On the state machine (`on_state`) threads are waiters, and waiting advances a number: a unit test needs
neither server nor clock. On a deployment (`on_pool`) the shell is driven over a network, with its threads as
tasks: integration tests, and unit tests a second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.cmap_format.model import CmapCase
from harness.cmap_format.on_pool import run_on_deployment
from harness.cmap_format.on_state import run_on_state
from harness.formats.case import Runs

if TYPE_CHECKING:
    from harness.formats.case import Notes
    from harness.unified.deployment import Deployment
    from harness.unified.marks import Marked

__all__ = ["runs"]


def runs(document: Marked) -> Runs:
    """Return what runs a case.

    The background runs of the pool itself cannot be switched off: a case that asks for that is for the state
    machine alone.
    """
    case = CmapCase.of(document)

    def alone(notes: Notes) -> None:
        run_on_state(case, notes)

    async def on_server(deployment: Deployment, edition: str, notes: Notes) -> None:
        await run_on_deployment(case, deployment, edition, notes)

    return Runs(
        alone if case.is_unit else None, on_server if case.in_background else None, seconds=case.seconds
    )
