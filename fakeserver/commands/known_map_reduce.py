"""The mapReduce that the specifications' tests send, which takes no JavaScript: it adds 1 and sums up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fakeserver.storage.engine import Document

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
        values = [_incremented(document.get(name)) for document in documents]
        return [{"_id": 0.0, "value": float(sum(values))}] if values else []

    return results


def _fit(function: str, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """Return how a function's text, spaces aside, fits a pattern."""
    return pattern.fullmatch(_SPACES.sub(r"\1", function.strip()))


def _incremented(value: Any) -> float:
    return value + 1 if isinstance(value, int | float) else float("nan")
