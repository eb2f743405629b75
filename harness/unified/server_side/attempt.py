"""One attempt of an operation, as servers saw it, with its place among the others.

A record of the wire has requests and no intentions, so what is a retry is inferred: a request that follows
one which did not succeed, with the same name and in the same transaction. A gap is what the client let pass,
not what servers saw: the way of the reply and of the next request is taken off where it is known. Connecting
takes time as well, during which nobody waits on purpose: on a new connection a gap is a range, from when that
was accepted to when the request came.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.unified.server_side.model import Range
from mongowire.codes import Label, code_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.unified.server_side.rules import Timing
    from harness.unified.server_side.seen import SeenRequest

OK: Final = "ok"
DISCONNECT: Final = "disconnect"
SILENCE: Final = "silence"


@dataclass(frozen=True, slots=True)
class JudgedAttempt:
    """A request, and what it has to do with those before it in its operation.

    `retry` is its number as a retry of its command, 0 for the first attempt; `transaction` that of the
    transaction, where an operation retries those. `gap` is the time after the end of the attempt before, in
    seconds: a range, because an attempt on a new connection may have begun to connect before it came.
    """

    request: SeenRequest
    retry: int = 0
    transaction: int = 0
    gap: Range | None = None
    overloaded: frozenset[str] = frozenset()
    """The servers that have told this operation of their overload before."""

    @property
    def ends(self) -> tuple[str | int, ...]:
        """Return what it met: `ok`, the codes of errors, `disconnect` or `silence`."""
        reply = self.request.reply
        if reply is None:
            return (DISCONNECT if self.request.end == "server" else SILENCE,)
        # A reply can hold several errors: of the command, of single writes, of the write concern. Any of them
        # is one that was met.
        codes = [] if reply.get("ok") else [reply.get("code", 0)]
        codes += [error.get("code", 0) for error in reply.get("writeErrors", ())]
        if concern := reply.get("writeConcernError"):
            codes.append(concern.get("code", 0))
        return tuple(dict.fromkeys(codes)) or (OK,)

    @property
    def met(self) -> str:
        """Return what it met in words."""
        return ", ".join(
            end if isinstance(end, str) else f"error {end} ({code_name(end)})" for end in self.ends
        )

    @property
    def labels(self) -> frozenset[str]:
        """Return the labels of the reply, or of its write concern error."""
        reply = self.request.reply or {}
        concern = reply.get("writeConcernError") or {}
        return frozenset([*reply.get("errorLabels", ()), *concern.get("errorLabels", ())])

    @property
    def is_overloaded(self) -> bool:
        """Whether it met an overload error that may be retried."""
        return {Label.SYSTEM_OVERLOADED, Label.RETRYABLE} <= self.labels


def attempts_of(requests: Sequence[SeenRequest], timing: Timing) -> tuple[JudgedAttempt, ...]:
    """Return the attempts of one operation. Its requests are in the order of their arrival."""
    attempts: list[JudgedAttempt] = []
    overloaded: set[str] = set()
    for request in requests:
        before = attempts[-1] if attempts else None
        if before is None:
            attempts.append(JudgedAttempt(request))
            continue
        if before.labels >= {Label.SYSTEM_OVERLOADED}:
            # By the label alone, without RetryableError: deprioritising is about the server, whether or not
            # the error may be retried.
            overloaded.add(before.request.server)
        attempts.append(
            JudgedAttempt(
                request,
                retry=before.retry + 1 if _is_retry(request, before) else 0,
                transaction=before.transaction + _is_other_transaction(request, before.request),
                gap=gap_between(before.request, request, timing),
                overloaded=frozenset(overloaded),
            )
        )
    return tuple(attempts)


def _is_retry(request: SeenRequest, before: JudgedAttempt) -> bool:
    """Return whether a request may send the one before it again: that failed, and is no other command."""
    return (
        before.ends != (OK,)
        and request.name == before.request.name
        and not _is_other_transaction(request, before.request)
    )


def _is_other_transaction(request: SeenRequest, before: SeenRequest) -> bool:
    number, other = (
        each.command.get("txnNumber") if "autocommit" in each.command else None for each in (request, before)
    )
    return number is not None and other is not None and number != other


def gap_between(before: SeenRequest, request: SeenRequest, timing: Timing) -> Range:
    """Return the seconds that a client let pass between the end of a request and the next one."""
    # A client that has closed the connection itself waits for no news of that.
    travel = 0.0 if before.end in ("client", "open") else timing.round_trip or 0.0
    # A request may come before the end of the one before, where that is a connection the client gave up.
    ended = min(before.ended, request.at)
    most = request.at - ended - travel
    # Only of a connection that was made in between: an older one was there before the wait began.
    least = request.accepted - ended - travel if request.accepted > ended else most
    return Range(least, most)
