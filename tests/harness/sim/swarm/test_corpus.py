"""Schedules that once failed pass, and go on to."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.sim.swarm.judging import judge
from harness.sim.swarm.schedule import parse

CORPUS = Path(__file__).with_name("corpus.txt").read_text(encoding="utf-8").splitlines()
SCHEDULES = [line for line in CORPUS if line and not line.startswith("#")]


@pytest.mark.slow
@pytest.mark.parametrize("text", SCHEDULES, ids=lambda text: text.partition(" ")[0])
def test_a_schedule_that_once_failed_passes(text: str) -> None:
    assert judge(parse(text)).violations == ()
