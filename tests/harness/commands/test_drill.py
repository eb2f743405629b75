"""`pushbackd drill`: a command runs while load is shed, and its operations are summed up."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from talking import Deployment, play

from fakeserver import ClusterSpec
from harness.cli import cli
from harness.overload.drill import Drill
from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

INSERTS = """
import os, sys
from pymongo import MongoClient
from pymongo.errors import PyMongoError
failed = 0
with MongoClient(os.environ["MONGODB_URI"]) as client:
    for number in range(int(sys.argv[1])):
        try:
            client.shop.orders.insert_one({"_id": number})
        except PyMongoError as error:
            failed += 1
sys.exit(failed > 0)
"""


def drill(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["drill", *map(str, arguments)])


def python(code: str, *arguments: object) -> list[str]:
    return ["--", sys.executable, "-c", code, *map(str, arguments)]


def summary(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file.read_text())
    return document


@pytest.mark.slow
def test_some_requests_are_refused_and_the_summary_says_what_became_of_them(tmp_path: Path) -> None:
    file, page = tmp_path / "drill.json", tmp_path / "drill.html"
    options = ("--shed", "30%", "--seed", 7, "--topology", "single", "--json", file, "--html", page)
    done = drill(*options, *python(INSERTS, 30))
    told = summary(file)
    for said in ("exit code 1", "30 % of the requests shed, seed 7", "463", "insert", "refused for overload"):
        assert said in page.read_text()
    assert told["refused"] > told["refusedRetryable"] > 0
    assert told["errors"] == told["overloadErrors"] > 0
    assert done.exit_code == told["exitCode"] == 1
    assert told["commands"]["insert"]["operations"] == 30
    assert told["attemptsPerSuccess"] > 1
    assert f"{told['errors']} of 30 operations reached the application as errors" in done.stderr
    assert done.stderr.splitlines()[1].split("  ")[0] == "command"


KINDS = {
    "failover": (
        ("--failover", "200ms", "--for", "300ms"),
        "1 of 1 steps performed",
        "a failover every 0.2 s",
    ),
    "latency": (("--latency", "20ms"), "met rule latency", "20 ms of latency"),
    "lost": (("--lost", "5%", "--seed", 3), "met fault lostReplies", "5 % of the replies lost"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_something_else_goes_wrong_and_no_load_is_shed(tmp_path: Path, kind: str) -> None:
    options, met, said = KINDS[kind]
    file = tmp_path / "drill.json"
    done = drill(*options, "--json", file, *python(INSERTS, 100))
    told = summary(file)
    lines = done.stderr.splitlines()
    # PyMongo asks its server's description again before it sends: where a monitor has heard of the step-down
    # since the server was selected, the write goes without a number, and is not retried.
    assert told["errors"] <= (kind == "failover"), done.stderr
    assert done.exit_code == (told["errors"] > 0)
    assert lines[0].startswith(f"drill: {said}")
    assert (told["refused"], told["shed"]) == (0, 0)
    assert told["verdict"]["asExpected"]
    assert told["verdict"]["operations"]["operations"] == told["operations"] == 100
    (verdict,) = [line for line in lines if line.startswith("verdict: ")]
    assert met in verdict
    # A failover may meet an operation under way, which is tried again, or come between two.
    assert kind == "failover" or (told["attemptsPerSuccess"] > 1) is (kind == "lost")


@pytest.mark.parametrize("seconds", [0.2, 1.0, 5.0, 10.0, 600.0])
@pytest.mark.parametrize("members", [2, 3])
def test_every_failover_has_another_member_elected_a_second_later(seconds: float, members: int) -> None:
    drilled = Drill(ClusterSpec.replica_set(members), failover=seconds).scenario()
    (entry,) = drilled.timeline

    async def scenario(deployment: Deployment) -> None:
        for _ in range(7):
            before = deployment.primary.name
            assert deployment.cluster.control.perform(entry.verb, entry.arguments) == {"node": before}
            await deployment.sleep(max(seconds, 1.001))
            assert deployment.primary.name != before

    play(scenario, drilled.spec)


@pytest.mark.slow
def test_a_command_that_is_over_before_anything_goes_wrong_has_rehearsed_nothing() -> None:
    done = drill("--failover", "1h", *python(INSERTS, 3))
    assert done.exit_code == 1
    assert "not performed: drill:1 every 3600s: stepDown" in done.stderr
    assert drill("--failover", "1h", "--unmet", "ignore", "-q", *python(INSERTS, 3)).stderr == ""


WATCHES = """
import os
from pymongo import MongoClient
with MongoClient(os.environ["MONGODB_URI"]) as client:
    with client.shop.orders.watch(max_await_time_ms=50) as stream:
        client.shop.orders.insert_one({})
        while stream.alive and stream.try_next() is None:
            pass
        stream.try_next()
"""


@pytest.mark.slow
def test_get_mores_that_await_data_are_counted_apart(tmp_path: Path) -> None:
    file = tmp_path / "drill.json"
    done = drill("--shed", "0%", "--json", file, *python(WATCHES))
    told = summary(file)
    assert (told["awaiting"]["operations"] > 0, "getMore" in told["commands"]) == (True, False), done.stderr
    assert "getMores that await data failed, counted apart" in done.stderr


@pytest.mark.slow
def test_one_seed_refuses_the_same_requests_each_time(tmp_path: Path) -> None:
    counts = []
    for number in range(2):
        file = tmp_path / f"{number}.json"
        drill("--shed", "10%", "--seed", 3, "--topology", "single", "--json", file, *python(INSERTS, 40))
        told = summary(file)
        counts.append([told[key] for key in ("requests", "refused", "refusedRetryable", "errors")])
    assert counts[0] == counts[1]
    assert counts[0][1] > 0


@pytest.mark.slow
def test_the_shedding_ends_after_its_time(tmp_path: Path) -> None:
    file = tmp_path / "drill.json"
    wait = f"import time; time.sleep(0.3)\n{INSERTS}"
    done = drill(
        *("--shed", "100%", "--for", "100ms", "--topology", "single", "--json", file), *python(wait, 5)
    )
    assert done.exit_code == 0
    assert (summary(file)["seconds"], summary(file)["refused"]) == (0.1, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("import sys; sys.exit(17)", 17), ("import os; os.kill(os.getpid(), 15)", 143), ("", 0)],
)
def test_the_exit_code_is_that_of_the_command(code: str, exit_code: int) -> None:
    done = drill("--topology", "single", "--unmet", "ignore", *python(code))
    assert done.exit_code == exit_code
    assert f"exit code {exit_code}" in done.stderr


@pytest.mark.slow
def test_a_command_that_asks_for_nothing_has_rehearsed_nothing() -> None:
    done = drill("--topology", "single", *python(""))
    assert done.exit_code == ExitCode.FAILED
    assert done.stderr.endswith(
        "Error: no operation came, so that none was refused; --unmet ignore allows it\n"
    )


WRONG = {
    "--shed 200% -- true": "'200%' is more than 1; write a number from 0 to 1",
    "--shed much -- true": "'much' is no number",
    "--for 5x -- true": "'5x' is no duration; write one with its unit, such as '200ms' or '1m30s'",
    "--failover 5 -- true": "5",
    "--failover 5s --topology single -- true": "a failover is for replica sets and sharded clusters",
    "--lost 101% -- true": "is more than 1",
    "--topology single --members 3 -- true": "--members: not with --topology single",
    "--topology ring -- true": "'ring' is not one of 'single'",
    "--topology shardet -- true": "did you mean 'sharded'?",
    "--members three -- true": "members: 'three' is no number",
    "--profile 8.22 -- true": "did you mean '8.2'?",
    "--json /dev/null/x.json -- true": "/dev/null/x.json: Not a directory",
    "--shd 2% -- true": "no such option",
    "-- no-such-command": "no-such-command: no such command",
    "": "Missing argument",
}


@pytest.mark.parametrize(("line", "message"), WRONG.items())
def test_a_mistake_is_one_line_before_anything_starts(line: str, message: str) -> None:
    done = drill(*shlex.split(line))
    assert done.exit_code == ExitCode.BAD_INPUT
    assert message.lower() in done.stderr.lower()
    assert "Traceback" not in done.stderr
