"""Load shedding: a stage that stands in the pipeline only while load is shed.

It concerns operations on data. Hello, authentication, `ping` and the commands of administration pass, as a
service that sheds load goes on to be monitored and operated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeserver.request.pipeline import PASS, RESPOND, Action, Stage, Step

if TYPE_CHECKING:
    from fakeserver.admission.shedding import LoadShedder
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext


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
