"""Schedules that are run: what is promised holds, the same seed is the same run, and a failure is shrunk."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from sizes import size

from harness.sim.swarm import judging
from harness.sim.swarm.checkers import Violation
from harness.sim.swarm.drawing import draw
from harness.sim.swarm.judging import judge, judged, shrink, trace_of, verdict_of
from harness.sim.swarm.run import perform
from harness.sim.swarm.schedule import FAULTS, parse
from harness.sim.swarm.timeline import moments_of, page_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import RunHistory

SEEDS = size("seeds")
QUIET = "seed=1 operations=6 gap=20 work=insert,increment,swap"
SWAPS = QUIET.replace("insert,increment,", "increment,")
TRACE = """
from harness.sim.swarm.drawing import draw
from harness.sim.swarm.judging import judge
print(*(judge(draw(seed)).trace for seed in (3, 5)))
"""


@pytest.mark.slow
def test_what_is_promised_holds_under_drawn_faults() -> None:
    verdicts = list(judged(range(SEEDS), jobs=1))
    assert [(each.text, each.violations) for each in verdicts if not each.passed] == []
    assert all(each.operations >= 50 for each in verdicts)
    assert sum(each.failed for each in verdicts) > 0


@pytest.mark.slow
def test_the_same_seed_is_the_same_run_in_every_process() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "TZ": "Asia/Kathmandu"}
    done = subprocess.run(
        [sys.executable, "-c", TRACE], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [judge(draw(seed)).trace for seed in (3, 5)]


@pytest.mark.slow
def test_two_processes_come_to_the_same_verdicts_as_one() -> None:
    texts = [QUIET, QUIET.replace("seed=1", "seed=2")]
    assert list(judged(texts, jobs=2, chunk=1)) == list(judged(texts, jobs=1))


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULTS)
def test_every_kind_of_fault_takes_place(kind: str) -> None:
    text = {
        "latency": "latency:node0:20~heavy",
        "drop": "drop:node0:20%",
        "reset": "reset:node0:20%",
        "half-open": "half-open:node0:20%",
        "partition": "partition:node1:all",
        "restart": "restart:node1:100",
        "step-down": "step-down",
        "rollback": "rollback",
        "lag": "lag:node1:100",
        "fail-point": "fail-point:node0:close~20%",
        "requests": "requests:node0:5",
        "connections": "connections:node0:1",
        "tickets": "tickets:node0:1",
        "slow": "slow:node0:50",
        "skew": "skew:client0:-60",
        "server-skew": "server-skew:node0:3600",
        "storm": "storm:node0:20",
    }.get(kind, f"{kind}:node1")
    verdict = judge(parse(f"{QUIET} {text}@30+200"))
    assert (verdict.kinds, verdict.violations) == ((kind,), ())


def test_a_run_without_faults_serves_everything_and_leaves_nothing() -> None:
    verdict = judge(parse(QUIET))
    assert (verdict.ok, verdict.failed, verdict.unknown, verdict.violations) == (8, 0, 0, ())


def test_the_trace_depends_on_what_happened() -> None:
    one, other = perform(parse(QUIET)), perform(parse(QUIET.replace("seed=1", "seed=2")))
    assert trace_of(one.history) != trace_of(other.history)
    assert trace_of(one.history) == trace_of(perform(parse(QUIET)).history)


@pytest.fixture
def suspicious(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checker that complains of every swap while somebody was paused."""

    def violations(history: RunHistory) -> Iterator[Violation]:
        paused = any(fault.kind == "pause" for fault in history.faults)
        swaps = [operation for operation in history.operations if operation.kind == "swap"]
        return (Violation(f"swap {each.number}", checker="suspicious") for each in swaps if paused)

    monkeypatch.setattr(judging, "violations", violations)


@pytest.mark.slow
@pytest.mark.usefixtures("suspicious")
def test_a_failure_is_shrunk_to_what_it_takes() -> None:
    whole = parse(f"{SWAPS} pause:node1@30+60 lag:node2:20@10+50 skew:client0:60@20+40")
    smallest, verdict = shrink(whole, "suspicious", most=60)
    assert verdict is not None
    assert [fault.kind for fault in smallest.faults] == ["pause"]
    assert smallest.work == ("swap",)
    assert smallest.operations - smallest.first == 1


@pytest.mark.usefixtures("suspicious")
def test_a_schedule_that_does_not_fail_is_not_shrunk() -> None:
    whole = parse(QUIET)
    assert shrink(whole, "suspicious") == (whole, None)


def test_a_timeline_has_operations_and_faults_in_their_order() -> None:
    schedule = parse(f"{QUIET} pause:node1@30+60")
    run = perform(schedule)
    lines = list(text_of(run, verdict_of(schedule, run)))
    begins = next(number for number, line in enumerate(lines) if "pause begins" in line)
    ends = next(number for number, line in enumerate(lines) if "pause ends" in line)
    assert 0 < begins < ends
    assert sum("(operation " in line for line in lines) == 16
    instants = [float(line.split()[0]) for line in lines[:-1]]
    assert instants == sorted(instants)


def test_a_fault_of_a_client_stands_beside_what_the_client_does() -> None:
    moments = moments_of(perform(parse(f"{QUIET} skew:client0:60@30+60 pause:node1@30+60")))
    sides = {(each.source, each.side) for each in moments if each.kind.endswith("begins")}
    assert sides == {("client0", "client"), ("node1", "server")}


def test_the_page_of_a_timeline_is_one_file_with_a_picture_and_no_script() -> None:
    schedule = parse(f"{QUIET} pause:node1@30+60")
    run = perform(schedule)
    page = page_of(run, verdict_of(schedule, run), title="Swarm <1>")
    assert "<svg" in page
    assert "<script" not in page
    assert "Swarm &lt;1&gt;" in page
    assert "http-equiv" in page


def test_a_schedule_that_cannot_be_carried_out_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise ArithmeticError("the servers do not start")

    monkeypatch.setattr(judging, "perform", broken)
    assert judge(parse(QUIET)).violations == (("end", "ArithmeticError: the servers do not start"),)
