"""The mapReduce that the public driver tests send, run without JavaScript: it adds 1 and sums up.

It is used only where no JavaScript engine is installed, so that those tests run on a plain installation. The
functions are recognised by their text, spaces aside; results are doubles, as JavaScript's numbers are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fakeserver.storage.port.engine import Document

_MAP: Final = re.compile(r"function\s*\w*\(\)\{return emit\(0,this\.(\w+)\+1\);?\}")
_REDUCE: Final = re.compile(
    r"function\s*\w*\((\w+),(\w+)\)\{return \2\.reduce\(\((\w+),(\w+)\)=>\3\+\4\);?\}"
)
_SPACES: Final = re.compile(r"\s*([(){}+,;=>])\s*")


def known(mapped: str, reduced: str) -> Callable[[Sequence[Document]], list[Document]] | None:
    """Return what a pair of functions makes of documents, None for functions that are not known."""
    field, summed = _fit(mapped, _MAP), _fit(reduced, _REDUCE)
    if field is None or summed is None:
        return None
    name = field.group(1)

    def results(documents: Sequence[Document]) -> list[Document]:
        found = (document.get(name) for document in documents)
        # What is no number is NaN, as in JavaScript, where true is 1.
        values = [each + 1 if isinstance(each, int | float) else float("nan") for each in found]
        return [{"_id": 0.0, "value": float(sum(values))}] if values else []

    return results


def _fit(function: str, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """Return how a function's text, spaces aside, fits a pattern."""
    return pattern.fullmatch(_SPACES.sub(r"\1", function.strip()))
