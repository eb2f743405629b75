"""Loops have no end of their own: a run gives them one, and an interrupt asks for it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from harness.cli import cli
from harness.planning.plan import Item, Settings
from harness.planning.result import ExitCode, Result, ResultStatus
from harness.running.worker_pool import WorkerPool
from harness.world import cancelling, interruption

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """\
description: loops
schemaVersion: "1.3"
createEntities:
  - client: {id: client0}
  - database: {id: database0, client: client0, databaseName: db}
tests:
"""
CASE = """\
  - description: %s
    operations:
      - name: loop
        object: testRunner
        arguments:
          storeErrorsAsEntity: errors
          operations:
            - {name: runCommand, object: database0, arguments: {command: {ping: 1}, commandName: ping}}
"""

ADAPTER = """
import json, os, signal, sys
calls = 0
for line in sys.stdin:
    request = json.loads(line)
    answer = {"result": None}
    if request["method"] == "hello":
        answer = {"result": {"protocol": 1, "name": "pinger", "features": []}}
    if request["method"] in ("client", "create"):
        answer = {"entity": True}
    if request["method"] == "call":
        calls += 1
        print(calls, file=open(sys.argv[1], "w"))
        if calls == 3:
            os.kill(os.getppid(), signal.SIGINT)
        answer = {"result": {"ok": 1}}
    print(json.dumps({"id": request["id"], **answer}), flush=True)
"""

WORKER = """
import json, os, signal, sys
ended = []
signal.signal(signal.SIGINT, lambda *_: ended.append(True))
settings = json.loads(sys.stdin.readline())
for line in sys.stdin:
    item = json.loads(line)
    word = item["id"].partition("::")[2]
    if word == "dies":
        os._exit(3)
    if word == "asks":
        os.kill(os.getppid(), signal.SIGINT)
        while not ended:
            signal.pause()
    reason = str(settings["loop_iterations"])
    print(json.dumps({**{name: item[name] for name in ("id", "topology", "adapter", "edition")},
                      "status": "passed", "reason": reason}), flush=True)
"""


def write(folder: Path, *descriptions: str) -> Path:
    path = folder / "loops.yml"
    path.write_text(SCENARIO + "".join(CASE % description for description in descriptions))
    return path


def conform(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli, ["conform", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def pings(folder: Path) -> int:
    """Return how many pings the servers of the only case have answered."""
    (journal,) = folder.iterdir()
    lines = map(json.loads, journal.read_text().splitlines())
    return sum(line["kind"] == "commandFinished" and line["name"] == "ping" for line in lines)


@pytest.mark.parametrize("time", ["virtual", "real"])
def test_a_loop_makes_as_many_iterations_as_the_run_allows(time: str, tmp_path: Path) -> None:
    scenario, journal = write(tmp_path, "a"), tmp_path / "journal"
    arguments = ["--loop-iterations", 7, "--time", time, "--jobs", 1, "--journal", journal]
    code, _, _ = conform(scenario, *arguments)
    assert (code, pings(journal)) == (ExitCode.PASSED, 7)


def test_an_iteration_that_takes_no_time_is_bounded_in_virtual_time_too(tmp_path: Path) -> None:
    code, _, _ = conform(write(tmp_path, "a"), "--time", "virtual", "--journal", tmp_path / "journal")
    assert (code, pings(tmp_path / "journal")) == (ExitCode.PASSED, 100)


def test_loops_must_end_before_their_case_counts_as_hung(tmp_path: Path) -> None:
    code, _, said = conform(write(tmp_path, "a"), "--loop-seconds", 5, "--case-timeout", "5s")
    assert code == ExitCode.BAD_INPUT
    assert "--loop-seconds 5 must be less than --case-timeout, which is 5s" in said


def test_by_default_they_take_half_of_that_at_most(tmp_path: Path) -> None:
    arguments = ["--case-timeout", "400ms", "--loop-iterations", 10_000_000, "--jobs", 1]
    code, _, said = conform(write(tmp_path, "a"), *arguments)
    assert code == ExitCode.PASSED, said


@pytest.mark.slow
def test_the_first_interrupt_ends_the_loops_and_the_run_goes_on(tmp_path: Path) -> None:
    adapter, count = tmp_path / "adapter.py", tmp_path / "count"
    adapter.write_text(ADAPTER)
    command = shlex.join([sys.executable, str(adapter), str(count)])
    arguments = [str(write(tmp_path, "a", "b")), "--adapter", f"cmd:{command}", "--jobs", "1", "--json"]
    endless = ["--interrupt-ends-loops", "--loop-iterations", "100000000", "--loop-seconds", "50"]
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", "conform", *arguments, *endless],
        capture_output=True,
        text=True,
        check=False,
        timeout=45,
    )
    assert done.returncode == ExitCode.PASSED, done.stderr
    assert done.stderr == "the first Ctrl-C ends loops, the second one ends the run\n"
    results = [json.loads(line) for line in done.stdout.splitlines()[:-1]]
    assert [result["status"] for result in results] == ["passed", "passed"]
    assert int(count.read_text()) == 3, "no iteration begins any more, neither here nor in later cases"


def test_workers_are_asked_too_also_those_that_are_still_to_come(tmp_path: Path) -> None:
    path = write(tmp_path, "asks", "dies", "late")
    items = {
        place: Item(f"x::{word}", str(path), place, "reference", "", "replicaset")
        for place, word in enumerate(("asks", "dies", "late"))
    }
    results: dict[int, Result] = {}
    pool = WorkerPool(
        Settings(loop_iterations=5, interrupt_ends_loops=True),
        jobs=1,
        on_result=results.__setitem__,
        command=(sys.executable, "-c", WORKER),
        watchdog=20,
    )
    with interruption.listening():
        cancelling.run(pool.run(items, items))
    assert [(results[place].status, results[place].reason) for place in (0, 2)] == [
        (ResultStatus.PASSED, "5"),
        (ResultStatus.PASSED, "0"),
    ]
    assert results[1].status is ResultStatus.FAILED
