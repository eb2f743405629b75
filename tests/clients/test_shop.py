"""The shop of the examples: its naive loop does not bear a drill, the mended one does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import cli

SHOP = Path(__file__).parents[2] / "examples/shop"

pytestmark = pytest.mark.slow


def drill(program: str, file: Path) -> int:
    arguments = ["--shed", "10%", "--seed", "7", "--topology", "single", "--json", str(file)]
    command = [sys.executable, str(SHOP / program), "60"]
    return CliRunner().invoke(cli, ["drill", *arguments, "--", *command]).exit_code


def test_the_naive_shop_fails_a_drill(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert drill("shop_naive.py", tmp_path / "naive.json") == 1
    assert "orders were booked twice" in capfd.readouterr().err


def test_the_mended_shop_passes_it_although_requests_were_refused(tmp_path: Path) -> None:
    file = tmp_path / "mended.json"
    assert drill("shop_mended.py", file) == 0
    told = json.loads(file.read_text())
    assert told["refused"] > told["refusedRetryable"] > 0
    assert told["overloadErrors"] > 0


@pytest.mark.parametrize("program", ["shop_naive.py", "shop_mended.py"])
def test_both_shops_pass_where_nothing_is_refused(program: str) -> None:
    command = [sys.executable, str(SHOP / program), "20"]
    drilled = CliRunner().invoke(cli, ["drill", "--shed", "0%", "--topology", "single", "--", *command])
    assert drilled.exit_code == 0
