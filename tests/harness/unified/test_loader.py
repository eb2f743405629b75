"""Reading scenario files: values, places, and one clear error for what cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from bson import Binary, Decimal128, Int64, ObjectId
from hypothesis import given
from hypothesis import strategies as st

from harness.unified.build import build
from harness.unified.errors import ScenarioError
from harness.unified.loader import load, read
from harness.unified.model import UNSET, ExpectedEvent, Operation, TestFile
from mongowire.documents.marks import Mark, Marked

Write: TypeAlias = Callable[..., Path]

WORDS = st.sampled_from(
    [
        "callback",
        "operation",
        "event",
        "entities",
        "client",
        "id",
        "$oid",
        "$date",
        "$binary",
        "$numberLong",
        "x",
    ]
)
SCALARS = st.none() | st.booleans() | st.integers(-1, 2**70) | st.floats() | WORDS

MINIMAL = """\
description: minimal
schemaVersion: "1.0"
tests:
  - description: one
    operations: []
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str | bytes, name: str = "case.yml") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write_file


def value_of(path: Path) -> Any:
    return read(path).value


class TestBadInput:
    @pytest.mark.parametrize(
        ("name", "content", "line"), [("a.yml", "a: 1\na: 2\n", 2), ("a.json", '{"a": 1,\n "a": 2}', 2)]
    )
    def test_what_the_reader_refuses_is_an_error_of_a_scenario_with_its_place(
        self, name: str, content: str, line: int, write: Write
    ) -> None:
        path = write(content, name)
        with pytest.raises(ScenarioError, match="'a' is repeated") as raised:
            load(path)
        assert raised.value.location is not None
        assert (raised.value.location.path, raised.value.location.line) == (path, line)
        assert raised.value.fix

    def test_a_file_that_does_not_exist_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ScenarioError, match=r"nowhere\.yml.*cannot be read"):
            load(tmp_path / "nowhere.yml")


class TestModel:
    def test_a_file_becomes_cases_that_know_their_lines(self, write: Write) -> None:
        text = MINIMAL + '  - description: "two"\n    skipReason: why\n    operations: []\n'
        file = load(write(text, "stem.yml"))
        assert isinstance(file, TestFile)
        assert [case.line for case in file.cases] == [4, 6]
        assert [case.index for case in file.cases] == [0, 1]
        assert file.cases[1].skip_reason == "why"

    def test_case_ids_name_the_specification_the_file_and_the_description(
        self, write: Write, tmp_path: Path
    ) -> None:
        folder = tmp_path / "source" / "retryable-writes" / "tests" / "unified"
        folder.mkdir(parents=True)
        path = folder / "insertOne.yml"
        path.write_text(MINIMAL)
        assert load(path).cases[0].id == "retryable-writes/insertOne::one"

    def test_empty_and_repeated_descriptions_get_ids_of_their_own(self, write: Write) -> None:
        descriptions = ["''", "''", "same", "same", "other"]
        tests = "".join(f"  - {{description: {name}, operations: []}}\n" for name in descriptions)
        file = load(write(MINIMAL.partition("  - ")[0] + tests))
        names = [case.id.partition("::")[2] for case in file.cases]
        assert names == ["[0]", "[1]", "same [2]", "same [3]", "other"]

    def test_an_operation_keeps_its_expectations_and_its_line(self, write: Write) -> None:
        text = MINIMAL.replace(
            "operations: []",
            """operations:
      - name: insertOne
        object: collection0
        arguments: {document: {_id: {$oid: "000000000000000000000001"}, n: {$numberLong: "5"}}}
        expectError:
          errorCode: 11000
          errorLabelsOmit: [RetryableWriteError]
      - {name: find, object: collection0, saveResultAsEntity: saved}""",
        )
        first, second = load(write(text)).cases[0].operations
        assert first.location.line == 6
        assert first.arguments == {"document": {"_id": ObjectId("0" * 23 + "1"), "n": Int64(5)}}
        assert type(first.arguments["document"]["n"]) is Int64
        assert first.expect_error is not None
        assert (first.expect_error.code, first.expect_error.labels_omit) == (11000, ("RetryableWriteError",))
        assert first.expect_result is UNSET
        assert second.save_result_as_entity == "saved"

    def test_operations_and_events_inside_arguments_are_parts_of_the_model(self, write: Write) -> None:
        text = MINIMAL.replace(
            "operations: []",
            """operations:
      - name: withTransaction
        object: session0
        arguments:
          callback:
            - {name: insertOne, object: collection0, arguments: {document: {x: 1}}}
      - name: waitForEvent
        object: testRunner
        arguments: {client: client0, event: {poolReadyEvent: {}}, count: 1}""",
        )
        first, second = load(write(text)).cases[0].operations
        (inner,) = first.arguments["callback"]
        assert isinstance(inner, Operation)
        assert inner.location.line == 10
        assert isinstance(second.arguments["event"], ExpectedEvent)

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("{$numberDecimal: '1.5'}", Decimal128("1.5")),
            ("{$binary: {base64: 'aGk=', subType: '04'}}", Binary(b"hi", 4)),
            ("{$numberDouble: 'Infinity'}", float("inf")),
            ("{$gt: 1}", {"$gt": 1}),
            ("{$type: string}", {"$type": "string"}),
            ("{$regex: '^a'}", {"$regex": "^a"}),
            ("{$$type: int}", {"$$type": "int"}),
        ],
    )
    def test_extended_json_is_decoded_and_query_operators_are_kept(
        self, text: str, value: Any, write: Write
    ) -> None:
        operation = f"operations: [{{name: find, object: c, arguments: {{filter: {{x: {text}}}}}}}]"
        case = load(write(MINIMAL.replace("operations: []", operation))).cases[0]
        assert case.operations[0].arguments == {"filter": {"x": value}}

    @pytest.mark.parametrize(
        "text",
        [
            "{$oid: 1}",
            "{$oid: xyz}",
            "{$numberDecimal: x}",
            "{$binary: 1}",
            "{$date: {x: 1}}",
            "{$binary: {}}",
        ],
    )
    def test_wrong_extended_json_is_an_error_with_its_line(self, text: str, write: Write) -> None:
        operation = f"operations: [{{name: find, object: c, arguments: {{filter: {{x: {text}}}}}}}]"
        with pytest.raises(ScenarioError, match=r"case\.yml:5.*Extended JSON"):
            load(write(MINIMAL.replace("operations: []", operation)))

    def test_a_malformed_entity_inside_a_test_is_an_error_with_its_line(self, write: Write) -> None:
        operation = (
            "operations:\n      - name: createEntities\n        object: testRunner\n        arguments:\n"
        )
        text = MINIMAL.replace("operations: []", operation + "          entities: [{clint: {id: a}}]")
        with pytest.raises(ScenarioError, match=r"case\.yml:9:.*entities\[0\]\.clint: unknown field"):
            load(write(text))

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ("callback: 1", "callback: must be a list of operation documents"),
            ("callback: [{name: find}]", "callback[0]: field 'object' is missing"),
            (
                "operation: {name: a, object: b, argument: {}}",
                "argument: unknown field (did you mean 'arguments'?)",
            ),
            ("event: {}", "event: is empty"),
            ("event: {poolReadyEvent: {x: 1}}", "poolReadyEvent.x: unknown field"),
            ("entities: [{client: {}}]", "entities[0].client: field 'id' is missing"),
        ],
    )
    def test_what_the_public_schemas_do_not_look_at_is_checked_too(
        self, arguments: str, said: str, write: Write
    ) -> None:
        operation = f"operations: [{{name: x, object: y, arguments: {{{arguments}}}}}]"
        with pytest.raises(ScenarioError, match=re.escape(said)):
            load(write(MINIMAL.replace("operations: []", operation)))

    @given(
        st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner), max_leaves=8),
        WORDS,
    )
    def test_no_arguments_at_all_make_anything_but_a_scenario_error(self, value: Any, name: str) -> None:
        operation = {"name": "x", "object": "y", "arguments": {name: value}, "expectResult": value}
        tests = [{"description": "one", "operations": [operation]}]
        document = {"description": "d", "schemaVersion": "1.0", "tests": tests}
        with suppress(ScenarioError):
            build(Marked(document, Mark(), Path("any.yml")))
