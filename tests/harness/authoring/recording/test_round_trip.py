"""What record writes passes at once and under other seeds, and lint has nothing to say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sizes import size

from harness.authoring.recording.text import Edits
from harness.lint.engine import lint_file
from harness.planning.discovery import bundled_root, discover
from harness.planning.result import ExitCode
from mongowire.documents.outline import outline

if TYPE_CHECKING:
    from pathlib import Path

ROOT = bundled_root()
NOT_RECORDED = {
    "client-side-operations-timeout/backoff.yml": "the number of attempts depends on the jitter",
    "client-side-operations-timeout/command-cursors.yml": "maxTimeMS is what is left of timeoutMS",
    "retryable-writes/another-mongos.yml": "the number of attempts depends on the mongos that is chosen",
    "retryable-writes/handshakes.yml": "it needs authentication, and record runs without",
    "server-selection/overloaded-mongos.yml": "the number of attempts depends on the mongos that is chosen",
}
"""Files whose events record cannot write, and the reason."""
EVERY = 36 // size("files")
"""Of so many files one is recorded: each runs several times, on all deployments."""

SCENARIOS = [
    path
    for path in discover([ROOT])
    if "observeEvents" in path.read_text() and path.relative_to(ROOT).as_posix() not in NOT_RECORDED
][2::EVERY]


def without_events(text: str) -> str:
    root = outline(text)
    assert root is not None
    edits = Edits(text)
    for case in (root.at("tests") or root).elements:
        if "expectEvents" in case.members:
            edits.removal(case, "expectEvents")
    return edits.applied()


def release(path: Path) -> tuple[str, ...]:
    """Return the options for the release that a file is for: its name tells of an older one."""
    return ("--profile", "4.2") if path.stem.endswith("before-4.4") else ()


def rules_broken(path: Path) -> set[str]:
    return {finding.rule for finding in lint_file(path)}


@pytest.mark.slow
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_events_that_were_taken_out_are_written_again(path: Path, tmp_path: Path, pushbackd: Any) -> None:
    copy = tmp_path / path.relative_to(ROOT)
    copy.parent.mkdir()
    copy.write_text(without_events(path.read_text()))
    broken = rules_broken(copy)
    done = pushbackd("record", copy, "--in-place", *release(path))
    assert done.exit_code == ExitCode.PASSED, done.output
    assert copy.read_text().count("expectEvents:") >= path.read_text().count("expectEvents:")
    assert rules_broken(copy) <= broken
    where = ("--topology", "all", *release(path))
    run = pushbackd("conform", copy, "--time", "virtual", "--jobs", 1, "--seed", 77, *where)
    assert run.exit_code == ExitCode.PASSED, run.output
