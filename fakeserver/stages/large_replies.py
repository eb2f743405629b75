"""Large replies are encoded in steps, so that a batch of many documents holds nobody up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson.errors import BSONError

from fakeserver.errors import CommandError
from fakeserver.interrupts import in_steps
from fakeserver.pipeline import Outcome, Stage, Step
from mongowire.pieces import encode_in_steps

if TYPE_CHECKING:
    from fakeserver.commands.table import CommandSpec
    from fakeserver.request import RequestContext

_NAMES: Final = frozenset({"aggregate", "bulkWrite", "distinct", "find", "getMore", "listCollections"})
"""What may answer with many values."""

_MANY: Final = 2_000
"""Values that take the library a millisecond at the most."""


class LargeReplies(Stage):
    """Encodes a reply of many values before it is sent, where the request can give way to others.

    It stands outside of the labels, which belong to what is encoded; times are added to the bytes.
    """

    step = Step.BODY

    def concerns(self, spec: CommandSpec) -> bool:
        return spec.name in _NAMES

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002 - a stage's signature
        if request.failure is not None or request.body is None or not _holds_many(request.body):
            return
        try:
            request.encoded_body = in_steps(encode_in_steps(request.render()))
        except CommandError as error:
            request.failure = error.without_frames()
        except (BSONError, OverflowError, TypeError, ValueError):
            return  # whoever sends it will see, and answers with the reason


def _holds_many(body: dict[str, Any]) -> bool:
    held = body.get("cursor", body)
    return any(len(held.get(name) or ()) > _MANY for name in ("firstBatch", "nextBatch", "values"))
