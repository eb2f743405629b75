"""One client's random numbers: draw by draw those that its row in the columns would roll.

They hang on seed, client and number of the draw alone, so a client that is a coroutine, or a thread with a
real driver, waits the same gaps as the one in the model.
"""

from __future__ import annotations

from harness.sim.fleet import columns as c
from harness.sim.fleet.dice import exponential, normal, uniform


class ClientDice:
    """The dice of a client, by its number."""

    def __init__(self, seed: int, client: int) -> None:
        self._seed = seed
        self._client = client
        self._draws = 0

    def gap(self) -> float:
        """Return an exponential variate of mean 1, for the wait before an operation."""
        return exponential(self._seed, self._client, c.DRAW_GAP, self._next())

    def start(self) -> float:
        """Return a number above 0 and at most 1, for the wait before a first operation."""
        return uniform(self._seed, self._client, c.DRAW_GAP, self._next())

    def normal(self) -> float:
        """Return a standard normal variate, for the wait before a retry."""
        return normal(self._seed, self._client, c.DRAW_RETRY, self._next())

    def jitter(self) -> float:
        """Return a number above 0 and at most 1, for the wait before a retry."""
        return uniform(self._seed, self._client, c.DRAW_RETRY, self._next())

    def _next(self) -> int:
        self._draws += 1
        return self._draws
