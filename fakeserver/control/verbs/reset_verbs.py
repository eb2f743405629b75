"""The verb `reset`, which brings the beginning of a deployment back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.control.verbs.deployment_verbs import started
from fakeserver.control.verbs.form import Verb
from mongowire.documents.arguments import Argument, Kind
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from fakeserver.control.beginning import Beginning
    from fakeserver.control.subject import Subject

Document = dict[str, Any]

_KEEP: Final = "keep"
_CLOSE: Final = "close"


def _reset(subject: Subject, *, connections: str) -> Document | Coroutine[Any, Any, Document]:
    beginning = subject.beginning
    if beginning is None:
        raise ControlError("the deployment has not started")
    for part in subject.parts.values():
        part.reset()
    if connections == _KEEP and not beginning.stopped and not beginning.added:
        beginning.bring_back()
        subject.was_reset.ring()
        return {"connections": connections}
    return _reset_slowly(subject, beginning, connections)


async def _reset_slowly(subject: Subject, beginning: Beginning, connections: str) -> Document:
    for node in beginning.stopped:
        await started(subject, node)
    beginning.bring_back()
    for node in beginning.added:
        async with subject.lock(node):
            await subject.cluster.discard(node)
    if connections == _CLOSE:
        for node in subject.cluster.servers:
            for connection in list(node.connections.values()):
                connection.close("reset")
    subject.was_reset.ring()
    return {"connections": connections}


VERBS: Final = (
    Verb(
        "reset",
        "reset",
        (
            Argument(
                "connections",
                Kind.TEXT,
                "`keep` the connections of clients, or `close` them",
                _KEEP,
                known=(_KEEP, _CLOSE),
            ),
        ),
        _reset,
        "Bring back the beginning: data, members, the first primary, settings; no rules, no faults.",
        example="reset --connections close",
    ),
)
