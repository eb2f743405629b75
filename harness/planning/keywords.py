"""The expressions of `-k`: words that an id must hold, joined with `and`, `or`, `not` and parentheses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

Predicate: TypeAlias = Callable[[str], bool]
"""Whether an id is wanted."""

_TOKEN = re.compile(
    r"""\s* (?: (?P<mark>[()]) | "(?P<double>[^"]*)" | '(?P<single>[^']*)' | (?P<word>[^\s()"']+) )""",
    re.VERBOSE,
)
_OPERATORS = frozenset({"and", "or", "not", "(", ")"})


class KeywordError(ValueError):
    """The expression is not valid; the message says what was expected instead."""


def parse(expression: str) -> Predicate:
    """Return whether an id matches, regardless of case, as pytest's `-k` does.

    A word with spaces or parentheses stands in quotation marks. Raises `KeywordError`.
    """
    parser = _KeywordParser(expression)
    try:
        predicate = parser.disjunction()
    except RecursionError:
        raise KeywordError("the expression is nested too deeply") from None
    parser.finish()
    return predicate


class _KeywordParser:
    """Recursive descent over `or`, then `and`, then `not`, then a word or parentheses."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = list(_tokens(expression))
        self._next = 0

    def disjunction(self) -> Predicate:
        terms = [self._conjunction()]
        while self._take("or"):
            terms.append(self._conjunction())
        return lambda name: any(term(name) for term in terms)

    def finish(self) -> None:
        if self._next < len(self._tokens):
            raise self._error("'and' or 'or'")

    def _conjunction(self) -> Predicate:
        factors = [self._negation()]
        while self._take("and"):
            factors.append(self._negation())
        return lambda name: all(factor(name) for factor in factors)

    def _negation(self) -> Predicate:
        if self._take("not"):
            negated = self._negation()
            return lambda name: not negated(name)
        if self._take("("):
            inner = self.disjunction()
            if not self._take(")"):
                raise self._error("')'")
            return inner
        if self._next == len(self._tokens) or self._tokens[self._next][0] in _OPERATORS:
            raise self._error("a word")
        word = self._tokens[self._next][1].casefold()
        self._next += 1
        return lambda name: word in name.casefold()

    def _take(self, operator: str) -> bool:
        if self._next < len(self._tokens) and self._tokens[self._next][0] == operator:
            self._next += 1
            return True
        return False

    def _error(self, expected: str) -> KeywordError:
        found = f"'{self._tokens[self._next][1]}'" if self._next < len(self._tokens) else "the end"
        return KeywordError(f"in the expression '{self._expression}': expected {expected}, found {found}")


def _tokens(expression: str) -> list[tuple[str, str]]:
    """Return (operator or "", text) pairs; a quoted word is never an operator."""
    found: list[tuple[str, str]] = []
    position = 0
    while expression[position:].strip():
        match = _TOKEN.match(expression, position)
        if match is None:
            raise KeywordError(f"in the expression '{expression}': a quotation mark is not closed")
        text = match[match.lastgroup or 0]
        bare = match.lastgroup in ("mark", "word")
        found.append((text if bare and text in _OPERATORS else "", text))
        position = match.end()
    return found
