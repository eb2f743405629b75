"""Regular expressions as they are matched here, against Python's own: the same matches, groups and spans.

Where the two differ, `_DIFFERENCES` says how.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeserver.errors import CommandError
from fakeserver.storage.expressions import pcre
from fakeserver.storage.expressions.pcre import translate
from fakeserver.storage.expressions.regex import MatchLimitError, _engine, compile_regex

if TYPE_CHECKING:
    from collections.abc import Callable

_LETTERS = "ab1_ \né"
_ATOMS = st.sampled_from([
    "a", "b", "1", "_", " ", "é", ".", "\\n", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "[ab]", "[^a]",
    "[a-c1]",     "[[:alpha:]]", "[\\d_]", "\\x61", "\\Q.\\E", "{", "a{", "\\pL", "\\h", "\\N",
])  # fmt: skip
_ANCHORS = st.sampled_from(["^", "$", "\\b", "\\B", "\\A", "\\z", "\\Z"])
_QUANTIFIERS = st.sampled_from(
    ["", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,}", "{1,}?", "*+", "?+"]
)


def _grouped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sequence = st.lists(inner, min_size=1, max_size=3).map("".join)
    alternatives = st.lists(sequence, min_size=1, max_size=3).map("|".join)
    return st.one_of(
        sequence,
        st.builds("({}){}".format, alternatives, _QUANTIFIERS),
        st.builds("(?:{}){}".format, alternatives, _QUANTIFIERS),
        st.builds("(?>{})".format, alternatives),
        st.builds("(?={})".format, alternatives),
        st.builds("(?!{})".format, alternatives),
        st.builds("(?i:{})".format, alternatives),
        st.builds("(?<={})".format, _ATOMS),
        st.builds("(?<!{})".format, _ATOMS),
    )


_QUANTIFIED = st.builds("{}{}".format, _ATOMS, _QUANTIFIERS)
_PATTERNS = st.recursive(st.one_of(_QUANTIFIED, _ANCHORS), _grouped, max_leaves=8)
_TEXTS = st.text(_LETTERS, max_size=12)
_OPTIONS = st.sets(st.sampled_from("ims")).map(lambda chosen: "".join(sorted(chosen)))
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}


def _matches(search: Any, text: str) -> list[tuple[Any, ...]]:
    found, start = [], 0
    while start <= len(text) and (match := search(text, start)) is not None:
        spans = tuple(map(match.span, range(len(match.groups()) + 1)))
        found.append((spans[0], match.groups(), spans))
        start = match.end() + (match.end() == match.start())
    return found


@settings(max_examples=settings().max_examples * 4, deadline=None)
@given(pattern=_PATTERNS, text=_TEXTS, options=_OPTIONS)
def test_a_pattern_matches_where_it_does_in_python(pattern: str, text: str, options: str) -> None:
    flags = re.NOFLAG
    for option in options:
        flags |= _FLAGS[option]
    try:
        reference = re.compile(translate(pattern), flags)
    except re.error:
        return
    ours = compile_regex(pattern, options)
    try:
        found = _matches(ours.search, text)
    except MatchLimitError:
        return
    expected = _matches(reference.search, text)
    assert found == expected or any(fits(pattern, text, found, expected) for fits in _DIFFERENCES.values())


@settings(deadline=None)
@given(pattern=_PATTERNS, text=_TEXTS, options=_OPTIONS)
def test_a_pattern_that_is_cut_at_every_sign_matches_where_it_does_whole(
    pattern: str, text: str, options: str
) -> None:
    try:
        whole = compile_regex(pattern, options)
    except CommandError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pcre, "_LONGEST_TEXT", 1)
        spelled = pcre._Translation(pattern, verbose=False).run()
    cut = _engine().compile(spelled, sum(getattr(_engine(), each.upper()) for each in {*options, "v0"}))
    try:
        assert _matches(whole.search, text) == _matches(cut.search, text)
    except MatchLimitError:
        return


_SHAPES = {
    "signs that stand for themselves": "a",
    "these, whatever their case": "(?i:a)",
    "groups": "(a)",
    "groups that catch nothing": "(?:a)",
    "classes of one": "[a]",
    "classes": "[ab]",
    "escaped signs": "\\.",
    "digits": "\\d",
    "properties": "\\pL",
    "properties in classes": "[\\PL1]",
    "alternatives": "ab|",
    "what may be left out": "a?",
    "what may be repeated": "a*",
    "anchors": "^",
    "boundaries": "\\b",
    "assertions": "(?=a)",
    "options": "(?i:a|b)",
}


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "i"])
@pytest.mark.parametrize("part", _SHAPES.values(), ids=_SHAPES)
def test_a_pattern_takes_time_by_its_length_and_no_more(part: str, options: str) -> None:
    began = time.process_time()
    pattern = compile_regex(part * (1_500 // len(part)), options)
    for text in ("a" * 5_000, "b" * 5_000, "ab" * 2_500):
        pattern.matches(text)
    assert time.process_time() - began < 1, "it takes a tenth of that, and a table in cubic time ten seconds"


@pytest.mark.parametrize("options", ["", "i", "s"])
def test_text_of_any_length_is_found(options: str) -> None:
    pattern = compile_regex("a" * 16_384, options)
    assert pattern.matches("b" + "a" * 16_384)
    assert not pattern.matches(("a" * 16_383 + "b") * 3)


@pytest.mark.parametrize("pattern", ["(?:a{1000}){1000}", "(?:(?:ab|c){1000}){1000}", "((a{100}){100}){100}"])
def test_what_repetitions_make_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(CommandError, match="regular expression is too large"):
        compile_regex(pattern)


def test_a_match_of_plain_text_says_where_it_is() -> None:
    match = compile_regex("ab").search("abab", 1)
    assert (match.start(), match.end(), match.group(), match.groups()) == (2, 4, "ab", ())


def _spans(matches: list[tuple[Any, ...]]) -> list[Any]:
    return [match[0] for match in matches]


_DIFFERENCES: dict[str, Callable[..., bool]] = {
    r"\B holds in an empty text, as to PCRE; Python says so from 3.14 on": lambda pattern, text, *_: (
        "\\B" in pattern and not text
    ),
    "what a repeated group holds after a last turn that matched nothing": (
        lambda pattern, _text, found, expected: (
            re.search(r"\)[*+?{]", pattern) is not None and _spans(found) == _spans(expected)
        )
    ),
}


@pytest.mark.parametrize(
    ("pattern", "text", "span"),
    [
        ("a{,3}", "a{,3}", (0, 5)),
        ("x{e<=1}", "x{e<=1}", (0, 7)),
        ("a{", "a{", (0, 2)),
        ("[a&&b]", "&", (0, 1)),
        ("(?<n>a)(?P=n)", "aa", (0, 2)),
        ("(?<=a{2})b+", "aabb", (2, 4)),
        ("(?<=a|bc)d", "bcd", (2, 3)),
        ("(?<=(?=ab*c)a)b", "abc", (1, 2)),
        ("(?<=a)b*(?<!c)", "abb", (1, 3)),
        ("(a)?(?(1)b|c)", "ab", (0, 2)),
        ("(?i)É", "é", (0, 1)),
        ("a\\Kb", "ab", (1, 2)),
        ("(?:a(?x) b)#c", "ab#c", (0, 4)),
        ("(?:a(?x) b #c\n)d e", "abd e", (0, 5)),
        ("(*UTF)é", "é", (0, 1)),
        ("(*UCP)\\bb", "äb b", (3, 4)),
        ("(*UCP)\\Bb", "b äb", (3, 4)),
        ("(*UTF)(*UCP)\\w+", "日é1_-", (0, 4)),
        ("(*UCP)\\W", "é\u203f", (1, 2)),
        ("(*UCP)[\\W]", "é_\u203f", (2, 3)),
        ("(*UCP)[\\w]+", "日é1_-", (0, 4)),
        ("(*UCP)\\d", "x٣", (1, 2)),
        ("(*UCP)[\\D]", "٣x", (1, 2)),
        ("(*UCP)\\s[\\s]", "\u2003\x85", (0, 2)),
        ("(*UCP)\\S[\\S]", "\u2003ab", (1, 3)),
        ("(*UCP)[[:alpha:]]+", "1éß", (1, 3)),
        ("\\p{Cyrillic}+", "aЖя", (1, 3)),
        ("[\\p{Han}1]+", "a你1", (1, 3)),
        ("\\P{Latin}", "a你", (1, 2)),
    ],
)
def test_what_only_one_of_the_libraries_knows_means_what_pcre_says(
    pattern: str, text: str, span: tuple[int, int]
) -> None:
    assert compile_regex(pattern).search(text).span() == span


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(?R)",
            "(?1)(a)",
            "(?|a|b)",
            "a(*UCP)",
            "\\p{Nonsense}",
            "(*FAIL)",
            "(?&n)(?<n>a)",
            "\\L<words>",
            "\\m",
            "(?e:a)",
            "(?V1)a",
        ),
        *("(?<=a+)b", "(?<!a?)b", "(?<=(?:xa*))b", "(?<=a{1,2})b", "(?<=a{2,})b", "(?<=a|b*)c"),
        *("(?<n>a)(?<n>b)", "a{65536}", "(" * 300 + ")" * 300, "a" * 40_000, "(?r)a", "\\X", "\\y"),
    ],
)
def test_what_is_lacking_or_wrong_is_refused(pattern: str) -> None:
    with pytest.raises(CommandError):
        compile_regex(pattern)
