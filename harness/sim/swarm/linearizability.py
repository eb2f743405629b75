"""The search for an order of calls on one register that explains all results.

The search is that of Wing and Gong with Lowe's memory: one call after another is placed, each only when no
unplaced call had ended before it began; a set of placed calls with a value that was tried before is not tried
again. A call that must not have happened (its caller was told of a failure) may be left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_STATES: Final = 200_000
"""States after which the search gives up."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call on a register: `reads` returned `seen`, `writes` set it to `value`, `swaps` did both at once.

    `completed` is infinite for a call of which nobody knows whether it takes place: it may at any time from
    `invoked` on, or never. Its result is unknown then.
    """

    kind: Literal["reads", "writes", "swaps"]
    invoked: float
    completed: float = inf
    value: int | None = None
    seen: int | None = None

    @property
    def is_sure(self) -> bool:
        """Whether it took place, with a known result."""
        return self.completed < inf

    def after(self, value: int | None) -> tuple[bool, int | None]:
        """Return whether the call can take place at this value, and the value after it."""
        holds = not self.is_sure or self.kind == "writes" or self.seen == value
        return holds, value if self.kind == "reads" else self.value


def is_linearizable(calls: Sequence[Call], *, most_states: int = MOST_STATES) -> bool | None:
    """Return whether some order explains all results of calls on a register that is None at first.

    Return None if that was not found out within so many states.
    """
    useful = _useful(calls)
    sure = sum(1 << place for place, call in enumerate(useful) if call.is_sure)
    seen: set[tuple[int, int | None]] = {(0, None)}
    states: list[tuple[int, int | None]] = [(0, None)]
    while states:
        placed, value = states.pop()
        if placed & sure == sure:
            return True
        # What ends first must be placed before whatever begins after it.
        end = min(call.completed for place, call in enumerate(useful) if not placed >> place & 1)
        for place, call in enumerate(useful):
            if placed >> place & 1 or call.invoked > end:
                continue
            holds, following = call.after(value)
            state = (placed | 1 << place, following)
            if holds and state not in seen:
                seen.add(state)
                states.append(state)
        if len(seen) > most_states:
            return None
    return False


def first_unexplained(calls: Sequence[Call], *, most_states: int = MOST_STATES) -> int | None:
    """Return the place of the call whose end no order explains any more, None for linearizable calls.

    Calls that end later are taken for calls of which nothing is known yet. A search without result counts as
    none found.
    """
    places = sorted(
        (place for place, call in enumerate(calls) if call.is_sure), key=lambda p: calls[p].completed
    )
    if is_linearizable(calls, most_states=most_states) is not False:
        return None
    least, most = 0, len(places) - 1
    while least < most:
        middle = (least + most) // 2
        known = _until(calls, calls[places[middle]].completed)
        if is_linearizable(known, most_states=most_states) is False:
            most = middle
        else:
            least = middle + 1
    return places[least]


def _until(calls: Sequence[Call], instant: float) -> list[Call]:
    return [
        call if call.completed <= instant else Call(call.kind, call.invoked, value=call.value)
        for call in calls
        if call.invoked <= instant
    ]


def _useful(calls: Sequence[Call]) -> list[Call]:
    """Leave out what may be left out and explains nothing, which each would double the work."""
    seen = {call.seen for call in calls if call.is_sure and call.kind != "writes"}
    useful = [call for call in calls if call.is_sure or (call.kind != "reads" and call.value in seen)]
    return sorted(useful, key=lambda call: call.invoked)
