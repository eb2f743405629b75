"""Stages that stand in the pipeline only while a test wants them, so that nobody else pays for them."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fakeserver.errors import CommandError, expired
from fakeserver.request.pipeline import PASS, RESPOND, Action, Stage, Step
from fakeserver.waiting.bell import Bell
from fakeserver.waiting.pause import Await, Delay
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext
    from fakeserver.request.pipeline import Pipeline


# A slow server: a stage that stands in the pipeline only while requests are delayed.


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


# The lock against writes of `fsync`: a stage that stands in the pipeline only while the server is locked.
#
# So nobody else pays for it.


class WriteLock(Stage):
    """Holds writes back while the server is locked, as often as it was (`fsync` with `lock`)."""

    step = Step.READ_CONCERN

    def __init__(self, pipeline: Pipeline) -> None:
        self.count = 0
        self._pipeline = pipeline
        self._changed = Bell()
        self._standing = ExitStack()

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.kind == "write" or spec.write_concern

    def enter(self, request: RequestContext, now: float) -> Action:
        deadline = request.deadline
        if not self.count:
            return PASS
        if deadline is not None and now >= deadline:
            raise expired()
        return Await(self._changed, math.inf if deadline is None else deadline)

    def lock(self) -> int:
        """Lock once more; return how often it is locked now."""
        if not self.count:
            self._standing.enter_context(self._pipeline.installed(self))
        self.count += 1
        return self.count

    def unlock(self) -> int:
        """Take one lock away; return how many are left."""
        self.count -= 1
        if not self.count:
            self._standing.close()
            self._changed.ring()
        return self.count


# Load shedding: a stage that stands in the pipeline only while load is shed.
#
# It concerns operations on data. Hello, authentication, `ping` and the commands of administration pass, as
# a service that sheds load goes on to be monitored and operated.
#
# A share of the requests is refused, as a service does that is about to be overloaded. It decides by a
# seeded draw for each request, so that the same requests in the same order meet the same fate. A service
# sheds with an error that drivers may retry, or with one that they may not: the code says which.


@dataclass(frozen=True, slots=True)
class SheddingParameters:
    """The share of requests to refuse, the codes to refuse them with, and those that are `retryable`."""

    share: float
    codes: Sequence[int]
    retryable: Sequence[int]
    until: float = math.inf
    """The instant at which it ends."""


class LoadShedder:
    """Decides which requests are refused; `draw` gives a number from 0 to 1."""

    def __init__(self, parameters: SheddingParameters, draw: Callable[[], float]) -> None:
        self.parameters = parameters
        self.seen = 0
        """The requests that it has decided about."""
        self.refused: dict[int, int] = dict.fromkeys(parameters.codes, 0)
        """The requests that it has refused, by code."""
        self._draw = draw

    def decide(self, now: float) -> CommandError | None:
        """Return the error of a request that is refused, None for one that is not."""
        own = self.parameters
        if now >= own.until:
            return None
        self.seen += 1
        if self._draw() >= own.share:
            return None
        code = own.codes[int(self._draw() * len(own.codes))]
        self.refused[code] += 1
        return CommandError(code, "Request rejected: the service sheds load")

    def labels(self, code: int) -> tuple[str, ...]:
        """Return the labels of an error."""
        retry = (Label.RETRYABLE,) if code in self.parameters.retryable else ()
        return (Label.SYSTEM_OVERLOADED, *retry)


class Shed(Stage):
    """Refuses what the shedder decides to refuse: ahead of fail points, and inside the labels."""

    step = Step.CLIENT_METADATA

    def __init__(self, shedder: LoadShedder) -> None:
        self._shedder = shedder

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.requires_auth and spec.kind in {"read", "write"}

    def enter(self, request: RequestContext, now: float) -> Action:
        error = self._shedder.decide(now)
        if error is None:
            return PASS
        request.record_hit("shed", "error")
        request.response.label_override = self._shedder.labels(error.code)
        request.response.failure = error
        return RESPOND
