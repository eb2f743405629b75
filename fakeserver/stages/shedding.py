"""Load shedding: a stage that stands in the pipeline only while load is shed.

It concerns operations on data. Hello, authentication, `ping` and the commands of administration pass, as a
service that sheds load goes on to be monitored and operated.

A share of the requests is refused, as a service does that is about to be overloaded. It decides by a seeded
draw for each request, so that the same requests in the same order meet the same fate. A service sheds with an
error that drivers may retry, or with one that they may not: the code says which.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fakeserver.errors import CommandError
from fakeserver.request.pipeline import PASS, RESPOND, Action, Stage, Step
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext


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
