"""A slow server: a stage that stands in the pipeline only while requests are delayed."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from fakeserver.request.pipeline import PASS, Action, Stage, Step
from fakeserver.waiting.pause import Delay

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.request.pipeline import Pipeline


class Slowness(Stage):
    """Holds every request back, before anything else happens to it.

    Entered once, ahead of the rate limiter: the request reaches the server late, as over a slow network.
    """

    step = Step.RATE_LIMIT

    def __init__(self, pipeline: Pipeline) -> None:
        self.delay = self.jitter = 0.0
        self._draw: Callable[[], float] = float
        self._pipeline = pipeline
        self._standing = ExitStack()

    def enter(self, _request: object, now: float) -> Action:
        off = self.jitter * (2 * self._draw() - 1) if self.jitter else 0.0
        return Delay(now + max(0.0, self.delay + off)) if self.delay else PASS

    def hold(self, delay: float, jitter: float, draw: Callable[[], float]) -> None:
        """Delay requests by `delay` seconds, up to `jitter` less or more as drawn; 0 ends that."""
        self._standing.close()
        self.delay, self.jitter, self._draw = delay, jitter, draw
        if delay > 0:
            self._standing.enter_context(self._pipeline.installed(self))
