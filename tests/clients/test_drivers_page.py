"""The drivers of the field under the bundled scenarios, as one page of rules.

`PUSHBACKD_DRIVERS=FILE` (`tox -e drivers`) runs every scenario with every driver that is here, on every
deployment, and keeps the page and the results beside it; without it, one file, one deployment and the
drivers in Python have to do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from example_adapters import EXAMPLES, PYTHON

from harness.planning.discovery import bundled_root
from harness.planning.result import ExitCode

OUTPUT = os.environ.get("PUSHBACKD_DRIVERS", "")
DRIVERS = {"pymongo": "pymongo", "pymongo-async": "pymongo-async"} | {
    each.language: f"cmd:{each.command}"
    for each in EXAMPLES
    if OUTPUT and each is not PYTHON and not each.absent
}

pytestmark = pytest.mark.slow


def pushbackd(*arguments: object) -> int:
    return subprocess.run([sys.executable, "-m", "harness", *map(str, arguments)], check=False).returncode


def test_all_drivers_stand_beside_each_other_rule_by_rule(tmp_path: Path) -> None:
    page = Path(OUTPUT) if OUTPUT else tmp_path / "drivers.html"
    page.parent.mkdir(exist_ok=True)
    scenarios = [] if OUTPUT else [bundled_root() / "retryable-writes" / "overload-labels.yml"]
    topology = "matrix" if OUTPUT else "replicaset"
    run = ("conform", *scenarios, "-q", "--topology", topology, "--results")
    results = {name: page.with_name(f"{page.stem}-{name}.jsonl.gz") for name in ("reference", *DRIVERS)}
    assert pushbackd(*run, results["reference"], "--time", "virtual") == ExitCode.PASSED
    for name, adapter in DRIVERS.items():
        assert pushbackd(*run, results[name], "--adapter", adapter) in (ExitCode.PASSED, ExitCode.FAILED)
    assert pushbackd("drivers", *results.values(), "-o", page) == ExitCode.PASSED
    text = page.read_text("utf-8")
    assert text.count('<th scope="row">') > len(results) + 300
    assert 'class="kept"' in text
