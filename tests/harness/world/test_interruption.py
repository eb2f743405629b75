"""A run that is interrupted, at whatever instant: it ends soon, says so, and leaves nothing but whole files.

How many runs are interrupted at random instants says tests/support/sizes.py.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from sizes import in_full, size
from started import Started

from harness.planning.discovery import bundled_root
from harness.planning.result import ExitCode, ResultStatus, Tally
from harness.report.results_file import ResultsReader

if TYPE_CHECKING:
    from collections.abc import Sequence

RUNS = size("interruptions")
FORMAT = bundled_root() / "unified-test-format"
FEW = (str(FORMAT / "loops.yml"), str(FORMAT / "operations-on-sessions.yml"))
"""Loops know the signals too."""
SOME = (str(FORMAT), str(bundled_root() / "retryable-reads"))
"""Enough for a run to be interrupted when its first results are known, which come late with two workers."""
MARK = "PUSHBACKD_TEST_MARK"
BY_SIGNAL = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}
WAYS = (
    ("--jobs", "1", "--time", "real"),
    ("--jobs", "3", "--time", "real"),
    ("--jobs", "3", "--adapter", "reference", "--adapter", "pymongo"),
    ("--jobs", "1", "--time", "virtual", "--topology", "all"),
    ("--jobs", "2", "--time", "virtual", "--topology", "all"),
    ("--jobs", "2", "--time", "real", "--repeat", "3"),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to look at"),
]


def start(folder: Path, mark: str, *arguments: str) -> Started[str]:
    """Start the command in a process group of its own, with a mark that all its descendants carry."""
    (folder / "tmp").mkdir()
    environment = {MARK: mark, "TMPDIR": str(folder / "tmp"), "PYTHONPATH": os.pathsep.join(sys.path)}
    return Started(
        [sys.executable, "-m", "harness", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={**os.environ, **environment},
        start_new_session=True,
    )


def is_ours(pid: int) -> bool:
    """Return whether our first instruction has been run, which takes SIGTERM, and not Python's start only."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, mask = line.partition(":")
        if name == "SigCgt":
            return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)
    return True


def await_first_instruction(process: subprocess.Popen[str]) -> None:
    while not is_ours(process.pid):
        assert process.poll() is None
        os.sched_yield()


def marked(mark: str) -> list[str]:
    """Return the command lines of the processes that carry a mark."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


def check_files(folder: Path) -> None:
    """Everything that was written is whole."""
    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {name for name in left if not name.startswith("journal/")} <= {"r.xml", "r.jsonl.gz", "r.html"}
    if "r.xml" in left:
        ET.parse(folder / "r.xml")
    if "r.jsonl.gz" in left:
        with ResultsReader(folder / "r.jsonl.gz") as reader:
            assert list(reader.results())
    if "r.html" in left:
        assert (folder / "r.html").read_text().rstrip().endswith("</html>")
    for name in left:
        if name.startswith("journal/"):
            assert name.endswith(".jsonl")
            for line in (folder / name).read_text().splitlines():
                json.loads(line)


@pytest.mark.parametrize("number", range(RUNS))
def test_an_interrupted_run_leaves_nothing_behind(number: int, tmp_path: Path) -> None:
    dice = random.Random(f"interruptions/{number}")
    way, asked = dice.choice(WAYS), dice.choice(list(BY_SIGNAL))
    delay = dice.uniform(0, 0.6) if dice.random() < 0.4 else dice.uniform(0.6, 5)
    to_group = dice.random() < 0.5
    mark = f"{os.getpid()}-{number}-{dice.random()}"
    outputs = ["--junit", "r.xml", "--journal", "journal"]
    outputs += [] if "--repeat" in way else ["--results", "r.jsonl.gz", "--html", "r.html"]
    about = f"{way}, {asked.name} after {delay:.3f} s, {'to the group' if to_group else 'to the process'}"
    with start(tmp_path, mark, "conform", *way, *outputs) as process:
        await_first_instruction(process)
        with suppress(subprocess.TimeoutExpired):
            process.wait(delay)
        with suppress(ProcessLookupError):
            (os.killpg if to_group else os.kill)(process.pid, asked)
        assert process.stdout is not None
        said = process.stdout.read()
    if process.returncode != ExitCode.PASSED:  # it may have been faster
        assert process.returncode == BY_SIGNAL[asked], (about, said)
        assert f"interrupted by {asked.name}" in said, (about, said)
    for word in ("Traceback", "Exception ignored", "was never awaited", "was destroyed", "defect", "FAILED"):
        assert word not in said, (about, said)
    await_end_of(mark)
    check_files(tmp_path)


def await_end_of(mark: str) -> None:
    """Wait for what is on its way out. A process that nobody has asked to end stays, and fails the test."""
    until = time.monotonic() + 10
    while left := marked(mark):
        assert time.monotonic() < until, left
        os.sched_yield()


def interrupted_in_the_middle(folder: Path, asked: signal.Signals, *arguments: str) -> tuple[int, str]:
    """Interrupt a run that has shown its first cases; return its exit code and what it said."""
    with start(folder, f"{os.getpid()}", "conform", *arguments, "-v") as process:
        assert process.stdout is not None
        shown = process.stdout.readline() + process.stdout.readline()
        process.send_signal(asked)
        shown += process.stdout.read()
    return process.returncode, shown


@pytest.mark.parametrize(
    ("asked", "jobs"),
    [
        (signal.SIGINT, "2"),
        (signal.SIGTERM, "1"),
        pytest.param(
            signal.SIGINT, "1", marks=in_full("interruptions", "others have this signal, or one job")
        ),
        pytest.param(signal.SIGTERM, "2", marks=in_full("interruptions", "others have this signal, or jobs")),
    ],
)
def test_the_first_signal_ends_a_run_which_says_what_was_not_run(
    asked: signal.Signals, jobs: str, tmp_path: Path
) -> None:
    outputs = ["--junit", "r.xml", "--results", "r.jsonl.gz"]
    code, said = interrupted_in_the_middle(tmp_path, asked, *SOME, "--jobs", jobs, *outputs)
    assert code == BY_SIGNAL[asked], said
    assert " not-run in " in said
    assert f"interrupted by {asked.name}" in said
    with ResultsReader(tmp_path / "r.jsonl.gz") as reader:
        results = list(reader.results())
    not_run = Tally.of(results)[ResultStatus.NOT_RUN]
    assert f"{not_run} not-run" in said
    suites = ET.parse(tmp_path / "r.xml").getroot()
    assert int(suites.attrib["tests"]) == len(results)
    left_out = suites.findall(".//skipped[@type='not-run']")
    assert [each.attrib["message"] for each in left_out] == [f"interrupted by {asked.name}"] * not_run


@pytest.mark.parametrize(
    "command",
    [
        ("conform", *FEW, "--jobs", "2", "-v"),
        ("conform", *FEW, "--json"),
        ("conform", *FEW, "--jobs", "1", "-v"),
        ("lint", "--rules"),
        ("schema",),
        ("--help",),
        ("conform", "--help"),
    ],
    ids=lambda command: " ".join(word for word in command if word not in FEW),
)
def test_a_reader_that_has_seen_enough_is_no_error(command: Sequence[str], tmp_path: Path) -> None:
    with start(tmp_path, f"{os.getpid()}", *command) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) in (ExitCode.NOBODY_READS, ExitCode.PASSED)


def test_what_a_closed_pipe_says_of_itself_goes_nowhere(tmp_path: Path) -> None:
    with Started(
        [sys.executable, "-m", "harness", "conform", *FEW, "-v", "--junit", "r.xml"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == ExitCode.NOBODY_READS
    assert "nobody reads the output" in (tmp_path / "r.xml").read_text()
