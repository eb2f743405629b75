"""Priorities that a test, or who embeds the server, gives to operations (`How to Exempt an Operation`)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from fakeserver.admission.execution_control import Priority
from fakeserver.request.pipeline import PASS, Action, Stage, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fakeserver.deployment.node import Node
    from fakeserver.request.context import RequestContext


class _Prioritise(Stage):
    step = Step.RULES

    def __init__(self, concerned: Callable[[RequestContext], bool], priority: Priority) -> None:
        self._concerned = concerned
        self._priority = priority

    def enter(self, request: RequestContext, _now: float) -> Action:
        if self._concerned(request):
            request.admission.priority = self._priority
        return PASS


@contextmanager
def scoped_admission_priority(
    node: Node,
    priority: Priority = Priority.EXEMPT,
    *,
    when: Callable[[RequestContext], bool] = lambda _request: True,
) -> Iterator[None]:
    """Give the operations for which `when` is true a priority, while the context lasts.

    Exempt ones wait for no ticket and are not held back by flow control; they are counted apart. On a mongos
    it holds for the shard's tickets.
    """
    with node.pipeline.installed(_Prioritise(when, priority)):
        yield
