"""The outcome of a case: a value that reports, exit codes and expectations files are made of.

The exceptions are how a part of a case ends it; they are turned into a `CaseOutcome` in one place
(`runner._judged`) and never leave the runner. FAILED is the driver's, ERROR the scenario's or the harness's:
exit codes differ, and only FAILED is worth a second run on a busy machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.adapters.base import ErrorReport, Event
    from harness.unified.matching.comparison import Comparison
    from harness.unified.matching.matcher import Mismatch
    from harness.unified.server_side.comparison import AttemptComparison, SectionComparison
    from mongowire.documents.marks import Location


class Status(StrEnum):
    """The ends of a case."""

    PASSED = "passed"
    FAILED = "failed"
    """The driver did something else than the scenario expects."""
    SKIPPED = "skipped"
    ERROR = "error"
    """The scenario cannot be run: a wrong name, an unknown operation or argument."""


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """The end of a case, and all that explains it.

    `reason` is one sentence, empty when the case passed. `location` is the line of the operation or event
    concerned. `events` holds what each client entity observed, oldest first; `error` what the driver said.
    `comparisons` align expected with actual events of clients, and attempts as servers saw them.
    `entities` are those that are values: saved results, stored events, what a loop has counted.
    """

    status: Status
    reason: str = ""
    mismatch: Mismatch | None = None
    location: Location | None = None
    error: ErrorReport | None = None
    events: Mapping[str, tuple[Event, ...]] | None = None
    comparisons: tuple[Comparison | AttemptComparison | SectionComparison, ...] = ()
    entities: Mapping[str, Any] | None = None


class CaseFailedError(Exception):
    """The driver did something else than expected. Ends a case; the runner makes a `CaseOutcome` of it."""

    def __init__(
        self,
        reason: str,
        *,
        location: Location | None = None,
        mismatch: Mismatch | None = None,
        error: ErrorReport | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.location = location
        self.mismatch = mismatch
        self.error = error


class CaseSkippedError(Exception):
    """The driver lacks what the case turned out to need. Ends a case; the message is the reason."""
