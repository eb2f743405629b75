"""Adapters in processes of their own under `conform`: what they break costs one case, and nothing stays."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import adapter_child
import pymongo
import pytest
import unlucky_adapter
from bson import json_util
from click.testing import CliRunner, Result
from started import Started

from harness.adapters.base import AdapterLost, ClientSpec, EntityKind
from harness.adapters.child import Child
from harness.adapters.command import Children
from harness.adapters.registry import drivers
from harness.cli import cli
from harness.planning.result import ExitCode
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from scenario_files import WriteScenario

CHILD = Path(adapter_child.__file__)
UNLUCKY = Path(unlucky_adapter.__file__)

INSERT = "[{object: collection, name: insertOne, arguments: {document: {x: 1}}}]"
ENTITIES = """createEntities:
  - client: {id: client, observeEvents: [commandStartedEvent]}
  - database: {id: database, client: client, databaseName: adapters}
  - collection: {id: collection, database: database, collectionName: all}
"""

EXPLAINED = {
    "babbles": "the adapter wrote a line that is no message: 'Segmentation fault (core dumped)'",
    "writes no text": "the adapter wrote a line that is no message: '\ufffd\ufffd\\x00'",
    "writes an impossible date": "the adapter wrote a wrong message: result",
    "leaves within a line": "the adapter's output ended within a line: '{\"id\": 5, \"resu'",
    "hangs": "the adapter did not answer insertOne within 3 seconds",
    "hangs with a child": "the adapter did not answer insertOne within 3 seconds",
    "complains without end": (
        "the adapter did not answer insertOne within 3 seconds (asked for: insertOne)\n!!!!"
    ),
    "dies": "the adapter's process ended (signal 9) (asked for: insertOne)\nthe last words",
    "leaves": "the adapter's process ended (exit code 3) (asked for: insertOne)",
    "closes its output": "the adapter closed its standard output",
    "leaves a child with its output": (
        "the adapter did not answer insertOne within 3 seconds: the adapter's process ended (exit code 5)"
    ),
    "answers what nobody asked": "the adapter answered request 999, which was never made",
    "answers twice": "the adapter answered request 2 again (asked for: insertOne)",
    "omits a part": "the adapter wrote a wrong message: event commandStartedEvent: lacks client",
    "calls a truth a text": (
        'the adapter wrote a wrong message: answer to request 5: error.isClientError: "yes" is not true or'
    ),
    "writes without end": "the adapter wrote a line of more than 64 MiB",
}
PATIENT = [mishap for mishap, reason in EXPLAINED.items() if "within 3 seconds" in reason]


def scenarios(write: WriteScenario, *descriptions: str) -> Path:
    path = write(*descriptions, operations=INSERT)
    path.write_text(path.read_text().replace("tests:\n", f"{ENTITIES}tests:\n"))
    return path


def command() -> str:
    return shlex.join([sys.executable, str(CHILD), "pymongo-async"])


def unlucky(mishap: str, once: Path) -> str:
    return shlex.join([sys.executable, str(UNLUCKY), mishap, str(once)])


def conform(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["conform", "--json", *map(str, arguments)])


def results(done: Result) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, done.stdout.splitlines()) if "status" in line]


def left_running(mark: Path) -> list[str]:
    """Return the command lines of the processes that have a path among their arguments."""
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _readable(path)]
    return [line.decode() for line in lines if bytes(mark) in line]


def _readable(path: Path) -> bool:
    try:
        return bool(path.read_bytes())
    except OSError:
        return False


needs_proc = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc to look at")


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("mishap", EXPLAINED)
def test_a_broken_adapter_fails_the_case_and_is_replaced(
    mishap: str, tmp_path: Path, write_scenario: WriteScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mishap in PATIENT:
        monkeypatch.setattr("harness.running.executor._CALL_SHARE", 0.05)
    path, once = scenarios(write_scenario, "first", "second"), tmp_path / "once"
    adapter = f"cmd:{unlucky(mishap, once)}"
    done = conform(path, "--adapter", adapter, "--jobs", 1, "--topology", "single")
    first, second = results(done)
    assert (first["status"], second["status"]) == ("failed", "passed")
    assert first["reason"].startswith(EXPLAINED[mishap])
    assert done.exit_code == ExitCode.FAILED
    assert left_running(once) == []


@pytest.mark.slow
def test_a_trace_has_every_line_to_an_adapter_and_from_it_with_the_case_before_them(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    path, trace = scenarios(write_scenario, "first", "second"), tmp_path / "trace" / "lines.txt"
    run = ("--adapter", f"cmd:{command()}", "--topology", "single", "--jobs", 1)
    done = conform(path, *run, "--trace-adapter", trace)
    assert done.exit_code == ExitCode.PASSED, done.output
    lines = [line.split(" ", 3) for line in trace.read_text().splitlines()]
    said = [(arrow, json_util.loads(line)) for _, _, arrow, line in lines if arrow in "→←"]
    asked = [line["method"] for arrow, line in said if arrow == "→"]
    assert asked == ["client", "create", "create", "call", "closeClient", "close"] * 2
    assert [line["id"] for arrow, line in said if arrow == "←" and "id" in line] == [*range(2, 14)]
    abouts = [" ".join(words[1:]) for words in lines if words[2] not in "→←"]
    assert abouts == [f"spec/tiny::{name} [child, single]" for name in ("first", "second")]


@pytest.mark.slow
def test_a_trace_ends_with_the_line_for_which_an_adapter_was_killed(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    path, trace = scenarios(write_scenario, "first"), tmp_path / "lines.txt"
    run = ("--adapter", f"cmd:{unlucky('babbles', tmp_path / 'once')}", "--topology", "single")
    conform(path, *run, "--trace-adapter", trace)
    assert trace.read_text().splitlines()[-1].endswith(" ← Segmentation fault (core dumped)")


@pytest.mark.slow
def test_explain_shows_the_dialogue_beside_the_wire(write_scenario: WriteScenario) -> None:
    path = scenarios(write_scenario, "first")
    words = ("explain", f"{path}::first", "--adapter", f"cmd:{command()}", "-vv")
    told = CliRunner().invoke(cli, words).stdout.splitlines()
    marks = ('adapter  request  → {"id": 5,', 'adapter  answer  ← {"id": {"$numberInt": "5"},')
    asked, answered = (next(at for at, line in enumerate(told) if mark in line) for mark in marks)
    inserted = next(at for at, line in enumerate(told) if '{"insert": "all"' in line and "OP_MSG" in line)
    assert asked < inserted < answered
    instants = [float(line.split()[0]) for line in told if " adapter  " in line or "OP_MSG" in line]
    assert instants == sorted(instants)


@pytest.mark.slow
@pytest.mark.parametrize("adapter", [f"cmd:{command()}", "pymongo-async"])
def test_a_failure_by_an_adapter_that_is_a_process_says_whose_fault_it_looks_like(
    adapter: str, write_scenario: WriteScenario
) -> None:
    path = scenarios(write_scenario, "first")
    expected = "[{client: client, events: [{commandStartedEvent: {commandName: find}}]}]"
    path.write_text(f"{path.read_text()}    expectEvents: {expected}\n")
    words = ("conform", str(path), "--adapter", adapter, "--topology", "single", "--reruns", "0")
    done = CliRunner().invoke(cli, words)
    told = "  looks like the driver's fault: servers saw what its events tell (1 command)"
    assert (done.exit_code, told in done.stdout.splitlines()) == (ExitCode.FAILED, adapter != "pymongo-async")


def test_a_trace_needs_an_adapter_that_is_a_process(tmp_path: Path, write_scenario: WriteScenario) -> None:
    done = conform(write_scenario("a"), "--adapter", "pymongo", "--trace-adapter", tmp_path / "trace")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "--trace-adapter: no --adapter is a process of its own (cmd:COMMAND)" in done.stderr


def script(text: str) -> str:
    return shlex.join([sys.executable, "-uc", text])


def answer(**facts: Any) -> str:
    result = {"protocol": 1, "name": "x", "features": [], **facts}
    return f"print({json.dumps({'id': 1, 'result': result})!r}); input()"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("", r"the adapter's process ended \(exit code 0\) \(asked for: hello\)"),
        ("import sys; sys.exit('no driver here')", r"\(exit code 1\) \(asked for: hello\)\nno driver here"),
        ("print('Welcome!'); input()", "the adapter wrote a line that is no message: 'Welcome!'"),
        ("print('[1]'); input()", "a line that is no message"),
        (answer(protocol=2), "the adapter speaks protocol 2, this program 1"),
        (
            answer(features=["SPEED"]),
            r'answer to hello: result: features\[0\]: "SPEED" is unknown; known are',
        ),
        (answer(features=["VIRTUAL_TIME"]), r'features\[0\]: "VIRTUAL_TIME" is unknown'),
        (answer(features=["SESSION"]), "did you mean 'SESSIONS'"),
        (answer(driver={"name": "x"}), "the adapter's answer to hello: result: driver: lacks version"),
        (answer(name=None), "the adapter's answer to hello: result: name: null is not"),
        ("""print('{"id": 1}'); input()""", "answer to request 1: it has none of result, entity, error"),
    ],
)
def test_a_program_that_does_not_introduce_itself_is_refused(
    program: str, reason: str, write_scenario: WriteScenario
) -> None:
    async def start() -> None:
        await Child.start(script(program))

    with pytest.raises(AdapterLost, match=reason):
        asyncio.run(start())


def test_a_driver_is_known_by_the_name_and_the_version_that_it_gives_to_servers() -> None:
    told = answer(driver={"name": "nodejs", "version": "7.9.0"})
    found = drivers([f"cmd:{script(told)}", f"cmd:{script(answer(name='silent'))}", "pymongo"])
    assert {name: entry.version for name, entry in found.items()} == {
        "x": "nodejs 7.9.0",
        "silent": "",
        "pymongo": f"PyMongo {pymongo.version}",
    }


def test_a_program_that_says_nothing_is_not_waited_for() -> None:
    async def start() -> None:
        await Child.start(script("input(); input()"), within=0.05)

    with pytest.raises(AdapterLost, match=r"did not answer hello within 0\.05 seconds"):
        asyncio.run(start())


def test_a_run_ends_before_its_first_case_when_its_adapter_cannot_be_started(tmp_path: Path) -> None:
    done = conform("--adapter", f"cmd:{tmp_path / 'missing'} --fast")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "the adapter cannot be started" in done.stderr


def test_an_adapter_may_not_take_the_name_of_another_driver() -> None:
    done = conform("--adapter", f"cmd:{script(answer(name='pymongo'))}")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "the name 'pymongo' of the adapter" in done.stderr


@pytest.mark.slow
def test_an_adapter_that_cannot_be_started_again_fails_the_cases_that_are_left(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    """It starts twice: to introduce itself, and for the first case, which kills it."""
    path, once, starts = scenarios(write_scenario, "first", "second"), tmp_path / "once", tmp_path / "starts"
    program = tmp_path / "adapter"
    program.write_text(
        f"""#!/bin/sh
        echo >>{shlex.quote(str(starts))}
        test "$(wc -l <{shlex.quote(str(starts))})" -le 2 || {{ echo out of licences >&2; exit 4; }}
        exec {unlucky("dies", once)}"""
    )
    program.chmod(0o700)
    done = conform(path, "--adapter", f"cmd:{program}", "--jobs", 1, "--topology", "single")
    first, second = (result["reason"] for result in results(done))
    assert first.startswith(EXPLAINED["dies"])
    assert second == "the adapter's process ended (exit code 4) (asked for: hello)\nout of licences"


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("mishap", ["dies", "hangs with a child", "complains without end"])
def test_each_worker_has_a_process_of_its_own_and_leaves_none(
    mishap: str, tmp_path: Path, write_scenario: WriteScenario
) -> None:
    path, once = scenarios(write_scenario, *map(str, range(6))), tmp_path / "once"
    adapter = f"cmd:{unlucky(mishap, once)}"
    done = conform(path, "--adapter", adapter, "--jobs", 2, "--topology", "single", "--case-timeout", "8s")
    statuses = sorted(result["status"] for result in results(done))
    assert statuses == ["failed", *["passed"] * 5]
    assert left_running(once) == []


@needs_proc
@pytest.mark.slow
def test_a_run_whose_last_case_fails_ends_its_adapter(tmp_path: Path, write_scenario: WriteScenario) -> None:
    """It refuses whatever it is asked, and stays when nobody speaks to it any more."""
    hello = {"protocol": 1, "name": "x", "features": ["COMMAND_EVENTS", "POOL_EVENTS"]}
    program = f"""
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    answer = {{"error": {{"message": "no"}}}}
    if request["method"] == "hello":
        answer = {{"result": {hello}}}
    print(json.dumps({{"id": request["id"], **answer}}))
time.sleep(600)  # {tmp_path}
"""
    arguments = ["--adapter", f"cmd:{script(program)}", "--jobs", 1, "--reruns", 0]
    done = conform(scenarios(write_scenario, "a"), *arguments)
    assert [result["status"] for result in results(done)] == ["failed"]
    assert left_running(tmp_path) == []


@pytest.mark.parametrize("method", ["client", "create"])
def test_an_adapter_that_makes_nothing_is_lost(method: str) -> None:
    """It answers whatever it is asked with a null, after it has introduced itself."""
    hello = json.dumps({"protocol": 1, "name": "x", "features": []})
    program = f"""
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    result = {hello} if request["method"] == "hello" else None
    print(json.dumps({{"id": request["id"], "result": result}}))
"""

    async def ask() -> None:
        async with aclosing(Children(call_seconds=10)) as children:
            adapter = await children.adapter(script(program), SystemClock())
            if method == "client":
                await adapter.create_client(ClientSpec("mongodb://localhost:1"))
            else:
                await adapter.create(EntityKind.DATABASE, 1, {"id": "database"})

    with pytest.raises(AdapterLost, match=f"the adapter answered {method} without an entity"):
        asyncio.run(ask())


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupted_run_leaves_no_adapter_that_hangs(
    jobs: str, tmp_path: Path, write_scenario: WriteScenario
) -> None:
    path, once = scenarios(write_scenario, *map(str, range(4))), tmp_path / "once"
    os.mkfifo(f"{once}.hung")
    adapter = f"cmd:{unlucky('hangs and says so', once)}"
    with Started(
        [sys.executable, "-m", "harness.cli", "conform", str(path), "--adapter", adapter, "--jobs", jobs],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as run:
        with open(f"{once}.hung", encoding="utf-8") as hung:  # noqa: PTH123 - returns when one has hung
            assert hung.read() == "hung"
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=30) == ExitCode.INTERRUPTED
    assert left_running(once) == []
