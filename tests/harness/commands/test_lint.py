"""`pushbackd lint`: exit codes, output, and the choice of rules."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fakeserver.control.scenario.building import FOLDER
from harness.formats.grammar import SCHEMAS
from harness.lint.engine import lint_file, lint_files
from harness.lint.rules import READING, RULES
from harness.planning.discovery import bundled_root, discover, is_scenario
from harness.planning.result import ExitCode

DOCS = Path(__file__).parents[3] / "docs"

SOUND = """\
description: x
schemaVersion: "1.0"
tests:
  - description: a
    operations:
      - name: assertCollectionNotExists
        object: testRunner
        arguments: { databaseName: shop, collectionName: stock }
"""
SUSPICIOUS = SOUND.replace('"1.0"', '"1.4"')
UNUSABLE = SOUND.replace("tests:", "test:")


@pytest.mark.parametrize(
    ("content", "code"),
    [(SOUND, ExitCode.PASSED), (SUSPICIOUS, ExitCode.FAILED), (UNUSABLE, ExitCode.BAD_INPUT)],
)
def test_the_exit_code_tells_sound_from_suspicious_from_unusable(
    content: str, code: ExitCode, write: Any, pushbackd: Any
) -> None:
    assert pushbackd("lint", write(content)).exit_code == code


def test_without_paths_the_bundled_scenarios_are_checked_and_are_sound() -> None:
    findings = [each for path in discover([bundled_root()]) for each in lint_file(path)]
    assert [str(each) for each in findings] == []


FOR_SERVERS = 'pushbackd: "1.0"\ndescription: x\ntimeline:\n  - at: 1s\n    limits: {requests: 3/s}\n'


def test_scenarios_for_servers_are_checked_beside_the_others(tmp_path: Path, pushbackd: Any) -> None:
    (tmp_path / "test.yml").write_text(SOUND)
    (tmp_path / "servers.yml").write_text(FOR_SERVERS)
    assert pushbackd("lint", tmp_path).exit_code == ExitCode.PASSED
    (tmp_path / "servers.yml").write_text(FOR_SERVERS.replace("limits", "limitz"))
    found = pushbackd("lint", tmp_path)
    assert found.exit_code == ExitCode.BAD_INPUT
    what = "timeline[0]: unknown field or verb 'limitz'; did you mean 'limits'? (schema)"
    assert found.stdout == (
        f"{tmp_path}/servers.yml:5:5: {what}\n    5 |     limitz: {{requests: 3/s}}\n      |     ^^^^^^\n"
    )


def test_the_bundled_scenarios_for_servers_are_sound(pushbackd: Any) -> None:
    assert pushbackd("lint", FOLDER).exit_code == ExitCode.PASSED


def test_a_run_says_what_else_a_scenario_for_servers_is_for(write: Any, pushbackd: Any) -> None:
    refused = pushbackd("conform", write(FOR_SERVERS))
    assert refused.exit_code == ExitCode.BAD_INPUT
    assert ":1:1: is a scenario for servers, and tests no driver (--server-scenario runs" in refused.stderr


@pytest.mark.parametrize(
    ("options", "fires"),
    [
        ((), True),
        (("--select", "schema-version"), True),
        (("--select", "unused-entity,unused-anchor"), False),
        (("--ignore", "schema-version"), False),
        (("--select", "schema-version", "--ignore", "schema-version"), False),
    ],
)
def test_rules_are_selected_and_ignored(
    options: tuple[str, ...],
    *,
    fires: bool,
    write: Any,
    pushbackd: Any,
) -> None:
    assert ("(schema-version)" in pushbackd("lint", write(SUSPICIOUS), *options).stdout) is fires


def test_a_file_that_cannot_be_used_is_told_whatever_is_selected(write: Any, pushbackd: Any) -> None:
    path = write(UNUSABLE)
    assert pushbackd("lint", path, "--select", "unused-anchor").exit_code == ExitCode.BAD_INPUT
    assert pushbackd("lint", path, "--ignore", "schema").exit_code == ExitCode.PASSED


def test_a_rule_that_does_not_exist_is_a_wrong_command_line(write: Any, pushbackd: Any) -> None:
    done = pushbackd("lint", write(SOUND), "--select", "nonsense")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "there is no rule 'nonsense'" in done.stderr


def test_json_is_one_object_a_finding_and_one_with_the_totals(write: Any, pushbackd: Any) -> None:
    path = write(SUSPICIOUS)
    finding, totals = map(json.loads, pushbackd("lint", path, "--json").stdout.splitlines())
    assert (finding["path"], finding["line"], finding["column"]) == (str(path), 2, 16)
    assert (finding["rule"], finding["refused"]) == ("schema-version", False)
    assert totals == {"summary": {"files": 1, "findings": 1, "unusable-files": 0}}


def test_the_rules_can_be_shown(pushbackd: Any) -> None:
    shown = pushbackd("lint", "--rules").stdout
    assert all(rule.id in shown and rule.sentence in shown for rule in RULES)
    assert all(name in shown for name in READING)


def test_a_folder_without_scenarios_is_bad_input(tmp_path: Path, pushbackd: Any) -> None:
    assert pushbackd("lint", tmp_path).exit_code == ExitCode.BAD_INPUT


@pytest.mark.slow
def test_several_processes_find_what_one_finds(write: Any) -> None:
    paths = [write((SOUND, SUSPICIOUS, UNUSABLE)[place % 3], f"{place}.yml") for place in range(90)]
    findings = lint_files(paths, jobs=2)
    assert findings == lint_files(paths, jobs=1)
    assert len(findings) == 60


def test_errors_only_leaves_warnings_out_and_passes_a_step(write: Any, pushbackd: Any) -> None:
    suspicious, unusable = write(SUSPICIOUS, "a.yml"), write(UNUSABLE, "b.yml")
    done = pushbackd("lint", "--errors-only", suspicious)
    assert (done.exit_code, done.output) == (ExitCode.PASSED, "")
    done = pushbackd("lint", "--errors-only", suspicious, unusable)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "(schema)" in done.stdout
    assert "(schema-version)" not in done.stdout


def test_fix_mends_what_is_certain_and_tells_it(write: Any, pushbackd: Any) -> None:
    path = write(UNUSABLE.replace('"1.0"', '"1.4"'))
    done = pushbackd("lint", "--fix", path)
    assert (done.exit_code, done.stdout) == (ExitCode.PASSED, "")
    assert done.stderr.splitlines() == [f"fixed: {path}:3: test → tests", f'fixed: {path}:2: "1.4" → "1.0"']
    assert path.read_text() == SOUND


def test_the_line_with_the_mistake_stands_below_it(write: Any, pushbackd: Any) -> None:
    assert pushbackd("lint", write(UNUSABLE)).stdout.splitlines()[1:] == ["    3 | test:", "      | ^^^^"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_format_has_a_schema_for_editors(name: str, pushbackd: Any) -> None:
    schema = json.loads(pushbackd("schema", "--format", name).stdout)
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["properties"]


EXAMPLE = re.compile(r"```yaml\n(.*?)```", re.DOTALL)


def examples_of(page: Path) -> list[str]:
    """Return the documents in a page; one that begins with a case goes on with the scenario before it."""
    found: list[str] = []
    for example in EXAMPLE.findall(page.read_text()):
        if example.startswith("  - description:") and found:
            found[-1] += example
        else:
            found.append(example)
    return found


def test_whole_scenarios_in_the_documents_are_sound(tmp_path: Path) -> None:
    found = 0
    for page in sorted(DOCS.rglob("*.md")):
        for index, example in enumerate(examples_of(page)):
            path = tmp_path / f"{page.stem}-{index}.yml"
            path.write_text(example)
            if "\ntests:" in example and is_scenario(path, servers=True):
                found += 1
                assert [str(each) for each in lint_file(path)] == []
    assert found
