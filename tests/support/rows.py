"""A check of a long table as one test, which names every row that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


def each_row(
    rows: Iterable[T], name: Callable[[T], str] = str
) -> Callable[[Callable[[T], None]], Callable[[], None]]:
    """Return a decorator that makes one test of a check and all `rows`; the rows that fail are named.

    For hundreds of rows whose checks take less than a millisecond: to collect as many tests in every worker,
    and to report them, takes longer than the checks.
    """

    def decorate(check: Callable[[T], None]) -> Callable[[], None]:
        def test() -> None:
            wrong, count = [], 0
            for row in rows:
                count += 1
                try:
                    check(row)
                except AssertionError as error:
                    wrong.append(f"{name(row)}: {error}")
            assert count, "a table without rows"
            if wrong:
                pytest.fail(f"{len(wrong)} of {count} rows:\n" + "\n".join(wrong), pytrace=False)

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate
