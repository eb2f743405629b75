"""Planted bugs: each application has one, and a correct twin. The bug is found, and the twin holds.

`pytest -m slow tests/harness/hunt` runs the first few; `PUSHBACKD_TESTS=hunted=70` runs all, which takes an
hour. A hunt ends with its first bug, so it is the twin that takes its time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from example_adapters import BUILT, JAVA, SHORT_RUNS
from sizes import SIZES, size

if TYPE_CHECKING:
    from collections.abc import Mapping

APPLICATIONS = Path(__file__).parent / "applications"
BUDGET = "180s"
TWIN_BUDGET = "60s" if size("hunted") > SIZES["hunted"].default else "6s"


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
    Planted("worker_dies.py", ("standstill", "worker")),
    Planted("stream_without_resume.py", ("documents", "standstill")),
    Planted("no_timeout.py", ("hang",), "no_timeout.yml"),
    Planted("unbounded_retry.py", ("retry_storm", "hang")),
    Planted("stale_read.py", ("fails",)),
    Planted("outbox.py", ("documents", "twice")),
    Planted("report.py", ("output",)),
    Planted("commit_unknown.py", ("documents",)),
    Planted("gathered.py", ("documents",)),
    Planted("tasks.py", ("hang",)),
    Planted("shop.js", ("documents", "twice")),
    Planted("floating.js", ("documents",)),
    Planted("reservations.js", ("fails",)),
    Planted("points.py", ("documents", "twice")),
    Planted("idempotency_key.py", ("documents", "twice")),
    Planted("queue_claim.py", ("documents",)),
    Planted("registration.py", ("documents", "output")),
    Planted("bulk_import.py", ("documents",)),
    Planted("session_reused.py", ("documents", "fails")),
    Planted("weak_write.py", ("documents",)),
    Planted("unconfirmed.py", ("documents",)),
    Planted("lock.py", ("documents",)),
    Planted("lease.py", ("documents",)),
    Planted("pages.py", ("documents",)),
    Planted("batch.py", ("documents", "twice")),
    Planted("cache.py", ("documents",)),
    Planted("stream_token.py", ("documents", "standstill")),
    Planted("migration.py", ("documents",)),
    Planted("saga.py", ("invariant",), "saga.yml"),
    Planted("transfer.py", ("invariant",), "transfer.yml"),
    Planted("oversell.py", ("documents", "fails")),
    Planted("push_event.py", ("documents", "twice")),
    Planted("fire_and_forget.py", ("documents",)),
    Planted("wait_for.py", ("documents",)),
    Planted("swallow_in_transaction.py", ("documents",)),
    Planted("stream_ends.py", ("documents",)),
    Planted("gather_again.py", ("documents", "twice")),
    Planted("settled.js", ("documents",)),
    Planted("increments.js", ("documents", "twice")),
    Planted("polling.js", ("standstill",)),
    Planted("mirror.js", ("documents",)),
    Planted("import.js", ("documents",)),
    Planted("export.js", ("documents",)),
    Planted("keys.js", ("documents", "twice")),
    Planted("visits.js", ("documents",)),
    Planted("go/swallowed", ("documents",)),
    Planted("go/goroutine", ("documents",)),
    Planted("go/handler", ("documents", "twice")),
    Planted("go/conflict", ("fails",)),
    Planted("java/Points.java", ("documents", "twice")),
    Planted("java/Schedule.java", ("standstill",)),
    Planted("java/Futures.java", ("documents",)),
    Planted("java/Report.java", ("output",)),
    Planted("key_after.py", ("documents", "twice")),
    Planted("seats.py", ("documents", "twice")),
    Planted("logins.py", ("documents",)),
    Planted("rows.py", ("output",)),
    Planted("hooks.py", ("documents",)),
    Planted("trips.py", ("invariant",), "trips.yml"),
    Planted("projector.py", ("documents", "twice")),
    Planted("carts.py", ("documents",)),
    Planted("ledger.js", ("documents", "twice")),
)


def _compiled(language: str, *words: str) -> Path:
    """Compile the applications in a language, and return their folder; skip where that fails."""
    folder = Path(tempfile.mkdtemp(prefix="hunted-"))
    here = APPLICATIONS / language
    try:
        done = subprocess.run(
            [each.format(folder=f"{folder}{os.sep}") for each in words],
            cwd=here,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        pytest.skip(f"there is no {words[0]} on this machine")
    if done.returncode:
        pytest.skip(f"the applications in {language} cannot be compiled here: {done.stderr}")
    return folder


@cache
def go_programs() -> Path:
    return _compiled("go", "go", "build", "-o", "{folder}", "./...")


@cache
def java_classes() -> str:
    """Return the class path of the applications in Java, which take the driver of the Java adapter."""
    if JAVA.absent:
        pytest.skip(JAVA.absent)
    driver = f"{BUILT / 'java' / 'lib'}{os.sep}*"
    sources = [path.name for path in sorted((APPLICATIONS / "java").glob("*.java"))]
    folder = _compiled("java", "javac", "-d", "{folder}", "-cp", driver, *sources)
    return f"{folder}{os.pathsep}{driver}"


def command_of(file: str) -> tuple[list[str], dict[str, str]]:
    """Return the command of an application and its variables; skip where its language is missing."""
    if file.startswith("go/"):
        return [str(go_programs() / Path(file).name)], {}
    if file.endswith(".java"):
        return ["java", *SHORT_RUNS, "-cp", java_classes(), Path(file).stem], {}
    if file.endswith(".py"):
        return [sys.executable, str(APPLICATIONS / file)], {}
    folders = os.environ.get("PUSHBACKD_NODE_MODULES")
    if not folders or shutil.which("node") is None:
        pytest.skip("PUSHBACKD_NODE_MODULES names no folder with the Node driver")
    return ["node", str(APPLICATIONS / file)], {"NODE_PATH": folders.split(os.pathsep)[0]}


def hunted(planted: Planted, report: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    command, more = command_of(planted.file)
    given = ["--invariants", str(APPLICATIONS / planted.needs)] if planted.needs else []
    end = ["--first", "--budget", BUDGET] if variables else ["--budget", TWIN_BUDGET]
    words = [sys.executable, "-m", "harness", "hunt", *end, "--results", str(report), *given, "--"]
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
