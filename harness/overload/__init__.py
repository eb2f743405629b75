"""Offered load and goodput: clients that ask no matter what, and a server that may have too much to do."""

from __future__ import annotations

from harness.overload.open_loop import Answer, OpenLoop, RequestOutcome
from harness.overload.plan import Phase, Plan, ramp, spike, step
from harness.overload.trial import LoadWindow, Report, Trial

__all__ = [
    "Answer",
    "LoadWindow",
    "OpenLoop",
    "Phase",
    "Plan",
    "Report",
    "RequestOutcome",
    "Trial",
    "ramp",
    "spike",
    "step",
]
