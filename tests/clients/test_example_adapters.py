"""The examples, judged as a user would: through each, its driver passes scenarios, ours and public ones."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from example_adapters import EXAMPLES, NODE, Example
from sizes import is_full, size

from harness.adapters.deployment import Topology
from harness.cli import cli
from harness.deployments.embedded import embedded
from harness.planning.result import ExitCode, Moment
from harness.testing.adapter_protocol import check_protocol
from harness.testing.verdict import Holds, Verdict
from harness.testing.worlds import run_in_system
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from mongowire.ports import Clock, Network

ROOT = Path(__file__).parents[2]
TOPOLOGY = "matrix" if is_full("deployments") else "sharded"
FOLDERS = ("retryable-writes", "client-backpressure", "connection-monitoring-and-pooling")
SCENARIOS = () if is_full("deployments") else tuple(ROOT / "spec_tests" / name for name in FOLDERS)
"""All bundled ones at full size; else those that most rules of retrying, overload and pools are shown by."""
LONG = pytest.mark.skipif(
    not size("deployments"), reason="takes minutes: `tox -e adapters`, or PUSHBACKD_TESTS=deployments=1"
)
WAITING_JOBS = 4
"""How many cases run at a time: a driver in real time waits for most of it."""


def conform(command: str, *arguments: object) -> tuple[int, dict[str, int], list[str]]:
    """Return the exit code, how many cases ended how, and what was wrong with each that failed."""
    done = CliRunner().invoke(cli, ["conform", "--json", "--adapter", f"cmd:{command}", *map(str, arguments)])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    results = [line for line in lines if "id" in line]
    wrong = [f"{each['id']}: {each['reason']}" for each in results if each["status"] == "failed"]
    counts: dict[str, int] = {}
    for each in results:
        counts[each["status"]] = counts.get(each["status"], 0) + 1
    return done.exit_code, counts, wrong


@LONG
@pytest.mark.parametrize("example", [example.param() for example in EXAMPLES])
def test_the_bundled_scenarios_pass_that_a_driver_can_run(example: Example) -> None:
    code, counts, wrong = conform(example.command, *SCENARIOS, "--topology", TOPOLOGY, "--jobs", WAITING_JOBS)
    assert "\n".join(wrong) == ""
    assert code == ExitCode.PASSED
    assert counts["passed"] > 100


@pytest.mark.parametrize("example", [example.param() for example in EXAMPLES])
def test_an_adapter_names_the_driver_and_the_version_that_servers_are_told_of(example: Example) -> None:
    verdicts: dict[str, Verdict] = {}

    async def scenario(clock: Clock, network: Network) -> None:
        rng = SeededRng(0)
        async with embedded(
            Topology.REPLICA_SET, clock=clock, network=network, rng=rng, virtual=False
        ) as servers:
            async for verdict in check_protocol(example.command, servers):
                verdicts[verdict.part] = verdict

    run_in_system(scenario)
    told = verdicts["hello names the driver that connects"]
    assert (told.holds, bool(re.fullmatch(r"[\w-]+ \d+\.\d+\.\d+", told.note))) == (Holds.OK, True)


@LONG
@pytest.mark.parametrize("example", [example.param() for example in EXAMPLES])
def test_the_events_of_a_driver_in_another_process_stand_where_they_happened(
    example: Example, tmp_path: Path
) -> None:
    """A command is sent before a server works on it, and answered afterwards."""
    kept = tmp_path / "results.jsonl"
    folder = ROOT / "spec_tests/retryable-writes"
    names = ("supported-writes.yml", "overload-labels.yml", "batches.yml", "labels.yml")
    files = (folder / name for name in names)
    code, counts, _ = conform(example.command, *files, "--results", kept)
    assert (code, counts["passed"] > 20) == (ExitCode.PASSED, True)
    for line in kept.read_text().splitlines():
        timeline = [Moment(**moment) for moment in json.loads(line).get("timeline", ())]
        assert [moment.at for moment in timeline] == sorted(moment.at for moment in timeline)
        for asked in (moment for moment in timeline if moment.kind == "commandStartedEvent"):
            about = [
                moment for moment in timeline if (moment.link, moment.about) == (asked.link, asked.about)
            ]
            kinds = [moment.kind for moment in about]
            assert kinds[0] == "commandStartedEvent"
            assert "commandFinished" not in kinds[2:]


@LONG
@pytest.mark.corpus
@pytest.mark.parametrize(
    ("folder", "passes"),
    [
        pytest.param(folder, passes, id=folder, marks=NODE.marks)
        for folder, passes in (("retryable-writes", 94), ("client-backpressure", 103), ("crud", 252))
    ],
)
def test_the_node_driver_passes_the_given_files_or_is_known_not_to(
    corpus: Path, folder: str, passes: int
) -> None:
    code, counts, wrong = conform(NODE.command, corpus / folder)
    assert (code, wrong) == (ExitCode.PASSED, [])
    assert counts["passed"] == passes


@pytest.mark.skipif(shutil.which("gofmt") is None, reason="there is no gofmt on this machine")
def test_the_go_adapter_is_formatted_as_its_language_is() -> None:
    files = sorted((ROOT / "examples" / "adapters" / "go").glob("*.go"))
    done = subprocess.run(["gofmt", "-l", *files], capture_output=True, text=True, check=True)
    assert done.stdout == ""


@pytest.mark.skipif(shutil.which("rustfmt") is None, reason="there is no rustfmt on this machine")
def test_the_rust_adapter_is_formatted_as_its_language_is() -> None:
    main = ROOT / "examples" / "adapters" / "rust" / "src" / "main.rs"
    command = ["rustfmt", "--check", "-l", "--edition", "2024", str(main)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(shutil.which("clang-format") is None, reason="there is no clang-format on this machine")
def test_the_c_adapter_is_formatted_as_its_own_file_of_rules_says() -> None:
    files = sorted((ROOT / "examples" / "adapters" / "c").glob("*.[ch]"))
    done = subprocess.run(
        ["clang-format", "--dry-run", "--Werror", *files], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("rubocop") is None, reason="there is no rubocop on this machine")
def test_the_ruby_adapter_is_as_its_own_file_of_rules_says() -> None:
    folder = ROOT / "examples" / "adapters" / "ruby"
    done = subprocess.run(
        ["rubocop", "--format", "simple"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_a_builder_leaves_out_the_languages_that_are_not_here_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for tool in ("dirname", "mkdir"):
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    done = subprocess.run(
        [str(shutil.which("sh")), str(ROOT / "examples/adapters/build.sh"), str(tmp_path / "built")],
        env={"PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [
        "there is no go",
        "there is no Maven",
        "there is no cargo",
        "there is no cc, make or libmongoc",
    ]
    assert list((tmp_path / "built").iterdir()) == []
