"""Text that a recorder writes is what the loader reads, and looks as scenarios do."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Regex, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from harness.authoring.recording.text import WIDTH, Alias, as_member, in_flow
from harness.unified.build import decoded
from harness.unified.loader import read_yaml

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text() | FLOATS
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)


def read(text: str) -> Any:
    return read_yaml(text, Path("x.yml"))[0].value


@given(DOCUMENTS, st.integers(0, 4), st.sampled_from([0, 4, 100]))
def test_whatever_is_written_is_read_back(value: Any, blocks: int, indent: int) -> None:
    lines = as_member("value", value, indent=indent, blocks=blocks)
    assert read("\n".join(lines))["value"] == value


@pytest.mark.parametrize(
    "word", ["true", "Null", "yes", "off", "~", "1.5", "1e3", "*a", "a: b", "a #b", "", " a", "é"]
)
def test_text_that_could_be_taken_for_something_else_is_quoted(word: str) -> None:
    assert read(f"[{in_flow(word)}]") == [word]
    assert in_flow(word).startswith('"')


@pytest.mark.parametrize("word", ["insert", "$set", "$$exists", "a test", "x-y.z_1"])
def test_other_text_is_not(word: str) -> None:
    assert in_flow(word) == word


@pytest.mark.parametrize(
    "value",
    [
        ObjectId("0" * 24),
        Timestamp(5, 6),
        Decimal128("1.5"),
        Binary(b"\x01\x02", 4),
        Regex("^a", "i"),
        dt.datetime(2026, 1, 2),  # noqa: DTZ001 - as BSON has it
        Int64(2**60),
        float("inf"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_of_bson_is_written_as_extended_json(value: Any) -> None:
    document, _ = read_yaml(f"a: {in_flow(value)}", Path("x.yml"))
    assert decoded(document)["a"] == value


def test_a_name_that_has_an_anchor_is_written_as_its_alias() -> None:
    assert in_flow({"client": Alias("client0")}) == "{ client: *client0 }"


def test_what_is_too_wide_for_a_line_becomes_a_block() -> None:
    narrow = {"insert": "stock", "documents": [{"_id": 1}]}
    wide = {"insert": "stock", "documents": [{"_id": 1, "name": "x" * 40}, {"_id": 2, "name": "y" * 40}]}
    assert as_member("command", narrow, indent=2) == ["  command: { insert: stock, documents: [{ _id: 1 }] }"]
    assert as_member("command", wide, indent=2) == [
        "  command:",
        "    insert: stock",
        "    documents:",
        f"      - {{ _id: 1, name: {'x' * 40} }}",
        f"      - {{ _id: 2, name: {'y' * 40} }}",
    ]
    assert max(map(len, as_member("command", wide, indent=2))) <= WIDTH


def test_outer_levels_are_blocks_where_scenarios_have_them() -> None:
    events = [{"client": "c", "events": [{"poolReadyEvent": {}}, {"poolClearedEvent": {}}]}]
    assert as_member("expectEvents", events, indent=0, blocks=4) == [
        "expectEvents:",
        "  - client: c",
        "    events:",
        "      - poolReadyEvent: {}",
        "      - poolClearedEvent: {}",
    ]
    assert as_member("expectEvents", [], indent=0, blocks=4) == ["expectEvents: []"]
