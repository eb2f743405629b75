"""The guide to what servers saw has every field, and its example passes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.adapters.base import Feature
from harness.cli import cli
from harness.unified.loader import load
from harness.unified.operations import loop, testrunner
from harness.unified.schema.server_side import SERVER_SIDE
from harness.unified.server_side.model import GAP_RULES

GUIDE = (Path(__file__).parents[2] / "docs" / "WITNESS.md").read_text()
EXAMPLE, *KEYS = re.findall(r"```yaml\n(.+?)```", GUIDE, re.DOTALL)
TABLES = {
    heading: [name for row in rows.splitlines()[1:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    for heading, rows in re.findall(r"^\| ([^|]+) \| [a-z]+ \|\n((?:\|.*\n)+)", GUIDE, re.MULTILINE)
}
SECTIONS = SERVER_SIDE["properties"]


def fields(*path: str) -> set[str]:
    schema: Any = {"properties": SECTIONS}
    for name in path:
        schema = schema["properties"][name]
        schema = schema.get("items", schema)
    return set(schema["properties"])


@pytest.mark.parametrize(
    ("heading", "path"),
    [
        ("field of `runOn`", ("runOn",)),
        ("field of an attempt", ("expectAttempts", "each")),
        ("field of a connection", ("expectConnections", "each")),
    ],
)
def test_a_table_has_the_fields_of_the_schema(heading: str, path: tuple[str, ...]) -> None:
    assert set(TABLES[heading]) == fields(*path)


def test_the_sections_have_the_fields_of_the_schema() -> None:
    for section in ("expectAttempts", "expectConnections", "expectMetrics"):
        text = GUIDE.split(f"## {section}\n")[1]
        table = re.search(r"^\| field \| meaning \|\n((?:\|.*\n)+)", text, re.MULTILINE)
        assert table is not None
        named = [
            name for row in table[1].splitlines()[1:] for name in re.findall(r"`(\w+)`", row.split("|")[1])
        ]
        assert set(named) == fields(section)


def test_the_rules_for_gaps_are_those_of_the_code() -> None:
    assert tuple(TABLES["rule for `gap`"]) == GAP_RULES


@pytest.mark.parametrize("edition", ["2026-02-20", "2026-07-08"])
def test_the_example_passes_in_both_editions(edition: str, tmp_path: Path) -> None:
    path = tmp_path / "backoff.yml"
    path.write_text(EXAMPLE)
    result = CliRunner().invoke(cli, ["conform", str(path), "--time", "virtual", "--edition", edition])
    assert result.exit_code == 0, result.output
    assert "1 passed" in result.output


@pytest.mark.parametrize("key", [key for key in KEYS if "pushbackd:" in key])
def test_the_sections_that_are_shown_are_valid(key: str, tmp_path: Path) -> None:
    path = tmp_path / "section.yml"
    path.write_text(
        f'description: d\nschemaVersion: "1.0"\ntests:\n  - description: one\n    operations: []\n{key}'
    )
    assert load(path).cases[0].server_side is not None


def test_the_operations_of_our_own_are_told_with_their_features() -> None:
    table = GUIDE.split("| where | meaning | feature |\n")[1].split("\n\n")[0]
    for spec in (*loop.REPEAT, *testrunner.RETRY_TOKENS):
        (row,) = [row for row in table.splitlines() if f"`{spec.name}`" in row]
        assert all(f"`{name}`" in row for name in spec.arguments)
        assert all(feature.name in row for feature in spec.requires)
    assert Feature.JITTER.name in table
