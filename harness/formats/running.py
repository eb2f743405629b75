"""Runs cases of the formats that drive parts of a driver, and says how they ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driver.errors import DriverError
from harness.adapters.base import OperationFailed, UnsupportedOperation
from harness.formats.case import Notes
from harness.unified.errors import ScenarioError
from harness.unified.outcome import CaseFailedError, CaseOutcome, CaseSkippedError, Status

if TYPE_CHECKING:
    from harness.adapters.base import DriverAdapter
    from harness.formats.case import FormatCase
    from harness.unified.account import Account
    from harness.unified.deployment import Deployment

_ENDS = (
    *(CaseFailedError, CaseSkippedError, ScenarioError),
    *(DriverError, OperationFailed, UnsupportedOperation),
)


def run_alone(case: FormatCase, account: Account) -> CaseOutcome:
    """Run a case that needs no server; `account` keeps what was done and seen."""
    assert case.runs.alone is not None
    notes = Notes(account)
    try:
        case.runs.alone(notes)
    except _ENDS as error:
        return _ended(case, error, notes)
    return CaseOutcome(Status.PASSED, **_seen(notes))


async def run_on_server(
    case: FormatCase, deployment: Deployment, adapter: DriverAdapter, account: Account
) -> CaseOutcome:
    """Run a case on a deployment with a driver, which is left open; `account` as above."""
    assert case.runs.on_server is not None
    notes = Notes(account)
    try:
        await case.runs.on_server(deployment, adapter, notes)
    except _ENDS as error:
        return _ended(case, error, notes)
    return CaseOutcome(Status.PASSED, **_seen(notes))


def _seen(notes: Notes) -> dict[str, Any]:
    return {"events": notes.account.heard(), "comparisons": tuple(notes.comparisons)}


def _ended(case: FormatCase, error: Exception, notes: Notes) -> CaseOutcome:
    seen = _seen(notes)
    match error:
        case CaseSkippedError() | UnsupportedOperation():
            return CaseOutcome(Status.SKIPPED, str(error), location=case.location)
        case CaseFailedError():
            place = error.location or case.location
            return CaseOutcome(Status.FAILED, error.reason, error.mismatch, place, **seen)
        case ScenarioError():
            hint = f" ({error.fix})" if error.fix else ""
            place = error.location or case.location
            return CaseOutcome(Status.ERROR, f"{error.message}{hint}", location=place, **seen)
        case _:
            why = f"the driver raised {type(error).__name__}: {error}"
            return CaseOutcome(Status.FAILED, why, location=case.location, **seen)
