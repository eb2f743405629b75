"""The Node driver, judged: the adapter in its language keeps the contract and passes scenarios."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from check_adapter import CHECKS, Check
from click.testing import CliRunner

from harness.adapters.command import Children
from harness.cli import cli
from harness.deployment import embedded
from harness.result import ExitCode
from harness.unified.deployment import Topology
from mongowire.system import SeededRng, SystemClock, TcpNetwork

if TYPE_CHECKING:
    from harness.adapters.base import DriverAdapter

ROOT = Path(__file__).parents[2]
ADAPTER = ROOT / "examples" / "adapters" / "node" / "adapter.cjs"
COMMAND = shlex.join(["node", str(ADAPTER)])
SCENARIOS = ROOT / "spec_tests"
MODULES = os.environ.get("PUSHBACKD_NODE_MODULES", "").split(os.pathsep)[0]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no node on this machine"),
    pytest.mark.skipif(
        not MODULES or not (Path(MODULES) / "mongodb").is_dir(),
        reason="PUSHBACKD_NODE_MODULES names no folder with the Node driver (npm install mongodb@7)",
    ),
]


@pytest.fixture(autouse=True)
def node_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_PATH", MODULES)


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


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract_of_adapters(check: Check) -> None:
    async def scenario() -> None:
        ports: dict[str, Any] = {"clock": SystemClock(), "network": TcpNetwork(), "rng": SeededRng(0)}
        children = Children(call_seconds=30)
        try:
            async with embedded(Topology.REPLICA_SET, virtual=False, **ports) as deployment:
                adapter: DriverAdapter = await children.adapter(COMMAND, deployment.clock)
                await check(adapter, deployment)
        finally:
            await children.aclose()

    asyncio.run(scenario())


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
