"""The two pools of execution control, and when they are probed."""

from __future__ import annotations

import pytest

from fakeserver.admission.execution_control import ExecutionControl, ExecutionParameters
from fakeserver.admission.throughput_probing import ProbingParameters, TicketCounts
from fakeserver.admission.ticket_sizes import FIXED

_PROBING = ProbingParameters(initial_concurrency=8)


def _control(**facts: object) -> ExecutionControl:
    parameters = ExecutionParameters(probing=_PROBING, **facts)  # type: ignore[arg-type]
    return ExecutionControl(parameters, cores=8, now=0.0)


def _run_all(control: ExecutionControl, now: float) -> None:
    tickets = [control.acquire("read", now) for _ in range(control.read.size)]
    for ticket in tickets:
        control.release("read", ticket, now)


def test_probes_keep_their_interval() -> None:
    control = _control(interval=0.1)
    sizes = []
    for now in (0.05, 0.09, 0.11, 0.15, 0.22):
        _run_all(control, now)
        sizes.append(control.read.size)
    assert sizes == [4, 4, 5, 5, 4]


@pytest.mark.spec("SAC-17")
def test_throughput_is_what_both_pools_got_back_in_the_interval() -> None:
    control = _control(interval=0.5)
    for _ in range(3):
        control.release("read", control.acquire("read", 0.1), 0.2)
    for _ in range(2):
        control.release("write", control.acquire("write", 0.1), 0.2)
    held = control.acquire("read", 0.3)
    control.catch_up(0.5)
    assert control.probing.stable_throughput == 5 / 0.5
    control.release("read", held, 0.6)


def test_fixed_pools_are_never_probed() -> None:
    control = _control(algorithm=FIXED, fixed=TicketCounts(3, 5))
    for now in (1.0, 2.0, 3.0):
        _run_all(control, now)
    assert (control.read.size, control.write.size) == (3, 5)
    assert control.stats()["monitor"]["timesIncreased"] == 0


def test_switching_to_fixed_applies_its_sizes_at_once() -> None:
    control = _control()
    control.reconfigure(ExecutionParameters(algorithm=FIXED, fixed=TicketCounts(7, 9), probing=_PROBING), 0.0)
    assert (control.read.size, control.write.size) == (7, 9)


@pytest.mark.spec("SAC-9")
def test_a_ticket_goes_back_to_the_pool_that_it_came_from() -> None:
    control = _control()
    read, write = control.acquire("read", 0.0), control.acquire("write", 0.0)
    control.release("write", write, 0.0)
    assert (control.read.out, control.write.out) == (1, 0)
    control.release("read", read, 0.0)
    assert (control.read.finished, control.write.finished) == (1, 1)
