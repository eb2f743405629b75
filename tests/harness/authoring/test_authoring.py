"""What authors are given: a file to start from, a schema for their editors, and JSON twins."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from harness.authoring.editor_schema import editor_schema
from harness.authoring.template import starting_text
from harness.formats import UNIFIED, format_of
from harness.lint.engine import lint_file
from harness.planning.discovery import bundled_root, discover
from harness.planning.result import ExitCode
from harness.unified.loader import read
from harness.unified.schema.grammar import MINOR_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOUND = 'description: x\nschemaVersion: "1.0"\ntests:\n  - description: a\n    operations: []\n'


def fail_point(name: str = "failCommand", **more: Any) -> dict[str, Any]:
    """Return an operation that sets a fail point."""
    command = {"configureFailPoint": name, **more}
    return {"name": "failPoint", "arguments": {"client": "client", "failPoint": command}}


@pytest.fixture
def schema() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(editor_schema())


class TestNew:
    def test_the_new_file_has_nothing_for_lint_to_find(self, tmp_path: Path, pushbackd: Any) -> None:
        path = tmp_path / "folder" / 'a: "strange" name\'s.yml'
        assert pushbackd("new", path).exit_code == ExitCode.PASSED
        assert lint_file(path) == []
        assert read(path).value["description"] == path.stem

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("adapter", "time"), [("reference", "virtual"), ("pymongo", "real"), ("pymongo-async", "real")]
    )
    def test_the_new_file_passes_as_it_is(
        self, adapter: str, time: str, tmp_path: Path, pushbackd: Any
    ) -> None:
        pushbackd("new", tmp_path / "first.yml")
        done = pushbackd("conform", tmp_path, "--adapter", adapter, "--time", time)
        assert done.exit_code == ExitCode.PASSED, done.output
        assert "1 passed" in done.stdout

    def test_its_first_line_names_the_schema_that_stands_beside_it(
        self, tmp_path: Path, pushbackd: Any, schema: jsonschema_rs.Draft202012Validator
    ) -> None:
        path = tmp_path / "first.yml"
        pushbackd("new", path)
        first, *_ = path.read_text().splitlines()
        beside = tmp_path / first.removeprefix("# yaml-language-server: $schema=")
        assert json.loads(beside.read_text()) == editor_schema()
        assert schema.is_valid(read(path).value)
        assert discover([tmp_path]) == (path,)

    def test_a_schema_that_stands_elsewhere_is_not_written(self, tmp_path: Path, pushbackd: Any) -> None:
        pushbackd("new", tmp_path / "first.yml", "--schema", "https://example.org/schema.json")
        assert [path.name for path in tmp_path.iterdir()] == ["first.yml"]
        assert (tmp_path / "first.yml").read_text() == starting_text(
            "first.yml", schema="https://example.org/schema.json"
        )

    def test_a_file_that_is_there_is_kept(self, write: Any, pushbackd: Any) -> None:
        path = write("mine")
        assert pushbackd("new", path).exit_code == ExitCode.BAD_INPUT
        assert path.read_text() == "mine"
        assert pushbackd("new", path, "--force").exit_code == ExitCode.PASSED
        assert lint_file(path) == []

    def test_a_scenario_is_not_begun_in_json(self, tmp_path: Path, pushbackd: Any) -> None:
        assert pushbackd("new", tmp_path / "first.json").exit_code == ExitCode.BAD_INPUT


class TestSchema:
    def test_it_is_printed_whole(self, pushbackd: Any) -> None:
        assert json.loads(pushbackd("schema").stdout) == editor_schema(MINOR_MAX)

    def test_an_older_version_has_fewer_fields(self, pushbackd: Any) -> None:
        older = json.loads(pushbackd("schema", "--minor", 12).stdout)
        assert "expectLogMessages" not in json.dumps(older)
        assert "expectLogMessages" in json.dumps(editor_schema(13))

    def test_it_knows_every_bundled_scenario(self, schema: jsonschema_rs.Draft202012Validator) -> None:
        documents = [read(path).value for path in discover([bundled_root()])]
        assert all(schema.is_valid(each) for each in documents if format_of(each) is UNIFIED)

    @pytest.mark.parametrize(
        ("operation", "valid"),
        [
            ({"name": "insertOne", "arguments": {"document": {}}}, True),
            ({"name": "insertTwo", "arguments": {"document": {}}}, False),
            ({"name": "insertOne"}, False),
            ({"name": "insertOne", "arguments": {"document": 1}}, False),
            ({"name": "insertOne", "arguments": {"document": {}, "orderd": True}}, False),
            ({"name": "find", "arguments": {"filter": {}, "limit": {"$numberLong": "1"}}}, True),
            (fail_point(mode={"times": 1}, data={"failCommands": ["insert"], "errorCode": 91}), True),
            (fail_point(mode={"skip": 1}), True),
            (fail_point(mode="off"), True),
            (fail_point(mode="on"), False),
            (fail_point(mode={"times": 1, "skip": 1}), False),
            (fail_point(mode="off", data={"failCommand": ["insert"]}), False),
            (fail_point(mode="off", data={"errorLabels": "RetryableWriteError"}), False),
            (
                fail_point("onPrimaryTransactionalWrite", mode="off", data={"failCommands": ["insert"]}),
                False,
            ),
        ],
    )
    def test_it_knows_operations_their_arguments_and_what_is_in_a_fail_point(
        self, schema: jsonschema_rs.Draft202012Validator, operation: dict[str, Any], *, valid: bool
    ) -> None:
        case = {"description": "a", "operations": [{"object": "any", **operation}]}
        assert schema.is_valid({"description": "x", "schemaVersion": "1.0", "tests": [case]}) is valid

    def test_editors_are_offered_commands_and_codes_by_their_names(self) -> None:
        parts = editor_schema()["definitions"]
        assert {"const": 462, "description": "IngressRequestRateLimitExceeded"} in parts["errorCode"]["anyOf"]
        assert {"insert", "isMaster"} <= set(parts["commandName"]["anyOf"][0]["enum"])
        assert "SystemOverloadedError" in parts["label"]["examples"]

    def test_every_field_has_a_description(self) -> None:
        fields = list(described_fields(editor_schema()))
        assert len(fields) > 500
        assert [name for name, sentence in fields if not sentence.endswith((".", "…"))] == []


def described_fields(part: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of a schema with their descriptions; conditions name them again, without."""
    if isinstance(part, list):
        for each in part:
            yield from described_fields(each)
    elif isinstance(part, dict):
        for name, value in part.items():
            if name in ("properties", "patternProperties"):
                for field, inner in value.items():
                    if inner is not False:
                        yield field, inner.get("description", "")
            if name not in ("if", "dependentSchemas"):
                yield from described_fields(list(value.values()) if name == "properties" else value)


class TestToJson:
    def test_the_twin_holds_the_same_and_does_not_drift(self, write: Any, pushbackd: Any) -> None:
        path = write(starting_text("case.yml", schema="x"))
        done = pushbackd("to-json", path)
        twin = path.with_suffix(".json")
        assert (done.exit_code, done.stdout) == (ExitCode.PASSED, f"{twin}\n")
        assert json.loads(twin.read_text()) == read(path).value
        assert read(twin).value == read(path).value
        assert lint_file(path) == []

    def test_a_twin_that_is_up_to_date_is_not_named(self, write: Any, pushbackd: Any) -> None:
        path = write(SOUND)
        pushbackd("to-json", path)
        again = pushbackd("to-json", path)
        assert (again.exit_code, again.stdout) == (ExitCode.PASSED, "")

    def test_check_writes_nothing_and_tells_what_would_change(self, write: Any, pushbackd: Any) -> None:
        path = write(SOUND)
        assert pushbackd("to-json", "--check", path).exit_code == ExitCode.FAILED
        assert not path.with_suffix(".json").exists()
        pushbackd("to-json", path)
        assert pushbackd("to-json", "--check", path).exit_code == ExitCode.PASSED

    def test_a_broken_file_keeps_all_from_being_written(self, write: Any, pushbackd: Any) -> None:
        sound, broken = write(SOUND, "a.yml"), write("tests: []\n", "b.yml")
        done = pushbackd("to-json", sound, broken)
        assert done.exit_code == ExitCode.BAD_INPUT
        assert f"{broken}:1:1" in done.stderr
        assert not sound.with_suffix(".json").exists()

    def test_what_json_cannot_say_is_refused_with_its_place(self, write: Any, pushbackd: Any) -> None:
        path = write(SOUND.replace("[]", "[{name: wait, object: testRunner, arguments: {ms: .inf}}]"))
        done = pushbackd("to-json", path)
        assert done.exit_code == ExitCode.BAD_INPUT
        assert f"{path}:5:67: " in done.stderr
        assert "JSON has no inf" in done.stderr
