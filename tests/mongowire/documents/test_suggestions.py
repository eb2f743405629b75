"""What an unknown name may have been meant to be."""

from __future__ import annotations

import pytest

from mongowire.documents.errors import did_you_mean, nearest

NAMES = ("find", "findAndModify", "insert", "--replSet")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("insrt", "insert"),
        ("findandmodify", "findAndModify"),
        ("FIND", "find"),
        ("--replset", "--replSet"),
        ("frobnicate", ""),
        ("", ""),
        (12, ""),
    ],
)
def test_a_mistyped_word_leads_to_the_name_that_is_most_like_it(word: object, meant: str) -> None:
    assert nearest(word, NAMES) == meant


def test_the_hint_is_a_question_or_what_else_there_is_to_say() -> None:
    assert did_you_mean("insrt", NAMES, "one of four") == "did you mean 'insert'?"
    assert did_you_mean("frobnicate", NAMES, "one of four") == "one of four"
    assert did_you_mean("frobnicate", ()) == ""


def test_a_name_may_come_from_anything_that_can_be_read_once() -> None:
    assert nearest("INSRT", iter(NAMES)) == "insert"
