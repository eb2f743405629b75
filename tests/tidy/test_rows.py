"""A check of a table as one test names every row that fails, and needs a row."""

from __future__ import annotations

import pytest
from rows import each_row


def check_evenness(number: int) -> None:
    assert number % 2 == 0, "it is odd"


def test_every_row_that_fails_is_named() -> None:
    test = each_row([2, 3, 4, 5], name=hex)(check_evenness)
    with pytest.raises(pytest.fail.Exception, match=r"^2 of 4 rows:\n0x3: it is odd\n.*\n0x5: it is odd"):
        test()
    each_row([2, 4])(check_evenness)()


def test_a_table_without_rows_fails() -> None:
    with pytest.raises(AssertionError, match="without rows"):
        each_row([])(check_evenness)()
