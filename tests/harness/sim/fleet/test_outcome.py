"""What is read from an outcome's windows."""

from __future__ import annotations

import math
from typing import Any

import pytest

from harness.sim.fleet.outcome import COLUMNS, FleetOutcome


def outcome(**columns: list[float]) -> FleetOutcome:
    """Return ten windows of a second, of which 4 to 6 were an outage."""
    windows = 10
    zeros: dict[str, Any] = {name: [0.0] * windows for name in COLUMNS}
    zeros["time"] = [float(number + 1) for number in range(windows)]
    return FleetOutcome(columns={**zeros, **columns}, latencies=(), window=1.0, outage=(4.0, 6.0))


@pytest.mark.parametrize(
    ("succeeded", "seconds"),
    [
        # Two under way before, 22 when the server runs again: caught up are they when at most four are left.
        ([8, 10, 10, 10, 0, 0, 10, 25, 14, 10], 3.0),
        ([8, 10, 10, 10, 0, 0, 29, 10, 10, 10], 1.0),
        ([8, 10, 10, 10, 0, 0, 10, 10, 10, 10], math.inf),
    ],
)
def test_clients_have_caught_up_when_nine_tenths_of_what_piled_up_have_gone(
    succeeded: list[float], seconds: float
) -> None:
    assert outcome(offered=[10.0] * 10, ok=succeeded).caught_up_after(6.0) == seconds


def test_an_operation_that_failed_is_not_waited_for() -> None:
    failed = [0.0] * 6 + [20.0] + [0.0] * 3
    found = outcome(offered=[10.0] * 10, ok=[8, 10, 10, 10, 0, 0, 10, 10, 10, 10], failed=failed)
    assert found.caught_up_after(6.0) == 1.0
