from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.planning import keywords

ID = "retryable-writes/insertOne::InsertOne succeeds after one (retryable) failure"


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("insertone", True),
        ("INSERTONE and retryable-writes", True),
        ("insertOne and not succeeds", False),
        ("bulk or insert", True),
        ("not bulk", True),
        ("not (bulk or insert)", False),
        ("'after one' and \"(retryable)\"", True),
        ("bulk and insert or failure", True),
        ("bulk and (insert or failure)", False),
        ("not not insert", True),
        ("'and'", False),
        ("retryable-writes/insertOne::InsertOne", True),
    ],
)
def test_an_expression_selects_ids_by_words_regardless_of_case(expression: str, *, matches: bool) -> None:
    assert keywords.parse(expression)(ID) is matches


@pytest.mark.parametrize(
    ("expression", "expected", "found"),
    [
        ("", "a word", "the end"),
        ("insert and", "a word", "the end"),
        ("and insert", "a word", "'and'"),
        ("insert find", "'and' or 'or'", "'find'"),
        ("(insert", "')'", "the end"),
        ("insert)", "'and' or 'or'", "')'"),
    ],
)
def test_a_wrong_expression_says_what_was_expected_and_what_was_found(
    expression: str, expected: str, found: str
) -> None:
    with pytest.raises(keywords.KeywordError) as raised:
        keywords.parse(expression)
    assert f"expected {expected}, found {found}" in str(raised.value)


def test_an_open_quotation_mark_is_refused() -> None:
    with pytest.raises(keywords.KeywordError, match="a quotation mark is not closed"):
        keywords.parse("insert and 'find")


words = st.from_regex(r"[a-z]{1,6}", fullmatch=True).filter(lambda word: word not in ("and", "or", "not"))


@given(words, words, st.text(max_size=30))
def test_and_or_and_not_keep_the_laws_of_de_morgan(left: str, right: str, name: str) -> None:
    neither = keywords.parse(f"not ({left} or {right})")
    both_not = keywords.parse(f"not {left} and not {right}")
    assert neither(name) == both_not(name) == (left not in name.casefold() and right not in name.casefold())
