"""docs/COMMANDS.md describes every command, and every command file says what it leaves out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from command_reference import PAGE, families, files_with_a_table, head_of, page, spans

if TYPE_CHECKING:
    from pathlib import Path

FILES = list(files_with_a_table())


def name_of(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_command_file_begins_with_behaviour_versions_and_what_is_not_modelled(path: Path) -> None:
    head_of(ast.get_docstring(ast.parse(path.read_text()), clean=False) or "")


def test_every_command_file_is_in_the_default_table() -> None:
    assert {module.rpartition(".")[2] for module in families()} == set(map(name_of, FILES))


def test_a_head_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="a head has a title and the paragraphs"):
        head_of("Find.\n\nBehaviour: it finds.\n\nVersions: all.")


@pytest.mark.parametrize(
    ("name", "path", "span"),
    [
        ("find", "", ""),
        ("find", "let", "since 5.0"),
        ("find", "comment", "until 4.2"),
        ("bulkWrite", "", "since 8.0"),
        ("getnonce", "", "until 6.0"),
        ("create", "in_transaction", "since 4.4"),
        ("update", "updates.sort", "since 8.0"),
    ],
)
def test_the_release_of_a_command_or_a_field_is_that_of_the_tables(name: str, path: str, span: str) -> None:
    assert str(spans()[name, path]) == span


def test_the_page_is_made_of_the_table_and_the_heads_as_they_are() -> None:
    assert PAGE.read_text() == page(), "python tests/support/command_reference.py writes it anew"
