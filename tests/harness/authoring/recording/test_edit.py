"""An edit changes what it is for, and not one character of the rest."""

from __future__ import annotations

from typing import Any

from harness.authoring.recording.text import Edits
from mongowire.documents.outline import OutlineNode, outline

BLOCK = """\
# a file
tests:
  - description: first  # of two

    # what is done
    operations:
      - { name: a }   # quick
      - name: b
        arguments: { x: "}" }
    # what is left
    outcome: []
  - description: second
    operations: []
"""


def root(text: str) -> OutlineNode:
    found = outline(text)
    assert found is not None
    return found


def with_member(text: str, *path: str | int, name: str = "new", value: Any = 1, after: str = "") -> str:
    node = root(text).at(*path)
    assert node is not None
    edits = Edits(text)
    edits.member(node, name, value, after=after)
    return edits.applied()


def test_a_member_comes_below_another_one_and_comments_stay_with_what_follows() -> None:
    edited = with_member(BLOCK, "tests", 0, value=[1], after="operations")
    below = '        arguments: { x: "}" }\n'
    assert edited == BLOCK.replace(below, f"{below}    new: [1]\n")


def test_a_member_comes_last_where_nothing_else_is_said() -> None:
    assert with_member(BLOCK, "tests", 1) == f"{BLOCK}    new: 1\n"
    assert with_member(BLOCK, "tests", 1, after="missing") == f"{BLOCK}    new: 1\n"


def test_a_file_without_a_last_newline_stays_so() -> None:
    assert with_member("a:\n  b: 1", "a") == "a:\n  b: 1\n  new: 1"


def test_a_member_of_a_mapping_in_braces_comes_inside_of_them() -> None:
    assert "- { name: a, new: 1 }   # quick\n" in with_member(BLOCK, "tests", 0, "operations", 0)
    assert with_member("a: {\n  b: [1], # why\n}", "a") == "a: {\n  b: [1], new: 1, # why\n}"


def test_a_member_that_is_there_is_replaced_where_it_stands() -> None:
    edited = with_member(BLOCK, "tests", 0, name="operations", value=[])
    assert "    # what is done\n    operations: []\n    # what is left\n    outcome: []\n" in edited
    assert with_member("a: { b: 1, c: 2 }", "a", name="b") == "a: { b: 1, c: 2 }"


def test_lines_end_as_the_others_do() -> None:
    assert with_member("a:\r\n  b: 1\r\n", "a", value=2) == "a:\r\n  b: 1\r\n  new: 2\r\n"


def test_several_edits_in_one_place_come_in_their_order() -> None:
    for text in ("a:\n  b: 1\n", "a: { b: 1 }\n", "a:\n  b: 1"):
        edits = Edits(text)
        node = root(text).at("a")
        assert node is not None
        edits.member(node, "first", 1)
        edits.member(node, "second", 2)
        assert edits.applied().index("first") < edits.applied().index("second")


def test_a_member_goes_with_its_lines_and_its_comment() -> None:
    edits = Edits(BLOCK)
    case = root(BLOCK).at("tests", 0)
    assert case is not None
    edits.removal(case, "operations")
    assert edits.applied() == (
        "# a file\ntests:\n  - description: first  # of two\n\n    # what is done\n    # what is left\n"
        "    outcome: []\n  - description: second\n    operations: []\n"
    )


def test_characters_beyond_the_basic_plane_count_as_one() -> None:
    assert with_member("a:\n  b: '\N{GRINNING FACE}'\n  c: 1\n", "a", after="b") == (
        "a:\n  b: '\N{GRINNING FACE}'\n  new: 1\n  c: 1\n"
    )
