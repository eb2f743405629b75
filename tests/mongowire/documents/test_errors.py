"""Errors of documents: the place, what is wrong, and the fix, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mongowire.documents.errors import ControlError, DocumentError, dotted, unknown
from mongowire.documents.marks import Location
from mongowire.documents.reader import read_yaml

FILE = Path("f.yml")


@pytest.mark.parametrize(
    ("location", "said"),
    [
        (None, "is wrong (mend it)"),
        (Location(FILE), "f.yml: is wrong (mend it)"),
        (Location(FILE, 3), "f.yml:3: is wrong (mend it)"),
        (Location(FILE, 3, 7), "f.yml:3:7: is wrong (mend it)"),
        (Location(FILE, 3, 7, "a[0]"), "f.yml:3:7: a[0]: is wrong (mend it)"),
    ],
)
def test_an_error_begins_with_what_is_known_of_its_place(location: Location | None, said: str) -> None:
    assert str(DocumentError("is wrong", location=location, fix="mend it")) == said


def test_the_innermost_place_stays() -> None:
    error = DocumentError("is wrong").at(Location(FILE, 3)).at(Location(FILE, 1))
    assert str(error) == "f.yml:3: is wrong"


def test_an_error_without_a_file_has_the_path_of_its_field() -> None:
    error = ControlError("is wrong", path=("command",)).within("rules", 2, "when")
    assert str(error) == "rules[2].when.command: is wrong"
    assert str(ControlError("is wrong")) == "is wrong"


@pytest.mark.parametrize(
    ("path", "text"), [((), ""), (("a",), "a"), (("a", 0, "b", 1), "a[0].b[1]"), ((0, "a"), "[0].a")]
)
def test_a_path_is_written_as_a_program_would(path: tuple[str | int, ...], text: str) -> None:
    assert dotted(path) == text


def test_an_unknown_name_leads_to_the_one_that_was_meant_or_to_all() -> None:
    assert str(unknown("verb", "stpDown", ["stepDown", "kill"])) == (
        "unknown verb 'stpDown'; did you mean 'stepDown'?"
    )
    assert str(unknown("verb", "xyz", ["stepDown", "kill"], path=("verb",))) == (
        "verb: unknown verb 'xyz'; known are kill, stepDown"
    )


def test_a_value_is_placed_where_it_stands_or_where_the_last_on_its_way_does() -> None:
    document, _ = read_yaml("a:\n  - b: 1\n", FILE)
    assert str(document.locate(["a", 0, "b"])) == "f.yml:2:8: a[0].b"
    assert str(document.locate(["a", 0, "c", "d"])) == "f.yml:2:5: a[0].c.d"
    assert [each.location.line for each in document["a"].items()] == [2]
    assert document.get("z") is None
    member = document.get("a")
    assert member is not None
    assert member.field == "a"
