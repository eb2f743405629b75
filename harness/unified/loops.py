"""The length of loops, and the requests for their end.

Unified Test Format: loop. The format's loops end when an outer program says so; here a count and a time say
so too, because a run of scenarios has an end.

One `Loops` serves all cases that a process runs: the interrupt that ends the loop under way ends those of
later cases as well, since nobody can ask for each. The two bounds are checked between iterations only; an
operation within is never cancelled, for what it had done would be unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.unified.model import Case, nested

# Enough to show what repetition shows, and short enough for a run without a terminal; options of the command
# change both.
ITERATIONS = 100
SECONDS = 10.0


@dataclass(slots=True)
class Loops:
    """The bounds of the loops of all cases of a run: whatever comes first ends each.

    `seconds` are of the clock that a case runs on. Once the end was asked for, no iteration begins any more.
    """

    iterations: int = ITERATIONS
    seconds: float = SECONDS
    ended: bool = False

    def end(self) -> None:
        """Ask for the end of all loops, those under way and those to come; iterations are not cut short."""
        self.ended = True

    def go_on(self, iterations: int, seconds: float) -> bool:
        """Return whether a loop that is this far begins another iteration."""
        return not self.ended and iterations < self.iterations and seconds < self.seconds


def has_loop(case: object) -> bool:
    """Return whether a case, of whatever format, goes on until somebody asks for its end."""
    return isinstance(case, Case) and any(operation.name == "loop" for operation in nested(case.operations))
