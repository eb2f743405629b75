from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.planning.plan import Item, Settings, loaded
from harness.planning.result import Result, ResultStatus
from harness.running.executor import ItemExecutor
from harness.running.worker_pool import WorkerPool
from harness.world import cancelling, interruption
from harness.world.immediate_exit import AT_ONCE
from harness.world.processes import CAN_FORK

if TYPE_CHECKING:
    from collections.abc import Mapping

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


@pytest.mark.skipif(not CAN_FORK, reason="workers are forks on Linux only")
def test_a_fork_has_what_its_parent_has_read_and_none_of_its_files_and_signals(
    write_scenario: WriteScenario, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def told(_: ItemExecutor, item: Item) -> Result:
        has_file = Path(f"/proc/self/fd/{ours.fileno()}").readlink() != Path(os.devnull)
        seen = [os.getpid() != parent, has_file, len(AT_ONCE), gc.isenabled()]
        sys.stdout.write("this is no result\n")
        return item.result(ResultStatus.PASSED, f"{seen} {loaded.cache_info().misses - misses}")

    parent, results = os.getpid(), dict[int, Result]()
    pool = WorkerPool(Settings(time="virtual"), jobs=2, on_result=results.__setitem__)
    work = items(write_scenario("x"), "a", "b", "c")
    work[0].case()
    misses = loaded.cache_info().misses
    monkeypatch.setattr(ItemExecutor, "run", told)
    with (tmp_path / "file").open("w") as ours, interruption.listening():
        ours.write("not written yet")
        cancelling.run(pool.run(work, work))
        assert (tmp_path / "file").read_text() == ""
    assert {result.reason for result in results.values()} == {"[True, False, 1, True] 0"}
    assert len(results) == 3


@pytest.mark.skipif(not CAN_FORK, reason="workers are forks on Linux only")
def test_what_a_fork_opens_is_its_own_although_the_owners_of_its_parents_sockets_close_theirs(
    write_scenario: WriteScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(_: ItemExecutor, item: Item) -> Result:
        own = [socket.socket() for _ in theirs]
        before = [os.fstat(each.fileno()) for each in own]
        for each in theirs:
            each.close()
        return item.result(ResultStatus.PASSED, str([os.fstat(each.fileno()) for each in own] == before))

    theirs = [socket.socket() for _ in range(20)]
    monkeypatch.setattr(ItemExecutor, "run", told)
    results = dict[int, Result]()
    work = items(write_scenario("x"), "a")
    asyncio.run(WorkerPool(Settings(), jobs=1, on_result=results.__setitem__).run(work, work))
    assert results[0].reason == "True"
    for each in theirs:
        each.close()


@pytest.mark.skipif(not CAN_FORK, reason="workers are forks on Linux only")
def test_a_fork_that_is_left_ends_with_the_code_of_its_driver(
    write_scenario: WriteScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(_: ItemExecutor, item: Item) -> Result:
        sys.stderr.write("the last words\n")
        sys.exit(7 if item.id.endswith("a") else "a text")

    monkeypatch.setattr(ItemExecutor, "run", leave)
    results = dict[int, Result]()
    work = items(write_scenario("x"), "a", "b")
    asyncio.run(WorkerPool(Settings(), jobs=1, on_result=results.__setitem__).run(work, work))
    assert [results[place].reason for place in work] == [
        "the worker died (exit code 7)\nthe last words",
        "the worker died (exit code 1)\nthe last words",
    ]
