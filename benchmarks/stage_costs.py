"""The price of each stage on the path of a request (`python -m benchmarks.request_cost --stages`).

The functions of a path are called through a meter, whose own cost is measured and taken away. What is left of
a request is the row `around`: its message in, its reply out, its record in the journal.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.request.path import Ways

AROUND = "around"
_CALLS = 20_000
_NANOSECONDS = 1e9


class Meter:
    """The seconds spent in each of some functions."""

    def __init__(self) -> None:
        self.spent: dict[str, int] = {}
        self._own = self._calibrate()

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call` with a meter around it."""
        spent, clock = self.spent, time.perf_counter_ns
        spent.setdefault(name, 0)

        def metered(*arguments: Any) -> Any:
            began = clock()
            answer = call(*arguments)
            spent[name] += clock() - began
            return answer

        return metered

    def read(self, calls: int) -> dict[str, float]:
        """Return the seconds of one of so many calls of each function, and begin anew."""
        found = {
            name: max(spent / calls - self._own, 0.0) / _NANOSECONDS for name, spent in self.spent.items()
        }
        self.spent.update(dict.fromkeys(self.spent, 0))
        return found

    def _calibrate(self) -> float:
        self._own = 0.0
        empty = self.around("nothing", lambda *_: None)
        least = float("inf")
        for _ in range(5):
            for _ in range(_CALLS):
                empty(None, None)
            least = min(least, self.spent.pop("nothing") / _CALLS)
            self.spent["nothing"] = 0
        self.spent.clear()
        return least


def put_in(ways: Ways, meter: Meter) -> None:
    """Put a meter around each stage of the ways that are worked out; recompiling takes it out again."""
    names = [type(stage).__name__ for stage in ways.stages]

    def entering(stages: tuple[tuple[int, Any], ...]) -> tuple[tuple[int, Any], ...]:
        return tuple((number, meter.around(names[number], enter)) for number, enter in stages)

    ways.opening, ways.screened = entering(ways.opening or ()), entering(ways.screened)
    if ways.door is not None:
        ways.door = meter.around(names[0], ways.door)
    for key, path in ways.paths.items():
        leaving = tuple(meter.around(f"leave {_owner(leave)}", leave) for leave in path.leaving)
        ways.paths[key] = path._replace(entering=entering(path.entering), leaving=leaving)


def _owner(leave: Any) -> str:
    return type(leave.__self__).__name__ if hasattr(leave, "__self__") else str(leave.__qualname__)
