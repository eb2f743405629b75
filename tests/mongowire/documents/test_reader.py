"""The reader of documents: values with their places, and errors that name the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from mongowire.documents.errors import DocumentError
from mongowire.documents.reader import read_yaml

FILE = Path("f.yml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a:\n  - b: !odd 1\n", "f.yml:2:8: a[0].b: tag !odd is not supported"),
        ("a:\n  - {b: 1, b: 2}\n", "f.yml:2:12: a[0]: key 'b' is repeated"),
        ("a: {b: *c}\n", "f.yml:1:8: a.b: alias *c has no anchor before it"),
        ("- [1, [&a [*a]]]\n", "f.yml:1:12: [0][1][0][0]: anchor &a contains itself"),
        ("b: 1\nb: 2\n", "f.yml:2:1: key 'b' is repeated"),
    ],
)
def test_an_error_names_file_line_column_and_field(text: str, said: str) -> None:
    with pytest.raises(DocumentError) as raised:
        read_yaml(text, FILE)
    assert str(raised.value).startswith(said)


def test_keys_have_places_where_they_are_asked_for() -> None:
    text = "a:\n  b: 1\n  c: &d {e: 2}\nf: *d\n"
    plain, _ = read_yaml(text, FILE)
    placed, _ = read_yaml(text, FILE, keys=True)
    assert plain.value == placed.value
    assert not plain.mark.keys
    assert placed.mark.keys == {"a": (1, 1), "f": (4, 1)}
    assert placed["a"].mark.keys == {"b": (2, 3), "c": (3, 3)}
    assert placed["f"].mark.keys == {"e": (3, 10)}


def test_off_and_times_of_day_are_texts_as_yaml_1_2_has_them() -> None:
    document, _ = read_yaml("[off, yes, 1:30, 0o17, 0x1F, 1e3, .5, ~]\n", FILE)
    assert document.value == ["off", "yes", "1:30", 15, 31, 1000.0, 0.5, None]
