"""The oracle of the token bucket: the tokens at the end of a case, by what servers saw.

Client Backpressure: Adaptive retry policy, Token Bucket. The bucket is played through from its capacity,
command by command, and compared with what the adapter reads at the end. It is in the 2026-02-20 edition
alone, and only where a client asks for it (`adaptiveRetries`). The account is exact only if servers saw every
attempt in order, so a client that is closed within the case, runs operations side by side, has a deadline or
writes without acknowledgement is not judged (`_is_known`). A debt on the way is a breach of its own: a retry
was sent for which there was no token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.unified.server_side.oracles.permits import most_retries, must_retry
from harness.unified.server_side.oracles.trace import is_committed_again, is_ok
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.unified.server_side.oracles.trace import SentCommand, Trace, TracedClient, TracedOperation

CAPACITY: Final = 1000.0
RETURN_RATE: Final = 0.1


def the_bucket_holds_what_was_earned(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Adaptive retry policy, Token Bucket."""
    for client in trace.clients:
        has_bucket = bool(client.options.get("adaptiveRetries")) and not trace.edition.retries_configurable
        if not has_bucket and client.tokens is not None:
            yield f"{client.name} has a token bucket, and nobody asked for one"
        if has_bucket and client.tokens is None:
            yield f"{client.name} has adaptiveRetries and no token bucket"
        if has_bucket and client.tokens is not None and _is_known(trace, client):
            wanted, in_debt = _left(trace, client)
            if in_debt is not None:
                yield in_debt
            if abs(client.tokens - wanted) > _ROUNDING:
                yield f"{client.name} has {client.tokens:g} tokens, and {wanted:g} are left of what it earned"


# Tokens. A thousand sums of 0.1 are off by less, and a single return of a token by much more.
_ROUNDING: Final = 0.001


def _is_known(trace: Trace, client: TracedClient) -> bool:
    """Return whether servers saw every attempt of a client, one after the other, and which was a retry."""
    mine = [operation for operation in trace.operations if operation.client is client]
    closed = any(
        each.name == "close" for each in mine
    )  # which sends endSessions, of which no operation tells
    begun_anew = any(
        is_committed_again(each, command) and len(command.attempts) > 1
        for each in mine
        for command in each.commands
    )
    return (
        not closed
        and not begun_anew
        and not trace.unacknowledged
        and all(each.is_alone and not each.is_disturbed and not each.is_timed for each in mine)
    )


def _left(trace: Trace, client: TracedClient) -> tuple[float, str | None]:
    """Return the tokens at the end, and what was wrong with a retry for which there was none."""
    tokens, wrong = CAPACITY, None
    for operation in trace.operations:
        for command in operation.commands if operation.client is client else ():
            tokens, least = _after(command, tokens)
            if least < -_ROUNDING and wrong is None:
                wrong = f"{operation} sent {command.name} again with {least + 1:.1f} tokens in the bucket"
            last = command.last
            if last.is_overloaded and tokens >= 1 + _ROUNDING and _is_given_up(trace, operation, command):
                wrong = wrong or f"{operation} gave up {command.name} with {tokens:.1f} tokens in the bucket"
    return tokens, wrong


def _is_given_up(trace: Trace, operation: TracedOperation, command: SentCommand) -> bool:
    """Return whether the last attempt of a command would have been followed by another one."""
    retries = len(command.attempts) - 1
    return must_retry(trace, operation, command, retries) and retries < most_retries(
        trace, operation, command
    )


def _after(command: SentCommand, tokens: float) -> tuple[float, float]:
    """Return the tokens after a command (rules 1 to 3 and 5), and the fewest in between."""
    last, least = len(command.attempts) - 1, tokens
    for index, attempt in enumerate(command.attempts):
        overloaded = Label.SYSTEM_OVERLOADED in attempt.labels
        earned = 0.0
        if is_ok(attempt) or (
            (attempt.request.reply or {}).get("ok")
            and "writeConcernError" not in (attempt.request.reply or {})
        ):
            # Rules 1 and 2: a success on a retry gives one token more.
            earned = RETURN_RATE + (1 if index else 0)
        elif index and not overloaded:
            # Rule 3: an error without the label of overload says that the server is healthy.
            earned = 1.0
        # What a full bucket earns is lost: the reason why the order of commands matters.
        tokens = min(CAPACITY, tokens + earned)
        # Rule 5. Taken when the retry is sent, so the last attempt takes none.
        if attempt.is_overloaded and index < last:
            tokens -= 1
            least = min(least, tokens)
    return tokens, least
