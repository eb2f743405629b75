"""The search for an order of calls on a register, held against one that tries all orders."""

from __future__ import annotations

import random
from itertools import chain, combinations, permutations, product
from math import inf
from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarm_histories import op, past, told

from harness.sim.swarm.checkers.data import Call, first_unexplained, is_linearizable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.sim.swarm.history import RunHistory


def reads(seen: int | None, invoked: float, completed: float) -> Call:
    return Call("reads", invoked, completed, seen=seen)


def writes(value: int, invoked: float, completed: float = inf) -> Call:
    return Call("writes", invoked, completed, value=value)


def by_trying_all_orders(calls: Sequence[Call]) -> bool:
    sure = [call for call in calls if call.is_sure]
    unsure = [call for call in calls if not call.is_sure]
    subsets = chain.from_iterable(combinations(unsure, size) for size in range(len(unsure) + 1))
    return any(_explains(order) for subset in subsets for order in permutations([*sure, *subset]))


def _explains(order: Sequence[Call]) -> bool:
    if any(later.completed < earlier.invoked for earlier, later in combinations(order, 2)):
        return False
    value = None
    for call in order:
        holds, value = call.after(value)
        if not holds:
            return False
    return True


@st.composite
def some_calls(draw: st.DrawFn) -> list[Call]:
    calls = []
    for number in range(1, draw(st.integers(1, 5)) + 1):
        invoked = draw(st.integers(0, 6))
        completed = invoked + draw(st.sampled_from([1, 2, 3, 4, inf]))
        seen = draw(st.sampled_from([None, 1, 2, 3]))
        calls.append(
            Call(draw(st.sampled_from(["reads", "writes", "swaps"])), invoked, completed, number, seen)
        )
    return calls


@pytest.mark.slow
@given(some_calls())
@settings(max_examples=60)
def test_the_search_finds_an_order_where_trying_all_finds_one(calls: list[Call]) -> None:
    assert is_linearizable(calls) is by_trying_all_orders(calls)


def lived_calls(dice: random.Random) -> list[Call]:
    """Return calls on a register that takes each at one instant between its begin and its end."""
    value: int | None = None
    calls = []
    for number in range(1, dice.randint(2, 30)):
        kind: Literal["reads", "writes", "swaps"] = dice.choice(("reads", "writes", "swaps"))
        is_lost, takes_place, seen = dice.random() < 0.2, dice.random() < 0.5, value
        if kind != "reads" and (takes_place or not is_lost):
            value = number
        ended = inf if is_lost else number + dice.randint(1, 4)
        calls.append(Call(kind, number - dice.randint(0, 4), ended, number, seen))
    return calls


def test_what_a_register_did_is_linearizable() -> None:
    for seed in range(200):
        calls = lived_calls(random.Random(seed))
        assert is_linearizable(calls)
        assert first_unexplained(calls) is None


@pytest.mark.slow
@given(some_calls())
@settings(max_examples=30)
def test_the_first_call_without_explanation_is_the_first_prefix_that_has_no_order(calls: list[Call]) -> None:
    place = first_unexplained(calls)
    ends = sorted({call.completed for call in calls if call.is_sure})
    broken = next((end for end in ends if not is_linearizable(_known_at(calls, end))), None)
    assert (None if place is None else calls[place].completed) == broken


def _known_at(calls: Sequence[Call], instant: float) -> list[Call]:
    return [
        call if call.completed <= instant else Call(call.kind, call.invoked, value=call.value)
        for call in calls
        if call.invoked <= instant
    ]


def test_writes_at_once_may_be_seen_in_any_one_order_only() -> None:
    for first, second in product((1, 2), repeat=2):
        calls = [writes(1, 0, 9), writes(2, 0, 9), reads(first, 10, 11), reads(second, 12, 13)]
        assert is_linearizable(calls) is (first == second)


def test_many_writes_that_nobody_saw_cost_nothing() -> None:
    calls = [*(writes(number, 0.0) for number in range(1, 200)), reads(None, 5, 6), reads(7, 7, 8)]
    assert is_linearizable(calls, most_states=100)


def test_a_search_that_takes_too_long_has_no_result() -> None:
    calls = [*(writes(number, 0, 99) for number in range(12)), *(reads(n, 0, 99) for n in range(12))]
    calls.append(reads(50, 0, 99))
    assert is_linearizable(calls, most_states=1000) is None
    assert first_unexplained(calls, most_states=1000) is None


MAJORITY = {"write_concern": "majority"}
LINEARIZABLE = {"read_concern": "linearizable"}


def _registers() -> Iterator[tuple[str, RunHistory, bool]]:
    key = "register:1"
    write = op(1, "write", key, **MAJORITY)
    fresh, stale = op(2, "read", key, result=1, **LINEARIZABLE), op(2, "read", key, **LINEARIZABLE)
    yield "a fresh read", past(write, fresh), True
    yield "a stale read", past(write, stale), False
    yield "a stale read of another register", past(write, op(2, "read", "register:2", **LINEARIZABLE)), True
    yield "a stale read with read concern local", past(write, op(2, "read", key, read_concern="local")), True
    yield "a stale read after a write that one member acknowledged", past(op(1, "write", key), stale), True
    lost = op(1, "write", key, outcome="failed", error="lost")
    yield "a read of a write that failed", past(lost, fresh), True
    yield "a read that does not see a write that failed", past(lost, stale), True
    nothing = op(1, "write", key, outcome="failed", labels=frozenset({"NoWritesPerformed"}))
    yield "a read of a write that was not performed", past(nothing, fresh), False
    yield "a swap that returned what it replaced", past(write, op(2, "swap", key, result=1, **MAJORITY)), True
    yield "two swaps of one value", past(*(op(n, "swap", key, **MAJORITY) for n in (1, 2))), False


@pytest.mark.parametrize(("history", "holds"), [pytest.param(*case, id=name) for name, *case in _registers()])
def test_a_register_is_judged_where_the_concerns_promise_it(history: RunHistory, *, holds: bool) -> None:
    assert bool(told("registers", history)) is not holds


def test_a_violation_names_the_operation_after_which_there_is_no_order() -> None:
    history = past(op(1, "write", "register:1", **MAJORITY), op(2, "read", "register:1", **LINEARIZABLE))
    (text,) = told("registers", history)
    assert text.startswith("read 2 of register:1 ended with None at 2.5 s: no order of the 2 operations")
