"""Planted bugs: each application has one, and a correct twin. The bug is found, and the twin holds.

`pytest -m slow tests/harness/hunt` runs the first few; `PUSHBACKD_TESTS=hunted=40` runs all.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from sizes import size

if TYPE_CHECKING:
    from collections.abc import Mapping

APPLICATIONS = Path(__file__).parent / "applications"
BUDGET = "60s"


class Planted(NamedTuple):
    """An application: the kinds of findings that are its bug, and the file of invariants that it takes."""

    file: str
    kinds: tuple[str, ...]
    needs: str = ""


PLANTED = (
    Planted("swallowed.py", ("documents",)),
    Planted("whole_handler.py", ("documents", "twice")),
    Planted("double_apply.py", ("documents",)),
    Planted("no_transaction_retry.py", ("fails",)),
    Planted("lost_update.py", ("documents",)),
    Planted("worker_dies.py", ("standstill",)),
    Planted("stream_without_resume.py", ("documents", "standstill")),
    Planted("no_timeout.py", ("hang",), "no_timeout.yml"),
    Planted("unbounded_retry.py", ("retry_storm",)),
    Planted("stale_read.py", ("fails",)),
    Planted("outbox.py", ("documents", "twice")),
    Planted("report.py", ("output",)),
    Planted("commit_unknown.py", ("documents",)),
    Planted("gathered.py", ("documents",)),
    Planted("tasks.py", ("hang",)),
    Planted("shop.js", ("documents", "twice")),
    Planted("floating.js", ("documents",)),
    Planted("reservations.js", ("fails",)),
)


def command_of(file: str) -> tuple[list[str], dict[str, str]]:
    """Return the command of an application and its variables; skip where its language is missing."""
    if not file.endswith(".js"):
        return [sys.executable, str(APPLICATIONS / file)], {}
    folders = os.environ.get("PUSHBACKD_NODE_MODULES")
    if not folders or shutil.which("node") is None:
        pytest.skip("PUSHBACKD_NODE_MODULES names no folder with the Node driver")
    return ["node", str(APPLICATIONS / file)], {"NODE_PATH": folders.split(os.pathsep)[0]}


def hunted(planted: Planted, report: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    command, more = command_of(planted.file)
    given = ["--invariants", str(APPLICATIONS / planted.needs)] if planted.needs else []
    words = [sys.executable, "-m", "harness", "hunt", "--budget", BUDGET, "--json", str(report), *given, "--"]
    environment = {**os.environ, **variables, **more}
    done = subprocess.run([*words, *command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(report.read_text())
    return document


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED[: size("hunted")], ids=lambda each: each.file)
def test_a_planted_bug_is_found_and_its_twin_holds(planted: Planted, tmp_path: Path) -> None:
    found = hunted(planted, tmp_path / "planted.json", {"PLANTED": "1"})
    kinds = {bug["kind"] for bug in found["bugs"] if bug["confirmed"]}
    assert kinds & set(planted.kinds), found["bugs"]
    twin = hunted(planted, tmp_path / "twin.json", {})
    assert [bug for bug in twin["bugs"] if bug["confirmed"]] == []
