"""The outline of a text: where each node begins and ends."""

from __future__ import annotations

import pytest

from mongowire.documents.outline import OutlineNode, outline


def root(text: str) -> OutlineNode:
    found = outline(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "value",
    ["plain words", "'quoted # text'", "|\n    lines\n    of text\n", "[1,\n    2]", "&x {a: 1}", "*y", ""],
)
def test_a_node_ends_where_its_last_character_is(value: str) -> None:
    text = f"z: &y 1\na:\n  b: {value}\n\n# comment\nc: 1\n"
    node = root(text).at("a", "b")
    assert node is not None
    assert text[node.start : node.end] == value.rstrip()


def test_a_path_does_not_lead_through_an_alias() -> None:
    text = "a: &a { b: 1 }\nc: *a\n"
    assert root(text).at("c", "b") is None
    assert root(text).at("a", 0) is None


def test_what_is_no_yaml_has_no_outline() -> None:
    assert outline("a: [") is None


def test_a_path_ends_where_nothing_more_is_inside() -> None:
    text = "a:\n  - b: [1, 2]\n"
    node = root(text).at("a", 0, "b", 1)
    assert node is not None
    assert text[node.start : node.end] == "2"
    assert root(text).at("a", 1) is None
    assert root(text).at("a", "b") is None


def test_every_node_comes_in_the_order_of_the_text() -> None:
    text = "a: &x [1, {b: 2}]\nc: *x\n"
    nodes = list(root(text).every())
    assert [node.start for node in nodes] == sorted(node.start for node in nodes)
    assert [text[node.start : node.end] for node in nodes if not node.members and not node.elements] == [
        "a",
        "1",
        "b",
        "2",
        "c",
        "*x",
    ]
    assert [node.anchor for node in nodes if node.anchor] == ["x"]
    assert [node.alias for node in nodes if node.alias] == ["x"]
    assert [node.is_flow for node in nodes if node.members] == [False, True]


def test_a_key_is_found_without_its_quotes() -> None:
    text = "{'a': 1, \"b\": 2}"
    assert list(root(text).members) == ["a", "b"]
    key, _ = root(text).members["b"]
    assert text[key.start : key.end] == '"b"'
