"""Cases of all expressions: the argument of an operator, and its value for the document that is stored."""

from __future__ import annotations

from typing import Any, Final

from operator_examples.arrays import ARRAYS, CONDITIONS, OBJECTS
from operator_examples.numbers import ARITHMETIC, FOLDING
from operator_examples.stored import DOCUMENT
from operator_examples.texts import DATES, TEXTS, TYPES

__all__ = ["DOCUMENT", "EXPRESSIONS"]

EXPRESSIONS: Final[dict[str, list[tuple[Any, Any]]]] = {
    **ARITHMETIC,
    **ARRAYS,
    **CONDITIONS,
    **DATES,
    **OBJECTS,
    **TEXTS,
    **TYPES,
    **FOLDING,
}
