"""Scripts that do nothing but wait, recognised by their text, so that they need no JavaScript.

By such a `$where` drivers' test suites have a server be slow: `sleep(1000) || true`, or a function that
sleeps, or loops until a date has come, and then returns true.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_NUMBER: Final = r"\d+(?:\.\d*)?(?:[eE]\d+)?"
_SUM: Final = rf"{_NUMBER}(?:[*+]{_NUMBER})*"
_NOW: Final = r"(?:\(?newDate\(?\)?\)?(?:\.(?:getTime|valueOf)\(\))?|Date\.now\(\))"
_DECLARE: Final = r"(?:var|let|const)?"

_FUNCTION: Final = re.compile(
    r"\(?\s*(?:function\s*\w*\s*\(\s*\w*\s*\)|\(\s*\w*\s*\)\s*=>)\s*\{(.*)\}\s*;?\s*\)?\s*;?", re.DOTALL
)
_ARROW: Final = re.compile(r"\(\s*\)\s*=>\s*([^{].*)", re.DOTALL)
_SPACES: Final = re.compile(r"\s+")
_SLEEP: Final = re.compile(rf"sleep\(({_SUM})\)")
_VERDICT: Final = re.compile(r"return(true|false|1|0|)")
_EXPRESSION: Final = re.compile(rf"(return)?\(*sleep\(({_SUM})\)\)*(?:(\|\||&&|,)\(*(true|false|1|0)\)*)?\)*")
_BUSY: Final = (
    re.compile(
        rf"{_DECLARE}(?P<until>\w+)=newDate\({_NOW}\+(?P<sum>{_SUM})\);"
        rf"while\((?:(?P=until)>=?{_NOW}|{_NOW}<=?(?P=until))\)(?:\{{;*\}}|;)"
    ),
    re.compile(
        rf"{_DECLARE}(?P<until>\w+)={_NOW}\+(?P<sum>{_SUM});"
        rf"while\((?:(?P=until)>=?{_NOW}|{_NOW}<=?(?P=until))\)(?:\{{;*\}}|;)"
    ),
    re.compile(
        rf"{_DECLARE}(?P<start>\w+)={_NOW};while\(\(?{_NOW}-(?P=start)\)?<=?(?P<sum>{_SUM})\)(?:\{{;*\}}|;)"
    ),
    re.compile(
        rf"{_DECLARE}(?P<start>\w+)={_NOW};while\({_NOW}<=?\(?(?P=start)\+(?P<sum>{_SUM})\)?\)(?:\{{;*\}}|;)"
    ),
)


class Waiting(NamedTuple):
    """A script that waits for some milliseconds, and then holds or not."""

    milliseconds: float
    holds: bool


def recognise(code: str) -> Waiting | None:
    """Return what a script comes to that only waits, None for any other."""
    found = _FUNCTION.fullmatch(code.strip())
    if found is not None:
        return _body(_bare(found[1]))
    arrow = _ARROW.fullmatch(code.strip())
    text = _bare(arrow[1] if arrow is not None else code)
    return _expression(text.rstrip(";")) or (_body(text) if "return" in text else None)


def _bare(text: str) -> str:
    """Return code without the spaces that mean nothing; `new Date` and `return true` lose theirs too."""
    return _SPACES.sub("", text)


def _expression(text: str) -> Waiting | None:
    found = _EXPRESSION.fullmatch(text)
    if found is None or text.count("(") != text.count(")"):
        return None
    _returns, amount, operator, second = found.groups()
    # sleep() returns undefined, which is false.
    return Waiting(_amount(amount), operator in {"||", ","} and second in {"true", "1"})


def _body(text: str) -> Waiting | None:
    """Read the statements of a function: waits, then perhaps a verdict."""
    waited = 0.0
    while text:
        step = _step(text)
        if step is None:
            break
        milliseconds, text = step
        waited += milliseconds
    verdict = text.rstrip(";")
    if not verdict:
        return Waiting(waited, holds=False)
    plain = _VERDICT.fullmatch(verdict)
    if plain is not None:
        return Waiting(waited, plain[1] in {"true", "1"})
    last = _expression(verdict) if verdict.startswith("return") else None
    return None if last is None else Waiting(waited + last.milliseconds, last.holds)


def _step(text: str) -> tuple[float, str] | None:
    """Return how long the first statement waits, and the text behind it; None if it is no wait."""
    if text.startswith(";"):
        return 0.0, text[1:]
    for pattern in (_SLEEP, *_BUSY):
        found = pattern.match(text)
        if found is not None:
            rest = text[found.end() :]
            return _amount(found[1] if pattern is _SLEEP else found["sum"]), rest
    return None


def _amount(text: str) -> float:
    """Return a sum of products of numbers, in milliseconds."""
    total = 0.0
    for term in text.split("+"):
        product = 1.0
        for factor in term.split("*"):
            product *= float(factor)
        total += product
    return total
