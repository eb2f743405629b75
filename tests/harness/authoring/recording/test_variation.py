"""What is the same in all runs is expected as it is; what varies becomes the closest operator."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Int64, ObjectId, Timestamp

from harness.authoring.recording.expected import WrittenValues, common

NOTHING = WrittenValues()
ONE, OTHER = ObjectId("1" * 24), ObjectId("2" * 24)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 1], 1),
        ([1, 1.0], 1),
        ([True, 1], {"$$type": ["bool", "int", "long"]}),
        (["a", "b"], {"$$type": "string"}),
        ([5, 7], {"$$type": ["int", "long"]}),
        ([5, Int64(2**40)], {"$$type": ["int", "long"]}),
        ([None, "a"], {"$$type": ["null", "string"]}),
        ([[1, 2], [1, 3]], [1, {"$$type": ["int", "long"]}]),
        ([[1], [1, 2]], {"$$type": "array"}),
        ([{"a": 1, "b": "x"}, {"a": 1, "b": "y"}], {"a": 1, "b": {"$$type": "string"}}),
        ([{"a": 1}, {"a": 1, "b": 2}], {"a": 1, "b": {"$$unsetOrMatches": 2}}),
        ([{"a": 1}, 1], {"$$type": ["object", "int", "long"]}),
    ],
    ids=repr,
)
def test_what_several_runs_saw_in_one_place(values: list[Any], expected: Any) -> None:
    assert common(values, NOTHING) == expected


def test_fields_that_a_root_document_has_in_some_runs_only_are_not_expected() -> None:
    assert common([{"a": 1}, {"a": 1, "b": 2}], NOTHING, root=True) == {"a": 1}


@pytest.mark.parametrize("value", [ONE, Timestamp(1, 2), Binary(b"x", 4)], ids=repr)
def test_values_that_somebody_made_up_are_expected_by_type_though_all_runs_have_the_same(value: Any) -> None:
    ((operator, _),) = common([value, value], NOTHING).items()
    assert operator == "$$type"


def test_values_that_stand_in_the_scenario_are_expected_as_they_are() -> None:
    written = WrittenValues({"tests": [{"document": {"_id": ONE}}]})
    assert common([ONE, ONE], written) == ONE
    assert common([OTHER, OTHER], written) == {"$$type": "objectId"}
    assert common([ONE, OTHER], written) == {"$$type": "objectId"}
