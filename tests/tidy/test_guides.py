"""The scenario in the guide passes, its expectations file is one, and the tables of options are complete."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml

from driver.editions import EDITION_2026_02_20, EDITION_2026_07_08, Edition
from driver.policy.backpressure import Backoff
from driver.policy.retry import RetryPolicy
from driver.transaction import backoff_before
from fakeserver import pytest_plugin as fixture_plugin
from harness import pytest_plugin as scenario_plugin
from harness.cli import cli
from harness.planning import expectations
from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS = Path(__file__).parents[2] / "docs"
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\| (?:`(\w+)`)? ?\| (?:`(\S+)`)? ?\| (.*?) \| (?:`(\S+)`)? ?\|$", re.MULTILINE)

SCENARIO, EXPECTATIONS = YAML.findall((DOCS / "SCENARIOS.md").read_text())
CI = (DOCS / "CI.md").read_text()
WORKFLOW, DRIVER_WORKFLOW = YAML.findall(CI)


class Parser:
    """Notes what a plugin declares."""

    def __init__(self) -> None:
        self.flags: set[str] = set()
        self.options: dict[str, tuple[str, str]] = {}

    def getgroup(self, *_names: str) -> Parser:
        return self

    def addoption(self, flag: str, **_facts: Any) -> None:
        self.flags.add(flag)

    def addini(self, name: str, help_text: str, *, default: Any, **_facts: Any) -> None:
        self.options[name] = (help_text, " ".join(default) if isinstance(default, list) else default)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["--time", "virtual"], ["--adapter", "pymongo"], ["--adapter", "pymongo-async"]]
)
def test_the_scenario_in_the_guide_passes(tmp_path: Path, arguments: list[str]) -> None:
    path = tmp_path / "a-retried-insert.yml"
    path.write_text(SCENARIO)
    assert cli.main(["conform", str(path), *arguments], standalone_mode=False) is ExitCode.PASSED


def test_the_expectations_in_the_guide_are_an_expectations_file(tmp_path: Path) -> None:
    path = tmp_path / "expected.yml"
    path.write_text(EXPECTATIONS)
    assert [entry.kind for entry in expectations.load(path).entries] == ["known-failing", "skip", "flaky"]


def test_the_commands_of_the_workflow_for_ci_are_commands() -> None:
    lines = re.findall(r"run: pushbackd (\S+) (.*)$", WORKFLOW, re.MULTILINE)
    assert [verb for verb, _ in lines] == ["lint", "conform"]
    for verb, arguments in lines:
        command = cli.get_command(click.Context(cli), verb)
        assert command is not None
        with command.make_context(verb, arguments.split()) as context:
            (named,) = context.params.get("names") or context.params["paths"]
            assert str(named) == "scenarios"


def test_the_workflow_of_a_driver_is_the_table_s_build_and_commands_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mongo-go-driver/known.yml", "results.jsonl.gz"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    (job,) = yaml.safe_load(DRIVER_WORKFLOW)["jobs"].values()
    run = [step["run"] for step in job["steps"] if "run" in step]
    (row,) = re.findall(r"^\| Go \| (.*) \| `(.*)` \|$", CI, re.MULTILINE)
    assert (re.findall(r"`([^`]+)`", row[0]), row[1]) == (run[1].splitlines(), job["env"]["ADAPTER"])
    commands = [line.removeprefix("pushbackd ") for line in run[2:]]
    assert [line.split()[0] for line in commands] == ["check-adapter", "conform", "drivers"]
    for line in commands:
        verb, *arguments = shlex.split(line.replace("$ADAPTER", row[1]))
        command = cli.get_command(click.Context(cli), verb)
        assert command is not None
        command.make_context(verb, arguments).close()


def test_what_the_builds_of_adapters_name_is_there() -> None:
    table = CI.split("| driver | build |", 1)[1].split("\n\n", 1)[0]
    named = re.findall(r"pushbackd/(examples/adapters/[\w/.]*\w)", table)
    sources = [name for name in named if "/target" not in name]
    assert len({name.split("/")[2] for name in named}) == 6
    assert [name for name in sources if not (DOCS.parent / name).exists()] == []
    pom = (DOCS.parent / "examples/adapters/java/pom.xml").read_text()
    assert [name for name in re.findall(r"-D(driver\.\w+)=", table) if f"<{name}>" not in pom] == []


def test_the_guide_to_pytest_has_every_option_with_its_meaning_and_default() -> None:
    declared: Any = Parser()
    fixture_plugin.pytest_addoption(declared)
    scenario_plugin.pytest_addoption(declared)
    rows = ROW.findall((DOCS / "PYTEST.md").read_text())
    named = {name: (meaning, default) for name, _, meaning, default in rows if name}
    assert named == declared.options
    assert {flag for _, flag, _, _ in rows if flag} == declared.flags


def chapter(path: Path, heading: str) -> str:
    """Return the text below a heading, to the next one."""
    return path.read_text().split(f"\n## {heading}\n", 1)[1].split("\n#", 1)[0]


@pytest.mark.spec("CMAP-97")
def test_the_driver_s_guide_says_what_a_fork_does_to_connections() -> None:
    told = chapter(DOCS / "DRIVER.md", "Forks")
    assert "Connections do not survive a fork" in told
    assert "resets itself in the child" in told


@pytest.mark.spec("CB-22")
def test_the_driver_s_guide_has_the_number_and_the_waits_of_overload_retries() -> None:
    told = chapter(DOCS / "DRIVER.md", "When the server is overloaded")
    policy = RetryPolicy.of(EDITION_2026_02_20)
    waits = [policy.backoff.before(retry, 1.0) for retry in range(1, policy.max_adaptive_retries + 1)]
    assert policy.max_adaptive_retries == 5
    assert "Every command" in told
    assert "at most five times" in told
    assert [float(wait) for wait in re.findall(r"(\d+\.\d+) s\b", told)] == waits


def rows_of_editions() -> dict[str, list[str]]:
    """Return the table of editions: by field what it is in both, and where it stands."""
    lines = chapter(DOCS / "DRIVER.md", "Two editions of the rules").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {row[1].strip("`"): row[2:] for row in rows[2:]}


SHOWN: dict[str, Callable[[Any], str]] = {
    "max_adaptive_retries": str,
    "backpressure": lambda value: f"`backpressure: {json.dumps(value)}`",
    "first_backoff_exponent": lambda value: f"{Backoff(first_exponent=value).before(1, 1.0)} s",
    "first_transaction_exponent": lambda value: f"{backoff_before(1, 1.0, value) * 1000:g} ms",
}
"""How the value of a field begins in the table; one that is missing here is `yes` or `no`."""


@pytest.mark.parametrize("field", [field.name for field in fields(Edition) if field.name != "name"])
def test_the_driver_s_guide_tells_both_editions_side_by_side(field: str) -> None:
    *told, places = rows_of_editions()[field]
    shown = SHOWN.get(field, lambda value: "yes" if value else "no")
    for edition, cell in zip((EDITION_2026_02_20, EDITION_2026_07_08), told, strict=True):
        assert cell.startswith(shown(getattr(edition, field)))
    named = re.findall(r"\[`(.+?)`\]\((.+?)\)", places)
    code = {(name, (DOCS / path).read_text()) for name, path in named}
    for name, text in code:
        assert re.search(rf"(def|class) {name.split('.')[-1]}\b", text), name
    assert any(f"edition.{field}" in text for _, text in code)


def test_the_table_of_editions_has_nothing_else() -> None:
    assert set(rows_of_editions()) == {field.name for field in fields(Edition)} - {"name"}


@pytest.mark.spec("CB-23", "CB-24", "CB-25")
def test_users_are_told_to_look_after_loops_of_their_own_and_to_use_a_driver_that_knows_backpressure() -> (
    None
):
    released = (DOCS.parent / "CHANGELOG.md").read_text().split("\n### ", 1)[0]
    assert "a loop of its own around operations" in released
    told = chapter(DOCS / "DRIVER.md", "Servers that limit their clients")
    assert "Use a driver that knows backpressure" in told
    assert "has to expect more of them" in told
