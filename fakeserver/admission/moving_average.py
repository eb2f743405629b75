"""The moving averages of `serverStatus`: recent samples weigh more."""

from __future__ import annotations


class MovingAverage:
    """An exponential moving average, in which a new sample has the weight `weight`.

    `value` is None until there is a sample.
    """

    __slots__ = ("_weight", "value")

    def __init__(self, weight: float = 0.2) -> None:
        self._weight = weight
        self.value: float | None = None

    def add(self, sample: float) -> None:
        """Take a sample into account; the first one is the average."""
        if self.value is None:
            self.value = sample
        else:
            self.value = weighted(self.value, sample, self._weight)


def weighted(average: float, sample: float, weight: float) -> float:
    """Return the average after a sample that has the weight `weight`, from 0 to 1."""
    return sample * weight + average * (1 - weight)
