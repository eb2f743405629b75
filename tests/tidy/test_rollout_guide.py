"""The guide to a rollout: its commands run, and print what it shows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sizes import in_full
from threaded_server import serving

from driver import AsyncClient
from fakeserver import ClusterSpec
from harness.cli import cli
from harness.overload import Trial, step
from harness.overload.policy.advice import GovernorAdvice
from harness.overload.sizing import Deployment, LimiterRun, Sizing
from harness.overload.trial import play
from harness.world import cancelling

GUIDE = Path(__file__).parents[2] / "docs" / "ROLLOUT.md"
SHOWN = re.findall(r"^```text\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
SCRIPTS = re.findall(r"^```javascript\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^\$ pushbackd ([\w-]+)([^\n]*)$", GUIDE.read_text(), re.MULTILINE)


def line_of(verb: str, word: str) -> list[str]:
    """Return the words of the one command of the guide that has a word."""
    (arguments,) = (rest for name, rest in COMMANDS if name == verb and word in rest)
    return [verb, *shlex.split(arguments)]


def run(words: list[str]) -> Result:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.slow
@in_full("guides", "plays a limiter under every rate and seed")
def test_the_advice_in_the_guide_is_what_its_command_prints() -> None:
    told = run(line_of("simulate", "20000")).stdout
    assert told.splitlines() == SHOWN[1].splitlines()


@pytest.mark.slow
def test_the_readings_in_the_guide_are_those_of_such_a_server() -> None:
    report = play(Trial(plan=step(50, 300, seconds=20), policy=lambda: None), live=False)
    advice = GovernorAdvice(1.0)
    for decision in report.decisions:
        advice.add(decision)
    assert advice.lines(60) == SHOWN[0].splitlines()


def test_the_reason_of_the_few_clients_is_theirs() -> None:
    words = line_of("simulate", "--clients 400 ")
    numbers = dict(zip(words[2::2], words[3::2], strict=True))
    capacity, peak = (float(numbers[name].removesuffix("/s")) for name in ("--capacity", "--peak"))
    own = Deployment(
        capacity=capacity,
        peak=peak,
        usual=capacity / 2,
        clients=int(numbers["--clients"]),
        timeout=float(numbers["--timeout"].removesuffix("s")),
    )
    played = [LimiterRun(rate, capacity, capacity, capacity, 0.3, 0.0) for rate in (None, 2000)]
    found = Sizing(own, 1, played)
    (quoted,) = (line for line in GUIDE.read_text().splitlines() if line.startswith("> Leave"))
    head, _, reason = quoted.removeprefix("> ").partition(" … ")
    assert head == found.verdict()
    assert reason in found.reasons()


@pytest.mark.slow
def test_the_command_that_looks_at_a_server_looks_and_sets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = line_of("govern", "observe")
    words[words.index("--seconds") + 1] = "0.6s"
    with serving(ClusterSpec.standalone()) as server:
        words[1] = "mongodb://{}:{}".format(*server.address)
        told = run(words).stdout
    assert "Leave the request rate limiter off" in told
    assert Path("readings.html").read_text().count("<svg") == 2


@pytest.mark.slow
def test_the_rehearsal_runs_from_its_start_to_its_end(tmp_path: Path) -> None:
    words = [[verb, *shlex.split(rest)] for verb, rest in COMMANDS if "rehearsal" in rest]
    assert [each[0] for each in words] == ["start", "limits", "state", "limits", "stop"]
    for each in words:
        done = CliRunner().invoke(cli, each, env={"PUSHBACKD_HOME": str(tmp_path)})
        assert done.exit_code == 0, done.output
        if each[0] == "state":
            assert "20" in done.output


@pytest.mark.slow
def test_the_lines_for_a_shell_are_commands_of_a_server() -> None:
    lines = [line for script in SCRIPTS for line in script.splitlines()]
    documents = [
        json.loads(re.sub(r"(\w+):", r'"\1":', line[len("db.adminCommand(") : -1])) for line in lines
    ]
    assert len(documents) == 4

    async def set_all(uri: str) -> None:
        async with AsyncClient(uri) as client:
            for each in documents:
                assert (await client.command("admin", each))["ok"] == 1

    with serving(ClusterSpec.standalone()) as server:
        cancelling.run(set_all("mongodb://{}:{}".format(*server.address)))
    parameters = server.cluster.nodes[0].parameters
    assert parameters["ingressRequestAdmissionRatePerSec"] == 2000
    assert parameters["ingressRequestRateLimiterEnabled"] is False
