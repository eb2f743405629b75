"""Which documents are scenarios, and what is said of those that are not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.unified.errors import ScenarioError
from harness.unified.loader import load
from harness.unified.schema.grammar import MINOR_MAX, file_schema

if TYPE_CHECKING:
    from pathlib import Path

HEAD = 'description: d\nschemaVersion: "{version}"\n'
TESTS = "tests:\n  - description: one\n    operations: []\n"


def complaint(tmp_path: Path, text: str, *, version: str = "1.0") -> str:
    path = tmp_path / "case.yml"
    path.write_text(HEAD.format(version=version) + text)
    with pytest.raises(ScenarioError) as raised:
        load(path)
    return str(raised.value).removeprefix(f"{path}:")


ONE_OPERATION = "tests:\n  - description: one\n    operations:\n      - "

REFUSED = {
    TESTS + "    outcom: []\n": "6:5: tests[0].outcom: unknown field (did you mean 'outcome'?)",
    ONE_OPERATION + "{name: find}\n": ("6:9: tests[0].operations[0]: field 'object' is missing (add object)"),
    "tests: []\n": "3:8: tests: is empty (leave it out, or give at least one)",
    "tests: 1\n": "3:8: tests: must be a list, is an integer",
    "createEntities: [{client: {id: a}, database: {id: b, client: a, databaseName: c}}]\n" + TESTS: (
        "3:18: createEntities[0]: has more than one field (make each an element of its own)"
    ),
    "createEntities: [{client: {id: a, observeEvents: [commandStartEvent]}}]\n" + TESTS: (
        "3:51: createEntities[0].client.observeEvents[0]: 'commandStartEvent' is not one of"
        " commandStartedEvent, commandSucceededEvent, commandFailedEvent"
        " (did you mean 'commandStartedEvent'?)"
    ),
    ONE_OPERATION + "{name: a, object: b, expectError: {isError: true}, expectResult: 1}\n": (
        "6:74: tests[0].operations[0].expectResult: is not allowed beside the other fields here"
        " (remove one of them)"
    ),
    TESTS + "    expectEvents: [{client: c, events: [], ignoreExtraEvents: true}]\n": (
        "6:44: tests[0].expectEvents[0].ignoreExtraEvents: unknown field"
        ' (declare schemaVersion "1.7", which has it)'
    ),
    TESTS + "    expectTracingMessages: []\n": (
        '6:5: tests[0].expectTracingMessages: unknown field (schemaVersion "1.27" has it)'
    ),
    "runOnRequirements: [{minServerVersion: x}]\n" + TESTS: (
        "3:40: runOnRequirements[0].minServerVersion: 'x' is not a version (write it like \"1.0\")"
    ),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.items())
def test_an_error_names_the_line_the_field_and_the_fix(text: str, said: str, tmp_path: Path) -> None:
    assert complaint(tmp_path, text) == said


@pytest.mark.parametrize("version", ["0.1", "2.0", f"1.{MINOR_MAX + 1}", f"1.{MINOR_MAX}.1"])
def test_an_unsupported_schema_version_is_named(version: str, tmp_path: Path) -> None:
    said = complaint(tmp_path, TESTS, version=version)
    assert f"schemaVersion {version} is not supported" in said
    assert said.startswith("2:16")


@pytest.mark.parametrize(
    "version", [*(f"1.{minor}" for minor in range(MINOR_MAX + 1)), "1.0.0", "1.5.3", f"1.{MINOR_MAX}.0"]
)
def test_every_version_up_to_the_newest_is_supported(version: str, tmp_path: Path) -> None:
    path = tmp_path / "case.yml"
    path.write_text(HEAD.format(version=version) + TESTS)
    assert load(path).schema_version == version


def test_of_many_errors_the_first_in_the_file_is_told(tmp_path: Path) -> None:
    assert complaint(tmp_path, "runOnRequirements: [{}]\ntests: []\n").startswith("3:21")


@pytest.mark.parametrize("text", ["[]", "just text", "5"])
def test_a_document_that_is_no_mapping_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "case.yml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match="not a mapping"):
        load(path)


def test_every_minor_version_has_a_schema_that_only_grows() -> None:
    previous: set[str] = set()
    for minor in range(MINOR_MAX + 1):
        fields = set(file_schema(minor)["properties"]["tests"]["items"]["properties"])
        assert previous <= fields
        previous = fields


def test_in_a_checkout_the_public_schema_is_asked_too(tmp_path: Path) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"description": {"const": "other"}}}
    folder = tmp_path / "unified-test-format"
    folder.mkdir()
    (folder / "schema-1.0.json").write_text(json.dumps(schema))
    said = complaint(tmp_path, TESTS)
    assert said.startswith("1:14: description: does not follow schema-1.0.json")
