"""The public specification with every driver, as one HTML report.

`PUSHBACKD_REPORT=FILE` (`tox -e report`) runs all of it on every deployment, and keeps the page and the
results beside it; without it, a folder and one deployment have to do. What fails in real time, where three
drivers at once keep the machine busy, is run again alone, `ATTEMPTS` times at most, and that result counts.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from harness.adapters.registry import EDITIONS
from harness.report.rerun import rerun_command
from harness.report.results_file import ResultsReader
from harness.running.discovery import discover
from harness.running.result import ExitCode, ResultStatus

ROOT = Path(__file__).parents[2]
OUTPUT = os.environ.get("PUSHBACKD_REPORT", "")
MODULES = os.environ.get("PUSHBACKD_NODE_MODULES", "").split(os.pathsep)[0]
ADAPTER = ROOT / "examples" / "adapters" / "node" / "adapter.cjs"

MOST_FAILURES = 10
"""More of them are no matter of a busy machine."""

ATTEMPTS = 3
"""Cases of the public specification race with monitors; one that fails each time is wrong."""

MOST_BYTES = 15_000_000

pytestmark = [pytest.mark.slow, pytest.mark.corpus]


def drivers() -> list[str]:
    """Return the drivers that run in real time; the Node driver is one of them where it is installed."""
    if shutil.which("node") is None or not MODULES or not (Path(MODULES) / "mongodb").is_dir():
        return ["pymongo", "pymongo-async"]
    return [
        "pymongo",
        "pymongo-async",
        f"cmd:{shlex.join(['env', f'NODE_PATH={MODULES}', 'node', str(ADAPTER)])}",
    ]


def pushbackd(*arguments: object) -> int:
    return subprocess.run([sys.executable, "-m", "harness.cli", *map(str, arguments)], check=False).returncode


def test_all_drivers_stand_beside_each_other_in_one_page(corpus: Path, tmp_path: Path) -> None:
    folder, topology = (corpus, "matrix") if OUTPUT else (corpus / "causal-consistency", "replicaset")
    page = Path(OUTPUT) if OUTPUT else tmp_path / "report.html"
    reference, others = (page.with_name(f"{page.stem}-{name}.jsonl.gz") for name in ("reference", "others"))
    files = [path for path in discover([folder]) if not is_meant_to_be_refused(path)]
    adapters = [word for driver in drivers() for word in ("--adapter", driver)]

    began = monotonic()
    run = ("conform", "-q", "--topology", topology, *files)
    assert pushbackd(*run, "--time", "virtual", "--edition", EDITIONS[-1], "--results", reference) == 0
    code = pushbackd(*run, *adapters, "--results", others)
    again = run_again(others) if code == ExitCode.FAILED else []
    assert code in (ExitCode.PASSED, ExitCode.FAILED)
    assert pushbackd("report", reference, others, *again, "-o", page) == 0

    took, size = monotonic() - began, page.stat().st_size
    sys.stdout.write(f"{page}: {len(drivers()) + 1} drivers, {took:.0f} s, {size / 1e6:.1f} MB\n")
    assert size < MOST_BYTES


def run_again(results: Path) -> list[Path]:
    """Run each failed case alone, and return where the new results are."""
    with ResultsReader(results) as reader:
        failed = [each for each in reader.results() if each.status is ResultStatus.FAILED]
        commands = [rerun_command(each, reader.run.settings) for each in failed]
    assert len(commands) <= MOST_FAILURES, "\n".join(each.id for each in failed)
    files: list[Path] = []
    for number, command in enumerate(commands):
        files.append(results.with_name(f"{results.name.partition('.')[0]}-again-{number}.jsonl.gz"))
        arguments = shlex.split(command)[1:]
        alone = (*arguments, "-q", "--jobs", "1", "--results", files[-1])
        assert any(pushbackd(*alone) == 0 for _ in range(ATTEMPTS)), command
    return files


def is_meant_to_be_refused(path: Path) -> bool:
    return "invalid" in path.parts or "schemaVersion-unsupported" in path.name
