"""Expecting an error, without a test framework."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

ErrorT = TypeVar("ErrorT", bound=BaseException)


class Raised(Generic[ErrorT]):
    """The error that a block has raised; there is none before its end."""

    error: ErrorT


@contextmanager
def raises(kind: type[ErrorT], match: str = "") -> Iterator[Raised[ErrorT]]:
    """Expect that the block raises an error of a kind, whose text has a match of a regular expression."""
    raised = Raised[ErrorT]()
    try:
        yield raised
    except kind as error:
        if not re.search(match, str(error)):
            raise AssertionError(f"{error!r} has no match of {match!r}") from error
        raised.error = error
        return
    raise AssertionError(f"{kind.__name__} was not raised")
