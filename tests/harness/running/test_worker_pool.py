from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from harness.running.plan import Item, Settings
from harness.running.result import Result, ResultStatus
from harness.running.worker_pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from scenario_files import WriteScenario

WORKER = """
import json, os, signal, sys, threading
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("worker", os.getpid(), json.loads(sys.stdin.readline())["seed"], file=open(sys.argv[1], "a"))
for line in sys.stdin:
    item = json.loads(line)
    word = item["id"].partition("::")[2]
    if word == "dies":
        print("the last words", file=sys.stderr)
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "leaves":
        sys.exit(3)
    if word == "hangs":
        threading.Event().wait()
    result = {"id": item["id"], "status": "passed", "topology": item["topology"], "adapter": item["adapter"],
              "edition": item["edition"], "reason": f"by {os.getpid()}"}
    print(json.dumps(result), flush=True)
"""


class Run:
    """A pool of scripted workers, and what came of it."""

    def __init__(self, log: Path, *, jobs: int, watchdog: float = 30.0) -> None:
        self.log = log
        self.results: dict[int, Result] = {}
        self.two_came = asyncio.Event()
        command = (sys.executable, "-c", WORKER, str(log))
        self.pool = WorkerPool(
            Settings(seed=7),
            jobs=jobs,
            on_result=self._on_result,
            command=command,
            watchdog=watchdog,
        )

    def _on_result(self, place: int, result: Result) -> None:
        self.results[place] = result
        if len(self.results) == 2:
            self.two_came.set()

    @property
    def started(self) -> list[int]:
        """The process ids of all workers that were started."""
        if not self.log.exists():  # on a busy machine a worker may be ended before it has written a line
            return []
        return [int(line.split()[1]) for line in self.log.read_text().splitlines()]


def items(scenario: Path, *words: str) -> Mapping[int, Item]:
    return {
        place: Item(f"spec/tiny::{word}", str(scenario), 0, "reference", "2026-02-20", "replicaset")
        for place, word in enumerate(words)
    }


def alive(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False


def test_items_are_spread_over_processes_and_each_gives_its_result(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    run, work = Run(tmp_path / "log", jobs=2), items(write_scenario("x"), *"abcdefgh")
    asyncio.run(run.pool.run(work, work))
    assert {place: result.id for place, result in run.results.items()} == {p: i.id for p, i in work.items()}
    assert len(run.started) == 2
    assert not any(map(alive, run.started))


def test_the_settings_of_the_run_reach_every_worker(tmp_path: Path, write_scenario: WriteScenario) -> None:
    run, work = Run(tmp_path / "log", jobs=1), items(write_scenario("x"), "a", "b")
    asyncio.run(run.pool.run(work, work))
    assert [line.split()[2] for line in run.log.read_text().splitlines()] == ["7"]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        pytest.param("dies", f"the worker died (signal {signal.SIGKILL.value})\nthe last words", id="killed"),
        pytest.param("leaves", "the worker died (exit code 3)", id="exits"),
    ],
)
def test_a_worker_that_dies_fails_its_case_and_the_run_goes_on(
    tmp_path: Path, write_scenario: WriteScenario, word: str, reason: str
) -> None:
    run, work = Run(tmp_path / "log", jobs=1), items(write_scenario("x"), "a", word, "b")
    asyncio.run(run.pool.run(work, work))
    statuses = [run.results[place].status for place in work]
    assert statuses == [ResultStatus.PASSED, ResultStatus.FAILED, ResultStatus.PASSED]
    assert run.results[1].reason == reason
    assert len(run.started) == 2


def test_a_worker_that_hangs_is_ended_by_the_watchdog(tmp_path: Path, write_scenario: WriteScenario) -> None:
    run, work = Run(tmp_path / "log", jobs=1, watchdog=0.2), items(write_scenario("x"), "hangs")
    asyncio.run(run.pool.run(work, work))
    assert run.results[0].status is ResultStatus.FAILED
    assert run.results[0].reason == "the worker was ended: no result after 0.2 seconds"
    assert not any(map(alive, run.started))


def test_a_failure_of_a_worker_names_the_line_of_the_case(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    scenario = write_scenario("x")
    run, work = Run(tmp_path / "log", jobs=1), items(scenario, "dies")
    asyncio.run(run.pool.run(work, work))
    assert run.results[0].location == f"{scenario}:4"


def test_a_run_that_is_cancelled_leaves_no_process(tmp_path: Path, write_scenario: WriteScenario) -> None:
    run, work = Run(tmp_path / "log", jobs=2), items(write_scenario("x"), "a", "b", "hangs", "hangs")

    async def scenario() -> None:
        running = asyncio.create_task(run.pool.run(work, work))
        await run.two_came.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(scenario())
    assert run.started
    assert not any(map(alive, run.started))
