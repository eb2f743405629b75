"""The lock against writes of `fsync`: a stage that stands in the pipeline only while the server is locked.

So nobody else pays for it.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING

from fakeserver.errors import expired
from fakeserver.request.pipeline import PASS, Action, Stage, Step
from fakeserver.waiting.bell import Bell
from fakeserver.waiting.pause import Await

if TYPE_CHECKING:
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext
    from fakeserver.request.pipeline import Pipeline


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
