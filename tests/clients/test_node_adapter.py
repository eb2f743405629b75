"""The Node driver, judged: through the adapter in its language it passes scenarios, ours and public ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from node_adapter import COMMAND, NEEDS_NODE

from harness.cli import cli
from harness.result import ExitCode

SCENARIOS = Path(__file__).parents[2] / "spec_tests"

pytestmark = [pytest.mark.slow, *NEEDS_NODE]


def conform(*arguments: object) -> tuple[int, dict[str, int], list[str]]:
    """Return the exit code, how many cases ended how, and what was wrong with each that failed."""
    done = CliRunner().invoke(cli, ["conform", "--json", "--adapter", f"cmd:{COMMAND}", *map(str, arguments)])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    results = [line for line in lines if "id" in line]
    wrong = [f"{each['id']}: {each['reason']}" for each in results if each["status"] == "failed"]
    counts: dict[str, int] = {}
    for each in results:
        counts[each["status"]] = counts.get(each["status"], 0) + 1
    return done.exit_code, counts, wrong


def test_bundled_scenarios_pass_with_workers() -> None:
    code, counts, wrong = conform(SCENARIOS / "retryable-writes", "--jobs", 2)
    assert (code, wrong) == (ExitCode.PASSED, [])
    assert counts["passed"] > 20


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("folder", "passes"), [("retryable-writes", 94), ("client-backpressure", 103), ("crud", 252)]
)
def test_the_given_files_pass_or_are_known_to_fail(corpus: Path, folder: str, passes: int) -> None:
    code, counts, wrong = conform(corpus / folder)
    assert (code, wrong) == (ExitCode.PASSED, [])
    assert counts["passed"] == passes
