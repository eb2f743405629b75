"""The public specification with every driver, as one HTML report.

`PUSHBACKD_REPORT=FILE` (`tox -e report`) runs all of it on every deployment, and keeps the page and the
results beside it; without it, a folder and one deployment have to do.
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
from harness.planning.discovery import discover

ROOT = Path(__file__).parents[2]
OUTPUT = os.environ.get("PUSHBACKD_REPORT", "")
MODULES = os.environ.get("PUSHBACKD_NODE_MODULES", "").split(os.pathsep)[0]
ADAPTER = ROOT / "examples" / "adapters" / "node" / "adapter.cjs"

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
    assert pushbackd(*run, *adapters, "--results", others) == 0
    assert pushbackd("report", reference, others, "-o", page) == 0

    took, size = monotonic() - began, page.stat().st_size
    sys.stdout.write(f"{page}: {len(drivers()) + 1} drivers, {took:.0f} s, {size / 1e6:.1f} MB\n")
    assert size < MOST_BYTES


def is_meant_to_be_refused(path: Path) -> bool:
    return "invalid" in path.parts or "schemaVersion-unsupported" in path.name
