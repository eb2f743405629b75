"""The format of Connection Monitoring and Pooling's tests: on a state machine, and on the pool of any driver.

On the reference driver's state machine (`on_state`) threads are waiters, and waiting advances a number: a
unit test needs neither server nor clock. On a deployment (`on_pool`) an adapter drives its driver's pool over
a network, and threads are calls that wait: integration tests, and unit tests a second time.

`model` has the case and the judgement, which both share: operations are played, and then events and the error
of the main thread are compared. So a runner only plays. The state machine is exact and quick, and shows the
rules without any luck of timing; the pool of a driver shows that its shell keeps them. A case that fails on
the pool alone is a matter of the shell, or of timing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.formats.case import Runs
from harness.formats.cmap.model import CmapCase
from harness.formats.cmap.on_pool import run_on_deployment
from harness.formats.cmap.on_state import run_on_state

if TYPE_CHECKING:
    from harness.adapters.base import DriverAdapter
    from harness.adapters.deployment import Deployment
    from harness.formats.case import Notes
    from mongowire.documents.marks import Marked

__all__ = ["runs"]


def runs(document: Marked) -> Runs:
    """Return what runs a case.

    The background runs of the reference driver's pool cannot be switched off: with that driver, a case that
    asks for it is for the state machine alone.
    """
    case = CmapCase.of(document)

    def alone(notes: Notes) -> None:
        run_on_state(case, notes)

    async def on_server(deployment: Deployment, adapter: DriverAdapter, notes: Notes) -> None:
        await run_on_deployment(case, deployment, adapter, notes)

    return Runs(
        alone if case.is_unit else None,
        on_server,
        reference_alone=not case.in_background,
        seconds=case.seconds,
    )
