"""No request holds others up for long (benchmarks/stalls.py), whatever is large about it."""

from __future__ import annotations

import asyncio

import pytest
from sizes import is_full, size

from benchmarks import large_inputs, stalls
from fakeserver.storage.expressions import compiler
from fakeserver.storage.expressions.functions import Function, NamedArguments

SIZE = size("stalls")
EVERY = 1 if is_full("stalls") else 40
"""Each so many cases are tried, others in the order of their names with each size."""


def test_everything_that_the_server_has_is_given_a_large_input() -> None:
    kinds = {case.kind for case in large_inputs.cases(20)}
    assert kinds >= {"expression", "stage", "query operator", "update operator", "command", "index"}
    known = set(large_inputs.everything())
    assert [name for name in large_inputs.NONE_NEEDED if name not in known] == []


def test_a_new_operator_without_a_large_input_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    new = Function("$new", lambda _: None, arguments=NamedArguments(9, 9, {}))
    monkeypatch.setitem(compiler.FUNCTIONS.functions, "$new", new)
    with pytest.raises(LookupError, match=r"no large input is made for expression \$new"):
        large_inputs.cases(20)


def test_a_step_without_a_yield_point_is_measured_and_ends_at_one() -> None:
    steps = stalls.Steps()
    with steps.watched():
        sum(range(1_000_000))
    assert steps.longest > 0
    assert "test_a_step" in steps.ended_at or "__exit__" in steps.ended_at


@pytest.mark.slow
def test_no_step_is_longer_than_the_bound() -> None:
    rows = asyncio.run(stalls.run(SIZE, "", late=False, every=EVERY))
    assert len(rows) > 20
    stalled = [row for row in rows if row.longest > stalls.BOUND]
    again = [row.case for row in stalled]
    # A machine may take time away; what is slow by itself is slow each time.
    confirmed = asyncio.run(stalls.run(SIZE, "", late=False, chosen=again)) if again else []
    assert [stalls.line(row) for row in confirmed if row.longest > stalls.BOUND] == []
